"""Pairs of data sets that differ in one person, for mechanisms that take a vector of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_choice
from lethe.evidence.epsilon import RELATIONS
from lethe.training.users_code import users_code

BEYOND = 10  # times the width of the bounds, for a value that breaks them
Float = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring data sets.

    Attributes:
        name: what they have in common, in a few words.
        first: handed to the mechanism as it is; a copy each time.
        second: its neighbour.
    """

    name: str
    first: Any
    second: Any


def standard_pairs(
    low: float, high: float, size: int = 10, relation: str = "add/remove", beyond: bool = False
) -> list[Pair]:
    """Pairs that strain a mechanism on values in [low, high].

    Everybody at one bound and one person at the other; everybody equal; values spread evenly, of
    which the last is taken away; a constant and an outlier; halves at both bounds; one person
    alone; and, under add/remove, nobody at all, and two and three people. There the number of
    people is private and moves most of itself, so that noise that follows it shows.

    Args:
        low: bound of the values.
        high: bound of the values, > low.
        size: people in the larger data set, at least 4.
        relation: ``add/remove``: the second lacks the last person of the first; ``replace-one``:
            that person has another value.
        beyond: add a pair whose last person lies far outside the bounds, which a mechanism that
            clamps does not mind.

    Raises:
        InputError: bounds reversed or not finite, too few people, an unknown relation.

    >>> [(pair.first.tolist(), pair.second.tolist()) for pair in standard_pairs(0, 1, 4)[:2]]
    [([0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0]), ([1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0])]
    """
    check_choice("relation", relation, RELATIONS)
    numbers = all(isinstance(x, Real) and not isinstance(x, bool) for x in (low, high, size))
    if not (numbers and math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"bounds={low!r},{high!r} must be finite numbers, the lower one first.")
    check_at_least("size", size, 4)
    middle, rest = (low + high) / 2, size - 1

    def flat(value: float, count: int) -> Float:
        return np.full(count, float(value))

    halves = np.repeat([float(low), float(high)], [rest // 2, rest - rest // 2])
    pairs: list[tuple[str, Float, float, float]] = [
        ("all at the lower bound, one at the upper", flat(low, rest), high, low),
        ("all at the upper bound, one at the lower", flat(high, rest), low, high),
        ("all equal, in the middle", flat(middle, rest), middle, high),
        ("spread evenly, the largest", np.linspace(low, high, size)[:-1], high, low),
        ("a constant and an outlier", flat(middle, rest), high, middle),
        ("half at each bound", halves, high, low),
    ]
    if relation == "add/remove":
        pairs += [
            ("one person and nobody", flat(low, 0), high, low),
            ("two people, the upper leaves", flat(low, 1), high, low),
            ("two people, the lower leaves", flat(high, 1), low, high),
            ("three people, the upper leaves", flat(low, 2), high, low),
        ]
    else:
        pairs.append(("one person alone", flat(low, 0), high, low))
    if beyond:
        outside = high + BEYOND * (high - low)
        pairs.append(("all equal, one far outside the bounds", flat(middle, rest), outside, middle))
    return [
        Pair(
            name,
            np.append(others, value),
            others if relation == "add/remove" else np.append(others, changed),
        )
        for name, others, value, changed in pairs
    ]


def users_pairs(make: Callable[[], Any], reference: str) -> list[Pair]:
    """Pairs from the user's function: (first, second) or (name, first, second) each.

    Args:
        make: takes nothing.

    Raises InputError: the function fails, or returns something else.
    """
    with users_code(reference):
        listed = make()
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not len(listed):
        raise InputError(
            f"{reference} returned {type(listed).__name__}, expected a list of pairs (data, "
            "neighbour) or (name, data, neighbour), at least one."
        )
    pairs = []
    for place, pair in enumerate(listed, start=1):
        if isinstance(pair, tuple) and len(pair) == 3 and isinstance(pair[0], str):
            pairs.append(Pair(*pair))
        elif isinstance(pair, tuple) and len(pair) == 2:
            pairs.append(Pair(f"pair {place}", *pair))
        else:
            raise InputError(
                f"{reference}: entry {place} is no tuple (data, neighbour) or "
                "(name, data, neighbour)."
            )
        if _equal(pairs[-1].first, pairs[-1].second):
            raise InputError(
                f"{reference}: both inputs of {pairs[-1].name!r} are equal, so nothing tells them "
                "apart. Copy the data, as list(data), before you change them."
            )
    return pairs


def _equal(first: Any, second: Any) -> bool:
    """Whether two inputs are one object, or the same values."""
    if first is second:
        return True
    try:
        return type(first) is type(second) and bool(np.array_equal(first, second))
    except (TypeError, ValueError):
        return False
