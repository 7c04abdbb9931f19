"""Noise levels of each user that cost the task as much as one level for all."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import InputError, NotMeasurable
from lethe.reidentification.utility import expected_accuracy
from lethe.reidentification.vectors import Float, check_sigma

_HALVINGS = 60
_WIDEST = 1e6


def equal_cost_levels(
    shape: ArrayLike,
    owner: NDArray[np.integer],
    logits: ArrayLike,
    labels: ArrayLike,
    weight_norm: float,
    sigma: float,
) -> Float:
    """(G,) sigma_u = c shape_u, with c such that expected accuracy is that of `sigma` for all.

    More noise for people who are easier to name buys privacy only if it costs no more: compare
    both at one utility, on the frontier.

    Args:
        shape: (G,) > 0, how much noise each user gets compared with others.
        owner: (n,) user 0..G-1 of each row.
        logits: (n,) clean logits of a linear binary head.
        labels: (n,) in {0, 1}.
        weight_norm: ||w||, > 0.
        sigma: > 0, the uniform noise to be matched.

    Raises:
        InputError: shapes or values that do not fit.
        NotMeasurable: accuracy does not fall with noise here, so there is nothing to match.
    """
    share = np.asarray(shape, np.float64)
    place = np.asarray(owner)
    if share.ndim != 1 or not (np.isfinite(share).all() and (share > 0).all()):
        raise InputError("shape must be one finite number > 0 for each user.")
    if place.min() < 0 or place.max() >= len(share):
        raise InputError(f"owner must lie in [0, {len(share) - 1}].")
    check_sigma(sigma, positive=True)

    def accuracy(levels: Float) -> float:
        return float(expected_accuracy(logits, labels, weight_norm * levels).value or 0.0)

    aim = accuracy(np.full(len(place), sigma))
    low, high = sigma / share.max(), sigma / share.min()
    # With every level at most sigma it costs no more, with every level at least sigma no less.
    if not accuracy(low * share[place]) >= aim >= accuracy(high * share[place]):
        raise NotMeasurable(
            "expected accuracy does not fall with noise on these rows, so no level costs as much."
        )
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if accuracy(middle * share[place]) >= aim else (low, middle)
    return np.asarray(low * share)
