"""Attacks on members: a file a family, one shape, one registry."""
