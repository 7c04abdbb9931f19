"""The noise that meets a target epsilon, and the steps that fit into one.

Both search on `dp_sgd_epsilon` and return a setting at which it was seen to be within the target.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from lethe.errors import InputError, check_at_least, check_between
from lethe.evidence.accounting import GRID, dp_sgd_epsilon

LEAST_NOISE = 0.01
_CLOSE = 1e-3  # the search ends this share below the target
_ROUNDS = 100


def noise_for(
    epsilon: float,
    delta: float | None = None,
    *,
    sampling_rate: float,
    steps: int,
    sensitivity: float,
    relation: str = "add/remove",
    sampling: str = "poisson",
    most: float = 1000.0,
    grid: float = GRID,
) -> float:
    """The smallest noise multiplier that keeps these steps within (epsilon, delta).

    Args:
        epsilon: target, > 0.
        delta: in (0, 1), well below 1 / records.
        sampling_rate, steps, sensitivity, relation, sampling, grid: as in `dp_sgd_epsilon`.
        most: the largest noise that is tried, > 0.01.

    Returns:
        A noise multiplier in [0.01, `most`] with epsilon at most 0.1 % below the target; 0.01 where
        even that much less noise would do.

    Guarantee:
        `dp_sgd_epsilon` at the noise returned is at most `epsilon`.

    Raises:
        InputError: a target that `most` does not reach, or an argument outside its range.

    >>> round(noise_for(3.0, 1e-5, sampling_rate=0.01, steps=1000, sensitivity=1.0), 2)
    0.81
    """
    check_between("epsilon", epsilon, 0, math.inf, open_low=True, open_high=True)
    check_between("most", most, LEAST_NOISE, math.inf, open_low=True, open_high=True)

    epsilon_at = functools.partial(
        dp_sgd_epsilon,
        sampling_rate=sampling_rate,
        steps=steps,
        delta=delta,
        sensitivity=sensitivity,
        relation=relation,
        sampling=sampling,
        grid=grid,
    )
    return _least_noise(lambda noise: epsilon_at(noise_multiplier=noise), epsilon, most)


def steps_for(
    epsilon: float,
    delta: float | None = None,
    *,
    noise_multiplier: float,
    sampling_rate: float,
    sensitivity: float,
    relation: str = "add/remove",
    sampling: str = "poisson",
    most: int = 1_000_000,
    grid: float = GRID,
) -> int:
    """How many steps with this noise fit into (epsilon, delta).

    Args:
        epsilon: target, > 0.
        delta: in (0, 1), well below 1 / records.
        noise_multiplier, sampling_rate, sensitivity, relation, sampling, grid: as in
            `dp_sgd_epsilon`.
        most: where the search ends, >= 1.

    Returns:
        Steps in [1, `most`], within the target; one more would break it, unless `most` came first.

    Raises:
        InputError: not even one step fits, or an argument outside its range.

    >>> steps_for(1.0, 1e-5, noise_multiplier=20.0, sampling_rate=1.0, sensitivity=1.0)
    28
    """
    check_between("epsilon", epsilon, 0, math.inf, open_low=True, open_high=True)
    check_at_least("most", most, 1)

    def fits(steps: int) -> bool:
        reached = dp_sgd_epsilon(
            noise_multiplier=noise_multiplier,
            sampling_rate=sampling_rate,
            steps=steps,
            delta=delta,
            sensitivity=sensitivity,
            relation=relation,
            sampling=sampling,
            grid=grid,
        )
        return reached <= epsilon

    if not fits(1):
        raise InputError(
            f"epsilon={epsilon:g} does not cover one step with noise_multiplier="
            f"{noise_multiplier:g}: take more noise, a smaller sampling_rate or a larger epsilon."
        )
    low, high = 1, 2
    while high < most and fits(high):
        low, high = high, 2 * high
    if high >= most:
        if most == low or fits(most):
            return most
        high = most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _least_noise(epsilon_at: Callable[[float], float], epsilon: float, most: float) -> float:
    """False position (Illinois rule) on ln epsilon against ln noise, which is nearly a line."""

    def height(noise: float) -> float:
        return math.log(max(epsilon_at(noise), 1e-300) / epsilon)

    enough = min(1.0, most)
    above = height(enough)
    while above > 0:
        if enough == most:
            raise InputError(
                f"epsilon={epsilon:g} is not reached with noise_multiplier <= {most:g}, which "
                f"gives {epsilon * math.exp(above):.4g}: take a larger epsilon or delta, "
                "fewer steps (epochs), smaller batches or a larger `most`."
            )
        little, below, enough = enough, above, min(2 * enough, most)
        above = height(enough)
    if enough == min(1.0, most):
        while above <= 0:
            little, below = enough, above
            if enough == LEAST_NOISE:
                return LEAST_NOISE
            enough = max(enough / 2, LEAST_NOISE)
            above = height(enough)
        little, below, enough, above = enough, above, little, below
    return _between(height, little, below, enough, above)


def _between(
    height: Callable[[float], float], little: float, below: float, enough: float, above: float
) -> float:
    """Narrow a bracket: `little` breaks the target (`below` > 0), `enough` keeps it."""
    close = math.log1p(-_CLOSE)
    aim = close / 2  # the middle of what is close enough: rounding ends on the safe side
    left, right, side = below - aim, above - aim, 0
    for _ in range(_ROUNDS):
        if above >= close or enough <= little * (1 + 1e-9):
            break
        share = min(max(left / (left - right), 0.01), 0.99)
        tried = little * (enough / little) ** share
        seen = height(tried)
        if seen > 0:
            little, left = tried, seen - aim
            right = right / 2 if side < 0 else right
            side = -1
        else:
            enough, above, right = tried, seen, seen - aim
            left = left / 2 if side > 0 else left
            side = 1
    return enough
