"""Tasks that answer with generated text."""
