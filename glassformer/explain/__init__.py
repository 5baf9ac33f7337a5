"""Seeing into models: capture, patches, measures, attribution, pruning, pages."""
