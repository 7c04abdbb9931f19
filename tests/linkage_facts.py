"""Known facts from plain lists, and the scores of every record, for tests of linkage."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from lethe.errors import NotMeasurable
from lethe.linkage.records import study
from lethe.linkage.records.facts import Index, Known
from lethe.linkage.records.scoreboard import RH, Float, Scoreboard, _table, pairs_of


def known_of(
    items: ArrayLike, values: ArrayLike | None = None, times: ArrayLike | None = None
) -> Known:
    """What is known of one target, from plain lists.

    >>> len(known_of([3, 1], times=[10, 400]))
    1
    """
    item = np.asarray(items, np.int64).reshape(-1)
    return Known(
        np.array([0, len(item)]),
        item,
        None if values is None else np.asarray(values, np.float64),
        None if times is None else np.asarray(times, np.float64),
    )


def scores(facts: Index, known: Known, target: int, board: Scoreboard = RH) -> Float:
    """(N,) score of every record for one target: higher = more like it.

    Args:
        facts: the release; weights come from nothing else.
        known: of which one target is taken.
    """
    pairs = pairs_of(facts, known, slice(target, target + 1))
    return np.asarray(_table(facts, known, pairs, board)[0])


def only_mitigations(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Audits of records skip all other mitigations: those that are tried draw what they drew."""
    every = study.changes

    def left_out(sheet, rng):
        raise NotMeasurable("a test is not about it")

    def chosen(settings):
        return {
            name: (words, change if name in names else left_out)
            for name, (words, change) in every(settings).items()
        }

    patch.setattr(study, "changes", chosen)


def text(*cells):
    """A column of text."""
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column


def by_name(findings):
    """Candidates by their names."""
    return {candidate["name"]: candidate for candidate in findings.candidates}
