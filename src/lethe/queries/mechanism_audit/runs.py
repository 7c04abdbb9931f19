"""Running a mechanism many times on two inputs, and its answers as a table.

The inputs come in turns, each with a seed of its own. `reuse` says whether successive answers share
their noise: all limits take the runs as independent.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.queries.mechanism_audit.neighbours import Pair
from lethe.training.users_code import seeded

Float = NDArray[np.float64]
NUMBER = "#"  # in the pattern of an answer: a number stands here
_FEWEST = 30  # answers that a correlation is taken of
Mechanism = Callable[..., Any]
_SEED_NAMES = ("seed", "rng_seed", "random_state")
_REQUIRED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Failed:
    """Stands where an answer would be when the mechanism raised: that, too, is seen."""

    kind: str  # name of the exception's class


@dataclass(frozen=True, eq=False)
class Trials:
    """What a mechanism answered.

    Attributes:
        second: (n,) answers on its neighbour; the i-th came right after the i-th of `first`.
    """

    first: list[Any]  # (n,) answers on the first data set, in the order they were given
    second: list[Any]


def run_trials(mechanism: Mechanism, pair: Pair, runs: int, seed: int) -> Trials:
    """Answers on both data sets of a pair.

    The global generators of Python, NumPy and torch are seeded once, and put back. A parameter
    `seed`, `rng_seed` or `random_state`, or a second one without a default, gets a fresh whole
    number each time. Every call gets its own copy of the data.

    Args:
        mechanism: mechanism(data) or mechanism(data, seed).
        runs: on each of them, >= 1.
    """
    check_at_least("runs", runs, 1)
    sequence = np.random.SeedSequence(seed)
    seeds = np.random.default_rng(sequence).integers(2**32, size=(runs, 2)).tolist()
    name = _seed_parameter(mechanism)
    first, second = [], []
    with seeded(int(sequence.generate_state(1)[0])):
        for first_seed, second_seed in seeds:
            first.append(_answer(mechanism, pair.first, name, first_seed))
            second.append(_answer(mechanism, pair.second, name, second_seed))
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
    copied = data.copy() if isinstance(data, np.ndarray) else copy.deepcopy(data)
    if name is None:
        return mechanism(copied)
    return mechanism(copied, **{name: seed}) if name else mechanism(copied, seed)


def _seed_parameter(mechanism: Mechanism) -> str | None:
    """The parameter that takes the seed; empty = the second; None = there is none.

    Raises InputError: it asks for more than data and a seed.
    """
    try:
        parameters = list(inspect.signature(mechanism).parameters.values())
    except (TypeError, ValueError):  # a built-in function tells nothing
        return None
    for parameter in parameters[1:]:
        if parameter.name in _SEED_NAMES:
            return "" if parameter.kind is inspect.Parameter.POSITIONAL_ONLY else parameter.name
    asked = [
        parameter
        for parameter in parameters
        if parameter.kind in _REQUIRED and parameter.default is parameter.empty
    ]
    if len(asked) > 2 or not parameters:
        raise InputError(
            f"the mechanism takes {len(asked)} arguments; expected mechanism(data) or "
            "mechanism(data, seed)."
        )
    return "" if len(asked) == 2 else None


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Answers of one side.

    Attributes:
        patterns: (n,) of each answer, what is no number in it: a category, ``raises ValueError``,
            ``NaN``, ``+inf``, ``None``; ``#`` for a plain number, ``#,#`` for two of them.
    """

    patterns: NDArray[np.str_]
    numbers: Float  # (n, d) the numbers in their places; NaN where there is none

    def __len__(self) -> int:
        return len(self.patterns)

    @property
    def scalar(self) -> bool:
        """Whether no answer has more than one place."""
        return int(self.numbers.shape[1]) < 2

    def part(self, start: int, stop: int) -> Outcomes:
        """Some of the answers, in order."""
        return Outcomes(self.patterns[start:stop], self.numbers[start:stop])

    def column(self, at: int) -> Outcomes:
        """One place of every answer."""
        places = [text.split(",")[at] if text.count(",") >= at else "" for text in self.patterns]
        return Outcomes(np.asarray(places), self.numbers[:, [at]])


def read_outcomes(*sides: Sequence[Any]) -> list[Outcomes]:
    """The answers of several sides in tables of one width.

    Raises InputError: an answer is neither number, category, None nor a sequence of these.
    """
    read = [[_places(answer) for answer in side] for side in sides]
    width = max((len(places) for side in read for places in side), default=0)
    return [_table(side, width) for side in read]


def _table(side: Sequence[Sequence[float | str]], width: int) -> Outcomes:
    numbers = np.full((len(side), max(width, 1)), np.nan)
    patterns = []
    for row, places in enumerate(side):
        for column, place in enumerate(places):
            if not isinstance(place, str):
                numbers[row, column] = place
        patterns.append(",".join(place if isinstance(place, str) else NUMBER for place in places))
    return Outcomes(np.asarray(patterns), numbers)


def _places(answer: Any) -> list[float | str]:
    """Every place of one answer: a finite number, or a word."""
    if isinstance(answer, np.ndarray):
        answer = answer.tolist()
    if isinstance(answer, Mapping):
        answer = [answer[key] for key in sorted(answer, key=repr)]
    if isinstance(answer, list | tuple):
        return [place for part in answer for place in _places(part)]
    return [_place(answer)]


def _place(answer: Any) -> float | str:
    if isinstance(answer, np.generic):
        answer = answer.item()
    if isinstance(answer, bool) or answer is None:
        return str(answer)
    if isinstance(answer, str):
        return answer.replace(",", ";")  # the comma parts the places
    if isinstance(answer, float | int | Fraction) or isinstance(answer, Real):
        return _number(answer)
    if isinstance(answer, Failed):
        return f"raises {answer.kind}"
    raise InputError(
        f"the mechanism returned a {type(answer).__name__}; expected a number, a category (text, "
        "True or False, None), or an array, list or dict of these."
    )


def _number(answer: Any) -> float | str:
    try:
        value = float(answer)
    except OverflowError:  # a whole number beyond all floating-point ones
        value = math.inf if answer > 0 else -math.inf
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else f"{value:+f}"


def reuse(pairs: Sequence[tuple[Outcomes, Outcomes]], confidence: float) -> Measured:
    """The largest rank correlation, without sign, between an answer and the next.

    Looked at are answers to the same data, to a data set and its neighbour right after, and to the
    neighbour and the data set again, for the first place of each answer.

    Args:
        pairs: answers on both inputs of each pair, in the order they were given, in turns.
        confidence: two-sided, of all intervals together.

    Returns:
        An estimate in [0, 1] with the interval of the one that is most surely above 0 (Fisher's z
        with the variance of Fieller, Hartley and Pearson 1957); refused where no answer varies.
    """
    from scipy.stats import rankdata

    found: list[tuple[float, int]] = []
    for first, second in pairs:
        ranks, neighbours = (rankdata(_numbers(side)) for side in (first, second))
        for left, right in (
            (ranks, neighbours),
            (neighbours[:-1], ranks[1:]),
            (ranks[:-1], ranks[1:]),
            (neighbours[:-1], neighbours[1:]),
        ):
            if len(left) >= _FEWEST and min(np.ptp(left), np.ptp(right)) > 0:
                found.append((abs(float(np.corrcoef(left, right)[0, 1])), len(left)))
    if not found:
        return Refusal("the answers to the same data never vary")
    from scipy.special import ndtri

    z = float(ndtri(1 - (1 - confidence) / (2 * len(found))))
    value, n = max(found, key=lambda pair: pair[0] * np.sqrt(pair[1]))
    half, centre = z * np.sqrt(1.06 / (n - 3)), np.arctanh(min(value, 1 - 1e-12))
    ends = max(0.0, float(np.tanh(centre - half))), float(np.tanh(centre + half))
    method = f"rank correlation, largest of {len(found)}, Fisher's z, Bonferroni"
    return Estimate(value, min(ends[0], value), max(ends[1], value), confidence, method, n)


def repeats(pairs: Sequence[tuple[Outcomes, Outcomes]]) -> bool:
    """Whether the answer to the same data never changed, on no input, while inputs differ in it."""
    kinds = [
        {(pattern, *row) for pattern, row in zip(side.patterns, _filled(side), strict=True)}
        for pair in pairs
        for side in pair
    ]
    return all(len(kind) == 1 for kind in kinds) and len(set().union(*kinds)) > 1


def _filled(side: Outcomes) -> list[tuple[float, ...]]:
    return [tuple(row) for row in np.nan_to_num(side.numbers).tolist()]


def _numbers(side: Outcomes) -> Float:
    """The first place: its number, or a number for each category, below all others."""
    numbers = side.numbers[:, 0].copy()
    missing = np.isnan(numbers)
    _, code = np.unique(side.patterns, return_inverse=True)
    least = np.nanmin(numbers) if not missing.all() else 0.0
    numbers[missing] = least - 1.0 - code[missing]
    return numbers
