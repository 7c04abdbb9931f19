"""Which few columns single people out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from lethe.data.columns import Codes
from lethe.errors import InputError, check_at_least
from lethe.evidence.estimate import Estimate
from lethe.linkage.codes import Int, classes_of, counted, whole_codes

LARGEST = 200_000  # subsets in one search


@dataclass(frozen=True)
class Subset:
    """Some columns together.

    Attributes:
        columns: their places, ascending.
        unique: share of rows that are alone with their joint value.
    """

    columns: tuple[int, ...]
    unique: Estimate


@dataclass(frozen=True, eq=False)
class Uniqueness:
    """How few columns single a row out.

    Attributes:
        by_size: by m, all subsets of m columns, the most identifying first; of equal ones the
            first columns.
        needed: (rows,) fewest columns that single the row out; 0 = `most` columns do not.
        singled_out: by m, share of rows that some subset of at most m columns singles out.
    """

    by_size: dict[int, list[Subset]]
    needed: Int
    singled_out: dict[int, Estimate]


def uniqueness(
    columns: Sequence[Codes],
    most: int = 3,
    *,
    confidence: float = 0.95,
    times: Int | None = None,
) -> Uniqueness:
    """Count unique rows for every subset of up to `most` columns.

    A row that is unique in some columns is unique in any more of them, so only the other rows are
    looked at again.

    Args:
        columns: codes (rows,) of each, see `encode`.
        most: largest m, at least 1; at most the number of columns is tried.
        confidence: named in the estimates; every figure is counted in all rows.
        times: (rows,) how many equal rows each row stands for; None = one each.

    Raises:
        InputError: no columns or rows, other lengths, or more than 200,000 subsets.

    >>> found = uniqueness([np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])], most=2)
    >>> found.by_size[1][0].unique.value, found.by_size[2][0].unique.value
    (0.0, 1.0)
    """
    check_at_least("most", most, 1)
    rows = classes_of(columns, times).rows  # refuses what is no table
    codes = [whole_codes(column) for column in columns]
    most = min(most, len(codes))
    count = sum(comb(len(codes), m) for m in range(1, most + 1))
    if count > LARGEST:
        raise InputError(
            f"{len(codes)} columns have {count} subsets of up to {most}; at most {LARGEST} are "
            "searched. Take fewer columns or a smaller most."
        )
    listed: dict[int, list[tuple[int, tuple[int, ...]]]] = {m: [] for m in range(1, most + 1)}
    needed = np.zeros(len(codes[0]), np.int64)
    everyone = np.arange(len(needed))
    start = np.zeros(len(needed), np.int64)
    for chosen, alone in _search(codes, times, (), everyone, start, everyone[:0], most):
        size = len(chosen)
        listed[size].append((len(alone), chosen))
        later = (needed[alone] == 0) | (needed[alone] > size)
        needed[alone[later]] = size
    return Uniqueness(
        {
            m: [
                Subset(chosen, counted(alone / rows, rows, confidence))
                for alone, chosen in sorted(found, key=lambda one: (-one[0], one[1]))
            ]
            for m, found in listed.items()
        },
        needed,
        {
            # A row that is singled out stands for itself alone.
            m: counted(int(((needed > 0) & (needed <= m)).sum()) / rows, rows, confidence)
            for m in range(1, most + 1)
        },
    )


def _search(
    codes: Sequence[Codes],
    times: Int | None,
    chosen: tuple[int, ...],
    rows: Int,
    of_row: Int,
    alone: Int,
    most: int,
) -> Iterator[tuple[tuple[int, ...], Int]]:
    """Each subset that begins with `chosen`, and the rows it singles out.

    `rows` are those that `chosen` does not single out, with their classes; `alone` the others.
    """
    for at in range(chosen[-1] + 1 if chosen else 0, len(codes)):
        more = (*chosen, at)
        if len(rows):
            weight = None if times is None else times[rows]
            found = classes_of([of_row, codes[at][rows]], weight)
            single = found.of_size == 1
            now, left, inside = np.append(alone, rows[single]), rows[~single], found.of_row[~single]
        else:
            now, left, inside = alone, rows, of_row
        yield more, now
        if len(more) < most:
            yield from _search(codes, times, more, left, inside, now, most)
