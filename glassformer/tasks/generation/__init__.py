"""Tasks whose answer is a text that the model generates."""
