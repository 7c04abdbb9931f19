"""Sparse records (ratings, purchases, clicks): who, what, perhaps how much, perhaps when."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.columns import Columns, as_text, check_column, missing
from lethe.errors import InputError, check_choice
from lethe.loaders.days import UNITS, whole_days
from lethe.loaders.rows import read_rows

KEEP = ("first", "last")


@dataclass(frozen=True, eq=False)
class Ratings:
    """One fact a person and item.

    Attributes:
        name: of the file.
        person: (facts,) place in `people`.
        item: (facts,) place in `items`.
        value: (facts,) finite; None where no values are released.
        time: (facts,) whole days since 1970-01-01, UTC; None where no times are released.
        people: names of the people, ascending.
        items: names of the items, ascending.
        notes: what was changed on reading.
    """

    name: str
    person: NDArray[np.int64]
    item: NDArray[np.int64]
    value: NDArray[np.float64] | None
    time: NDArray[np.int64] | None
    people: NDArray[np.str_]
    items: NDArray[np.str_]
    notes: tuple[str, ...] = ()

    @property
    def facts(self) -> int:
        """How many there are."""
        return len(self.person)


def load_ratings(
    path: str | Path,
    person: str = "person",
    item: str = "item",
    value: str | None = None,
    time: str | None = None,
    *,
    unit: str = "auto",
    keep: str = "first",
    table: str | None = None,
) -> Ratings:
    """Read facts.

    Args:
        path: .csv, .parquet or DuckDB file with one fact a row; or .npz of a SciPy sparse matrix
            (people, items) whose entries are values, without times.
        person: column of the people.
        item: column of the items.
        value: column of numbers, such as ratings; None = there is none.
        time: column of dates, ISO texts or numbers; None = there is none.
        unit: of times that are numbers, see `UNITS`; "auto" tells by their size and says so.
        keep: of several facts of a person about an item the "first" or "last" one in time (in
            the file, without times) is kept, and a note says how many were not.
        table: in a DuckDB file.

    Raises:
        InputError: file, columns, values or times that cannot be read; or no fact is left.
        MissingExtra: .parquet or DuckDB without the extra "tables".
    """
    path = Path(path)
    check_choice("unit", unit, UNITS)
    check_choice("keep", keep, KEEP)
    if path.suffix.lower() == ".npz" and (matrix := _sparse(path)) is not None:
        return matrix
    wanted = {"person": person, "item": item, "value": value, "time": time}
    named = {option: name for option, name in wanted.items() if name is not None}
    if len(set(named.values())) < len(named):
        raise InputError(f"{path}: one column is named for two things: {named}. Name each once.")
    columns = read_rows(path, list(named.values()), table)
    for option, name in named.items():
        check_column(option, name, columns, path)
    return from_columns(
        {option: columns[name] for option, name in named.items()},
        name=path.stem,
        unit=unit,
        keep=keep,
    )


def from_columns(
    columns: Columns, *, name: str = "ratings", unit: str = "auto", keep: str = "first"
) -> Ratings:
    """Facts from arrays in memory.

    Args:
        columns: "person" and "item", perhaps "value" and "time", (facts,) each.
        name: of the release.
        unit: see `load_ratings`.
        keep: see `load_ratings`.

    Raises:
        InputError: see `load_ratings`.

    >>> from_columns({"person": np.array([7, 7]), "item": np.array([1, 1])}).notes
    ('1 facts repeat person and item; of each the first was kept.',)
    """
    lengths = {option: len(column) for option, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise InputError(f"{name}: columns have different lengths: {lengths}.")
    gaps = np.zeros(next(iter(lengths.values())), bool)
    notes: list[str] = []
    for option, column in columns.items():
        gone = missing(column) & ~gaps
        if gone.any():
            notes.append(f"{int(gone.sum())} facts without {option} were left out.")
            gaps |= gone
    kept = np.flatnonzero(~gaps)
    if not len(kept):
        raise InputError(f"{name}: no fact has all of {', '.join(columns)}. Name fewer columns.")
    columns = {option: column[kept] for option, column in columns.items()}
    value = None if "value" not in columns else finite_numbers(name, columns["value"])
    time = None
    if "time" in columns:
        time, said = whole_days(columns["time"], name, unit)
        notes += said
    people, person = np.unique(as_text(columns["person"]), return_inverse=True)
    items, item = np.unique(as_text(columns["item"]), return_inverse=True)
    chosen = _one_each(person, item, time, len(items), keep)
    if len(chosen) < len(person):
        twice = len(person) - len(chosen)
        notes.append(f"{twice} facts repeat person and item; of each the {keep} was kept.")
    return Ratings(
        name,
        person[chosen],
        item[chosen],
        None if value is None else value[chosen],
        None if time is None else time[chosen],
        people,
        items,
        tuple(notes),
    )


def _one_each(
    person: NDArray[Any], item: NDArray[Any], time: NDArray[Any] | None, items: int, keep: str
) -> NDArray[np.int64]:
    """Rows that are kept, in the order of the file."""
    joint = person.astype(np.int64) * items + item
    place = np.arange(len(joint)) if keep == "first" else -np.arange(len(joint))
    keys = [place, joint]
    if time is not None:
        keys.insert(1, time if keep == "first" else -time)
    order = np.lexsort(keys)
    new = np.append(True, np.diff(joint[order]) != 0)
    return np.sort(order[new])


def finite_numbers(name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """Values as float64.

    Raises:
        InputError: text or dates, or an infinite number.
    """
    if column.dtype.kind not in "biuf":
        raise InputError(
            f"{name}: values have the type {column.dtype}, for example {column[0]!r}. Name a "
            "column of numbers, or none."
        )
    value = column.astype(np.float64)
    if np.isinf(value).any():
        raise InputError(f"{name}: a value is infinite. Leave such facts out.")
    return value


def _sparse(path: Path) -> Ratings | None:
    """A matrix of `scipy.sparse.save_npz`; None where the archive is something else."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not {"format", "shape", "data"} <= set(archive.files):
                return None
        from scipy.sparse import coo_matrix, load_npz

        matrix = coo_matrix(load_npz(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a readable sparse matrix: {error}.") from error
    matrix.sum_duplicates()
    if not matrix.nnz:
        raise InputError(f"{path}: the matrix has no entries.")
    names = [np.arange(size).astype(np.str_) for size in matrix.shape]
    return Ratings(
        path.stem,
        matrix.row.astype(np.int64),
        matrix.col.astype(np.int64),
        finite_numbers(path.stem, matrix.data),
        None,
        names[0],
        names[1],
    )
