"""Differentially private training of many models at once, and as a candidate of an audit."""
