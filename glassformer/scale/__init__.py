"""The same tasks on an existing distributed engine."""
