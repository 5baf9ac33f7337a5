"""The log and the report of a run, and comparisons of several runs."""
