"""What every tokenizer shares: special tokens, encoding options, truncation, padding, decoding, files."""
