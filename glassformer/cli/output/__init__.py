"""How verbs print: tables, reports and JSON."""
