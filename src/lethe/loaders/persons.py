"""Whose record is it? The column that names people, and random subsets of whole people."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.columns import Columns, as_text, check_column, missing
from lethe.errors import InputError


def read_groups(where: str, columns: Columns, group: str, used: dict[str, str]) -> NDArray[np.str_]:
    """(records,) the person of each record, as text.

    Args:
        where: the file, for messages.
        columns: all of them.
        group: name of the column of persons.
        used: what other columns are taken for: name of the column to name of the option.

    Raises:
        InputError: no such column, it has another task already, or a person is missing.
    """
    if group in used:
        raise InputError(f"group={group!r} is also the {used[group]}. Choose another column.")
    check_column("group", group, columns, where)
    column = columns[group]
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InputError(
            f"{where}: group {group!r} has shape {column.shape}, it must hold one person for "
            "each record."
        )
    gaps = missing(column)
    if gaps.any():
        raise InputError(
            f"group {group!r} is missing in {gaps.sum()} of {len(column)} records, the first at "
            f"row {int(np.argmax(gaps))}: it cannot be said which records stay together. Name "
            "these persons (each its own name, if they are strangers), or remove the records."
        )
    return as_text(column)


def group_note(group: str, groups: NDArray[Any]) -> str:
    """What a reader should know about the persons.

    >>> group_note("user", np.array(["a", "b", "a"]))
    "2 persons by column 'user', 1 to 2 records each; models train on whole persons."
    """
    _, counts = np.unique(groups, return_counts=True)
    if counts.max() == 1:
        return f"Column {group!r} names a person for each record: every person has one record."
    return (
        f"{len(counts)} persons by column {group!r}, {counts.min()} to {counts.max()} records "
        "each; models train on whole persons."
    )


IDENTICAL = "identical-records"
"""Name of the groups that are made of copies, where no column has it."""


def identical_records(features: NDArray[np.floating], labels: NDArray[Any]) -> NDArray[np.intp]:
    """(N,) for each record the first with the same features and label.

    >>> identical_records(np.array([[1.0], [2.0], [1.0], [1.0]]), np.array([0, 0, 0, 1])).tolist()
    [0, 1, 0, 3]
    """
    first: dict[bytes, int] = {}
    found = np.empty(len(labels), np.intp)
    for row, (inputs, label) in enumerate(zip(features, labels, strict=True)):
        content = hashlib.blake2b(np.ascontiguousarray(inputs).tobytes(), digest_size=16)
        content.update(label.tobytes())
        found[row] = first.setdefault(content.digest(), row)
    return found


def copies_note(
    features: NDArray[np.floating], labels: NDArray[Any], groups: NDArray[Any] | None = None
) -> str | None:
    """What is said about records that stand several times; None where there are none.

    Copies within one person are no surprise: they are trained on together.
    """
    first = identical_records(features, labels)
    copies = first != np.arange(len(first))
    if groups is not None:
        copies &= groups != groups[first]
    count = int(copies.sum())
    if not count:
        return None
    several = len(np.unique(first[copies]))
    return (
        f"{count} of {len(first)} records are exact copies of another ({several} distinct records "
        "stand more than once). A model can train on one copy while the other counts as unseen, "
        f"which hides what leaks: --group {IDENTICAL} keeps copies together and counts them once."
    )


def choose_persons(groups: NDArray[Any], rows: int, seed: int) -> NDArray[np.int64]:
    """Positions, in file order, of the records of random persons: at most `rows` of them.

    Persons come in random order and each is taken if its records still fit.

    Raises:
        InputError: nobody fits.
    """
    _, person_of, counts = np.unique(groups, return_inverse=True, return_counts=True)
    taken = np.zeros(len(counts), dtype=bool)
    room = rows
    for person in np.random.default_rng(seed).permutation(len(counts)):
        if counts[person] <= room:
            taken[person] = True
            room -= int(counts[person])
    if not taken.any():
        raise InputError(
            f"rows={rows} is less than the {counts.min()} records of the smallest person. Ask more."
        )
    return np.flatnonzero(taken[person_of])
