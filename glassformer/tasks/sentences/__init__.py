"""Sentence vectors: the encoder, how it pools and compares, its files, and the task that trains it."""
