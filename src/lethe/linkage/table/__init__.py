"""A table with quasi-identifiers: its classes, and recoded and synthetic releases of it."""
