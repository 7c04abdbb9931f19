"""Answers of any kind as a table: numbers where there are numbers, words where there are none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.queries.mechanism_audit.trials import Failed

Float = NDArray[np.float64]
NUMBER = "#"  # in the pattern of an answer: a number stands here


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Answers of one side.

    Attributes:
        patterns: (n,) of each answer, what is no number in it: a category, ``raises ValueError``,
            ``NaN``, ``+inf``, ``None``; ``#`` for a plain number, ``#,#`` for two of them.
        numbers: (n, d) the numbers in their places; NaN where there is none.
    """

    patterns: NDArray[np.str_]
    numbers: Float

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

    Raises:
        InputError: an answer is neither number, category, None nor a sequence of these.
    """
    read = [[_places(answer) for answer in side] for side in sides]
    width = max((len(places) for side in read for places in side), default=0)
    return [_table(side, width) for side in read]


def _table(side: Sequence[Sequence[float | str]], width: int) -> Outcomes:
    numbers = np.full((len(side), max(width, 1)), np.nan)
    patterns = []
    for row, places in enumerate(side):
        for at, place in enumerate(places):
            if not isinstance(place, str):
                numbers[row, at] = place
        patterns.append(",".join(place if isinstance(place, str) else NUMBER for place in places))
    return Outcomes(np.asarray(patterns), numbers)


def _places(answer: Any) -> list[float | str]:
    """Every place of one answer: a finite number, or a word."""
    if isinstance(answer, np.ndarray):
        answer = answer.tolist()
    if isinstance(answer, Mapping):
        answer = [answer[key] for key in sorted(answer, key=repr)]
    if isinstance(answer, list | tuple):
        return [place for one in answer for place in _places(one)]
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
