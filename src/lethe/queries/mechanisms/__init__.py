"""Mechanisms: exact values and their sensitivity in, noisy answers with their guarantee out.

All randomness is OpenDP's. Sensitivities are given, never guessed; what is recorded is at least
what OpenDP's privacy map gives.
"""
