"""The one-line attack on textbook noise: does an answer have bits that the other value rules out?

Floating-point numbers near 0 have finer bits than those near 1. A sampler that adds ordinary
floating-point noise to the exact value hands out an answer with bits finer than 2^-53 only where
the value was 0: one such answer tells which (Mironov 2012).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from lethe.errors import check_at_least, check_between
from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clopper_pearson

FINEST = -53  # an exponent of two


@dataclass(frozen=True)
class FineBits:
    """What the attack saw.

    Attributes:
        at_zero: share of answers with a finer bit where the exact value was 0.
        at_one: the same at 1.
        epsilon: claimed for values at this distance.
        broken: whether the shares contradict the claim.
    """

    at_zero: Estimate
    at_one: Estimate
    epsilon: float
    delta: float
    broken: bool


def has_fine_bits(answer: float, finest: int = FINEST) -> bool:
    """Whether a number is no multiple of 2^finest.

    >>> has_fine_bits(0.1), has_fine_bits(0.75), has_fine_bits(2.0**-60)
    (True, False, True)
    """
    return not math.ldexp(answer, -finest).is_integer()


def precision_attack(
    mechanism: Callable[[float], float],
    *,
    epsilon: float,
    delta: float = 0.0,
    runs: int = 2000,
    confidence: float = 0.999999,
) -> FineBits:
    """Count answers with bits finer than 2^-53 for the exact values 0 and 1.

    Args:
        mechanism: from an exact value to an answer; 0 and 1 are neighbours to it.
        epsilon: claimed, >= 0.
        delta: claimed, in [0, 1).
        runs: at each value.
        confidence: that a mechanism that keeps its claim is not called broken.

    Returns:
        Both shares with exact intervals; broken where even the ends of the intervals contradict
        share <= e^epsilon other share + delta, in either direction.

    >>> precision_attack(lambda value: value + 3.0, epsilon=1.0, runs=10).broken
    False
    """
    check_at_least("epsilon", epsilon, 0)
    check_between("delta", delta, 0, 1, open_high=True)
    check_at_least("runs", runs, 1)
    each = 1 - (1 - confidence) / 2
    zero, one = (
        clopper_pearson(sum(has_fine_bits(mechanism(value)) for _ in range(runs)), runs, each)
        for value in (0.0, 1.0)
    )
    broken = _contradicts(zero, one, epsilon, delta) or _contradicts(one, zero, epsilon, delta)
    return FineBits(zero, one, epsilon, delta, broken)


def _contradicts(more: Estimate, less: Estimate, epsilon: float, delta: float) -> bool:
    return more.low > math.exp(min(epsilon, 700.0)) * less.high + delta
