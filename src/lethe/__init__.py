"""Lethe: measure what a release tells about the people behind it, make it forget, prove how far."""
