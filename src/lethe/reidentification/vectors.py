"""Checks of vectors and labels, and a robust centre."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import InputError, check_at_least, check_between

Float = NDArray[np.float64]
Float32 = NDArray[np.float32]


def check_table(name: str, vectors: NDArray[Any]) -> None:
    """Refuse what is no finite (rows, dimensions) table of numbers; nothing is copied.

    Raises InputError: another shape or kind, nothing in it, NaN or infinity.
    """
    if vectors.ndim != 2 or not vectors.size or vectors.dtype.kind not in "fiub":
        raise InputError(
            f"{name} has shape {vectors.shape} and dtype {vectors.dtype}; it must be (rows, "
            "dimensions) of numbers, with one or more of each. Save one row a vector, as float32."
        )
    bad = ~np.isfinite(vectors).all(axis=1)
    if bad.any():
        raise InputError(
            f"{name} has NaN or infinite values in {bad.sum()} rows, the first is row "
            f"{int(np.argmax(bad))}. Compute these vectors again, or remove them."
        )


def check_vectors(name: str, value: ArrayLike, dimension: int | None = None) -> Float:
    """Return one or more finite vectors as an (n, d) array of float64.

    Raises InputError: as `check_table`, or another dimension.
    """
    table = np.asarray(value)
    check_table(name, table)
    if dimension is not None and table.shape[1] != dimension:
        raise InputError(
            f"{name} has {table.shape[1]} dimensions where {dimension} are needed: "
            "take vectors and head of one model."
        )
    return np.asarray(table, np.float64)


def standardised(table: NDArray[Any]) -> Float:
    """Columns about their mean, with standard deviation 1 where they vary."""
    wide = np.asarray(table, np.float64)
    deviation = wide.std(axis=0)
    return np.asarray((wide - wide.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))


def check_binary(labels: ArrayLike, rows: int) -> NDArray[np.bool_]:
    """Return labels in {0, 1} as truth values, one a row and both kinds among them.

    Raises InputError: another number of labels, other values, or one kind alone.
    """
    column = np.asarray(labels)
    if column.shape != (rows,):
        raise InputError(f"labels of shape {column.shape} must be ({rows},), one for each row.")
    found = np.unique(column)
    if not np.isin(found, (0, 1)).all():
        raise InputError(
            f"labels hold {found[~np.isin(found, (0, 1))][0]!r}: a binary head needs 0 and 1 alone."
        )
    if len(found) < 2:
        raise InputError(f"all labels are {found[0]!r}; a utility needs both 0 and 1.")
    return np.asarray(column.astype(bool))


def check_sigma(sigma: float, *, positive: bool = False) -> float:
    """Return a finite noise level if it is not negative (or is positive, where asked)."""
    return check_between("sigma", sigma, 0, np.inf, open_low=positive, open_high=True)


def effective_sigma(sigma: float, draws: int = 1) -> float:
    """sigma / sqrt(M): the mean of M draws at `sigma` is one draw at this level.

    Args:
        sigma: >= 0, standard deviation of each coordinate of one draw.
        draws: M >= 1 independent draws of the same vector.

    >>> effective_sigma(1.0, 100)
    0.1
    """
    check_at_least("draws", draws, 1)
    return float(check_sigma(sigma) / np.sqrt(draws))


def geometric_median(vectors: ArrayLike, rounds: int = 200) -> Float:
    """(d,) the point with the least sum of distances to (n, d) vectors (Weiszfeld 1937).

    Near enough for a centre: a bound that holds for every centre is not hurt by the last digits.

    >>> geometric_median([[0.0], [0.0], [9.0]]).round(3)
    array([0.])
    """
    points = check_vectors("vectors", vectors)
    scale = float(np.abs(points - points.mean(axis=0)).max())
    if scale == 0:
        return np.array(points[0])
    centre = points.mean(axis=0)
    for _ in range(rounds):
        # The floor keeps a centre that sits on a point from dividing by 0.
        pull = 1 / np.maximum(np.linalg.norm(points - centre, axis=1), 1e-9 * scale)
        moved = pull @ points / pull.sum()
        if np.linalg.norm(moved - centre) <= 1e-9 * scale:
            return np.asarray(moved)
        centre = moved
    return np.asarray(centre)
