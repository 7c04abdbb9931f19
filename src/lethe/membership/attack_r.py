"""Attack R: the record's own place among models that did not train on it (Ye et al., CCS 2022).

"Enhanced Membership Inference Attacks against Machine Learning Models", section 4.2: a record is
called a member when the target knows it better than a share 1 - alpha of reference models that
never saw it. No distribution is assumed; with m reference models the share has m + 1 values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lethe.membership.leave_one_out import Design, check_signals, scored_cells

Float = NDArray[np.float64]

_BLOCK = 2048


def own_quantile(phi: Float, signals: NDArray[np.floating], members: NDArray[np.bool_]) -> Float:
    """Share of OUT models whose signal lies below the target's, ties counting half.

    Args:
        phi: (N,) the target's signals.
        signals: (R, N) of the reference models.
        members: (R, N) their membership.

    Returns:
        (N,) in [0, 1], higher = member; NaN where every reference model trained on the record.
    """
    outside = ~members
    below = ((signals < phi) & outside).sum(axis=0) + ((signals <= phi) & outside).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(below / 2 / outside.sum(axis=0))


def attack_r(signals: NDArray[np.floating], members: NDArray[np.bool_], seed: int = 0) -> Float:
    """`own_quantile` with every model as the target, the others as its references.

    What is left out with the target is as in `leave_one_out`, so that the number of OUT models
    that remain does not tell whether the record was IN the target.

    Args:
        signals: (K, N) phi, finite.
        members: (K, N) true membership.
        seed: see `leave_one_out`.

    Returns:
        (K, N) in [0, 1], higher = member; NaN where no OUT model, or no IN model, is left.
    """
    check_signals(signals, members)
    design = Design.of(members, seed)
    gone = np.empty((len(design.usable), members.shape[1]), np.intp)
    for place in range(len(gone)):
        gone[place] = design.counterpart(place)
    scores = np.full(signals.shape, np.nan)
    for start in range(0, signals.shape[1], _BLOCK):
        block = slice(start, start + _BLOCK)
        inside, counted = design.members[:, block], design.counted[:, block]
        scores[design.usable, block] = _shares(
            np.asarray(signals[design.usable, block], np.float64),
            ~inside & counted,
            np.where(inside, gone[:, block], np.arange(len(gone))[:, None]),
        )
    scores[~scored_cells(members, seed)] = np.nan
    return scores


def _shares(signals: Float, outside: NDArray[np.bool_], gone: NDArray[np.intp]) -> Float:
    """Mid-ranks among the OUT models of a block, without one of them."""
    models = len(signals)
    order = np.argsort(signals, axis=0, kind="stable")
    ordered = np.take_along_axis(signals, order, 0)
    so_far = np.cumsum(np.take_along_axis(outside, order, 0), axis=0)
    place = np.broadcast_to(np.arange(models)[:, None], ordered.shape)
    fresh, ends = np.ones(ordered.shape, bool), np.ones(ordered.shape, bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    ends[:-1] = fresh[1:]
    begin = np.maximum.accumulate(np.where(fresh, place, 0), axis=0)
    end = np.minimum.accumulate(np.where(ends, place, models - 1)[::-1], axis=0)[::-1]
    below = np.where(begin > 0, np.take_along_axis(so_far, np.maximum(begin - 1, 0), 0), 0)
    rank = np.empty(signals.shape)
    np.put_along_axis(rank, order, (below + np.take_along_axis(so_far, end, 0)) / 2, 0)

    # What is left out counted half where it ties with the target, as the target does with itself.
    lost = np.take_along_axis(outside, gone, 0)
    its = np.take_along_axis(signals, gone, 0)
    counted = np.where(its < signals, 1.0, np.where(its == signals, 0.5, 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((rank - lost * counted) / (so_far[-1] - lost))
