"""Sparse records: how few facts identify a person, before and after mitigations."""
