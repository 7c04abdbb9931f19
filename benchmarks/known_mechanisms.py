"""Mechanisms of which it is known whether they are right, to be audited as black boxes.

They draw from NumPy and round to a lattice of 2^-20, which is post-processing and hides the low
bits that would give plain floating-point noise away. They are for tests of the audit, not for use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.gdp import gdp_delta, last_true
from lethe.queries.mechanism_audit.neighbours import Pair, standard_pairs
from lethe.queries.mechanism_audit.settings import Claim

Data = NDArray[np.float64]
Mechanism = Callable[[Any], Any]
DELTA = 1e-5
MU = last_true(lambda mu: gdp_delta(mu, 1.0) <= DELTA)  # of the Gaussian that is (1, 1e-5)-DP
_STEP = 2.0**20


class Known(NamedTuple):
    """A mechanism that is right at `less` = 1 and has too little noise above it.

    Attributes:
        make: of a generator and `less`, how many times too small the noise is.
        claim: what it is said to be.
        pairs: inputs on which it shows.
        relation: of these.
    """

    make: Callable[[np.random.Generator, float], Mechanism]
    claim: Claim
    pairs: list[Pair]
    relation: str = "add/remove"


def rounded(number: float) -> float:
    return round(number * _STEP) / _STEP


def laplace(rng: np.random.Generator, less: float) -> Mechanism:
    return lambda data: rounded(float(data.sum()) + rng.laplace(0, 1 / less))


def discrete_laplace(rng: np.random.Generator, less: float) -> Mechanism:
    stop = -math.expm1(-less)
    return lambda data: len(data) + int(rng.geometric(stop)) - int(rng.geometric(stop))


def gaussian(mu: float) -> Callable[[np.random.Generator, float], Mechanism]:
    def make(rng: np.random.Generator, less: float) -> Mechanism:
        return lambda data: rounded(float(data.sum()) + rng.normal(0, 1 / (less * mu)))

    return make


def exponential(rng: np.random.Generator, less: float) -> Mechanism:
    """The most popular of three choices, by the exponential mechanism on counts."""

    def mechanism(votes: Data) -> str:
        weight = np.exp(less * np.bincount(votes.astype(int), minlength=3) / 2)
        return "abc"[int(rng.choice(3, p=weight / weight.sum()))]

    return mechanism


def randomized_response(rng: np.random.Generator, less: float) -> Mechanism:
    truth = 1 / (1 + math.exp(-less))
    return lambda bit: bool(bit[0]) is (rng.random() < truth)


def above_threshold(rng: np.random.Generator, less: float) -> Mechanism:
    return sparse_vector(rng, less, threshold=2, query=4, most=1)


def histogram(rng: np.random.Generator, less: float) -> Mechanism:
    """Counts of three cells, Laplace noise on each: 1-DP under add/remove."""

    def mechanism(votes: Data) -> list[float]:
        counts = np.bincount(votes.astype(int), minlength=3)
        return [rounded(x) for x in counts + rng.laplace(0, 1 / less, 3)]

    return mechanism


def sparse_vector(
    rng: np.random.Generator,
    less: float,
    *,
    threshold: float,
    query: float,
    most: int,
    tell: bool = False,
) -> Mechanism:
    """The sparse vector technique; data are the answers to queries, the threshold is 0.

    Args:
        rng: of the noise.
        less: times too little noise.
        threshold: scale of its noise.
        query: scale of the noise of each answer.
        most: answers above before it stops; 0 = it never does.
        tell: hand out the noisy answer itself (algorithm 3 of Lyu, Su and Li 2017).
    """

    def mechanism(answers: Data) -> list[Any]:
        said: list[Any] = []
        bar, above = rng.laplace(0, threshold / less), 0
        for answer in answers:
            noisy = float(answer + (rng.laplace(0, query / less) if query else 0.0))
            said.append((rounded(noisy) if tell else "above") if noisy >= bar else "below")
            above += noisy >= bar
            if above == most > 0:
                break
        return said

    return mechanism


_SUMS = standard_pairs(0, 1)[:1] + standard_pairs(0, 1)[5:6]
_COUNTS = [Pair("ten people", np.ones(10), np.ones(9))]
_VOTES = [
    Pair(
        "a vote changes", np.array([0, 0, 1, 1, 1, 1, 1, 1.0]), np.array([0, 0, 0, 1, 1, 1, 1, 1.0])
    )
]
_BITS = [Pair("the other answer", np.array([0]), np.array([1]))]
_CELLS = [Pair("one vote less", np.array([0, 0, 1, 2, 2.0]), np.array([0, 0, 1, 2.0]))]
_ANSWERS = [Pair("answers move apart", np.array([0.0] * 6 + [1.0]), np.array([1.0] * 6 + [0.0]))]
_APART = [Pair("first above, then below", np.repeat([1.0, 0.0], 5), np.repeat([0.0, 1.0], 5))]
_ONE = Claim("epsilon", 1.0)

KNOWN = {
    "Laplace": Known(laplace, _ONE, _SUMS),
    "Laplace, every pair made for numbers": Known(laplace, _ONE, standard_pairs(0, 1)),
    "discrete Laplace": Known(discrete_laplace, _ONE, _COUNTS),
    "Gaussian, (1, 1e-5)": Known(gaussian(MU), Claim("epsilon", 1.0, DELTA), _SUMS),
    "Gaussian, mu": Known(gaussian(1.0), Claim("mu", 1.0), _SUMS),
    "Gaussian, rho": Known(gaussian(1.0), Claim("rho", 0.5), _SUMS),
    "exponential": Known(exponential, _ONE, _VOTES, "replace-one"),
    "randomized response": Known(randomized_response, _ONE, _BITS, "replace-one"),
    "histogram of three cells": Known(histogram, _ONE, _CELLS),
    "above threshold": Known(above_threshold, _ONE, _ANSWERS),
}

WRONG_SPARSE_VECTORS = {
    # Numbers of the algorithms in Lyu, Su and Li, "Understanding the Sparse Vector Technique for
    # Differential Privacy", PVLDB 10(6), 2017; sensitivity 1.
    "sparse vector 3, tells the answer": Known(
        lambda rng, less: sparse_vector(rng, less, threshold=1, query=1, most=1, tell=True),
        Claim("epsilon", 2.0),
        [Pair("answers move apart", np.array([0.0] * 5 + [1.0]), np.array([1.0] * 5 + [0.0]))],
    ),
    "sparse vector 4, noise not by the cut-off": Known(
        lambda rng, less: sparse_vector(rng, less, threshold=4, query=4 / 3, most=5), _ONE, _APART
    ),
    "sparse vector 5, no noise on answers": Known(
        lambda rng, less: sparse_vector(rng, less, threshold=2, query=0, most=0), _ONE, _APART
    ),
    "sparse vector 6, no cut-off": Known(
        lambda rng, less: sparse_vector(rng, less, threshold=2, query=2, most=0), _ONE, _APART
    ),
}


def own_bounds(rng: np.random.Generator, less: float) -> Mechanism:
    """A sum whose noise follows the range of the data."""

    def mechanism(data: Data) -> float:
        width = float(np.ptp(data)) if len(data) else 1.0
        return rounded(float(data.sum()) + rng.laplace(0, max(width, 1e-3) / less))

    return mechanism


def wrong_sensitivity(rng: np.random.Generator, less: float) -> Mechanism:
    """A mean of values in [0, 1] with noise for 1/n squared."""
    return lambda data: rounded(float(data.mean()) + rng.laplace(0, 1 / (less * len(data) ** 2)))


def same_seed(rng: np.random.Generator, less: float) -> Mechanism:
    """Noise from a generator that starts anew each time."""
    return lambda data: rounded(float(data.sum()) + np.random.default_rng(7).laplace(0, 1 / less))


def same_noise_twice(rng: np.random.Generator, less: float) -> Mechanism:
    """Each noise serves two answers that follow each other."""
    drawn: list[float] = []

    def mechanism(data: Data) -> float:
        drawn[:] = drawn or [float(rng.laplace(0, 1 / less))] * 2
        return rounded(float(data.sum()) + drawn.pop())

    return mechanism


def low_threshold(rng: np.random.Generator, less: float) -> Mechanism:
    """Keys whose noisy count passes a threshold, which is one too low."""
    bar = math.log(1 / (2 * 0.01))

    def mechanism(keys: list[str]) -> list[str]:
        counts = {key: keys.count(key) for key in sorted(set(keys))}
        return [key for key, count in counts.items() if count + rng.laplace(0, 1 / less) > bar]

    return mechanism


def plain_floats(rng: np.random.Generator, less: float) -> Mechanism:
    """Noise of the right scale whose low bits are left as they are."""
    return lambda data: float(data.sum()) + float(rng.laplace(0, 1 / less))


def fails_on_rich(rng: np.random.Generator, less: float) -> Mechanism:
    """Right, but it stops at a value that it does not expect."""

    def mechanism(data: Data) -> float:
        if data.max() >= 1:
            raise ValueError("value out of range")
        return rounded(float(data.sum()) + rng.laplace(0, 1 / less))

    return mechanism


def private_number(
    statistic: Callable[[Data], float],
) -> Callable[[np.random.Generator, float], Mechanism]:
    """Noise that is right for the number of people there is, which is private."""

    def make(rng: np.random.Generator, less: float) -> Mechanism:
        def mechanism(data: Data) -> float:
            scale = 1 / (less * max(len(data), 1))
            return rounded((statistic(data) if len(data) else 0.5) + rng.laplace(0, scale))

        return mechanism

    return make


PRIVATE_NUMBER = {
    "a mean, noise by the private number": private_number(lambda data: float(data.mean())),
    "a median, noise by the private number": private_number(lambda data: float(np.median(data))),
}

WRONG = {
    **WRONG_SPARSE_VECTORS,
    "noise by the range of the data": Known(own_bounds, _ONE, _SUMS[:1]),
    "wrong sensitivity": Known(
        wrong_sensitivity, _ONE, standard_pairs(0, 1, relation="replace-one")[:1], "replace-one"
    ),
    **{
        f"{name}, every pair made for numbers": Known(make, _ONE, standard_pairs(0, 1))
        for name, make in PRIVATE_NUMBER.items()
    },
    "the same seed each time": Known(same_seed, _ONE, _SUMS[:1]),
    "the same noise twice": Known(same_noise_twice, _ONE, _SUMS[:1]),
    "threshold one too low": Known(
        low_threshold, Claim("epsilon", 1.0, 0.01), [Pair("a key of one person", ["a"], [])]
    ),
    "floating-point noise as it comes": Known(
        plain_floats, _ONE, [Pair("nobody and one person", np.ones(0), np.ones(1))]
    ),
    "an error that depends on data": Known(fails_on_rich, _ONE, _SUMS[:1]),
}
