"""Columns that cut the records into groups of people, to see who bears the risk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.columns import Columns, as_text, check_column, is_text, missing
from lethe.errors import InputError

FEW = 10
"""Numbers of at most so many values are taken as they are, others by quarters."""


def read_slices(
    where: str, columns: Columns, names: Sequence[str], chosen: NDArray[np.int64]
) -> dict[str, NDArray[np.str_]]:
    """The group of each record under each of some columns.

    Args:
        where: the file, for messages.
        columns: all of them.
        names: which to cut by; they may be features too.
        chosen: (records,) rows that are used.

    Returns:
        For each name (records,) text: the value; or for numbers of more than 10 values the
        quarter, named by its inner limits so that nobody's extreme is told.

    Raises:
        InputError: no such column, or it is not one value a record.
    """
    found = {}
    for name in names:
        check_column("slice", name, columns, where)
        column = columns[name][chosen]
        if column.ndim != 1:
            raise InputError(
                f"slice={name!r} has shape {column.shape}; it must hold one value for each record."
            )
        found[name] = _groups(column)
    return found


def _groups(column: NDArray[Any]) -> NDArray[np.str_]:
    gaps = missing(column)
    numbers = not is_text(column) and column.dtype.kind in "fiu"
    if not numbers or len(np.unique(column[~gaps])) <= FEW:
        text = as_text(column)
        return np.where(gaps, "missing", text).astype(np.str_)
    inner = np.unique(np.quantile(column[~gaps].astype(np.float64), [0.25, 0.5, 0.75]))
    limits = [f"{limit:.4g}" for limit in inner]
    names = [f"below {limits[0]}"]
    names += [f"{low} to {high}" for low, high in zip(limits[:-1], limits[1:], strict=True)]
    names.append(f"{limits[-1]} and more")
    values = np.where(gaps, 0.0, column.astype(np.float64))
    quarter = np.searchsorted(inner, values, side="right")
    return np.where(gaps, "missing", np.array(names)[quarter]).astype(np.str_)
