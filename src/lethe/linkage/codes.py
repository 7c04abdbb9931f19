"""Rows as classes of equal codes: what every check of a table counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.data.columns import Codes
from lethe.evidence.estimate import Estimate

Int = NDArray[np.int64]
Float = NDArray[np.float64]
_DENSE = 4  # a table of counts may have this many cells a row before rows are sorted instead


@dataclass(frozen=True, eq=False)
class Persons:
    """Rows of which several can be one person's: they count as one person together."""

    of_row: Int  # (rows,) person of each row
    part: Float  # (rows,) share of the person that the row counts for; a person's rows sum to 1

    def __getitem__(self, rows: NDArray[Any]) -> Persons:
        return Persons(self.of_row[rows], self.part[rows])


def persons_of(codes: Codes, times: Int | None = None) -> Persons:
    """Persons from the code of each row, or of each group of equal rows.

    >>> persons_of(np.array([0, 0, 1])).part.tolist()
    [0.5, 0.5, 1.0]
    """
    person = whole_codes(codes).astype(np.int64)
    held = np.ones(len(person)) if times is None else times.astype(np.float64)
    return Persons(person, held / np.bincount(person, held)[person])


Counting = Int | Float | Persons | None
"""What each row counts for: one person (None), several equal rows, a part of one, or `Persons`."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Rows that agree in all columns at once.

    Of persons with several rows, also all rows of the persons agree: a class holds rows of persons
    who have the same set of values, so that knowing a person's rows tells no two of them apart.
    """

    of_row: Int  # (rows,) class of each row, 0 to C - 1
    size: Int  # (C,) persons in each class, at least 1; equal rows that were grouped count each
    weight: Int | Float | None = None  # (rows,) what each row counts for; None = 1 each
    spread: Float | None = None  # (C,) persons, each spread over their rows; None = `size`
    person: Int | None = None  # (rows,) whose each row is; None = each is another person's
    profile: Int | None = None  # (rows,) the set of values of that person; None likewise

    @property
    def mass(self) -> Int | Float:
        """(C,) what the rows of each class count for; sums to the number of persons."""
        return self.size if self.spread is None else self.spread

    @property
    def of_size(self) -> Int:
        """(rows,) size of each row's class."""
        return self.size[self.of_row]

    @cached_property
    def people(self) -> int:
        """Persons of the table; rows where each is one."""
        return round(float(self.mass.sum()))

    @cached_property
    def distinct(self) -> int:
        """Sets of values that persons have: what a linkage of everybody gets right, expected."""
        return round(float((self.mass / self.size).sum()))

    @property
    def sizes(self) -> Int:
        """(distinct,) persons who have each set of values; `size` where each has one row."""
        if self.spread is None:
            return self.size
        people = np.rint(np.bincount(self.size, self.spread)).astype(np.int64)
        number = people // np.maximum(np.arange(len(people)), 1)
        return np.repeat(np.arange(len(people)), number)

    def smaller(self, k: int) -> int:
        """Persons in classes of fewer than k."""
        return round(float(self.mass[self.size < k].sum()))


def classes_of(columns: Sequence[Codes], times: Counting = None) -> Classes:
    """Group rows by the JOINT value of some columns; no column at all is one class.

    Args:
        columns: codes (rows,) of each, whole numbers from 0.
        times: what each row counts for.

    >>> classes_of([np.array([0, 0, 1, 1]), np.array([0, 0, 0, 5])]).size.tolist()
    [2, 1, 1]
    """
    rows = len(columns[0])
    joint, levels = np.zeros(rows, np.int64), 1
    for column in columns:
        codes = whole_codes(column)
        width = int(codes.max()) + 1
        if levels * width > max(_DENSE * rows, 2**20) and levels > 1:
            # Joint codes stay small, so they never overflow and are counted without a sort.
            joint, levels = _packed(joint, levels)
        joint = joint * width
        joint += codes
        levels *= width
    joint, levels = _packed(joint, levels)
    if isinstance(times, Persons):
        return _of_persons(joint, levels, times)
    return Classes(joint, count(joint, levels, times), times)


def _of_persons(joint: Int, levels: int, persons: Persons) -> Classes:
    """Classes of rows whose persons have the same set of joint values."""
    pairs = np.unique(persons.of_row * levels + joint)  # of a person and a value, by person
    owner, value = pairs // levels, pairs % levels
    start = np.flatnonzero(np.diff(owner, prepend=-1))
    if len(start) == len(pairs):
        profile = value
    else:  # sets are compared as they are: a hash could make two of them one
        seen: dict[bytes, int] = {}
        ends = [*start[1:].tolist(), len(pairs)]
        spans = zip(start.tolist(), ends, strict=True)
        sets = (value[begin:end].tobytes() for begin, end in spans)
        profile = np.array([seen.setdefault(cells, len(seen)) for cells in sets], dtype=np.int64)
    of_person = np.zeros(int(owner[-1]) + 1, np.int64)
    of_person[owner[start]] = profile
    of_row = of_person[persons.of_row]
    finer = classes_of([of_row, joint]).of_row
    classes = int(finer.max()) + 1
    size = np.empty(classes, np.int64)
    size[finer] = np.bincount(profile)[of_row]
    spread: Float = np.bincount(finer, persons.part, minlength=classes).astype(np.float64)
    return Classes(finer, size, persons.part, spread, persons.of_row, of_row)


def count(codes: Codes, levels: int, times: NDArray[Any] | None = None) -> NDArray[Any]:
    """(levels,) rows that have each code.

    >>> count(np.array([0, 2]), 3, np.array([5, 1])).tolist()
    [5, 0, 1]
    """
    if times is None:
        return np.bincount(codes, minlength=levels)
    # Sums of whole numbers are exact in float64 up to 2^53 rows.
    return np.bincount(codes, times, minlength=levels).astype(times.dtype)


def nearest(present: NDArray[Any], wanted: NDArray[Any]) -> Int:
    """Place of the nearest of some ascending numbers for each wanted one; the lower of a tie.

    >>> nearest(np.array([2, 9]), np.array([0, 5, 6, 12])).tolist()
    [0, 0, 1, 1]
    """
    right = np.clip(np.searchsorted(present, wanted), 0, len(present) - 1)
    left = np.maximum(right - 1, 0)
    closer = np.abs(wanted - present[left]) <= np.abs(present[right] - wanted)
    return np.where(closer, left, right)


def whole_codes(column: ArrayLike) -> Codes:
    """The column as codes: narrow ones as they are, others as int64."""
    codes = np.asarray(column)
    narrow = codes.dtype.kind == "u" and codes.dtype.itemsize < 8
    return codes if narrow else codes.astype(np.int64, copy=False)


def as_numbers(column: NDArray[Any]) -> Float:
    """Numbers as float64; dates and times as seconds since 1970, NaN where they are missing."""
    if column.dtype.kind != "M":
        return column.astype(np.float64)
    seconds = column.astype("datetime64[s]")
    return np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64).astype(np.float64))


def counted(value: float, rows: int, confidence: float = 0.95) -> Estimate:
    """A share of the rows at hand: nothing is sampled, so the limits are the value itself."""
    return Estimate(value, value, value, confidence, "counted exactly, in all released rows", rows)


def _packed(joint: Int, levels: int) -> tuple[Int, int]:
    """Renumber the classes without gaps in the order of their codes."""
    if levels <= max(_DENSE * len(joint), 2**20):
        there = np.zeros(levels, bool)
        there[joint] = True
        new = np.cumsum(there, dtype=np.int64 if levels >= 2**31 else np.int32) - 1
        return new[joint].astype(np.int64, copy=False), int(new[-1]) + 1
    table, packed = np.unique(joint, return_inverse=True)
    return packed.astype(np.int64, copy=False), len(table)
