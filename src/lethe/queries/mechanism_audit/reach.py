"""What a number of runs can show at all, and how often it would catch noise that is too small."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from lethe.evidence.estimate import Estimate
from lethe.evidence.gdp import gdp_delta, last_true
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.thresholds import lower_limit, upper_limit
from lethe.queries.mechanism_audit.bounds import FEWEST, bounded_runs, merit_of
from lethe.queries.mechanism_audit.claim import Claim

Float = NDArray[np.float64]
ENOUGH = 0.95  # power from which on a limit below the claim counts as a pass
HALF = 2.0  # times too little noise: half of it
_DRAWS = 2000
_MOST_RUNS = 10_000_000


def largest(claim: Claim, runs: int, level: float) -> float:
    """The largest limit that so many runs can prove, of answers that give the input away.

    Args:
        claim: the measure.
        runs: on each input, in all.
        level: 1 - confidence of one pair.
    """
    n = bounded_runs(runs)
    high = np.atleast_1d(lower_limit(n, n, level / 2))
    low = np.atleast_1d(upper_limit(0, n, level / 2))
    return max(0.0, float(merit_of(claim)(high, low)[0]))


def power(claim: Claim, less: float, runs: int, level: float, seed: int = 0) -> Estimate:
    """How often a mechanism with too little noise would be caught, on its worst pair.

    The Laplace mechanism stands for a pure epsilon, the Gaussian for a delta above 0, rho and mu;
    the event is its best. Simulated from the two binomial counts alone.

    Args:
        claim: with a value.
        less: how many times too small the noise is, >= 1.
        runs: on each input, in all.
        level: 1 - confidence of one pair.
        seed: of the simulation.
    """
    assert claim.value is not None
    n = bounded_runs(runs)
    high, low = _best_event(claim, less, n, level)
    rng = np.random.default_rng(seed)
    hits, alarms = rng.binomial(n, high, _DRAWS), rng.binomial(n, low, _DRAWS)
    found = _merit(claim, hits, alarms, n, level)
    return clopper_pearson(int((found > claim.value).sum()), _DRAWS)


def smallest(claim: Claim, runs: int, level: float) -> float | None:
    """Times by which noise must be too small to be caught with power 0.95; None beyond 1,000."""

    def missed(log_less: float) -> bool:
        return (power(claim, math.exp(log_less), runs, level).value or 0.0) < ENOUGH

    if missed(math.log(1000)):
        return None
    low, high = 0.0, math.log(1000)
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if missed(middle) else (low, middle)
    return math.exp(high)


def runs_needed(claim: Claim, level: float) -> int | None:
    """Runs on each input that catch half the noise with power 0.95; None beyond ten million."""
    runs = float(FEWEST)
    while runs <= _MOST_RUNS:
        if (power(claim, HALF, round(runs), level).value or 0.0) >= ENOUGH:
            return math.ceil(runs / 100) * 100
        runs *= 1.2
    return None


def _best_event(claim: Claim, less: float, n: int, level: float) -> tuple[float, float]:
    """Its probabilities under both inputs."""
    high, low = _curve(claim, less)
    shown = _merit(claim, np.round(n * high), np.round(n * low), n, level)
    best = int(np.argmax(shown))
    return float(high[best]), float(low[best])


def _curve(claim: Claim, less: float) -> tuple[Float, Float]:
    """Probabilities of events under both inputs of a mechanism with `less` times less noise."""
    assert claim.value is not None
    if claim.measure == "epsilon" and claim.delta == 0:
        # Below the first of two centres: half, and half of e^-epsilon; further out both shrink.
        high = 0.5 * np.geomspace(1, 0.01, 40)
        return high, high * math.exp(-less * claim.value)
    mu = claim.value
    if claim.measure == "rho":
        mu = math.sqrt(2 * claim.value)
    elif claim.measure == "epsilon":
        epsilon, delta = claim.value, claim.delta
        mu = last_true(lambda mu: gdp_delta(mu, epsilon) <= delta)
    cut = np.linspace(-4, 4, 161)
    return ndtr(less * mu - cut), ndtr(-cut)


def _merit(claim: Claim, hits: ArrayLike, alarms: ArrayLike, n: int, level: float) -> Float:
    return merit_of(claim)(lower_limit(hits, n, level / 2), upper_limit(alarms, n, level / 2))
