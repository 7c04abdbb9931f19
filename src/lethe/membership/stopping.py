"""Train until the intervals are narrow enough: when to look, and what was reached.

Stopping when a *width* is small enough hardly changes how often the final interval misses
(tests/membership/test_stopping.py); looking at a verdict would. The looks are fixed by the chunk
width alone, so every run of one audit stops at the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.rules import Precision

FIRST_LOOK = 16
"""Models before the first look: eight pairs, below which a width says little about itself."""

Taken = TypeVar("Taken")


@dataclass(frozen=True)
class Stop:
    """Where the training of the baseline ended, and why."""

    asked: int  # the most models that were allowed
    reached: int  # models trained
    rules: tuple[Precision, ...]  # the widths asked for
    evidence: tuple[Measured | None, ...]  # the interval that each was judged on

    @property
    def met(self) -> bool:
        """Whether every interval is as narrow as was asked."""
        return all(rule.met(one) for rule, one in zip(self.rules, self.evidence, strict=True))

    def to_json(self) -> dict[str, Any]:
        """Plain values for `findings.json`."""
        return {
            "on": "width of intervals, not on a verdict",
            "rules": [str(rule) for rule in self.rules],
            "asked": self.asked,
            "reached": self.reached,
            "met": self.met,
        }

    def words(self) -> str:
        """One line for the reader."""
        listed = "; ".join(
            f"{rule}: {_seen(one)}" for rule, one in zip(self.rules, self.evidence, strict=True)
        )
        if self.met:
            return f"narrow enough with {self.reached} of at most {self.asked} models ({listed})"
        return (
            f"not as narrow as asked with all {self.reached} models ({listed}); the audit is valid "
            "as it is. Raise --models to go on from here; `lethe plan` says how many it takes"
        )


def _seen(measured: Measured | None) -> str:
    if isinstance(measured, Estimate):
        return (
            f"{measured}" if measured.width is None else f"{measured}, width {measured.width:.4g}"
        )
    return "not measured" if measured is None else str(measured)


def looks(most: int, width: int) -> list[int]:
    """Numbers of models after which the widths are looked at, the last being `most`.

    From 16 on, each at least a quarter and two chunks more than the one before.

    Args:
        most: models at most.

    >>> looks(100, 8)
    [16, 32, 48, 64, 80, 100]
    """
    found, at = [], -(-FIRST_LOOK // width) * width
    while at < most:
        found.append(at)
        at = max(at + 2 * width, -(-5 * at // (4 * width)) * width)
    return [*found, most]


def grow(
    rules: Sequence[Precision],
    most: int,
    width: int,
    finished: int,
    take: Callable[[int], Taken],
    evidence: Callable[[Taken, Precision], Measured | None],
) -> tuple[Taken, Stop]:
    """Train and look in turn until every interval is narrow enough, or there are enough models.

    Args:
        rules: the widths asked for; with none, `most` models are trained at once.
        most: models at most.
        finished: models that are there already, without a gap: looking starts at them.
        take: trains up to a number of models and measures them.
        evidence: the interval that a rule is judged on.
    """
    planned = looks(most, width) if rules else [most]
    there = [at for at in planned if at <= finished]
    for models in planned[max(0, len(there) - 1) :]:
        taken = take(models)
        stop = Stop(most, models, tuple(rules), tuple(evidence(taken, rule) for rule in rules))
        if rules and stop.met:
            break
    return taken, stop
