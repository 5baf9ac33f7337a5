"""Numbers computed from what happened inside a model: measures, attribution, importance, comparisons."""
