"""Counting who is closer, by blocks of a NumPy product that stay in the cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lethe.reidentification.geometry import Gallery, Probes, closeness
from lethe.reidentification.vectors import Float32

ROWS, USERS = 256, 1024
_FAR = np.finfo(np.float32).min
_MANY = 0.04  # of a block's pairs: above it one float64 product is cheaper than pair by pair

Counts = tuple[NDArray[np.int64], NDArray[np.int64], int]
"""Users closer than the owner, others at the same distance, and pairs decided in float64."""


@dataclass(frozen=True, eq=False)
class NumpyCounter:
    """Counts with matrix products; see `lethe.reidentification.ranks`.

    Attributes:
        gallery: the prepared gallery.
        columns: float32 (d + 1, users): its vectors as columns, the bias below; padded to whole
            blocks with users infinitely far away.
    """

    gallery: Gallery
    columns: Float32

    @classmethod
    def of(cls, gallery: Gallery) -> NumpyCounter:
        """Lay out a gallery."""
        users, dimensions = gallery.wide.shape
        columns = np.zeros((dimensions + 1, -(-users // 8) * 8), np.float32)
        columns[:-1, :users] = gallery.wide.T
        columns[-1] = _FAR
        columns[-1, :users] = gallery.bias
        return cls(gallery, columns)

    def count(self, probes: Probes) -> Counts:
        """Closer and tied users of each probe."""
        closer = np.zeros(len(probes.true), np.int64)
        tied = np.zeros(len(probes.true), np.int64)
        ones = np.ones((len(probes.true), 1), np.float32)
        rows = np.hstack([probes.narrow, ones])
        again = 0
        for first in range(0, len(rows), ROWS):
            for left in range(0, self.columns.shape[1], USERS):
                again += self._block(probes, rows, first, left, closer, tied)
        return closer, tied - 1, again  # the owner is at its own distance

    def _block(
        self,
        probes: Probes,
        rows: Float32,
        first: int,
        left: int,
        closer: NDArray[np.int64],
        tied: NDArray[np.int64],
    ) -> int:
        at = slice(first, first + ROWS)
        scores = rows[at] @ self.columns[:, left : left + USERS]
        above = _row_counts(scores > probes.high[at, None])
        reach = _row_counts(scores >= probes.low[at, None])
        open_rows = np.flatnonzero(reach > above)
        unsure = int((reach - above).sum())
        if unsure > _MANY * scores.size:
            self._whole(probes, at, left, closer, tied)
            return scores.size
        closer[at] += above
        part = scores[open_rows]
        low, high = probes.low[at][open_rows, None], probes.high[at][open_rows, None]
        row, user = np.nonzero((part >= low) & (part <= high))
        row, user = first + open_rows[row], left + user
        real = user < len(self.gallery.wide)  # the bounds of a probe may hold everything
        row, user = row[real], user[real]
        self._decide(probes, row, user, closer, tied)
        return unsure

    def _whole(
        self,
        probes: Probes,
        at: slice,
        left: int,
        closer: NDArray[np.int64],
        tied: NDArray[np.int64],
    ) -> None:
        """The whole block in float64; one by one only what is left open there."""
        gap = probes.wide[at] @ self.gallery.wide[left : left + USERS].T
        gap += self.gallery.bias[left : left + USERS] - probes.score[at, None]
        slack = probes.slack[at, None]
        closer[at] += (gap > slack).sum(axis=1)
        row, user = np.nonzero(np.abs(gap) <= slack)
        self._decide(probes, at.start + row, left + user, closer, tied)

    def _decide(
        self,
        probes: Probes,
        row: NDArray[np.intp],
        user: NDArray[np.intp],
        closer: NDArray[np.int64],
        tied: NDArray[np.int64],
    ) -> None:
        gap = closeness(self.gallery, probes, row, user)
        np.add.at(closer, row[gap > probes.tie[row]], 1)
        np.add.at(tied, row[np.abs(gap) <= probes.tie[row]], 1)


def _row_counts(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many are True in each row, eight at a time."""
    words = np.bitwise_count(mask.view(np.uint64))
    return np.asarray(words.sum(axis=1), dtype=np.int64)
