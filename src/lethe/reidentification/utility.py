"""What noise costs the task: three quantities that are never mixed up.

*Smoothed*: the server keeps the clean vector and publishes Phi(z / (sigma ||w||)). That grows with
z, so its ranking and its decisions at 0.5 are those of the clean logit at every sigma; only its
calibration moves. *Single draw*: the consumer has r + noise alone; its logit is
z + N(0, sigma^2 ||w||^2). *M draws*: the consumer averages M of them, sigma / sqrt(M) in the same
formulas. Here z is the logit of a linear binary head and `scale` is sigma ||w|| / sqrt(M).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from lethe.errors import InputError, NotMeasurable, check_at_least, check_between
from lethe.evidence.estimate import Estimate
from lethe.evidence.roc import auc
from lethe.reidentification.by_user import Linear, mean_by_user
from lethe.reidentification.pair_share import pair_share
from lethe.reidentification.vectors import Float, check_binary, check_sigma

_COST_HALVINGS = 60


def _checked(logits: ArrayLike, labels: ArrayLike) -> tuple[Float, NDArray[np.bool_]]:
    z = np.asarray(logits, np.float64)
    if z.ndim != 1 or not np.isfinite(z).all():
        raise InputError("logits must be one finite number a row, of a binary head.")
    return z, check_binary(labels, len(z))


def _check_scale(scale: float, *, positive: bool = False) -> float:
    return check_between("scale", scale, 0, math.inf, open_low=positive, open_high=True)


def expected_auc(
    logits: ArrayLike,
    labels: ArrayLike,
    scale: float,
    *,
    users: ArrayLike | None = None,
    tolerance: float = 1e-5,
    confidence: float = 0.95,
) -> Estimate:
    """E[AUC] of one noisy draw a row: the mean over (positive i, negative j) of
    Phi((z_i - z_j) / (sqrt(2) scale)); no sampling of noise.

    Args:
        logits: (n,) clean z.
        labels: (n,) in {0, 1}.
        scale: sigma ||w|| / sqrt(M), >= 0; 0 is the clean AUC, ties counted half.
        users: (n,) owner of each row, for an interval by users; None: each row its own person.
        tolerance: largest error of the computation, in (0, 0.1); the limits are wider by it.
        confidence: two-sided.

    Returns:
        Value within `tolerance` of the formula, with an interval for other people (Obuchowski
        1997), not for the noise, which is averaged exactly.

    Raises:
        InputError: labels other than 0 and 1 or of one kind, or shapes that do not fit.

    >>> round(expected_auc([1.0, -1.0, 2.0, 0.0], [1, 0, 1, 0], 1.0).value, 4)
    0.8965
    """
    return linear_auc(logits, labels, scale, tolerance).estimate(users, confidence)


def linear_auc(
    logits: ArrayLike, labels: ArrayLike, scale: float, tolerance: float = 1e-5
) -> Linear:
    """`expected_auc` with the share of each row in its error, to compare noise levels in pairs.

    Args:
        logits, labels, scale, tolerance: as in `expected_auc`.

    >>> before, after = (linear_auc([1, 0, 2, -1], [1, 0, 1, 0], scale) for scale in (0.0, 1.0))
    >>> round(before.less(after, None, 0.95).value, 4)
    0.1035
    """
    z, positive = _checked(logits, labels)
    _check_scale(scale)
    beaten = pair_share(z[positive], z[~positive], math.sqrt(2) * scale, tolerance)
    value = float(beaten.ahead.mean())
    influence = np.empty(len(z))
    influence[positive] = (beaten.ahead - value) / positive.sum()
    influence[~positive] = (beaten.behind - value) / (~positive).sum()
    method = f"closed form over all pairs, error <= {beaten.error:.1e}; t by users"
    return Linear(value, influence, beaten.error, method)


def smoothed_auc(
    logits: ArrayLike,
    labels: ArrayLike,
    scale: float,
    *,
    users: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """AUC of the published probability Phi(z / scale): that of z itself, whatever the scale.

    Ranked on z, for Phi is exactly 1 above 8.3 in floating point and ties there. It is what the
    holder of the clean vector keeps, not a utility of anybody who sees noise.

    Args:
        logits, labels, users, confidence: as in `expected_auc`.
        scale: sigma ||w||, > 0; checked, and without influence.

    >>> smoothed_auc([0.1, 0.2, 0.3], [0, 1, 1], scale=1e-9).value
    1.0
    """
    _check_scale(scale, positive=True)
    return expected_auc(logits, labels, 0.0, users=users, confidence=confidence)


def expected_accuracy(
    logits: ArrayLike,
    labels: ArrayLike,
    scale: ArrayLike,
    *,
    users: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """E[accuracy] at threshold 0 of one noisy draw a row: the mean of Phi(+-z / scale).

    Args:
        logits, labels, users, confidence: as in `expected_auc`.
        scale: sigma ||w|| / sqrt(M), >= 0, a number or one a row (adaptive noise).

    >>> round(expected_accuracy([1.0, -1.0], [1, 0], 1.0).value, 4)
    0.8413
    """
    z, positive = _checked(logits, labels)
    ones = chance_of_one(z, scale)
    owner = np.arange(len(z)) if users is None else np.asarray(users)
    return mean_by_user(np.where(positive, ones, 1 - ones), owner, confidence)


def chance_of_one(logits: ArrayLike, scale: ArrayLike) -> Float:
    """(n,) P(a noisy logit is above 0) = Phi(z / scale); at scale 0 whether z is above 0."""
    z, width = np.asarray(logits, np.float64), np.asarray(scale, np.float64)
    if not (np.isfinite(width).all() and (width >= 0).all()) or width.shape not in ((), z.shape):
        raise InputError(f"scale must be >= 0 and a number or {z.shape}.")
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = z / width
    return np.asarray(np.where(width > 0, ndtr(ratio), z > 0), np.float64)


@dataclass(frozen=True)
class PlugIn:
    """Precision, recall and F1 from expected counts; bias O(1/n). None where nothing is said."""

    precision: float | None
    recall: float
    f1: float


def expected_counts(logits: ArrayLike, labels: ArrayLike, scale: ArrayLike) -> PlugIn:
    """Plug-in precision, recall and F1 of one noisy draw a row, at threshold 0.

    Args:
        logits, labels: as in `expected_auc`.
        scale: as in `expected_accuracy`.

    >>> expected_counts([1.0, 1.0, -1.0], [1, 0, 0], 0.0).precision
    0.5
    """
    z, positive = _checked(logits, labels)
    ones = chance_of_one(z, scale)
    hit, named = float(ones[positive].sum()), float(ones.sum())
    return PlugIn(
        hit / named if named > 0 else None,
        hit / float(positive.sum()),
        2 * hit / (named + float(positive.sum())),
    )


@dataclass(frozen=True)
class Calibration:
    """How good the published probabilities are, as numbers (each lower = better)."""

    brier: float
    log_loss: float
    ece: float


def smoothed_calibration(
    logits: ArrayLike, labels: ArrayLike, scale: float, bins: int = 15
) -> Calibration:
    """Brier score, log loss and expected calibration error of p = Phi(z / scale).

    Args:
        logits, labels: as in `expected_auc`.
        scale: sigma ||w||, > 0.
        bins: bins of equal width in p, for the calibration error.

    >>> round(smoothed_calibration([0.0, 0.0], [0, 1], 1.0).log_loss, 4)  # ln 2
    0.6931
    """
    z, positive = _checked(logits, labels)
    _check_scale(scale, positive=True)
    check_at_least("bins", bins, 1)
    p = ndtr(z / scale)
    place = np.minimum((p * bins).astype(int), bins - 1)
    gap = np.bincount(place, positive - p, minlength=bins)
    return Calibration(
        float(((positive - p) ** 2).mean()),
        # By its own logarithm: p is exactly 1 where 1 - p still counts.
        float(-log_ndtr(np.where(positive, z, -z) / scale).mean()),
        float(np.abs(gap).sum() / len(z)),
    )


def binormal_auc(
    mean_gap: float, sd_positive: float, sd_negative: float, scale: float = 0.0
) -> float:
    """AUC if the logits of both labels are normal: Phi(gap / sqrt(s+^2 + s-^2 + 2 scale^2)).

    Args:
        mean_gap: mean logit of positives minus that of negatives.
        sd_positive: sd of the positives' logits, >= 0.
        sd_negative: sd of the negatives' logits, >= 0; not all three spreads are 0.
        scale: sigma ||w|| / sqrt(M), >= 0.

    >>> round(binormal_auc(0.2886 + 0.2029, 0.7072, 0.6459), 4)
    0.6961
    """
    check_at_least("sd_positive", sd_positive, 0)
    check_at_least("sd_negative", sd_negative, 0)
    _check_scale(scale)
    spread = math.sqrt(sd_positive**2 + sd_negative**2 + 2 * scale**2)
    check_between("the spread of the logits", spread, 0, math.inf, open_low=True, open_high=True)
    return float(ndtr(mean_gap / spread))


def average_precision(score: ArrayLike, labels: ArrayLike) -> float:
    """Area under precision against recall, in steps; tied scores make one step together.

    >>> average_precision([3.0, 2.0, 1.0], [1, 0, 1])
    0.8333333333333333
    """
    z, positive = _checked(score, labels)
    order = np.argsort(-z, kind="stable")
    last = np.append(np.flatnonzero(np.diff(z[order])), len(z) - 1)
    hits = np.cumsum(positive[order])[last]
    gained = np.diff(hits, prepend=0) / hits[-1]
    return float((gained * hits / (last + 1)).sum())


def clean_auc(logits: ArrayLike, labels: ArrayLike) -> float:
    """AUC of the clean logits, ties counted half."""
    z, positive = _checked(logits, labels)
    return auc(positive, z)


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
    for _ in range(_COST_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if accuracy(middle * share[place]) >= aim else (low, middle)
    return np.asarray(low * share)
