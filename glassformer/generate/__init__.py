"""A model writes: settings, one search or another, rules and stops, and the text as it comes."""
