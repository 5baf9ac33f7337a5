"""How a text becomes ids, step by step."""
