"""The 27 numbers that sum up what a person has read, for many people at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from readers.history import Float, Histories, Index

_LAST = 5
_FEW = 10  # below that many items P10 and P90 are the extremes
_STEADY = 1e-12  # a spread below it, relative to the values, is rounding

AGGREGATES: tuple[str, ...] = (
    *(f"read {name}" for name in ("mean", "sd", "median", "p10", "p90")),
    *(f"scroll {name}" for name in ("mean", "sd", "median", "p10", "p90")),
    *(f"read {at} from last" for at in (4, 3, 2, 1, 0)),
    *(f"scroll {at} from last" for at in (4, 3, 2, 1, 0)),
    "history length",
    "share engaged",
    "share scroll > 80",
    "share read > 60",
    "read momentum",
    "scroll momentum",
    "read-scroll correlation",
)
"""Names of the columns of `aggregates`, in order."""


def aggregates(past: Histories) -> NDArray[np.float32]:
    """The aggregate features of each person, from the whole history, not standardised.

    Mean, sd (of the population), median, P10 and P90 (linear between items; the least and the
    greatest below ten items) of read time and of scroll depth; the last five of either, oldest
    first, 0 in front where there are fewer; number of items; shares of items with read > 30 s and
    scroll > 50 %, scroll > 80 %, read > 60 s; momentum (mean of the last five over mean of all, in
    [0.1, 10], 1 where that mean is 0); Pearson's correlation of read and scroll, 0 where one of
    them never changes.

    Args:
        past: people with at least one item each.

    Returns:
        (users, 27), columns as in `AGGREGATES`.
    """
    columns: list[Float] = []
    owner, count = past.owner, past.lengths.astype(np.float64)
    for values in (past.read, past.scroll):
        columns += _spread(values, past, owner, count)
    for values in (past.read, past.scroll):
        columns += list(_last_items(values, past).T)
    engaged = (past.read > 30) & (past.scroll > 50)
    columns.append(count)
    for share in (engaged, past.scroll > 80, past.read > 60):
        columns.append(_sum(share.astype(np.float64), owner, len(past)) / count)
    columns += [_momentum(values, past, owner, count) for values in (past.read, past.scroll)]
    columns.append(_correlation(past, owner, count))
    return np.stack(columns, axis=1).astype(np.float32)


def _sum(values: Float, owner: Index, users: int) -> Float:
    return np.asarray(np.bincount(owner, values, minlength=users), np.float64)


def _deviations(values: Float, owner: Index, count: Float) -> tuple[Float, Float, Float]:
    """Mean and sd of each person, and each item less its person's mean."""
    mean = _sum(values, owner, len(count)) / count
    off = values - mean[owner]
    sd = np.sqrt(_sum(off * off, owner, len(count)) / count)
    largest = np.abs(mean) + sd
    return mean, np.where(sd <= _STEADY * largest, 0.0, sd), off


def _spread(values: Float, past: Histories, owner: Index, count: Float) -> list[Float]:
    mean, sd, _ = _deviations(values, owner, count)
    ordered = values[np.lexsort((values, owner))]
    first, last = past.starts[:-1], past.starts[1:] - 1

    def quantile(q: float) -> Float:
        place = q * (count - 1)
        below = np.floor(place).astype(np.int64)
        low = ordered[first + below]
        high = ordered[np.minimum(first + below + 1, last)]
        return np.asarray(low + (place - below) * (high - low), dtype=np.float64)

    few = count < _FEW
    p10 = np.where(few, ordered[first], quantile(0.1))
    p90 = np.where(few, ordered[last], quantile(0.9))
    return [mean, sd, quantile(0.5), p10, p90]


def _last_items(values: Float, past: Histories) -> Float:
    """(users, 5) the last items, oldest first, 0 in front where there are fewer."""
    place = past.starts[1:, None] - np.arange(_LAST, 0, -1)
    there = place >= past.starts[:-1, None]
    return np.where(there, values[np.where(there, place, 0)], 0.0)


def _momentum(values: Float, past: Histories, owner: Index, count: Float) -> Float:
    mean = _sum(values, owner, len(past)) / count
    recent = _last_items(values, past).sum(axis=1) / np.minimum(count, _LAST)
    ratio = np.divide(recent, mean, out=np.ones_like(mean), where=mean > 0)
    return np.asarray(np.clip(ratio, 0.1, 10.0))


def _correlation(past: Histories, owner: Index, count: Float) -> Float:
    _, read_sd, read = _deviations(past.read, owner, count)
    _, scroll_sd, scroll = _deviations(past.scroll, owner, count)
    both = read_sd * scroll_sd
    joint = _sum(read * scroll, owner, len(past)) / count
    found = np.divide(joint, both, out=np.zeros_like(both), where=both > 0)
    return np.clip(found, -1.0, 1.0)
