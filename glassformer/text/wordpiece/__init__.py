"""WordPiece: the readable algorithm, its files, and the way back to text."""
