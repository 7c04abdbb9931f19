"""Vectors moved to where float32 can tell them apart, with a bound on what it still gets wrong.

Every distance orders the gallery as a Euclidean one does after a map: cosine on vectors of length
1. For a probe u and a gallery vector v, both relative to one centre, ||u
- v||^2 grows as the score u.v - ||v||^2 / 2 falls, whose numbers are of the size of the spread.

What float32 makes of the score is off by at most gamma = (d + 2) 2^-24 times the sum of its
absolute terms, in any order of summation (Higham, "Accuracy and Stability of Numerical Algorithms",
2002, section 3.1). Pairs further apart than that bound are decided. The others are compared in
float64 as ||u - t||^2 - ||u - v||^2 = (v - t).((u - v) + (u - t)), t the owner: a form that loses
nothing where the three are close, nor where the probe is far away. So the ranks are those of
float64 arithmetic, whatever computed the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_choice
from lethe.reidentification.vectors import Float, Float32, check_table
from lethe.training.environment import one_thread

# The nearest gallery user of every vector, and how far away: for open sets and for geometry.

METRICS = ("cosine", "l2")
_LONGEST = 1e30


Counts = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Users closer than the owner, and others at the same distance."""


@dataclass(frozen=True, eq=False)
class Probes:
    """Some probes in the coordinates of a gallery."""

    wide: Float  # float64 (P, d); in float32 (`narrow`) for the fast pass
    narrow: Float32  # float32 (P, d)
    true: NDArray[np.intp]  # (P,) position of each probe's owner in the gallery
    score: Float  # float64 (P,) of the owner
    slack: Float  # float64 (P,) scores further apart than that in float64 are surely different
    tie: Float  # float64 (P,) users whose `closeness` is that near to 0 are at the owner's distance
    low: Float32  # float32 (P,) a float32 score below it is surely below the owner's
    high: Float32  # float32 (P,) a float32 score above it is surely above the owner's


@dataclass(frozen=True, eq=False)
class Gallery:
    """Gallery vectors relative to their mean, the longest of length 1."""

    metric: str  # see `METRICS`
    centre: Float  # (d,) mean of the mapped gallery
    scale: float  # length of the longest vector from there; 1 where all are equal
    wide: Float  # float64 (G, d)
    bias: Float  # float64 (G,) minus half the squared length

    def probes(self, vectors: NDArray[Any], true: NDArray[np.intp]) -> Probes:
        """Probes (P, d) in the gallery's coordinates, with the bounds on their scores.

        Raises InputError: a vector has no direction (cosine).
        """
        wide = _mapped("probes", vectors, self.metric)
        wide -= self.centre
        wide /= self.scale
        owner = self.wide[true]
        score = np.einsum("ij,ij->i", wide, owner) + self.bias[true]
        length, gap = _lengths(wide), _lengths(wide - owner)
        d = wide.shape[1]
        # Coordinates were rounded before the centre was taken off, so relative to its size.
        offset = 1 + float(np.linalg.norm(self.centre)) / self.scale
        rounding = np.sqrt(d) * 2.0**-52 * offset
        apart = np.minimum(2 * gap, 2)  # what a user at the owner's distance is from the owner
        tie = 8 * rounding * gap + 4 * rounding**2
        tie += (d + 8) * 2.0**-52 * apart * 2 * (gap + length)
        slack = (d + 8) * 2.0**-51 * (length + 1) + tie
        # Two roundings of each input, d + 1 sums, and the rounding of the threshold itself.
        band = (d + 8) * 2.0**-24 * 1.01 * (length + 0.5) + slack
        narrow = wide
        beyond = length > _LONGEST
        if beyond.any():  # of those float32 says nothing
            narrow = np.where(beyond[:, None], 0, wide)
            band = np.where(beyond, np.inf, band)
        return Probes(
            wide,
            narrow.astype(np.float32),
            true,
            score,
            slack,
            tie,
            (score - band).astype(np.float32),
            (score + band).astype(np.float32),
        )


def prepare_gallery(vectors: NDArray[Any], metric: str = "cosine") -> Gallery:
    """Map, centre and scale a gallery.

    Args:
        vectors: (G, d), finite; one row a user.
        metric: "cosine" or "l2".

    Raises InputError: another metric, fewer than 2 users, NaN or infinity, or a vector without
        direction under cosine.
    """
    check_choice("metric", metric, METRICS)
    check_table("gallery", vectors)
    if len(vectors) < 2:
        raise InputError(f"the gallery has {len(vectors)} users; to tell people apart needs 2.")
    wide = _mapped("gallery", vectors, metric)
    centre = wide.mean(axis=0)
    wide -= centre
    scale = float(np.sqrt(np.einsum("ij,ij->i", wide, wide).max())) or 1.0
    wide /= scale
    return Gallery(metric, centre, scale, wide, -0.5 * np.einsum("ij,ij->i", wide, wide))


def closeness(
    gallery: Gallery, probes: Probes, row: NDArray[np.intp], user: NDArray[np.intp]
) -> Float:
    """By how much (n,) each `user` is closer to probe `row` than its owner, in squared distance."""
    found = np.empty(len(row))
    for at in range(0, len(row), 16384):  # copies of the vectors stay small
        part = slice(at, at + 16384)
        u, v = probes.wide[row[part]], gallery.wide[user[part]]
        t = gallery.wide[probes.true[row[part]]]
        found[part] = np.einsum("ij,ij->i", v - t, (u - v) + (u - t))
    return found


def _lengths(vectors: Float) -> Float:
    """Euclidean lengths (n,), also where squares leave float64's range."""
    with np.errstate(over="ignore"):
        found = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    beyond = ~np.isfinite(found)
    found[beyond] = np.abs(vectors[beyond]).max(axis=1) * np.sqrt(vectors.shape[1])
    return np.asarray(found)


def _mapped(name: str, vectors: NDArray[Any], metric: str) -> Float:
    """A float64 copy whose Euclidean distances have the order of the metric."""
    wide = vectors.astype(np.float64)
    if metric == "cosine":
        # By the largest coordinate first: squares of tiny or huge ones leave float64's range.
        largest = np.abs(wide).max(axis=1, keepdims=True)
        if not largest.all():
            none = np.flatnonzero(largest == 0)
            raise InputError(
                f"{name} has {len(none)} zero vectors, the first is row {none[0]}: they have no "
                "direction, so no cosine. Remove them, or use metric='l2'."
            )
        wide /= largest
        wide /= np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
    return wide


ROWS, USERS = 512, 4096


@dataclass(frozen=True, eq=False)
class Nearest:
    """The nearest user of each vector.

    Attributes:
        user: (n,) position in the gallery; of several at the same distance the first.
    """

    user: NDArray[np.intp]
    distance: Float  # (n,) to it: 1 - cosine similarity, or the Euclidean distance


def nearest(
    vectors: NDArray[Any],
    gallery: NDArray[Any],
    metric: str = "cosine",
    *,
    own: NDArray[np.integer[Any]] | None = None,
) -> Nearest:
    """Find the nearest gallery vector, in float64, without the table of all distances.

    Args:
        vectors: (n, d), finite.
        gallery: (G, d), finite; one vector a user.
        metric: "cosine" or "l2", as for `ranks`.
        own: (n,) gallery user of each vector, which is left out: for distances to others.

    Raises InputError: as `ranks`.

    >>> nearest(np.array([[1.0, 0.1]]), np.eye(2), "l2").user.tolist()
    [0]
    """
    check_table("vectors", vectors)
    prepared = prepare_gallery(gallery, metric)
    if vectors.shape[1] != gallery.shape[1] or (own is not None and len(own) != len(vectors)):
        raise InputError(
            f"vectors have shape {vectors.shape} and the gallery {gallery.shape}: the dimensions "
            "must agree, and own, where given, holds one user for each vector."
        )
    user = np.zeros(len(vectors), np.intp)
    distance = np.empty(len(vectors))
    with one_thread("blas"):
        for first in range(0, len(vectors), ROWS):
            at = slice(first, first + ROWS)
            left_out = np.zeros(len(vectors[at]), np.intp) if own is None else np.asarray(own)[at]
            probes = prepared.probes(vectors[at], left_out.astype(np.intp)).wide
            best = np.full(len(probes), -np.inf)
            every = np.arange(len(probes))
            for start in range(0, len(gallery), USERS):
                scores = probes @ prepared.wide[start : start + USERS].T
                scores += prepared.bias[start : start + USERS]
                if own is not None:
                    inside = (left_out >= start) & (left_out < start + USERS)
                    scores[every[inside], left_out[inside] - start] = -np.inf
                found = scores.argmax(axis=1)
                better = scores[every, found] > best
                user[at] = np.where(better, start + found, user[at])
                best = np.maximum(best, scores[every, found])
            gap = (probes - prepared.wide[user[at]]) * prepared.scale
            length = np.sqrt(np.einsum("ij,ij->i", gap, gap))
            # Of unit vectors ||x - y||^2 = 2 (1 - cos), without 1 - cos and its lost digits.
            distance[at] = length**2 / 2 if metric == "cosine" else length
    return Nearest(user, distance)
