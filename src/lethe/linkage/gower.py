"""Nearest synthetic rows by Gower's distance, for rows of numbers and categories (Gower 1971)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.linkage.mixed import Mixed

_CELLS = 2**17  # distances held at once: two such tables stay in the processor's near memory


def nearest_rows(
    rows: Mixed, among: Mixed, columns: Sequence[int], k: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """(n, k) the nearest rows of `among` for each of `rows`, in no order.

    The distance is a sum over columns: of a category 0 or 1; of a number its difference over the
    range in `among`, at most 1; 0 when both are missing, 1 when one of them is. Rows at the same
    distance are drawn by chance for each row anew: a fixed choice, such as the first, would link
    any two halves of a coarse table.

    Args:
        rows: whose neighbours are sought.
        among: where they are sought.
        columns: places of the columns that count, at least one.
        k: neighbours, from 1 to the rows of `among`.
        rng: breaks ties.

    Raises:
        InputError: k out of range.
    """
    if not 1 <= k <= len(among):
        raise InputError(f"k={k} must be in 1..{len(among)}, the rows to choose from.")
    ready = [_ready(rows, among, at) for at in columns]
    found = np.empty((len(rows), k), np.int64)
    step = max(1, _CELLS // len(among))
    tables = np.empty((2, min(step, len(rows)), len(among)), np.float32)
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        table, gap = tables[:, : len(found[part])]
        table[:] = 0
        for mine, theirs in ready:
            table += _apart(mine[part], theirs, gap)
        for at, distance in enumerate(table, first):
            found[at] = _least(distance, k, rng)
    return found


def _least(distance: NDArray[np.float32], k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    if k == 1:
        sure, tied = np.zeros(0, np.int64), np.flatnonzero(distance == distance.min())
    else:
        last = np.partition(distance, k - 1)[k - 1]
        sure, tied = np.flatnonzero(distance < last), np.flatnonzero(distance == last)
    if len(sure) + len(tied) > k:
        tied = rng.choice(tied, k - len(sure), replace=False)
    return np.concatenate([sure, tied])


def _ready(rows: Mixed, among: Mixed, at: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    mine, theirs = rows.columns[at], among.columns[at]
    if not among.is_number(at):
        # Codes far apart count as 1, as everything at least 1 apart does.
        return mine.astype(np.float32), theirs.astype(np.float32)
    there = theirs[~np.isnan(theirs)]
    low, width = (there.min(), there.max() - there.min()) if len(there) else (0.0, 0.0)
    scale = width if width > 0 else np.finfo(np.float64).tiny ** 0.5  # any difference is 1
    with np.errstate(over="ignore"):
        left, right = (mine - low) / scale, (theirs - low) / scale
        return left.astype(np.float32), right.astype(np.float32)


def _apart(
    mine: NDArray[np.float32], theirs: NDArray[np.float32], gap: NDArray[np.float32]
) -> NDArray[np.float32]:
    """(n, m) distances in one column, in the place of `gap`."""
    with np.errstate(invalid="ignore"):
        np.subtract(mine[:, None], theirs, out=gap)
    np.abs(gap, out=gap)
    np.minimum(gap, np.float32(1), out=gap)
    gone, missing = np.isnan(mine), np.isnan(theirs)
    if gone.any() or missing.any():
        gap[np.isnan(gap)] = 1
        gap[np.ix_(gone, missing)] = 0
    return gap
