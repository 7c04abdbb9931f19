"""The nearest gallery user of every vector, and how far away: for open sets and for geometry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.reidentification.geometry import prepare_gallery
from lethe.reidentification.vectors import Float, check_table, one_blas_thread

ROWS, USERS = 512, 4096


@dataclass(frozen=True, eq=False)
class Nearest:
    """The nearest user of each vector.

    Attributes:
        user: (n,) position in the gallery; of several at the same distance the first.
        distance: (n,) to it: 1 - cosine similarity, or the Euclidean distance.
    """

    user: NDArray[np.intp]
    distance: Float


def nearest(
    vectors: NDArray[Any],
    gallery: NDArray[Any],
    metric: str = "cosine",
    *,
    whitening: NDArray[Any] | None = None,
    own: NDArray[np.integer[Any]] | None = None,
) -> Nearest:
    """Find the nearest gallery vector, in float64, without the table of all distances.

    Args:
        vectors: (n, d), finite.
        gallery: (G, d), finite; one vector a user.
        metric: "cosine", "l2" or "whitened", as for `ranks`.
        whitening: (d, r) matrix for "whitened".
        own: (n,) gallery user of each vector, which is left out: for distances to others.

    Raises:
        InputError: as `ranks`.

    >>> nearest(np.array([[1.0, 0.1]]), np.eye(2), "l2").user.tolist()
    [0]
    """
    check_table("vectors", vectors)
    prepared = prepare_gallery(gallery, metric, whitening)
    if vectors.shape[1] != gallery.shape[1] or (own is not None and len(own) != len(vectors)):
        raise InputError(
            f"vectors have shape {vectors.shape} and the gallery {gallery.shape}: the dimensions "
            "must agree, and own, where given, holds one user for each vector."
        )
    user = np.zeros(len(vectors), np.intp)
    distance = np.empty(len(vectors))
    with one_blas_thread():
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
