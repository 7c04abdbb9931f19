"""An epsilon for every record, where records enter the sum with weights of their own.

A record whose clipped gradient is multiplied by w in [0, 1] moves the sum by w times the clipping
bound, so for it the noise multiplier is sigma / w (Feldman and Zrnic 2021, with weights fixed in
advance in place of a filter).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import InputError, check_at_least
from lethe.evidence.accounting import GRID, dp_sgd_epsilon

Float = NDArray[np.float64]

_SLACK = 2e-3  # of epsilon, given away for speed
_FINE = 0.01  # neighbouring nodes need not be closer than this share of epsilon


def individual_epsilons(
    weights: ArrayLike,
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float | None = None,
    sensitivity: float,
    relation: str = "add/remove",
    sampling: str = "poisson",
    nodes: int = 128,
    grid: float = GRID,
) -> Float:
    """An upper bound on epsilon for each record, at one delta for all.

    Epsilon is computed at up to `nodes` of the weights, the largest among them; they are put where
    epsilon changes most. Any other record gets the value of the next larger of these weights.

    Args:
        weights: (n,) in [0, 1]; 0 leaves the record out of every step.
        noise_multiplier, sampling_rate, steps, delta, sensitivity, relation, sampling, grid: as in
            `dp_sgd_epsilon`, for a record of weight 1.
        nodes: >= 2; with fewer different weights each has its own value.

    Returns: (n,) epsilons, >= 0 and not decreasing in the weight; 0 where the weight is 0.
    Guarantee: The output with record j and without it (or with another in its place, of its weight)
        is (epsilon_j, delta)-indistinguishable.
    Assumes: The weights were fixed without the private data, so that they stay as they are when a
        record goes or comes; and what `dp_sgd_epsilon` assumes.
    Raises InputError: weights outside [0, 1], NaN or none; shuffled or fixed-size batches under
        add/remove, where the gap of one record is filled by another of another weight.

    >>> individual_epsilons([0.0, 0.5, 1.0], noise_multiplier=5.0, sampling_rate=1.0, steps=1,
    ...                     delta=1e-5, sensitivity=1.0).round(3)
    array([0.   , 0.341, 0.726])
    """
    given = check_weights(weights)
    check_at_least("nodes", nodes, 2)
    if sampling != "poisson" and relation == "add/remove":
        raise InputError(
            f"sampling={sampling!r} has no epsilon of one record under add/remove: "
            "sample by Poisson, or take relation='replace-one'."
        )

    def epsilon_at(weight: float) -> float:
        return dp_sgd_epsilon(
            noise_multiplier=noise_multiplier / weight,
            sampling_rate=sampling_rate,
            steps=steps,
            delta=delta,
            sensitivity=sensitivity,
            relation=relation,
            sampling=sampling,
            grid=grid,
            slack=_SLACK,
        )

    epsilon_at(1.0)  # says what is wrong with the settings even where all weights are 0
    levels = np.unique(given[given > 0])
    if not levels.size:
        return np.zeros(given.shape)
    at, values = _nodes(levels, epsilon_at, nodes)
    upper = np.searchsorted(at, given)  # the first node that is not below the weight
    epsilons: Float = np.where(given > 0, values[upper], 0.0)
    return epsilons


def check_weights(weights: ArrayLike) -> Float:
    """Return the weights as numbers if they are one row of values in [0, 1].

    Raises InputError: another shape, no weights, or one outside [0, 1].
    """
    given = np.asarray(weights, dtype=float)
    if given.ndim != 1 or not given.size:
        raise InputError(f"weights of shape {given.shape} must be one row of one or more numbers.")
    bad = ~((given >= 0) & (given <= 1))
    if bad.any():
        first = int(np.argmax(bad))
        raise InputError(
            f"weights[{first}]={given[first]:g} must be in [0, 1] for a proven epsilon"
            + (f", as must {others} more" if (others := int(bad.sum()) - 1) else "")
            + ": divide all by the largest, or clip them."
        )
    return given


def _nodes(levels: Float, epsilon_at: Callable[[float], float], count: int) -> tuple[Float, Float]:
    """Some of the increasing levels, the last among them, and epsilon there."""
    last = len(levels) - 1
    known = {0: epsilon_at(float(levels[0])), last: epsilon_at(float(levels[last]))}
    floor = _FINE * known[last]
    # Gaps between nodes, the widest first: what is lost there, in shares of epsilon.
    gaps: list[tuple[float, int, int]] = []

    def push(left: int, right: int) -> None:
        if right - left > 1:
            loss = (known[right] - known[left]) / (known[left] + floor) if floor > 0 else 0.0
            heapq.heappush(gaps, (-loss, left, right))

    push(0, last)
    while gaps and len(known) < count:
        if len(levels) > count and -gaps[0][0] <= _FINE:
            break
        _, left, right = heapq.heappop(gaps)
        aim = (levels[left] + levels[right]) / 2
        middle = int(np.clip(np.searchsorted(levels, aim), left + 1, right - 1))
        known[middle] = epsilon_at(float(levels[middle]))
        push(left, middle)
        push(middle, right)
    order = np.array(sorted(known))
    # Cells of unequal width may put a value a hair above its right neighbour.
    values = np.maximum.accumulate([known[int(index)] for index in order])
    return levels[order], values
