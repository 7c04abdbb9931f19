"""How far noise reaches: exact quantiles of the four laws, and of sums of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from lethe.errors import InputError, check_between, check_choice
from lethe.evidence.gdp import last_true

LAWS = ("laplace", "discrete laplace", "gaussian", "discrete gaussian")
_OUT = 1 + 1e-12  # limits are rounded outwards
_SUMMED = 1e4  # sd up to which the discrete Gaussian is summed term by term
_APART = 1.02  # scales of a sum of Laplace noises are widened until they differ by this


@dataclass(frozen=True)
class Law:
    """A symmetric noise law.

    Attributes:
        name: one of `LAWS`; the discrete ones live on whole numbers.
        scale: b of P(x) ~ exp(-|x|/b), or sigma of P(x) ~ exp(-x^2 / (2 sigma^2)).

    >>> Law("laplace", 1.0).reach(0.95) > 2.9957
    True
    >>> Law("discrete laplace", 1.0).reach(0.95)
    3.0
    """

    name: str
    scale: float

    def __post_init__(self) -> None:
        check_choice("law", self.name, LAWS)
        check_between("scale", self.scale, 0, math.inf, open_low=True, open_high=True)

    @property
    def discrete(self) -> bool:
        """Whether it lives on whole numbers."""
        return self.name.startswith("discrete")

    @property
    def label(self) -> str:
        """For `Answer.mechanism`."""
        return f"{self.name} (OpenDP)"

    @property
    def variance(self) -> float:
        """Of the continuous law; of a discrete one an upper limit."""
        return (2 if "laplace" in self.name else 1) * self.scale**2

    def reach(self, confidence: float) -> float:
        """The least q with P(|noise| > q) <= 1 - confidence, rounded outwards."""
        check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
        miss = 1 - confidence
        if self.name == "laplace":
            return -self.scale * math.log(miss) * _OUT
        if self.name == "discrete laplace":
            return float(_discrete_laplace(self.scale, miss))
        if self.name == "gaussian":
            return float(-ndtri(miss / 2)) * self.scale * _OUT
        return float(_discrete_gaussian(self.scale, miss))

    def reach_of_sum(self, weights: Sequence[float], confidence: float) -> float:
        """The same of a weighted sum of independent draws; an upper limit within 2 % or so.

        The tail of a sum of Laplace noises with different scales b_i is the sum of
        e^(-t/b_i) times the product of b_i^2 / (b_i^2 - b_j^2) over the others; equal scales are
        widened until they differ, which only widens the sum. A discrete law stays within one
        step of its continuous one when both are drawn by quantiles, which is added.

        Args:
            weights: any signs; at most 8 for the Laplace laws.
            confidence: in (0, 1).
        """
        sizes = np.sort(np.abs(np.asarray(weights, dtype=np.float64)))
        sizes = sizes[sizes > 1e-12 * sizes[-1]] if len(sizes) else sizes
        if not len(sizes):
            return 0.0
        if len(sizes) == 1:
            return self.reach(confidence) * float(sizes[0]) * _OUT
        steps = 2 * float(sizes.sum()) if self.discrete else 0.0
        if "gaussian" in self.name:
            spread = self.scale * math.sqrt(float(sizes @ sizes))
            return Law("gaussian", spread).reach(confidence) + steps
        if len(sizes) > 8:
            raise InputError(f"a sum of {len(sizes)} Laplace noises is too long: at most 8.")
        return _sum_of_laplaces(self.scale * sizes, 1 - confidence) * _OUT + steps


def _discrete_laplace(scale: float, miss: float) -> int:
    """P(|X| > q) = 2 r^(q+1) / (1 + r), r = e^(-1/scale)."""
    spare = math.log(2) - math.log1p(math.exp(-1 / scale)) - math.log(miss) + 1e-12
    return max(0, math.ceil(scale * spare) - 1)


def _discrete_gaussian(sigma: float, miss: float) -> int:
    """By exact sums; for a large sigma by P(X >= m) <= P(N >= m - 1).

    Canonne, Kamath and Steinke (2020), proposition 25.
    """
    if sigma > _SUMMED:
        return math.ceil(float(-ndtri(miss / 2)) * sigma * _OUT)
    far = math.ceil(40 * sigma) + 2
    mass = np.exp(-0.5 * (np.arange(far + 1) / sigma) ** 2)
    tail = 2 * np.cumsum(mass[::-1])[::-1]  # of |X| >= k, for k >= 1
    whole = tail[1] + mass[0]
    beyond = np.append(tail[1:], 0.0) / whole  # of |X| > k
    return int(np.flatnonzero(beyond <= miss * (1 - 1e-12))[0])


def _sum_of_laplaces(scales: np.ndarray[tuple[int], np.dtype[np.float64]], miss: float) -> float:
    apart = scales.copy()
    for i in range(1, len(apart)):
        apart[i] = max(apart[i], _APART * apart[i - 1])
    squares = (apart / apart[-1]) ** 2
    between = squares[:, None] - squares[None, :]
    np.fill_diagonal(between, 1.0)
    ratios = squares[:, None] / between
    np.fill_diagonal(ratios, 1.0)
    parts = ratios.prod(axis=1)

    def tail(distance: float) -> float:
        return float(parts @ np.exp(-distance / (apart / apart[-1])))

    return float(apart[-1]) * last_true(lambda t: tail(t) > miss) * _OUT
