"""Whose vector is this? The attack on released representations, and what it cannot beat."""
