"""Mechanisms: exact values and their sensitivity in, noisy answers with their guarantee out.

All randomness is OpenDP's. Sensitivities are given, never guessed; what is recorded is at least
what OpenDP's privacy map gives.
"""

from __future__ import annotations

from lethe.queries.mechanisms.additive import (
    discrete_gaussian,
    discrete_laplace,
    gaussian,
    laplace,
    noised,
)
from lethe.queries.mechanisms.choosing import (
    exponential,
    exponential_probabilities,
    noisy_max,
    permute_and_flip_probabilities,
    randomized_response,
)
from lethe.queries.mechanisms.threshold import AboveThreshold, found_keys
from lethe.queries.privacy import Neighbours, Spend

__all__ = [
    "AboveThreshold",
    "Neighbours",
    "Spend",
    "discrete_gaussian",
    "discrete_laplace",
    "exponential",
    "exponential_probabilities",
    "found_keys",
    "gaussian",
    "laplace",
    "noised",
    "noisy_max",
    "permute_and_flip_probabilities",
    "randomized_response",
]
