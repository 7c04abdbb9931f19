"""Ways to release sparse records: coarser times and values, fewer items, facts or people, noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import Codes
from lethe.errors import NotMeasurable, check_at_least, check_between
from lethe.linkage.records.facts import Facts, Float, Int, index_facts

MONTH = 28  # days; a year of 13 months is 364, so that each step is a whole number of the last


@dataclass(frozen=True, eq=False)
class Sheet:
    """Facts as columns, in any order.

    Attributes:
        person: (facts,) 0 to `people` - 1.
        item: (facts,) 0 to `items` - 1.
        value: (facts,) or None.
        time: (facts,) days, or None.
        people: as in the original, whoever is left.
        items: as in the original.
    """

    person: Codes
    item: Codes
    value: Float | None
    time: Int | None
    people: int
    items: int

    def take(self, facts: NDArray[np.bool_]) -> Sheet:
        """Some facts.

        Raises:
            NotMeasurable: none is left.
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
        )

    def index(self) -> Facts:
        """The facts as `index_facts` orders them."""
        return index_facts(
            self.person, self.item, self.value, self.time, people=self.people, items=self.items
        )


@dataclass(frozen=True, eq=False)
class Coarsened:
    """One release of sparse records.

    Attributes:
        sheet: what is released.
        out: (records,) which are not in it at all.
        share: of facts, or of people, that were drawn; users of the release know it.
        days: width of the released times; 0 = none are released.
        values: (values,) released value of each original one; None = as they are.
        owner: (records,) person behind each record; None = record i is person i.
    """

    sheet: Sheet
    out: NDArray[np.bool_]
    share: float = 1.0
    days: int = 1
    values: Float | None = None
    owner: Int | None = None

    @property
    def owners(self) -> Int:
        """(records,) person behind each record."""
        return np.arange(len(self.out)) if self.owner is None else self.owner


Change = Callable[[Sheet, np.random.Generator], Coarsened]


def as_it_is(sheet: Sheet) -> Coarsened:
    """Nothing changed."""
    return Coarsened(sheet, np.zeros(sheet.people, bool))


def coarser_times(sheet: Sheet, days: int) -> Coarsened:
    """Times known to `days` only, written as the middle of their span; 0 = no times.

    Raises:
        NotMeasurable: there are no times.
    """
    check_at_least("days", days, 0)
    if sheet.time is None:
        raise NotMeasurable("the release has no times.")
    first = int(sheet.time.min())
    time = None if days == 0 else first + (sheet.time - first) // days * days + days // 2
    made = Sheet(sheet.person, sheet.item, sheet.value, time, sheet.people, sheet.items)
    return Coarsened(made, np.zeros(sheet.people, bool), days=days)


def two_values(sheet: Sheet) -> Coarsened:
    """Values at most the median, and above it: each written as the mean of its side.

    Raises:
        NotMeasurable: there are no values, or they are all equal.
    """
    if sheet.value is None:
        raise NotMeasurable("the release has no values.")
    table, code = np.unique(sheet.value, return_inverse=True)
    high = table > np.median(sheet.value)
    if not high.any():  # half of the facts have the largest value
        high = table == table[-1]
    if high.all():
        raise NotMeasurable("all values are equal.")
    means = [float(sheet.value[high[code] == side].mean()) for side in (False, True)]
    written = np.where(high, means[1], means[0])
    made = Sheet(sheet.person, sheet.item, written[code], sheet.time, sheet.people, sheet.items)
    return Coarsened(made, np.zeros(sheet.people, bool), values=written)


def without_rare(sheet: Sheet, support: int) -> Coarsened:
    """Items that fewer than `support` people have are left out."""
    check_at_least("support", support, 1)
    held = np.bincount(sheet.item, minlength=sheet.items)
    return as_it_is(sheet.take(held[sheet.item] >= support))


def without_popular(sheet: Sheet, share: float) -> Coarsened:
    """The most popular items are left out: this share of all that somebody has, 1 at least.

    Of equally popular ones those with the lowest numbers go.

    Raises:
        NotMeasurable: no other item is left.
    """
    check_between("share", share, 0, 1, open_low=True, open_high=True)
    held = np.bincount(sheet.item, minlength=sheet.items)
    count = max(1, round(share * int((held > 0).sum())))
    top = np.zeros(sheet.items, bool)
    top[np.argsort(-held, kind="stable")[:count]] = True
    return as_it_is(sheet.take(~top[sheet.item]))


def some_facts(sheet: Sheet, share: float, rng: np.random.Generator) -> Coarsened:
    """Each fact is released with chance `share`."""
    check_between("share", share, 0, 1, open_low=True)
    kept = rng.random(len(sheet.item)) < share
    return Coarsened(sheet.take(kept), np.zeros(sheet.people, bool), share=share)


def some_people(sheet: Sheet, share: float, rng: np.random.Generator) -> Coarsened:
    """A share of the people is released, drawn at random; 2 at least."""
    check_between("share", share, 0, 1, open_low=True)
    count = max(2, round(share * sheet.people))
    out = np.ones(sheet.people, bool)
    out[rng.permutation(sheet.people)[:count]] = False
    return Coarsened(sheet.take(~out[sheet.person]), out, share=count / sheet.people)


def noisy_times(sheet: Sheet, days: int, rng: np.random.Generator) -> Coarsened:
    """Each time is moved by a whole number of days, drawn alike from -days to days.

    Raises:
        NotMeasurable: there are no times.
    """
    check_at_least("days", days, 1)
    if sheet.time is None:
        raise NotMeasurable("the release has no times.")
    moved = sheet.time + rng.integers(-days, days + 1, len(sheet.time))
    time = np.clip(moved, sheet.time.min(), sheet.time.max())
    made = Sheet(sheet.person, sheet.item, sheet.value, time, sheet.people, sheet.items)
    return Coarsened(made, np.zeros(sheet.people, bool))


def noisy_values(sheet: Sheet, steps: int, rng: np.random.Generator) -> Coarsened:
    """Each value is moved by up to `steps` places on the scale of the release, drawn alike.

    The scale is the different values, in order; who would leave it stays at its end, so that no
    released value tells that it was moved.

    Raises:
        NotMeasurable: there are no values, or they are all equal.
    """
    check_at_least("steps", steps, 1)
    if sheet.value is None:
        raise NotMeasurable("the release has no values.")
    table, place = np.unique(sheet.value, return_inverse=True)
    if len(table) < 2:
        raise NotMeasurable("all values are equal.")
    moved = place + rng.integers(-steps, steps + 1, len(place))
    value = table[np.clip(moved, 0, len(table) - 1)]
    made = Sheet(sheet.person, sheet.item, value, sheet.time, sheet.people, sheet.items)
    return as_it_is(made)


def value_steps(sheet: Sheet) -> int:
    """Places that `noisy_values` moves by: a fifth of the scale, 1 at least.

    >>> value_steps(Sheet(np.zeros(10, int), np.arange(10), np.arange(10.0), None, 1, 10))
    2
    """
    return 1 if sheet.value is None else max(1, len(np.unique(sheet.value)) // 5)
