"""What all architectures share: bodies, heads, outputs, loading and saving."""
