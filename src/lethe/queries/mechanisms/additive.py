"""Whole numbers with Laplace or Gaussian noise.

OpenDP draws the discrete laws exactly (Canonne, Kamath and Steinke 2020), the others on a lattice
of 2^-1074, then rounded to a float. So the likelihood of an output never depends on the low bits of
the exact value (Mironov 2012).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import ndtri

from lethe.errors import InputError, check_between, check_choice, require
from lethe.evidence.gdp import gdp_mu, last_true
from lethe.queries.privacy import Answer, Neighbours, Spend

CONFIDENCE = 0.95  # of every interval
_LEAST, _MOST = 1e-9, 1e100  # of a scale, in units of the value
_WHOLE = 2**62  # exact values beyond are clamped, which moves no two of them apart
_EXACT = 2**53  # the same for noise on real numbers
LAWS = ("discrete laplace", "gaussian", "discrete gaussian")
OUT = 1 + 1e-12  # limits are rounded outwards
_SUMMED = 1e4  # sd up to which the discrete Gaussian is summed term by term
_APART = 1.02  # scales of a sum of Laplace noises are widened until they differ by this


@functools.cache
def opendp() -> Any:
    """The library, with the features on that its constructors ask for.

    Raises MissingExtra: it is not installed.
    """
    measurements = require("opendp.measurements", "queries")
    # Its prelude has all of them and imports scikit-learn and pandas too, which takes a second.
    modules = [
        require(f"opendp.{one}", "queries") for one in ("domains", "measures", "metrics", "mod")
    ]
    known = {name: value for module in modules for name, value in vars(module).items()}
    known["enable_features"]("contrib")
    return SimpleNamespace(m=measurements, **known)


def vector(kind: str, norm: str) -> tuple[Any, Any]:
    """Domain and metric of many numbers, ``i64`` or ``f64``; `norm` is ``l1`` or ``l2``."""
    dp = opendp()
    metric = dp.l1_distance(T=kind) if norm == "l1" else dp.l2_distance(T="f64")
    return dp.vector_domain(_atom(kind)), metric


def _atom(kind: str) -> Any:
    dp = opendp()
    return dp.atom_domain(T=kind, nan=False) if kind == "f64" else dp.atom_domain(T=kind)


def _built(law: str, kind: str, space: str, scale: float) -> Any:
    dp = opendp()
    if law in ("laplace", "gaussian"):
        make = dp.m.make_laplace if law == "laplace" else dp.m.make_gaussian
        return make(*vector(kind, space), scale=scale)
    domain = dp.vector_domain(_atom(kind))
    metric = dp.linf_distance(T=kind, monotonic=space == "monotone")
    return dp.m.make_noisy_max(domain, metric, dp.zero_concentrated_divergence(), scale=scale)


@functools.lru_cache(maxsize=256)
def fitted(
    law: str, kind: str, space: str, scale: float, distance: float, most: float
) -> tuple[Any, float]:
    """A measurement of about this scale whose map was seen to be within `most`.

    The map rounds up, so the scale grows by as much as is needed. A measurement holds no state.

    Args:
        law: "laplace", "gaussian" or "exponential".
        kind: of the exact values: ``i64`` or ``f64``.
        space: "l1" or "l2" of numbers; "monotone" or "any" of scores.
        distance: of neighbours, as the map wants it.
        most: of the loss, in the measure's own currency.

    Returns: The measurement and its scale.
    Raises InputError: a scale out of all proportion.
    """
    check_between("scale of the noise", scale, _LEAST, _MOST)
    grow = 2.0**-52
    while grow < 1e-3:
        measurement = _built(law, kind, space, scale)
        if measurement.map(distance) <= most:
            return measurement, scale
        scale, grow = scale * (1 + grow), 2 * grow
    raise InputError(
        f"no noise of about scale {scale:g} was seen to cost at most {most:g}: "
        "ask for a larger epsilon, rho or mu."
    )


@dataclass(frozen=True)
class Law:
    """A symmetric noise law.

    >>> Law("discrete laplace", 1.0).reach(0.95)
    3.0
    """

    name: str  # one of `LAWS`; the discrete ones live on whole numbers
    scale: float  # b of P(x) ~ exp(-|x|/b), or sigma of P(x) ~ exp(-x^2 / (2 sigma^2))

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
        if self.name == "discrete laplace":
            # P(|X| > q) = 2 r^(q+1) / (1 + r), r = e^(-1/scale)
            spare = math.log(2) - math.log1p(math.exp(-1 / self.scale)) - math.log(miss) + 1e-12
            return float(max(0, math.ceil(self.scale * spare) - 1))
        if self.name == "gaussian":
            return float(-ndtri(miss / 2)) * self.scale * OUT
        return float(_discrete_gaussian(self.scale, miss))

    def reach_of_sum(self, weights: Sequence[float], confidence: float) -> float:
        """Bound a weighted sum of independent draws; an upper limit within 2 % or so.

        The tail of a sum of Laplace noises with scales b_i is the sum of e^(-t/b_i) times the
        product of b_i^2 / (b_i^2 - b_j^2) over the others; equal scales are widened until they
        differ. A discrete law stays within one step of its continuous one, which is added.

        Args:
            weights: any signs; at most 8 for the Laplace laws.
        """
        sizes = np.sort(np.abs(np.asarray(weights, dtype=np.float64)))
        sizes = sizes[sizes > 1e-12 * sizes[-1]] if len(sizes) else sizes
        if not len(sizes):
            return 0.0
        if len(sizes) == 1:
            return self.reach(confidence) * float(sizes[0]) * OUT
        steps = 2 * float(sizes.sum()) if self.discrete else 0.0
        if "gaussian" in self.name:
            spread = self.scale * math.sqrt(float(sizes @ sizes))
            return Law("gaussian", spread).reach(confidence) + steps
        if len(sizes) > 8:
            raise InputError(f"a sum of {len(sizes)} Laplace noises is too long: at most 8.")
        return _sum_of_laplaces(self.scale * sizes, 1 - confidence) * OUT + steps


def _discrete_gaussian(sigma: float, miss: float) -> int:
    """Sum exactly; for a large sigma bound P(X >= m) by P(N >= m - 1).

    Canonne, Kamath and Steinke (2020), proposition 25.
    """
    if sigma > _SUMMED:
        return math.ceil(float(-ndtri(miss / 2)) * sigma * OUT)
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

    return float(apart[-1]) * last_true(lambda t: tail(t) > miss) * OUT


@dataclass(frozen=True)
class Noised:
    """Values with independent noise of one law."""

    values: tuple[float, ...]  # as many as were given
    law: Law  # of the noise on each


def noised(exact: Sequence[int], *, l1: int, l2: float, spend: Spend) -> Noised:
    """Whole numbers with the noise that the cost allows; many cells cost little more than one.

    Pure DP gets discrete Laplace noise by `l1`, zCDP discrete Gaussian noise by `l2`, Gaussian and
    approximate DP Gaussian noise by `l2` (the latter calibrated by the exact curve, Balle and Wang
    2018).

    Args:
        exact: whole numbers; beyond 2^62 (2^53 for Gaussian and approximate DP) clamped.
        l1: most that neighbours move all of them, summed, >= 1.
        l2: most that neighbours move them, as the root of the sum of squares, > 0.

    Guarantee: `spend`, by OpenDP's privacy map, for any two lists within `l1` and `l2`.
    """
    check_between("l2", l2, 0, math.inf, open_low=True, open_high=True)
    check_whole("l1", l1)
    exact = whole_numbers(exact)
    if spend.epsilon is not None and spend.delta is None:
        scale = l1 / spend.epsilon
        measure, scale = fitted("laplace", "i64", "l1", scale, l1, spend.epsilon)
        return _drawn(measure, exact, "discrete laplace", scale)
    if spend.rho is not None:
        scale = l2 / math.sqrt(2 * spend.rho)
        measure, scale = fitted("gaussian", "i64", "l2", scale, l2, spend.rho)
        return _drawn(measure, exact, "discrete gaussian", scale)
    mu = spend.mu
    if mu is None:
        if spend.epsilon is None or spend.delta is None:
            raise InputError("Gaussian noise needs rho, mu, or epsilon with a delta: give a delta.")
        mu = gdp_mu(spend.epsilon, spend.delta)
    measure, scale = fitted("gaussian", "f64", "l2", l2 / mu, l2, mu * mu / 2)
    clamped = [float(max(-_EXACT, min(_EXACT, x))) for x in exact]
    return Noised(tuple(measure(clamped)), Law("gaussian", scale))


def stated(
    value: float,
    law: Law,
    spend: Spend,
    whose: Neighbours,
    *notes: str,
) -> Answer:
    """The answer that a value with noise of one law is."""
    reach = law.reach(CONFIDENCE)
    low, high = value - reach, value + reach
    if not law.discrete:
        low, high = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
    return Answer(
        value,
        low,
        high,
        CONFIDENCE,
        law.label,
        law.scale,
        whose.guarantee(spend),
        notes=notes,
    )


def check_whole(name: str, value: int) -> None:
    """Refuse what is no whole number of at least 1."""
    whole = not isinstance(value, bool) and isinstance(value, int)
    if not whole or value < 1:
        raise InputError(f"{name}={value!r} must be a whole number of at least 1.")


def whole_numbers(exact: Iterable[int]) -> list[int]:
    """Return exact numbers as ints; a fraction, an array or text among them is refused."""
    try:
        return [operator.index(number) for number in exact]
    except TypeError:
        raise InputError(
            "exact numbers must be whole numbers, each by itself: count or sum lattice units first."
        ) from None


def _drawn(measure: Any, exact: Sequence[int], name: str, scale: float) -> Noised:
    clamped = [max(-_WHOLE, min(_WHOLE, x)) for x in exact]
    return Noised(tuple(measure(clamped)), Law(name, scale))
