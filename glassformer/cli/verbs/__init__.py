"""The verbs of `glass`: a file for each, a function whose signature is the parser and whose docstring the help."""
