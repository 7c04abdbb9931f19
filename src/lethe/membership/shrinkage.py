"""Variances of many records at once: each one's own, pulled towards what is typical.

With few models a record's own variance is mostly noise, and one variance for all is wrong for
most. The prior that stands between them is measured from the spread of the variances themselves
(Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004, section 6.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

from lethe.membership.leave_one_out import Moments

Float = NDArray[np.float64]

_MOST = 1e6
"""Prior degrees of freedom that stand for "all variances are equal"."""


@dataclass(frozen=True)
class VariancePrior:
    """A scaled inverse chi-square prior of the variances of all records.

    Attributes:
        degrees: how many degrees of freedom it is worth; 0 = records have nothing in common,
            at most 1e6 = all variances are equal.
        variance: the typical variance.
    """

    degrees: float
    variance: Float | float

    def shrink(self, side: Moments) -> Float:
        """(N,) posterior variances of one side, all > 0."""
        own = np.maximum(side.count - 1, 0)
        return np.asarray(
            (self.degrees * self.variance + side.squares) / np.maximum(self.degrees + own, 1e-300)
        )


def variance_prior(side: Moments, typical: Float | None = None) -> VariancePrior:
    """Fit the prior to the variances of all records.

    Under it the logarithms of the sample variances spread by trigamma(d/2) + trigamma(d0/2),
    where d are their degrees of freedom; d0 is solved for.

    Args:
        side: moments of one side.
        typical: (N,) expected variance of each record where it is known to depend on something;
            by default one for all.
    """
    own = side.count - 1
    base = np.ones_like(own) if typical is None else typical
    pooled = side.within()
    floor = max(1e-8 * pooled, 1e-300) if math.isfinite(pooled) else 1e-300
    known = (own > 0) & (side.squares > floor * own)
    if known.sum() < 3:
        one = pooled if math.isfinite(pooled) else side.total()
        return VariancePrior(_MOST, max(one, 1e-12) * base / float(np.mean(base)))
    half = own[known] / 2
    logs = np.log(side.squares[known] / own[known] / base[known]) - digamma(half) + np.log(half)
    extra = float(np.var(logs, ddof=1) - polygamma(1, half).mean())
    degrees = min(2 * inverse_trigamma(extra), _MOST) if extra > 0 else _MOST
    level = math.exp(float(logs.mean()) + float(digamma(degrees / 2)) - math.log(degrees / 2))
    return VariancePrior(degrees, level if typical is None else level * base)


def inverse_trigamma(value: float) -> float:
    """x > 0 with trigamma(x) = value, for value > 0 (Newton's method on 1/trigamma).

    >>> round(inverse_trigamma(float(polygamma(1, 3.5))), 9)
    3.5
    """
    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    x = 0.5 + 1 / value
    for _ in range(50):
        here = float(polygamma(1, x))
        step = here * (1 - here / value) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-10:
            break
    return x
