"""Poisson sampling: each record enters each batch by its own coin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lethe.errors import check_between
from lethe.training.batches import generator

_COINS = 6  # purpose of the stream: also that of mixup, which no treatment has beside DP-SGD


class PoissonSampler:
    """Draws the batches of one model from a stream of its own.

    Args:
        rows: (n,) records that the model trains on.
        seed: of the model.
        rate: probability of each record to be in a batch, in (0, 1].

    >>> sampler = PoissonSampler(np.arange(5), seed=0, rate=0.5)
    >>> sampler.draw().tolist(), sampler.draw().tolist()
    ([0, 1, 2, 3], [1, 2, 4])
    """

    def __init__(self, rows: NDArray[np.int64], seed: int, rate: float) -> None:
        self.rows = rows
        self.rate = check_between("rate", rate, 0, 1, open_low=True)
        self._rng, self._coins = generator(seed, _COINS), np.empty(len(rows))

    def draw(self) -> NDArray[np.int64]:
        """The records of the next batch, none of them twice; there may be none at all."""
        self._rng.random(out=self._coins)
        return self.rows[(self._coins < self.rate).nonzero()[0]]


def padded(
    drawn: Sequence[NDArray[np.int64]], first: int, most: int
) -> tuple[NDArray[np.int64], list[int]]:
    """A part of the batches of K models as one table.

    Args:
        drawn: batches of K models, of any length.
        first: where the part begins.
        most: rows of the part at most.

    Returns:
        (K, B) record numbers, 0 where padded, and how many of the B are each model's own.

    >>> padded([np.array([7, 8, 9]), np.array([5])], 1, 64)
    (array([[8, 9],
           [0, 0]]), [2, 0])
    """
    sizes = [min(max(len(batch) - first, 0), most) for batch in drawn]
    table = np.zeros((len(drawn), max(sizes, default=0)), np.int64)
    for row, batch, size in zip(table, drawn, sizes, strict=True):
        row[:size] = batch[first : first + size]
    return table, sizes
