"""Released facts (person, item, value, time), ordered by item: the index every linkage uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.data.columns import narrow
from lethe.data.records import Ratings

Float = NDArray[np.float64]
Int = NDArray[np.int64]
NOT_RELEASED = -1


@dataclass(frozen=True, eq=False)
class Index:
    """Facts sorted by item, then by person, who may have several about an item (visits).

    With up to 65,536 different values and times a fact takes 4 + 2 + 2 bytes at most.

    Attributes:
        people: N candidate records; persons are 0 to N - 1. Each is a candidate even without a
            fact.
        value: (facts,) place of the value in `values`; None where no values are released.
        time: (facts,) whole steps after `origin`; None where no times are released.
    """

    people: int
    items: int  # M; items are 0 to M - 1
    start: Int  # (M + 1,) facts of item i lie at start[i] to start[i + 1]
    person: NDArray[np.int32]  # (facts,) who
    value: NDArray[np.unsignedinteger[Any]] | None
    values: Float  # (V,) the different values, ascending
    time: NDArray[np.unsignedinteger[Any]] | None
    origin: int  # the first time

    @property
    def support(self) -> Int:
        """(M,) facts about each item; without repeats the people who have it: |supp(i)|."""
        return np.diff(self.start)

    @cached_property
    def lead(self) -> NDArray[np.bool_]:
        """(facts,) whether a fact is the first of its person about its item."""
        new: NDArray[np.bool_] = np.diff(self.person, prepend=-1) != 0
        new[self.start[:-1][self.support > 0]] = True
        return new

    @cached_property
    def repeats(self) -> bool:
        """Whether a person has several facts about an item."""
        return not self.lead.all()

    @cached_property
    def distinct(self) -> Index:
        """Return the first fact of each person about each item."""
        if not self.repeats:
            return self
        held = np.bincount(self.item[self.lead], minlength=self.items)
        return replace(
            self,
            start=np.concatenate([[0], np.cumsum(held)]),
            person=self.person[self.lead],
            value=None if self.value is None else self.value[self.lead],
            time=None if self.time is None else self.time[self.lead],
        )

    @property
    def item(self) -> Int:
        """(facts,) what; not stored."""
        return np.repeat(np.arange(self.items), self.support)

    @property
    def facts(self) -> int:
        return len(self.person)

    @cached_property
    def latest(self) -> int:
        """Largest time in steps after `origin`; 0 without times. Looked for once."""
        return 0 if self.time is None else int(self.time.max(initial=0))

    @cached_property
    def mass(self) -> Float:
        """(N,) share of all facts that are about items of each record."""
        weight = np.repeat(self.support, self.support) * self.lead
        return np.bincount(self.person, weight, self.people).clip(0, 0.99 * self.facts) / self.facts

    def lengths(self, countable: NDArray[np.bool_] | None = None) -> Int:
        """(N,) facts of each record, those about some items alone if (M,) `countable` says which.

        >>> index_facts([0, 1, 1], [1, 1, 0]).lengths().tolist()
        [1, 2]
        """
        who = self.person if countable is None else self.person[countable[self.item]]
        return np.bincount(who, minlength=self.people)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together."""
        held = (self.start, self.person, self.value, self.values, self.time)
        return sum(array.nbytes for array in held if array is not None)

    def values_at(self, places: NDArray[Any] | slice) -> Float | None:
        """Values of the facts at `places`."""
        return None if self.value is None else self.values[self.value[places]]

    def times_at(self, places: NDArray[Any] | slice) -> Int | None:
        """Times of the facts at `places`, in steps as they were given."""
        if self.time is None:
            return None
        steps: Int = self.time[places].astype(np.int64) + self.origin
        return steps


@dataclass(frozen=True, eq=False)
class Known:
    """What an adversary knows of each target; target q has the facts start[q] to start[q + 1].

    Attributes:
        time: (F,) in steps of the release; NaN = not known; None = no time is known.
    """

    start: Int  # (Q + 1,) ascending from 0
    item: Int  # (F,) item of the release; NOT_RELEASED (-1) where it has no such item
    value: Float | None = None  # (F,) NaN = not known; None = no value is known
    time: Float | None = None

    def __len__(self) -> int:
        return len(self.start) - 1

    def spans(self) -> list[Int]:
        """Places of the facts of each target."""
        return np.split(np.arange(len(self.item)), self.start[1:])[:-1]

    def of(self, targets: Int) -> Known:
        """Select the facts of some targets, in that order."""
        spans = self.spans()
        return self.take([spans[target] for target in targets])

    def take(self, spans: Sequence[Int]) -> Known:
        """Facts at some places, one array of them for each target."""
        held = np.concatenate([*spans, np.zeros(0, np.int64)]).astype(np.int64)
        return Known(
            np.concatenate([[0], np.cumsum([len(span) for span in spans])]).astype(np.int64),
            self.item[held],
            None if self.value is None else self.value[held],
            None if self.time is None else self.time[held],
        )


def index_facts(
    person: ArrayLike,
    item: ArrayLike,
    value: ArrayLike | None = None,
    time: ArrayLike | None = None,
    *,
    people: int | None = None,
    items: int | None = None,
) -> Index:
    """Order facts by item.

    Args:
        person: (facts,) whole numbers from 0.
        item: (facts,) whole numbers from 0.
        value: (facts,) such as a rating; finite.
        time: (facts,) in whole steps of any unit, days for instance.
        people: candidate records; by default the largest person and 1.
        items: by default the largest item and 1.

    >>> index_facts([0, 1, 1], [1, 1, 0]).support.tolist()
    [1, 2]
    """
    who, what = np.asarray(person), np.asarray(item)
    count = int(who.max()) + 1 if people is None else people
    kinds = int(what.max()) + 1 if items is None else items
    by_person = None if (who[1:] >= who[:-1]).all() else _radix(who, count, None)
    order = _radix(what, kinds, by_person)
    who, what = who[order].astype(np.int32), what[order]
    start = np.concatenate([[0], np.cumsum(np.bincount(what, minlength=kinds))])
    codes, table = (None, np.zeros(0)) if value is None else _coded(np.asarray(value))
    steps, origin = (None, 0) if time is None else _steps(np.asarray(time))
    return Index(
        count,
        kinds,
        start,
        who,
        None if codes is None else codes[order],
        table,
        None if steps is None else steps[order],
        origin,
    )


def index_of(ratings: Ratings) -> Index:
    """The facts of a file, which are sorted already."""
    return Index(
        len(ratings.people),
        len(ratings.items),
        ratings.start,
        ratings.person,
        ratings.value,
        ratings.values,
        ratings.time,
        ratings.origin,
    )


def facts_of(facts: Index, people: ArrayLike) -> Known:
    """Return all released facts of some different people, as known without any error."""
    chosen = np.asarray(people)
    place = np.full(facts.people, -1)
    place[chosen] = np.arange(len(chosen))
    rows = np.flatnonzero(place[facts.person] >= 0)
    owner = place[facts.person[rows]]
    at = rows[np.argsort(owner, kind="stable")]
    start = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(chosen)))])
    times = facts.times_at(at)
    item = np.searchsorted(facts.start, at, side="right") - 1
    return Known(
        start, item, facts.values_at(at), None if times is None else times.astype(np.float64)
    )


def without(facts: Index, people: ArrayLike) -> tuple[Index, Int]:
    """The release as if some people were not in it.

    Returns: The smaller release, whose items stay the same, and (kept,) the old number of each
        person.
    """
    kept = np.ones(facts.people, bool)
    kept[np.asarray(people)] = False
    new = np.cumsum(kept) - 1
    at = np.flatnonzero(kept[facts.person])
    smaller = index_facts(
        new[facts.person[at]],
        facts.item[at],
        facts.values_at(at),
        facts.times_at(at),
        people=int(kept.sum()),
        items=facts.items,
    )
    return smaller, np.flatnonzero(kept)


def _radix(keys: NDArray[Any], above: int, order: Int | None) -> Int:
    """Stable order by `keys`, in place of `order`: 16 bits at a time, which NumPy sorts fastest."""
    for shift in range(0, max(1, (above - 1).bit_length()), 16):
        digits = ((keys >> shift) & 0xFFFF).astype(np.uint16)
        if order is None:
            order = np.argsort(digits, kind="stable")
        else:
            order = order[np.argsort(digits[order], kind="stable")]
    assert order is not None
    return order


def _coded(array: NDArray[Any]) -> tuple[NDArray[np.unsignedinteger[Any]], Float]:
    if array.dtype.kind in "iu" and int(array.max()) - int(array.min()) < len(array) + 2**16:
        # Whole numbers that lie close together are counted, which is faster than a sort.
        low = int(array.min())
        there = np.bincount(array.astype(np.int64) - low) > 0
        table = np.flatnonzero(there) + low
        place = (np.cumsum(there) - 1).astype(narrow(len(table)))
        return place[array.astype(np.int64) - low], table.astype(np.float64)
    table, codes = np.unique(array, return_inverse=True)
    return codes.astype(narrow(len(table))), table.astype(np.float64)


def _steps(array: NDArray[Any]) -> tuple[NDArray[np.unsignedinteger[Any]], int]:
    origin = int(array.min())
    span = int(array.max()) - origin
    return (array.astype(np.int64) - origin).astype(narrow(span + 1)), origin
