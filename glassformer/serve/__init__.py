"""Pages and answers over HTTP: the explorer."""
