"""Why a record may give itself away: what its neighbours, its class and its twins look like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError

MOST_DIMENSIONS = 50
MOST_REFERENCES = 50_000
NEAR = 0.1
_CELLS = 1 << 22
_MOST_PRODUCTS = 4096

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Surroundings:
    """Where each record stands among the others.

    Attributes:
        own: (N,) distance to the nearest other record of its class, in standardised features;
            NaN if it is the only one. Without classes: to the nearest other record.
        other: (N,) distance to the nearest record of another class; NaN without classes.
        duplicates: (N,) other records with exactly the same features.
        contradicted: (N,) True where one of those has another label.
        near_duplicate: (N,) True where a record that differs lies within a tenth of the usual
            (median) distance between nearest records.
        note: how it was measured.
    """

    own: Float
    other: Float
    duplicates: NDArray[np.intp]
    contradicted: NDArray[np.bool_]
    near_duplicate: NDArray[np.bool_]
    note: str


def surroundings(
    features: NDArray[np.floating],
    labels: NDArray[Any] | None,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> Surroundings:
    """Distances to the nearest records, and identical rows.

    Features are standardised; of more than 50 the 50 principal components are taken. Exact
    Euclidean distances up to 50,000 records; beyond, to a random 50,000 of them.

    Args:
        features: (N, ...) inputs, finite.
        labels: (N,) classes; None or numbers (floats) where there are none.
        seed: of the reference records where there are too many.
        say: told of each finished class, for long runs.

    Raises:
        InputError: fewer than two records, or lengths differ.
    """
    flat = np.ascontiguousarray(np.asarray(features).reshape(len(features), -1))
    if len(flat) < 2 or (labels is not None and len(labels) != len(flat)):
        raise InputError(
            f"features of {len(flat)} records must be of at least 2, with a label for each."
        )
    classes = np.zeros(len(flat), np.intp)
    several = False
    if labels is not None and labels.dtype.kind != "f":
        several, classes = True, np.unique(labels, return_inverse=True)[1]
    points, words = _points(flat)
    kept = np.arange(len(points))
    if len(points) > MOST_REFERENCES:
        kept = np.sort(np.random.default_rng([seed, 12]).permutation(kept)[:MOST_REFERENCES])
        words += f", distances to {MOST_REFERENCES} random records"
    own, other = np.full(len(points), np.inf), np.full(len(points), np.inf)
    for code in range(int(classes.max()) + 1):
        rows = kept[classes[kept] == code]
        if len(rows) == 0:
            continue
        inside = np.flatnonzero(classes == code)
        own[inside] = _nearest(points, inside, points, rows)
        if several:
            outside = np.flatnonzero(classes != code)
            other[outside] = np.minimum(other[outside], _nearest(points, outside, points, rows))
        if say is not None:
            say(f"neighbours of class {code + 1} of {int(classes.max()) + 1} found")
    same, count = _identical(flat)
    twins = (count - 1)[same]
    low, high = np.full(len(count), np.inf), np.full(len(count), -np.inf)
    if labels is not None:
        codes = np.unique(labels, return_inverse=True)[1].astype(float)
        np.minimum.at(low, same, codes)
        np.maximum.at(high, same, codes)
    nearest = np.minimum(own, other)
    apart = nearest[np.isfinite(nearest) & (nearest > 0)]
    usual = float(np.median(apart)) if len(apart) else 0.0
    return Surroundings(
        np.where(np.isfinite(own), own, np.nan),
        np.where(np.isfinite(other), other, np.nan),
        twins.astype(np.intp),
        (low < high)[same],
        (nearest > 0) & (nearest <= NEAR * usual),
        words,
    )


def _points(flat: NDArray[np.floating]) -> tuple[NDArray[np.float32], str]:
    """Standardised features, at most 50 of them."""
    table = np.asarray(flat, np.float64)
    spread = table.std(axis=0)
    table = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if table.shape[1] <= MOST_DIMENSIONS:
        return table.astype(np.float32), "standardised features"
    if table.shape[1] > _MOST_PRODUCTS:
        # The matrix of products would fill the memory; random axes keep distances (Johnson 1984).
        axes = np.random.default_rng([0, 13]).normal(size=(table.shape[1], MOST_DIMENSIONS))
        shown = (table @ axes / np.sqrt(MOST_DIMENSIONS)).astype(np.float32)
        return shown, f"{MOST_DIMENSIONS} random projections of the standardised features"
    _, axes = np.linalg.eigh(table.T @ table)
    shown = (table @ axes[:, ::-1][:, :MOST_DIMENSIONS]).astype(np.float32)
    return shown, f"{MOST_DIMENSIONS} principal components of the standardised features"


def _nearest(
    points: NDArray[np.float32],
    asked: NDArray[np.intp],
    table: NDArray[np.float32],
    rows: NDArray[np.intp],
) -> Float:
    """(len(asked),) distance of each asked record to the nearest of `rows` that is not itself."""
    from sklearn.neighbors import NearestNeighbors

    count = min(2, len(rows))
    search = NearestNeighbors(n_neighbors=count).fit(table[rows])
    distance, place = np.empty((len(asked), count)), np.empty((len(asked), count), np.intp)
    step = max(1, _CELLS // len(rows))
    for at in range(0, len(asked), step):
        part = slice(at, at + step)
        distance[part], place[part] = search.kneighbors(points[asked[part]])
    itself = rows[place] == asked[:, None]
    # With twins the record itself may come second or not at all; then the first is a twin.
    return np.asarray(np.where(itself, np.inf, distance).min(axis=1))


def _identical(flat: NDArray[np.floating]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(N,) number of each record's set of equal rows, and the size of each set."""
    rows = np.ascontiguousarray(flat + 0.0)  # -0 and 0 are equal
    whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, same, count = np.unique(whole, return_inverse=True, return_counts=True)
    return np.asarray(same), np.asarray(count)
