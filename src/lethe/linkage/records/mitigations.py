"""The mitigations that sparse records are tried with."""

from __future__ import annotations

from functools import partial

import numpy as np

from lethe.errors import NotMeasurable, check_at_least
from lethe.linkage.records.coarsening import (
    MONTH,
    Change,
    Coarsened,
    Sheet,
    as_it_is,
    coarser_times,
    noisy_times,
    noisy_values,
    some_facts,
    some_people,
    two_values,
    value_steps,
    without_popular,
    without_rare,
)
from lethe.linkage.records.facts import Int
from lethe.linkage.settings import RecordSettings

# Pseudonyms that change: a person's facts are split over several records.
#
# Nobody is told which records belong together, so a record that is named gives away a part of the
# person's facts only. Counts over all records stay what they were; what follows one person over
# time is lost.


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


_YEAR = 13 * MONTH


def changes(settings: RecordSettings) -> dict[str, tuple[str, Change]]:
    """The mitigations, by name, with their words.

    Each draws its random numbers by its place, so new ones come last.
    """
    half = f"{settings.share:g}"
    return {
        "weeks": ("times to the week", lambda s, _: coarser_times(s, 7)),
        "months": (f"times to {MONTH} days", lambda s, _: coarser_times(s, MONTH)),
        "years": (f"times to {_YEAR} days", lambda s, _: coarser_times(s, _YEAR)),
        "no-times": ("no times", lambda s, _: coarser_times(s, 0)),
        "noisy-times": (
            f"times moved by up to {2 * MONTH} days at random",
            lambda s, rng: noisy_times(s, 2 * MONTH, rng),
        ),
        "two-values": ("values low or high only", lambda s, _: two_values(s)),
        "no-rare-items": (
            f"no items that fewer than {settings.support} people have",
            lambda s, _: without_rare(s, settings.support),
        ),
        "some-facts": (
            f"each fact with chance {half}",
            lambda s, rng: some_facts(s, settings.share, rng),
        ),
        "some-people": (
            f"a share of {half} of the people",
            lambda s, rng: some_people(s, settings.share, rng),
        ),
        "together": (
            f"no times, values low or high, no rare items, each fact with chance {half}",
            partial(_together, settings=settings),
        ),
        "noisy-values": (
            "values moved at random by up to a fifth of their scale, kept on it",
            lambda s, rng: noisy_values(s, value_steps(s), rng),
        ),
        "no-popular-items": (
            f"without the most popular items, a share of {settings.popular:g}",
            lambda s, _: without_popular(s, settings.popular),
        ),
        "pseudonyms-month": (
            f"a new pseudonym for everybody every {MONTH} days",
            lambda s, rng: new_pseudonyms(s, MONTH, rng),
        ),
        "pseudonyms-year": (
            f"a new pseudonym for everybody every {_YEAR} days",
            lambda s, rng: new_pseudonyms(s, _YEAR, rng),
        ),
        f"pseudonyms-{settings.pseudonyms}": (
            f"each person's facts dealt at random to {settings.pseudonyms} pseudonyms",
            lambda s, rng: dealt_pseudonyms(s, settings.pseudonyms, rng),
        ),
    }


def _together(sheet: Sheet, rng: np.random.Generator, *, settings: RecordSettings) -> Coarsened:
    coarse = as_it_is(sheet) if sheet.value is None else two_values(sheet)
    made = coarse.sheet if sheet.time is None else coarser_times(coarse.sheet, 0).sheet
    drawn = some_facts(without_rare(made, settings.support).sheet, settings.share, rng)
    return Coarsened(drawn.sheet, drawn.out, drawn.share, 0, coarse.values)
