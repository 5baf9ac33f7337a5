"""The command `glass`: a file for each verb, a function whose signature is the parser and whose docstring the help."""
