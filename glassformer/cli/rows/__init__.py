"""Rows from files and results into files, of any length, resumable."""
