"""Gaussian differential privacy: mu, and the (epsilon, delta) curve that it stands for.

A mechanism is mu-GDP if telling two neighbouring data sets apart from its output is at least as
hard as telling N(0, 1) from N(mu, 1) by one draw (Dong, Roth and Su 2022). Its curve is
delta(epsilon) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2) (corollary 1 there;
Balle and Wang 2018, theorem 8), exact in both directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from lethe.errors import InputError, check_at_least, check_between

# How often a private mechanism's coins can be guessed, from its whole trade-off curve.
#
# Mahloujifar, Melis and Chaudhuri ("Auditing f-Differential Privacy in One Run", 2024) bound the
# number V of right guesses through every event V >= k at once. Their argument, for exactly r
# guesses about m fair coins: look at "coin i is guessed, and k - 1 or more of the others are
# right". Whether the guess of i is right depends on its coin alone, so with F(x) the most that a
# probability x under one of two neighbours can be under the other, concavity of F over coins and
# values gives
#
#     (1/m) sum_{j >= k} j P[V = j]  <=  F( (1/m) sum_{j >= k-1} (r - j) P[V = j] ).
#
# Write t_k = P[V >= k] and S_k = t_k + t_{k+1} + ... + t_r. The left side is ((k-1) t_k + S_k)/m,
# and with G the inverse of F the inequality says
#
#     t_{k-1} >= (S_k + m G(((k - 1) t_k + S_k)/m)) / (r - k + 1).
#
# Both sides grow with every t, so going down from t_v = alpha with equality gives the least
# possible t_0. If that is above 1, P[V >= v] >= alpha was impossible, and v right guesses refute
# the curve at level alpha: the v that do so are all v from some v on, and their probability is
# below alpha.

Float = NDArray[np.float64]
Inverse = Callable[[Float, Float], Float]
"""G(parameter, y): the least x with F(x) >= y, for many parameters (epsilons or mus) at once."""

_AT_ONCE = 33  # parameters of one sweep; five sweeps reach 1e-7 of the first range
_ROUNDS = 5


def gaussian_inverse(mu: Float, y: Float) -> Float:
    """G of mu-GDP: Phi(Phi^-1(y) - mu)."""
    return np.asarray(ndtr(ndtri(y) - mu))


def approximate_inverse(delta: float) -> Inverse:
    """G of (epsilon, delta)-DP: max(0, e^-epsilon (y - delta), 1 - delta - e^epsilon (1 - y))."""

    def inverse(epsilon: Float, y: Float) -> Float:
        ratio = np.exp(np.minimum(epsilon, 700.0))
        return np.maximum(np.maximum((y - delta) / ratio, 1 - delta - ratio * (1 - y)), 0.0)

    return inverse


def refuted(
    parameters: Float, canaries: int, guesses: int, right: int, level: float, inverse: Inverse
) -> NDArray[np.bool_]:
    """For each parameter, whether `right` of `guesses` right ones refute its curve at `level`.

    Args:
        parameters: (p,) epsilons or mus, >= 0.
        canaries: m, coins in all.
        level: probability that a true curve is refuted, in (0, 1).
    """
    below = np.full(len(parameters), level)  # t_k, and the sum S_k of those above
    total = below.copy()
    for k in range(right, 0, -1):
        share = np.minimum(((k - 1) * below + total) / canaries, 1.0)
        least = (total + canaries * inverse(parameters, share)) / (guesses - k + 1)
        grows = least > below
        if not grows.any() or (below > 1).all():
            break  # what stops growing never grows again: share stays as it is
        below = np.where(grows, least, below)
        total = total + below
    return below > 1


def largest_refuted(
    canaries: int, guesses: int, right: int, level: float, inverse: Inverse
) -> float:
    """The largest parameter whose curve is refuted, to within 1e-6; 0 if none is."""

    def test(parameters: Float) -> NDArray[np.bool_]:
        return refuted(parameters, canaries, guesses, right, level, inverse)

    if not test(np.zeros(1))[0]:
        return 0.0
    low, high = 0.0, 4.0
    while test(np.array([high]))[0]:
        low, high = high, 2 * high
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _AT_ONCE)
        last = int(np.flatnonzero(~test(grid))[0])  # the upper end is never refuted
        low, high = float(grid[last - 1]), float(grid[last])
    return low


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
