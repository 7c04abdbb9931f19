"""Synthetic rows: attacks on them, against a control."""
