"""Running a mechanism many times on two inputs, in turns, with a seed of its own each time."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lethe.errors import InputError, check_at_least
from lethe.queries.mechanism_audit.neighbours import Pair
from lethe.training.users_code import seeded

Mechanism = Callable[..., Any]
_SEED_NAMES = ("seed", "rng_seed", "random_state")
_REQUIRED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Failed:
    """Stands where an answer would be when the mechanism raised: that, too, is seen.

    Attributes:
        kind: name of the exception's class.
    """

    kind: str


@dataclass(frozen=True, eq=False)
class Trials:
    """What a mechanism answered.

    Attributes:
        first: (n,) answers on the first data set, in the order they were given.
        second: (n,) answers on its neighbour; the i-th came right after the i-th of `first`.
    """

    first: list[Any]
    second: list[Any]


def run_trials(mechanism: Mechanism, pair: Pair, runs: int, seed: int) -> Trials:
    """Answers on both data sets of a pair.

    The global generators of Python, NumPy and torch are seeded once, and put back. A mechanism
    that has a parameter `seed`, `rng_seed` or `random_state`, or a second one without a default,
    gets a fresh whole number each time; others draw as they do. Every call gets its own copy of
    the data.

    Args:
        mechanism: mechanism(data) or mechanism(data, seed).
        pair: the inputs.
        runs: on each of them, >= 1.
        seed: of the seeds.
    """
    check_at_least("runs", runs, 1)
    sequence = np.random.SeedSequence(seed)
    seeds = np.random.default_rng(sequence).integers(2**32, size=(runs, 2)).tolist()
    name = _seed_parameter(mechanism)
    first, second = [], []
    with seeded(int(sequence.generate_state(1)[0])):
        for one, other in seeds:
            first.append(_answer(mechanism, pair.first, name, one))
            second.append(_answer(mechanism, pair.second, name, other))
    return Trials(first, second)


def answer_once(mechanism: Mechanism, data: Any) -> Any:
    """One answer, or whatever the mechanism raises."""
    return _called(mechanism, data, _seed_parameter(mechanism), 0)


def _answer(mechanism: Mechanism, data: Any, name: str | None, seed: int) -> Any:
    try:
        return _called(mechanism, data, name, seed)
    except MemoryError:
        raise
    except Exception as error:  # whatever a mechanism raises is an outcome that an analyst sees
        return Failed(type(error).__name__)


def _called(mechanism: Mechanism, data: Any, name: str | None, seed: int) -> Any:
    own = data.copy() if isinstance(data, np.ndarray) else copy.deepcopy(data)
    if name is None:
        return mechanism(own)
    return mechanism(own, **{name: seed}) if name else mechanism(own, seed)


def _seed_parameter(mechanism: Mechanism) -> str | None:
    """The parameter that takes the seed; empty = the second; None = there is none.

    Raises:
        InputError: it asks for more than data and a seed.
    """
    try:
        parameters = list(inspect.signature(mechanism).parameters.values())
    except (TypeError, ValueError):  # a built-in function tells nothing
        return None
    for one in parameters[1:]:
        if one.name in _SEED_NAMES:
            return "" if one.kind is inspect.Parameter.POSITIONAL_ONLY else one.name
    asked = [one for one in parameters if one.kind in _REQUIRED and one.default is one.empty]
    if len(asked) > 2 or not parameters:
        raise InputError(
            f"the mechanism takes {len(asked)} arguments; expected mechanism(data) or "
            "mechanism(data, seed)."
        )
    return "" if len(asked) == 2 else None
