"""Sentence embeddings: the encoder, pooling, similarity, files, search, and the task that trains it."""
