"""Who asked: from a file of names to rows of the audit, without telling anybody else's name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import as_text, missing, read_columns
from lethe.errors import InputError

_PERSON = ("person", "group")


@dataclass(frozen=True)
class Request:
    """One person who asked."""

    name: str  # as in the file
    rows: NDArray[np.intp]  # of the person's records, among those that can be members


@dataclass(frozen=True)
class Requests:
    """All who asked."""

    listed: tuple[Request, ...]  # one for each person, in the order of the file
    merged: int  # how many lines named a person who stood there already


def read_names(
    path: Path, id_column: str | None = None, group: str | None = None
) -> tuple[list[str], str]:
    """The names in a file of requests, and whether they name records or persons.

    Args:
        path: csv or parquet with one of the columns ``id``, ``person``, or those of the audit.
        id_column: the audit's column of record names, if any.
        group: the audit's column of persons, if any.

    Returns: The names, one a line of the file, and ``record``, ``person`` or ``either`` (``id``).
    Raises InputError: no such file or column, several of them, no line, or an empty cell.
    """
    columns = read_columns(path)
    kinds = {name: "person" for name in (*_PERSON, group) if name} | {"id": "either"}
    if id_column is not None and id_column != group:
        kinds.setdefault(id_column, "record")
    found = [name for name in kinds if name in columns]
    wanted = ", ".join(repr(name) for name in sorted(kinds))
    if len(found) != 1:
        what = "none" if not found else ", ".join(map(repr, found))
        raise InputError(f"{path} must have exactly one of the columns {wanted}, it has {what}.")
    column = columns[found[0]]
    if column.ndim != 1 or len(column) == 0:
        raise InputError(f"{path}: column {found[0]!r} must hold one name a line, at least one.")
    gaps = missing(column)
    if gaps.any():
        raise InputError(
            f"{path}: {found[0]!r} is empty in {int(gaps.sum())} lines, the first is "
            f"{_line(int(np.argmax(gaps)))}. Fill it or remove the line."
        )
    return as_text(column).tolist(), kinds[found[0]]


def find_people(
    names: list[str],
    kind: str,
    where: str | Path,
    ids: NDArray[Any],
    groups: NDArray[Any] | None,
    pool: NDArray[np.bool_],
) -> Requests:
    """The records behind each name; naming a record of a person asks for the person.

    Errors name lines of the requests only: similar names would give away who is in the audit.

    Args:
        kind: ``record``, ``person`` or ``either``.
        where: the file, for messages.
        ids: (N,) names of all records of the audit.
        groups: (N,) persons, or None when each record is its own.
        pool: (N,) True where a record can be a member; the others were held out.

    Raises InputError: a name is not in the audit, means a record and another person as well, or was
        held out of all training.
    """
    rows_of_record = {str(name): at for at, name in enumerate(ids)} if kind != "person" else {}
    rows_of_person: dict[str, NDArray[np.intp]] = {}
    person_of: NDArray[np.intp] | None = None
    whole: list[NDArray[np.intp]] = []
    if groups is not None:
        persons, person_of = np.unique(groups, return_inverse=True)
        order = np.argsort(person_of, kind="stable")
        whole = np.split(order, np.cumsum(np.bincount(person_of))[:-1])
        if kind != "record":
            rows_of_person = {str(p): rows for p, rows in zip(persons, whole, strict=True)}
    elif kind == "person":
        raise InputError(
            f"{where} names persons, but the audit knows records only: each record is its own "
            "person there. Name records in a column 'id', or audit again with --group."
        )
    place = np.cumsum(pool) - 1
    unknown, unclear, outside = [], [], []
    found: dict[int, Request] = {}
    for line, name in enumerate(names):
        rows, at = rows_of_person.get(name), rows_of_record.get(name)
        behind = None
        if at is not None:
            behind = np.array([at]) if person_of is None else whole[int(person_of[at])]
        if rows is None and behind is None:
            unknown.append(line)
            continue
        if rows is not None and behind is not None and rows[0] != behind[0]:
            unclear.append(line)
            continue
        taken = rows if rows is not None else behind
        assert taken is not None
        if not pool[taken].all():
            outside.append(line)
            continue
        found.setdefault(int(taken[0]), Request(name, place[taken].astype(np.intp)))
    for lines, words in (
        (unknown, "not in the audit. Remove them, and tell them that no record was found"),
        (unclear, "both a record's name and another person's. Name the column 'person'"),
        (outside, "held out of all training, so no model has anything to forget. Remove them"),
    ):
        if lines:
            raise InputError(f"{where}: {_lines(lines)} {words}.")
    return Requests(tuple(found.values()), len(names) - len(found))


def _line(at: int) -> str:
    """Lines as an editor counts them, the header being the first."""
    return f"line {at + 2}"


def _lines(at: list[int]) -> str:
    shown = ", ".join(str(one + 2) for one in at[:12])
    more = f" and {len(at) - 12} more" if len(at) > 12 else ""
    return f"line {shown} is" if len(at) == 1 else f"lines {shown}{more} are"
