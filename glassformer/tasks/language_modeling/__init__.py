"""Masked language models: filling masks, and training on plain text to fill them."""
