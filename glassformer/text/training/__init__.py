"""New vocabularies and tokenizers from plain text."""
