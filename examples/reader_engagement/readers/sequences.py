"""The last things that a person read, as a sequence for a recurrent network."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lethe.errors import check_at_least
from readers.history import Float, Histories

STEPS = 50
"""History items that a sequence holds at most."""


def last_sequences(
    past: Histories, steps: int = STEPS
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The last items of each person, oldest first, with zeros at the END where there are fewer.

    Args:
        past: people with at least one item each.
        steps: items kept at most, at least 1.

    Returns:
        values (users, steps, 2): log(1 + seconds read), and scroll depth / 100; and how many of
        the steps are real (users,).

    >>> from readers.history import histories
    >>> values, length = last_sequences(histories([1], [1], [0], [9], [0], [50]), steps=2)
    >>> values.tolist(), length.tolist()
    ([[[0.0, 0.5], [0.0, 0.0]]], [1])
    """
    check_at_least("steps", steps, 1)
    length = np.minimum(past.lengths, steps)
    place = (past.starts[1:] - length)[:, None] + np.arange(steps)
    real = np.arange(steps) < length[:, None]
    place = np.where(real, place, 0)
    channels = (np.log1p(past.read), past.scroll / 100)
    stacked = np.stack([np.where(real, one[place], 0.0) for one in channels], axis=2)
    return stacked.astype(np.float32), length


class Moments:
    """Mean and standard deviation of what is added piece by piece (Chan, Golub, LeVeque 1983).

    Args:
        width: number of columns.
    """

    def __init__(self, width: int) -> None:
        self.weight = 0.0
        self.mean: Float = np.zeros(width)
        self._squares: Float = np.zeros(width)

    def add(self, values: NDArray[np.floating], weights: Float | None = None) -> None:
        """Take in rows (n, width), each as often as its weight (n,) says; once by default."""
        rows = np.asarray(values, np.float64)
        each = np.ones(len(rows)) if weights is None else np.asarray(weights, np.float64)
        added = float(each.sum())
        if added == 0:
            return
        mean = each @ rows / added
        squares = each @ (rows - mean) ** 2
        total = self.weight + added
        apart = mean - self.mean
        self._squares += squares + apart**2 * (self.weight * added / total)
        self.mean = self.mean + apart * (added / total)
        self.weight = total

    @property
    def deviation(self) -> Float:
        """(width,) of the population; 1 for a column that never changes, which then becomes 0."""
        if self.weight == 0:
            return np.ones_like(self.mean)
        found = np.sqrt(self._squares / self.weight)
        return np.where(found <= 1e-12 * (np.abs(self.mean) + 1), 1.0, found)
