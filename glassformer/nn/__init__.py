"""The bricks: arithmetic on tensors, each concept once, shared by every architecture.

The letters in shape comments: B sequences, T positions of the padded batch, N real tokens (rows of the stream),
S positions of a second batch that is attended to, H heads, D size of a head, C width.
"""
