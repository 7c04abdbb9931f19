"""An audit's lower bound never lies above the proven epsilon, whatever the settings."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.evidence.accounting import dp_sgd_epsilon
from lethe.evidence.epsilon import epsilon_bound
from lethe.evidence.thresholds import Bonferroni

DELTA = 1e-5
TRIALS = 2000
CONFIDENCE = 1 - 1e-6


def worst_case(sigma: float, rate: float, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihood ratios of trainings with and without the one record that moves the sum by C.

    All other records have gradient 0, so each step releases b + N(0, sigma^2) with b ~
    Bernoulli(rate) where the record is there: the attack by the exact ratio is the strongest.
    """
    rng = np.random.default_rng(seed)
    noise = sigma * rng.normal(size=(2, TRIALS, steps))
    noise[0] += rng.random((TRIALS, steps)) < rate
    ratio = np.log1p(rate * np.expm1((2 * noise - 1) / (2 * sigma**2))).sum(axis=2)
    return ratio[0], ratio[1]


@settings(max_examples=12)
@given(
    sigma=st.floats(0.5, 4),
    rate=st.floats(0.02, 1),
    steps=st.integers(1, 30),
    seed=st.integers(0, 2**20),
)
def test_the_bound_is_at_most_what_is_proven(
    sigma: float, rate: float, steps: int, seed: int
) -> None:
    inside, outside = worst_case(sigma, rate, steps, seed)
    found = epsilon_bound(inside, outside, DELTA, thresholds=Bonferroni(20), confidence=CONFIDENCE)
    proven = dp_sgd_epsilon(
        noise_multiplier=sigma,
        sampling_rate=rate,
        steps=steps,
        delta=DELTA,
        sensitivity=1.0,
        grid=1e-3,
    )
    assert found.low <= proven


def test_a_quarter_of_the_noise_of_the_claim_is_found() -> None:
    """One step of noise 0.25 under a claim for noise 1: the bound must be above."""
    inside, outside = worst_case(0.25, 1.0, 1, seed=1)
    claimed = dp_sgd_epsilon(
        noise_multiplier=1.0, sampling_rate=1.0, steps=1, delta=DELTA, sensitivity=1.0
    )
    found = epsilon_bound(inside, outside, DELTA, thresholds=Bonferroni(20))
    assert found.low > claimed
