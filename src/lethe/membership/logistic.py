"""Logistic regression for attacks that learn from other targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from lethe.errors import InputError

RIDGE = 10.0
"""Penalty on half the squared weights of standardised inputs, beside the sum of n losses: a normal
prior of deviation 0.3, which matters with few cells only."""

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Logistic:
    """Log-odds of membership, linear in the inputs.

    Attributes:
        weights: (D,) of the inputs as given.
        bias: log-odds at inputs of 0, when members are as frequent as non-members.
    """

    weights: Float
    bias: float

    def score(self, inputs: NDArray[np.floating]) -> Float:
        """(n,) log-odds of inputs (n, D), higher = member."""
        return np.asarray(inputs @ self.weights + self.bias)


def matched_weights(members: NDArray[np.bool_], taught: NDArray[np.bool_]) -> Float:
    """Weights under which the targets IN a record weigh as much as those OUT of it.

    Then a regression cannot learn what is special to a record from who trained on it. Without
    this, in a design of equal counts, it would learn the opposite of what holds among the other
    targets: a record IN most of some is OUT of most others.

    Args:
        members: (k, N) true membership.
        taught: (k, N) cells to learn from.

    Returns:
        (k, N) >= 0; 0 for records without a cell of either side.

    >>> matched_weights(np.array([[1, 1], [1, 1], [0, 1]], bool), np.ones((3, 2), bool)).tolist()
    [[0.5, 0.0], [0.5, 0.0], [1.0, 0.0]]
    """
    inside, outside = members & taught, ~members & taught
    count_in, count_out = inside.sum(axis=0), outside.sum(axis=0)
    both = (count_in > 0) & (count_out > 0)
    weight = inside / np.maximum(count_in, 1) + outside / np.maximum(count_out, 1)
    return np.asarray(np.where(both, weight, 0.0))


def draw_cells(
    members: NDArray[np.bool_], taught: NDArray[np.bool_], most: int, seed: list[int]
) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp]], Float]:
    """Places of up to `most` cells to learn from, drawn at random, and their matched weights.

    Args:
        members: (k, N) true membership.
        taught: (k, N) cells to learn from.
        most: cells at most.
        seed: of the draw.
    """
    weights = matched_weights(members, taught)
    rows, columns = np.nonzero(weights)
    if len(rows) > most:
        drawn = np.sort(np.random.default_rng(seed).choice(len(rows), most, replace=False))
        rows, columns = rows[drawn], columns[drawn]
    return (rows, columns), weights[rows, columns]


def fit_logistic(
    inputs: NDArray[np.floating], member: NDArray[np.bool_], weights: Float
) -> Logistic:
    """Fit by maximum likelihood with a small ridge, members and non-members weighing alike.

    The equal weights keep the share of members in the fitting cells out of the bias: in a design
    of equal counts it would tell something about the share among the others.

    Args:
        inputs: (n, D) finite.
        member: (n,) true membership.
        weights: (n,) > 0, made to add up to 1/2 on each side.

    Raises:
        InputError: no member or no non-member among the cells.
    """
    from scipy.optimize import minimize

    inside = int(member.sum())
    if not 0 < inside < len(member):
        raise InputError(
            f"{inside} of {len(member)} cells to learn from are members; both kinds are needed: "
            "use more models, at least 8 in complementary pairs."
        )
    centre, spread = inputs.mean(axis=0, dtype=np.float64), inputs.std(axis=0, dtype=np.float64)
    spread = np.where(spread > 1e-12 * (1 + np.abs(centre)), spread, np.inf)
    x = np.asarray((inputs - centre) / spread, np.float64)
    sign = np.where(member, 1.0, -1.0)
    share = 0.5 * weights / np.where(member, weights[member].sum(), weights[~member].sum())

    ridge = RIDGE / len(member)

    def loss(point: Float) -> tuple[float, Float]:
        slopes = point[:-1]
        margin = sign * (x @ slopes + point[-1])
        slope = -share * sign * expit(-margin)
        value = float(share @ np.logaddexp(0, -margin)) + ridge / 2 * float(slopes @ slopes)
        return value, np.append(x.T @ slope + ridge * slopes, slope.sum())

    start = np.zeros(x.shape[1] + 1)
    options = {"maxiter": 500, "gtol": 1e-6, "ftol": 1e-12}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    slopes = found.x[:-1] / spread
    return Logistic(slopes, float(found.x[-1] - slopes @ centre))
