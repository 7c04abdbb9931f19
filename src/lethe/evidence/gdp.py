"""Gaussian differential privacy: mu, and the (epsilon, delta) curve that it stands for.

A mechanism is mu-GDP if telling two neighbouring data sets apart from its output is at least as
hard as telling N(0, 1) from N(mu, 1) by one draw (Dong, Roth and Su 2022). Its curve is
delta(epsilon) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2) (corollary 1 there;
Balle and Wang 2018, theorem 8), exact in both directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import log_ndtr

from lethe.errors import InputError, check_at_least, check_between

_STEPS = 200  # halvings; the loop ends when the two ends are neighbours
_ROUNDING = 2.0**-49  # relative, of a logarithm of the normal distribution


def check_delta(delta: float) -> float:
    """Return `delta` if it is a probability below 1."""
    return check_between("delta", delta, 0, 1, open_high=True)


def last_true(test: Callable[[float], bool]) -> float:
    """The largest x >= 0 for which a test that turns from true to false once still holds.

    Returns: A number at which the test was seen to hold; 0 if it does not even hold there. The next
        few floating-point numbers may hold too, so what is a lower bound stays one.
    Raises InputError: the test holds for numbers beyond 1e12.

    >>> round(last_true(lambda x: x * x <= 2), 6)
    1.414214
    """
    if not test(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while test(high):
        low, high = high, 2 * high
        if high > 1e12:
            raise InputError("no finite number ends this search; check delta and the counts.")
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if test(middle) else (low, middle)
    return low


def _log_delta(mu: float, epsilon: float, rounding: float = 0.0) -> float:
    """With a relative `rounding` it is an upper bound of the exact one."""
    far = float(log_ndtr(-epsilon / mu + mu / 2))
    near = float(log_ndtr(-epsilon / mu - mu / 2))
    ratio = epsilon + near - far - rounding * (1 + epsilon + abs(near) + abs(far))
    far += rounding * abs(far)
    # Rounding may leave nothing of a difference that is too small to matter.
    return far + math.log(-math.expm1(ratio)) if ratio < 0 else -math.inf


def gdp_delta(mu: float, epsilon: float) -> float:
    """The smallest delta with which a mu-GDP mechanism is (epsilon, delta)-DP.

    Args:
        mu: >= 0; 0 is a mechanism that tells nothing.

    >>> round(gdp_delta(1.0, 1.0), 4)
    0.1269
    """
    check_at_least("mu", mu, 0)
    check_at_least("epsilon", epsilon, 0)
    return 0.0 if mu == 0 else math.exp(_log_delta(mu, epsilon))


def gdp_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon with which a mu-GDP mechanism is (epsilon, delta)-DP.

    Args:
        mu: >= 0.
        delta: in (0, 1); no finite epsilon goes with delta = 0 unless mu is 0.

    Raises InputError: delta outside (0, 1), or mu < 0.

    >>> round(gdp_epsilon(1.0, 1e-5), 3)
    4.377
    """
    check_at_least("mu", mu, 0)
    check_between("delta", delta, 0, 1, open_low=True, open_high=True)
    if mu == 0:
        return 0.0
    aim = math.log(delta)
    return last_true(lambda epsilon: _log_delta(mu, epsilon) > aim)


def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose mu-GDP curve is within (epsilon, delta): the inverse of `gdp_epsilon`.

    Args:
        delta: in (0, 1).

    >>> round(gdp_mu(4.377, 1e-5), 3)
    1.0
    """
    check_at_least("epsilon", epsilon, 0)
    check_between("delta", delta, 0, 1, open_low=True, open_high=True)
    aim = math.log(delta)
    return last_true(lambda mu: mu == 0 or _log_delta(mu, epsilon, _ROUNDING) <= aim)
