"""Training runs described by TOML files: the recipe, its trainer, and a check that it resumes exactly."""
