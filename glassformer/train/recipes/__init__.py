"""Training described by a TOML file: the recipe, the trainer built from it, and a check that it resumes exactly."""
