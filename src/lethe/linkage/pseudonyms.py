"""Pseudonyms that change: a person's facts are split over several records.

Nobody is told which records belong together, so a record that is named gives away a part of the
person's facts only. Counts over all records stay what they were; what follows one person over
time is lost.
"""

from __future__ import annotations

import numpy as np

from lethe.errors import NotMeasurable, check_at_least
from lethe.linkage.coarsening import Coarsened, Sheet
from lethe.linkage.facts import Int


def new_pseudonyms(sheet: Sheet, days: int, rng: np.random.Generator) -> Coarsened:
    """A new pseudonym for everybody every `days` days, counted from the first time.

    Raises:
        NotMeasurable: there are no times, or they are all within one period.
    """
    check_at_least("days", days, 1)
    if sheet.time is None:
        raise NotMeasurable("the release has no times.")
    period = (sheet.time - int(sheet.time.min())) // days
    if not period.any():
        raise NotMeasurable(f"all times are within {days} days, so no pseudonym would change.")
    return _split(sheet, period, rng)


def dealt_pseudonyms(sheet: Sheet, count: int, rng: np.random.Generator) -> Coarsened:
    """Each fact goes to one of `count` pseudonyms of its person, drawn alike."""
    check_at_least("count", count, 2)
    return _split(sheet, rng.integers(0, count, len(sheet.item)), rng)


def _split(sheet: Sheet, part: Int, rng: np.random.Generator) -> Coarsened:
    """One record for each person and part that holds a fact, numbered at random."""
    parts = int(part.max()) + 1
    held, place = np.unique(sheet.person * parts + part, return_inverse=True)
    new = rng.permutation(len(held))
    owner = np.empty(len(held), np.int64)
    owner[new] = held // parts
    made = Sheet(new[place], sheet.item, sheet.value, sheet.time, len(held), sheet.items)
    return Coarsened(made, np.zeros(len(held), bool), owner=owner)
