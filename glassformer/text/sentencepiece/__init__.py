"""SentencePiece: its model files, its normalisation, and the segmentation of text by Unigram or BPE."""
