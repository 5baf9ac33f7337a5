"""Pages and pictures of what happened inside a model."""
