"""Pictures -> pixel values."""
