"""Ways to release sparse records: coarser times and values, fewer items, facts or people, noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import Codes
from lethe.errors import NotMeasurable
from lethe.linkage.records.facts import Float, Index, Int, index_facts
from lethe.linkage.settings import RecordSettings

MONTH = 28  # days; a year of 13 months is 364, so that each step is a whole number of the last


@dataclass(frozen=True, eq=False)
class Sheet:
    """Facts as columns, in any order."""

    person: Codes  # (facts,) 0 to `people` - 1
    item: Codes  # (facts,) 0 to `items` - 1
    value: Float | None  # (facts,) or None
    time: Int | None  # (facts,) days, or None
    people: int  # as in the original, those who are left
    items: int  # as in the original
    rows: Int | None = None  # (facts,) place of each fact in the original; None = all, in order

    def take(self, facts: NDArray[np.bool_]) -> Sheet:
        """Some facts.

        Raises NotMeasurable: none is left.
        """
        if not facts.any():
            raise NotMeasurable("no fact is left.")
        return Sheet(
            self.person[facts],
            self.item[facts],
            None if self.value is None else self.value[facts],
            None if self.time is None else self.time[facts],
            self.people,
            self.items,
            np.flatnonzero(facts) if self.rows is None else self.rows[facts],
        )

    def column(self, name: str) -> NDArray[Any]:
        """Values or times.

        Raises NotMeasurable: the release has none.
        """
        column: NDArray[Any] | None = getattr(self, name)
        if column is None:
            raise NotMeasurable(f"the release has no {name}s.")
        return column

    def index(self) -> Index:
        """The facts as `index_facts` orders them."""
        return index_facts(
            self.person, self.item, self.value, self.time, people=self.people, items=self.items
        )


@dataclass(frozen=True, eq=False)
class Coarsened:
    """One release of sparse records."""

    sheet: Sheet  # what is released
    out: NDArray[np.bool_]  # (records,) which are not in it at all
    share: float = 1.0  # of facts, or of people, that were drawn; users of the release know it
    days: int = 1  # width of the released times; 0 = none are released
    values: Float | None = None  # (values,) released value of each original one; None = as they are
    owner: Int | None = None  # (records,) person behind each record; None = record i is person i

    @property
    def owners(self) -> Int:
        """(records,) person behind each record."""
        return np.arange(len(self.out)) if self.owner is None else self.owner


Change = Callable[[Sheet, np.random.Generator], Coarsened]


def as_it_is(sheet: Sheet) -> Coarsened:
    """Change nothing."""
    return Coarsened(sheet, np.zeros(sheet.people, bool))


def coarser_times(sheet: Sheet, days: int) -> Coarsened:
    """Times known to `days` only, written as the middle of their span; 0 = no times.

    Raises NotMeasurable: there are no times.
    """
    times = sheet.column("time")
    first = int(times.min())
    time = None if days == 0 else first + (times - first) // days * days + days // 2
    return replace(as_it_is(replace(sheet, time=time)), days=days)


def two_values(sheet: Sheet) -> Coarsened:
    """Values at most the median, and above it: each written as the mean of its side.

    Raises NotMeasurable: there are no values, or they are all equal.
    """
    table, code = np.unique(sheet.column("value"), return_inverse=True)
    high = table > np.median(table[code])
    if not high.any():  # half of the facts have the largest value
        high = table == table[-1]
    if high.all():
        raise NotMeasurable("all values are equal.")
    means = [float(table[code][high[code] == side].mean()) for side in (False, True)]
    written = np.where(high, means[1], means[0])
    return replace(as_it_is(replace(sheet, value=written[code])), values=written)


def without_rare(sheet: Sheet, support: int) -> Coarsened:
    """Items that fewer than `support` people have are left out."""
    return as_it_is(sheet.take(holders(sheet)[sheet.item] >= support))


def holders(sheet: Sheet) -> Int:
    """(items,) people who have each item."""
    pairs = np.unique(sheet.person.astype(np.int64) * sheet.items + sheet.item)
    return np.bincount(pairs % sheet.items, minlength=sheet.items)


def without_popular(sheet: Sheet, share: float) -> Coarsened:
    """The most popular items are left out: this share of all that a person has, 1 at least.

    Of equally popular ones those with the lowest numbers go.

    Raises NotMeasurable: no other item is left.
    """
    held = holders(sheet)
    count = max(1, round(share * int((held > 0).sum())))
    top = np.zeros(sheet.items, bool)
    top[np.argsort(-held, kind="stable")[:count]] = True
    return as_it_is(sheet.take(~top[sheet.item]))


def some_facts(sheet: Sheet, share: float, rng: np.random.Generator) -> Coarsened:
    """Release each fact with chance `share`."""
    kept = rng.random(len(sheet.item)) < share
    return replace(as_it_is(sheet.take(kept)), share=share)


def some_people(sheet: Sheet, share: float, rng: np.random.Generator) -> Coarsened:
    """A share of the people is released, drawn at random; 2 at least."""
    count = max(2, round(share * sheet.people))
    out = np.ones(sheet.people, bool)
    out[rng.permutation(sheet.people)[:count]] = False
    return Coarsened(sheet.take(~out[sheet.person]), out, share=count / sheet.people)


def noisy_times(sheet: Sheet, days: int, rng: np.random.Generator) -> Coarsened:
    """Move each time by a whole number of days, uniform from -days to days.

    Raises NotMeasurable: there are no times.
    """
    times = sheet.column("time")
    moved = times + rng.integers(-days, days + 1, len(times))
    return as_it_is(replace(sheet, time=np.clip(moved, times.min(), times.max())))


def noisy_values(sheet: Sheet, steps: int, rng: np.random.Generator) -> Coarsened:
    """Move each value by up to `steps` steps of the release's scale, uniformly.

    The scale is the different values, in order; who would leave it stays at its end.

    Raises NotMeasurable: there are no values, or they are all equal.
    """
    table, place = np.unique(sheet.column("value"), return_inverse=True)
    if len(table) < 2:
        raise NotMeasurable("all values are equal.")
    moved = place + rng.integers(-steps, steps + 1, len(place))
    return as_it_is(replace(sheet, value=table[np.clip(moved, 0, len(table) - 1)]))


def value_steps(sheet: Sheet) -> int:
    """Places that `noisy_values` moves by: a fifth of the scale, 1 at least.

    >>> value_steps(Sheet(np.zeros(10, int), np.arange(10), np.arange(10.0), None, 1, 10))
    2
    """
    return 1 if sheet.value is None else max(1, len(np.unique(sheet.value)) // 5)


# Pseudonyms that change: a person's facts are split over several records.
#
# Nobody is told which records belong together, so a record that is named gives away a part of the
# person's facts only. Counts over all records stay what they were; what follows one person over
# time is lost.


def new_pseudonyms(sheet: Sheet, days: int, rng: np.random.Generator) -> Coarsened:
    """A new pseudonym for everybody every `days` days, counted from the first time.

    Raises NotMeasurable: there are no times, or they are all within one period.
    """
    times = sheet.column("time")
    period = (times - int(times.min())) // days
    if not period.any():
        raise NotMeasurable(f"all times are within {days} days, so no pseudonym would change.")
    return _split(sheet, period, rng)


def dealt_pseudonyms(sheet: Sheet, count: int, rng: np.random.Generator) -> Coarsened:
    """Assign each fact to one of `count` pseudonyms of its person, uniformly."""
    return _split(sheet, rng.integers(0, count, len(sheet.item)), rng)


def _split(sheet: Sheet, part: Int, rng: np.random.Generator) -> Coarsened:
    """One record for each person and part that holds a fact, numbered at random."""
    parts = int(part.max()) + 1
    held, place = np.unique(sheet.person * parts + part, return_inverse=True)
    new = rng.permutation(len(held))
    owner = np.empty(len(held), np.int64)
    owner[new] = held // parts
    pieces = replace(sheet, person=new[place], people=len(held))
    return Coarsened(pieces, np.zeros(len(held), bool), owner=owner)


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
            f"a share of {half} of the people is released, as exposed as before; others not at all",
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
    joined_sheet = coarse.sheet if sheet.time is None else coarser_times(coarse.sheet, 0).sheet
    drawn = some_facts(without_rare(joined_sheet, settings.support).sheet, settings.share, rng)
    return Coarsened(drawn.sheet, drawn.out, drawn.share, 0, coarse.values)
