"""Language models of hidden words: filling masks, and learning to fill them from plain text."""
