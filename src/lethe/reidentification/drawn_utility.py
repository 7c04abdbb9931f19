"""Utility under noise by drawing it: for heads without a closed form, and for average precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lethe.errors import InputError, check_at_least
from lethe.evidence.estimate import Estimate
from lethe.reidentification.by_user import Linear, mean_by_user, mean_of_pools
from lethe.reidentification.head import LinearHead, as_head, classes_of
from lethe.reidentification.pair_share import pair_share
from lethe.reidentification.utility import average_precision
from lethe.reidentification.vectors import Float, check_binary, check_vectors, effective_sigma


@dataclass(frozen=True)
class DrawnUtility:
    """What a consumer of noisy vectors gets from them, averaged over noise.

    Attributes:
        accuracy: share of rows predicted rightly; interval by users.
        auc: AUC of the noisy logit; interval by users. None for several classes.
        average_precision: its mean; the interval is of the noise alone, for these very rows. None
            for several classes.
        merit: the AUC, or of several classes the accuracy, to be compared in pairs.
    """

    accuracy: Estimate
    auc: Estimate | None
    average_precision: Estimate | None
    merit: Linear


def drawn_utility(
    head: Any,
    representations: ArrayLike,
    labels: ArrayLike,
    sigma: ArrayLike,
    draws: int = 1,
    *,
    repeats: int = 100,
    users: ArrayLike | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> DrawnUtility:
    """Utility of the mean of M noisy draws of each row, for any head, by Monte Carlo.

    The noise of a linear binary head is drawn on its logit: one number a row, exact in
    distribution. The mean of the draws goes through the head, not the mean of its outputs.

    Args:
        head: see `as_head`.
        representations: (n, d).
        labels: (n,) in {0, 1} for a binary head, in {0..C-1} otherwise.
        sigma: noise of one draw, >= 0: a number, or (n,) one a row (adaptive noise).
        draws: M >= 1.
        repeats: how often the noise is drawn, >= 2.
        users: (n,) owner of each row; None: each row its own person.
        confidence: two-sided.
        seed: of the noise.

    Raises:
        InputError: labels that do not fit the head, or an argument outside its range.
    """
    r = check_vectors("representations", representations)
    model = as_head(head, r.shape[1])
    level = np.array([effective_sigma(float(one), draws) for one in np.atleast_1d(sigma)])
    if len(level) not in (1, len(r)):
        raise InputError(f"sigma of shape {np.shape(sigma)} must be a number or ({len(r)},).")
    check_at_least("repeats", repeats, 2)
    owner = np.arange(len(r)) if users is None else np.asarray(users)
    clean = model.logits(r)
    truth = _labels(labels, clean)
    positive = truth == 1
    right, influence = np.zeros(len(r)), np.zeros(len(r))
    precision = []
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, 9, repeat])
        if isinstance(model, LinearHead) and model.binary:
            z: Float = clean + level * model.norm * rng.standard_normal(len(r))
        else:
            z = model.logits(r + level[:, None] * rng.standard_normal(r.shape))
        right += classes_of(z) == truth
        if clean.ndim == 1:
            beaten = pair_share(z[positive], z[~positive], 0.0)
            influence[positive] += beaten.ahead
            influence[~positive] += beaten.behind
            precision.append(average_precision(z, truth))
    accuracy = mean_by_user(right / repeats, owner, confidence)
    if clean.ndim > 1:
        mean = float(right.mean()) / repeats
        drawn = Linear(mean, (right / repeats - mean) / len(r), 0.0, f"{repeats} draws; t by users")
        return DrawnUtility(accuracy, None, None, drawn)
    share = influence / repeats
    value = float(share[positive].mean())
    weight = np.where(positive, positive.sum(), (~positive).sum())
    drawn = Linear(value, (share - value) / weight, 0.0, f"{repeats} draws; t by users")
    return DrawnUtility(
        accuracy,
        drawn.estimate(users, confidence),
        mean_of_pools(precision, confidence),
        drawn,
    )


def _labels(labels: ArrayLike, logits: Float) -> Float:
    if logits.ndim == 1:
        return check_binary(labels, len(logits)).astype(np.float64)
    given = np.asarray(labels)
    if given.shape != (len(logits),) or not np.isin(given, np.arange(logits.shape[1])).all():
        raise InputError(
            f"labels must be one class in 0..{logits.shape[1] - 1} for each of {len(logits)} rows."
        )
    return given.astype(np.float64)
