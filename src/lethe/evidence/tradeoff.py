"""How often a private mechanism's coins can be guessed, from its whole trade-off curve.

Mahloujifar, Melis and Chaudhuri ("Auditing f-Differential Privacy in One Run", 2024) bound the
number V of right guesses through every event V >= k at once. Their argument, for exactly r guesses
about m fair coins: look at "coin i is guessed, and k - 1 or more of the others are right". Whether
the guess of i is right depends on its coin alone, so with F(x) the most that a probability x under
one of two neighbours can be under the other, concavity of F over coins and values gives

    (1/m) sum_{j >= k} j P[V = j]  <=  F( (1/m) sum_{j >= k-1} (r - j) P[V = j] ).

Write t_k = P[V >= k] and S_k = t_k + t_{k+1} + ... + t_r. The left side is ((k-1) t_k + S_k)/m, and
with G the inverse of F the inequality says

    t_{k-1} >= (S_k + m G(((k - 1) t_k + S_k)/m)) / (r - k + 1).

Both sides grow with every t, so going down from t_v = alpha with equality gives the least possible
t_0. If that is above 1, P[V >= v] >= alpha was impossible, and v right guesses refute the curve at
level alpha: the v that do so are all v from some v on, and their probability is below alpha.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

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
        guesses: r <= m, fixed beforehand.
        right: v <= r.
        level: probability that a true curve is refuted, in (0, 1).
        inverse: G of the family of curves.
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
