"""Tasks whose rows hold sound."""
