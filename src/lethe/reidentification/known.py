"""What an attacker knows before the release: whose rows they are, and how likely each is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import InputError
from lethe.reidentification.vectors import Float, check_vectors

_SUM = 1e-9  # how far a distribution may be from 1


@dataclass(frozen=True, eq=False)
class Known:
    """Every clean row of every user, sorted by user; one of them is released.

    Attributes:
        rows: (R, d) the exact rows, those of one user together.
        starts: (G,) where the rows of each user begin.
        owner: (R,) user 0..G-1 of each row.
        weight: (R,) P(this row is the one released); they sum to 1.
    """

    rows: Float
    starts: NDArray[np.intp]
    owner: NDArray[np.intp]
    weight: Float

    @property
    def users(self) -> int:
        """G, the people among whom the attacker names one."""
        return len(self.starts)

    @property
    def prior(self) -> Float:
        """(G,) P(the released row is this user's)."""
        return np.asarray(np.add.reduceat(self.weight, self.starts))

    def by_user(self, values: Float, how: np.ufunc = np.add) -> Float:
        """Reduce the last axis from rows to users."""
        if len(self.rows) == self.users:
            return values
        return np.asarray(how.reduceat(values, self.starts, axis=-1))


def known(
    rows: ArrayLike,
    users: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> Known:
    """The game: a row is picked by its weight and released with noise; the attacker names its user.

    For n rows of one person released together, put them behind each other: one row of n d
    numbers (in a fixed order) is the same game.

    Args:
        rows: (R, d) the exact vectors that may be released, never means of them.
        users: (R,) whose row each is; None if each is its own user.
        weights: (R,) chance of each row, summing to 1. None: users are equally likely, and so are
            the rows of one user. Probe shares as a prior: 1 / R each.

    Raises:
        InputError: fewer than 2 users, or weights that are no distribution.

    >>> known([[0.0], [1.0], [2.0]], ["a", "b", "a"]).weight
    array([0.25, 0.25, 0.5 ])
    """
    given = check_vectors("rows", rows)
    names = np.arange(len(given)) if users is None else np.asarray(users)
    if names.shape != (len(given),):
        raise InputError(f"users of shape {names.shape} must be ({len(given)},), one for each row.")
    place = np.unique(names, return_inverse=True)[1]
    order = np.argsort(place, kind="stable")
    owner = place[order]
    counts = np.bincount(owner)
    if len(counts) < 2:
        raise InputError("identification needs at least 2 users, got 1.")
    if weights is None:
        weight = 1 / (len(counts) * counts[owner])
    else:
        weight = np.asarray(weights, np.float64)
        if weight.shape != (len(given),) or not (weight >= 0).all():
            raise InputError("weights must be one number >= 0 for each row.")
        if not abs(float(weight.sum()) - 1) <= _SUM:
            raise InputError(f"weights sum to {weight.sum():g}; divide them by their sum.")
        weight = weight[order] / weight.sum()
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.intp)
    return Known(given[order], starts, np.asarray(owner, np.intp), weight)
