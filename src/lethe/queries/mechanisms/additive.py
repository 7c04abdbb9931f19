"""Numbers with noise: Laplace and Gaussian, on whole and on real numbers.

All noise is drawn by OpenDP: the discrete laws exactly (Canonne, Kamath and Steinke 2020), the
others on a lattice of 2^-1074, after which the sum is rounded to a floating-point number. The
likelihood of an output then never depends on the low bits of the exact value, which is what breaks
textbook samplers (Mironov 2012).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lethe.errors import InputError, check_between
from lethe.evidence.gdp import gdp_mu
from lethe.queries.answer import Answer
from lethe.queries.mechanisms.law import Law
from lethe.queries.mechanisms.library import fitted, opendp, scalar, vector
from lethe.queries.mechanisms.spend import Neighbours, Spend

_WHOLE = 2**62  # exact values beyond are clamped, which moves no two of them apart
_EXACT = 2**53  # the same for noise on real numbers


@dataclass(frozen=True)
class Noised:
    """Values with independent noise of one law.

    Attributes:
        values: as many as were given.
        law: of the noise on each.
    """

    values: tuple[float, ...]
    law: Law


def noised(exact: Sequence[int], *, l1: int, l2: float, spend: Spend) -> Noised:
    """Whole numbers with the noise that the cost allows; many cells cost little more than one.

    Pure DP gets discrete Laplace noise by `l1`, zCDP discrete Gaussian noise by `l2`, Gaussian and
    approximate DP Gaussian noise by `l2` (the latter calibrated by the exact curve, Balle and Wang
    2018).

    Args:
        exact: whole numbers; beyond 2^62 (2^53 for Gaussian and approximate DP) clamped.
        l1: most that neighbours move all of them, summed, >= 1.
        l2: most that neighbours move them, as the root of the sum of squares, > 0.
        spend: for all of them together.

    Guarantee:
        `spend`, by OpenDP's privacy map, for any two lists within `l1` and `l2`.
    """
    check_between("l2", l2, 0, math.inf, open_low=True, open_high=True)
    check_whole("l1", l1)
    dp = opendp()
    if spend.epsilon is not None and spend.delta is None:
        space = vector("i64", "l1")
        measure, scale = fitted(
            lambda s: dp.m.make_laplace(*space, scale=s), l1 / spend.epsilon, l1, spend.epsilon
        )
        return _drawn(measure, exact, "discrete laplace", scale)
    if spend.rho is not None:
        space = vector("i64", "l2")
        measure, scale = fitted(
            lambda s: dp.m.make_gaussian(*space, scale=s),
            l2 / math.sqrt(2 * spend.rho),
            l2,
            spend.rho,
        )
        return _drawn(measure, exact, "discrete gaussian", scale)
    space = vector("f64", "l2")
    mu = _mu(spend)
    measure, scale = fitted(lambda s: dp.m.make_gaussian(*space, scale=s), l2 / mu, l2, mu * mu / 2)
    clamped = [float(max(-_EXACT, min(_EXACT, x))) for x in exact]
    return Noised(tuple(measure(clamped)), Law("gaussian", scale))


def laplace(
    value: float,
    *,
    sensitivity: float,
    epsilon: float,
    whose: Neighbours | None = None,
    confidence: float = 0.95,
) -> Answer:
    """A real number with Laplace noise of scale sensitivity / epsilon.

    Args:
        value: the exact number.
        sensitivity: most that neighbours move it as computed, rounding included: a sum of
            floating-point numbers moves by more than the largest of them.
        epsilon: > 0.
        whose: neighbours that `sensitivity` is about; one row added or removed if left out.
        confidence: of the error interval.

    Guarantee:
        epsilon-DP, by OpenDP's map.
    """
    spend = Spend(epsilon=epsilon)
    dp, space = opendp(), scalar("f64")
    check_between("sensitivity", sensitivity, 0, math.inf, open_low=True, open_high=True)
    measure, scale = fitted(
        lambda s: dp.m.make_laplace(*space, scale=s), sensitivity / epsilon, sensitivity, epsilon
    )
    drawn = float(measure(check_finite(value)))
    return stated(drawn, Law("laplace", scale), spend, whose, confidence)


def gaussian(
    value: float,
    *,
    sensitivity: float,
    spend: Spend,
    whose: Neighbours | None = None,
    confidence: float = 0.95,
) -> Answer:
    """A real number with Gaussian noise.

    Args:
        value: the exact number.
        sensitivity: as in `laplace`.
        spend: rho, mu, or epsilon with delta; sigma is sensitivity / sqrt(2 rho), sensitivity /
            mu, or the least that the exact curve of (epsilon, delta) allows.
        whose, confidence: as in `laplace`.

    Guarantee:
        As spent: rho by OpenDP's map; mu and (epsilon, delta) by sensitivity / sigma, for noise on
        a lattice of 2^-1074 that differs from the continuous one by less than one part in 10^600.
    """
    dp, space = opendp(), scalar("f64")
    check_between("sensitivity", sensitivity, 0, math.inf, open_low=True, open_high=True)
    rho = spend.rho if spend.rho is not None else _mu(spend) ** 2 / 2
    measure, scale = fitted(
        lambda s: dp.m.make_gaussian(*space, scale=s),
        sensitivity / math.sqrt(2 * rho),
        sensitivity,
        rho,
    )
    drawn = float(measure(check_finite(value)))
    return stated(drawn, Law("gaussian", scale), spend, whose, confidence)


def discrete_laplace(
    value: int,
    *,
    sensitivity: int,
    epsilon: float,
    whose: Neighbours | None = None,
    confidence: float = 0.95,
) -> Answer:
    """A whole number with discrete Laplace (two-sided geometric) noise; as `laplace`."""
    return _whole(value, sensitivity, Spend(epsilon=epsilon), whose, confidence)


def discrete_gaussian(
    value: int,
    *,
    sensitivity: int,
    rho: float,
    whose: Neighbours | None = None,
    confidence: float = 0.95,
) -> Answer:
    """A whole number with discrete Gaussian noise of rho-zCDP; as `laplace`."""
    return _whole(value, sensitivity, Spend(rho=rho), whose, confidence)


def _whole(
    value: int, sensitivity: int, spend: Spend, whose: Neighbours | None, confidence: float
) -> Answer:
    drawn = noised([value], l1=sensitivity, l2=sensitivity, spend=spend)
    return stated(int(drawn.values[0]), drawn.law, spend, whose, confidence)


def stated(
    value: float,
    law: Law,
    spend: Spend,
    whose: Neighbours | None,
    confidence: float,
    *notes: str,
) -> Answer:
    """The answer that a value with noise of one law is."""
    reach = law.reach(confidence)
    low, high = value - reach, value + reach
    if not law.discrete:
        low, high = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
    return Answer(
        value,
        low,
        high,
        confidence,
        law.label,
        law.scale,
        (whose or Neighbours()).guarantee(spend),
        notes=notes,
    )


def check_whole(name: str, value: int, least: int = 1) -> int:
    """Return `value` if it is a whole number of at least `least`."""
    whole = not isinstance(value, bool) and isinstance(value, int)
    if not whole or value < least:
        raise InputError(f"{name}={value!r} must be a whole number of at least {least}.")
    return value


def check_finite(value: float) -> float:
    """Return `value` as a float if it is a finite number."""
    if not math.isfinite(value):
        raise InputError("the exact value is not finite: clamp the rows and leave out NaN.")
    return float(value)


def _mu(spend: Spend) -> float:
    if spend.mu is not None:
        return spend.mu
    if spend.epsilon is None or spend.delta is None:
        raise InputError("Gaussian noise needs rho, mu, or epsilon with a delta: give a delta.")
    return gdp_mu(spend.epsilon, spend.delta)


def _drawn(measure: Any, exact: Sequence[int], name: str, scale: float) -> Noised:
    clamped = [max(-_WHOLE, min(_WHOLE, int(x))) for x in exact]
    return Noised(tuple(measure(clamped)), Law(name, scale))
