"""Byte-pair encoding: the readable algorithm, its files, and the tokenizers built on it."""
