"""What noise costs the task: three quantities that are never mixed up.

*Smoothed*: the server publishes Phi(z / (sigma ||w||)), whose ranking and decisions at 0.5 are
those of the clean logit; only its calibration moves. *Single draw*: the consumer's logit is z +
N(0, sigma^2 ||w||^2). *M draws*: sigma / sqrt(M) in the same formulas. z is the logit of a linear
binary head, `scale` is sigma ||w|| / sqrt(M).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr

from lethe.errors import InputError, NotMeasurable, check_between
from lethe.evidence.estimate import Estimate
from lethe.evidence.of_vectors import Calibration, PlugIn
from lethe.reidentification.by_user import Linear, mean_by_user
from lethe.reidentification.vectors import Float, check_binary, check_sigma

# The mean of Phi((x - y) / width) over all pairs of two long lists, without the pairs.

_CURVE = 0.24197072451914337  # phi(1), the largest second derivative of Phi
_PLENTY = 1 << 21  # grid points that are still fast
_REACH = 9.0  # widths beyond which Phi is 0 or 1 to 1e-18
_ROUNDING = 1e-12
_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class PairShare:
    """Each value's mean share of pairs won."""

    ahead: Float  # (n,) mean over y of Phi((x_i - y) / width); its mean is the share over all pairs
    behind: Float  # (m,) mean over x of Phi((x - y_j) / width)
    error: float  # proven largest error of the mean over all pairs


def pair_share(x: Float, y: Float, width: float, tolerance: float = 1e-5) -> PairShare:
    """Share of pairs in which x + noise beats y, for noise of sd `width` on their difference.

    Both lists are spread over a grid of step h, which moves a mean of f by at most h^2/8 max|f''|
    each, max|f''| = phi(1)/width^2; one convolution does all pairs, in O(n + g log g). Where the
    grid would be too long every x meets the y within 9 widths one by one.

    Args:
        x: (n,) finite.
        y: (m,) finite.
        width: >= 0; 0 counts wins, and ties half.
        tolerance: largest error, in (0, 0.1).

    >>> pair_share(np.array([1.0, 2.0]), np.array([1.0]), 0.0).ahead
    array([0.5, 1. ])
    """
    check_between("tolerance", tolerance, 0, 0.1, open_low=True, open_high=True)
    if width == 0:
        return PairShare(_wins(x, y), 1 - _wins(y, x), 0.0)
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    step = 2 * width * math.sqrt((tolerance - min(_ROUNDING, tolerance / 2)) / _CURVE)
    points = int((high - low) / step) + 2 if (high - low) / step < _PLENTY else _PLENTY + 1
    if points > _PLENTY or points > 40 * (len(x) + len(y)):
        return PairShare(_near(x, y, width), 1 - _near(y, x, width), _ROUNDING)
    grid = (low, step, points)
    return PairShare(
        _on_grid(x, y, width, grid),
        1 - _on_grid(y, x, width, grid),
        min(tolerance, _error(grid, width)),
    )


def _error(grid: tuple[float, float, int], width: float) -> float:
    return _CURVE * (grid[1] / width) ** 2 / 4 + _ROUNDING


def _on_grid(x: Float, y: Float, width: float, grid: tuple[float, float, int]) -> Float:
    _, step, points = grid
    place, part = _place(y, grid)
    mass = np.bincount(place, 1 - part, minlength=points + 1).astype(np.float64)
    mass += np.bincount(place + 1, part, minlength=points + 1)
    mass = mass[:points] / len(y)
    kernel = ndtr(np.arange(1 - points, points) * (step / width))
    # What wraps around falls outside the middle that is read.
    length = 1 << (2 * points - 2).bit_length()
    product = np.fft.rfft(mass, length) * np.fft.rfft(kernel, length)
    share = np.append(np.fft.irfft(product, length)[points - 1 : 2 * points - 1], 0.0)
    at, rest = _place(x, grid)
    return np.asarray((1 - rest) * share[at] + rest * share[at + 1])


def _place(value: Float, grid: tuple[float, float, int]) -> tuple[NDArray[np.intp], Float]:
    low, step, points = grid
    exact = (value - low) / step
    place = np.minimum(exact.astype(np.intp), points - 2)
    return place, np.minimum(exact - place, 1.0)


def _wins(x: Float, y: Float) -> Float:
    ordered = np.sort(y)
    below = np.searchsorted(ordered, x, "left") + np.searchsorted(ordered, x, "right")
    return np.asarray(below / (2 * len(y)))


def _near(x: Float, y: Float, width: float) -> Float:
    """Exact, one by one where it is not decided."""
    ordered = np.sort(y)
    first = np.searchsorted(ordered, x - _REACH * width, "left")
    last = np.searchsorted(ordered, x + _REACH * width, "right")
    total: Float = np.array(first, np.float64)
    done = np.concatenate([[0], np.cumsum(last - first)])
    start = 0
    while start < len(x):
        end = max(start + 1, int(np.searchsorted(done, done[start] + _BLOCK, "right")) - 1)
        count = (last - first)[start:end]
        row = np.repeat(np.arange(start, end), count)
        column = np.arange(len(row)) - np.repeat(done[start:end] - done[start], count) + first[row]
        total[start:end] += np.bincount(
            row - start, ndtr((x[row] - ordered[column]) / width), minlength=end - start
        )
        start = end
    return total / len(y)


_COST_HALVINGS = 60


def _checked(logits: ArrayLike, labels: ArrayLike) -> tuple[Float, NDArray[np.bool_]]:
    z = np.asarray(logits, np.float64)
    if z.ndim != 1 or not np.isfinite(z).all():
        raise InputError("logits must be one finite number a row, of a binary head.")
    return z, check_binary(labels, len(z))


def _check_scale(scale: float, *, positive: bool = False) -> float:
    return check_between("scale", scale, 0, math.inf, open_low=positive, open_high=True)


def linear_auc(
    logits: ArrayLike, labels: ArrayLike, scale: float, tolerance: float = 1e-5
) -> Linear:
    """E[AUC] of one noisy draw a row, with the share of each row in its error: the mean over
    (positive i, negative j) of Phi((z_i - z_j) / (sqrt(2) scale)); no sampling of noise.

    Its interval is for other people (Obuchowski 1997), not for the noise, which is averaged
    exactly; two noise levels are compared in pairs.

    Args:
        logits: (n,) clean z.
        labels: (n,) in {0, 1}.
        scale: sigma ||w|| / sqrt(M), >= 0; 0 is the clean AUC, ties counted half.
        tolerance: largest error of the computation, in (0, 0.1); the limits are wider by it.

    Raises InputError: labels other than 0 and 1 or of one kind, or shapes that do not fit.

    >>> round(linear_auc([1.0, -1.0, 2.0, 0.0], [1, 0, 1, 0], 1.0).value, 4)
    0.8965
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
        logits, labels: as in `linear_auc`.
        scale: sigma ||w|| / sqrt(M), >= 0, a number or one a row (adaptive noise).
        users: (n,) owner of each row, for an interval by users; None: each row its own person.

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


def expected_counts(logits: ArrayLike, labels: ArrayLike, scale: ArrayLike) -> PlugIn:
    """Plug-in precision, recall and F1 of one noisy draw a row, at threshold 0.

    Args:
        logits, labels: as in `linear_auc`.

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


def smoothed_calibration(logits: ArrayLike, labels: ArrayLike, scale: float) -> Calibration:
    """Brier score, log loss and expected calibration error (15 equal bins) of p = Phi(z / scale).

    Args:
        logits, labels: as in `linear_auc`.
        scale: sigma ||w||, > 0.

    >>> round(smoothed_calibration([0.0, 0.0], [0, 1], 1.0).log_loss, 4)  # ln 2
    0.6931
    """
    z, positive = _checked(logits, labels)
    _check_scale(scale, positive=True)
    p, bins = ndtr(z / scale), 15
    place = np.minimum((p * bins).astype(int), bins - 1)
    gap = np.bincount(place, positive - p, minlength=bins)
    return Calibration(
        float(((positive - p) ** 2).mean()),
        # By its own logarithm: p is exactly 1 where 1 - p still counts.
        float(-log_ndtr(np.where(positive, z, -z) / scale).mean()),
        float(np.abs(gap).sum() / len(z)),
    )


def equal_cost_levels(
    shape: ArrayLike,
    owner: NDArray[np.integer],
    logits: ArrayLike,
    labels: ArrayLike,
    weight_norm: float,
    sigma: float,
) -> Float:
    """(G,) sigma_u = c shape_u, with c such that expected accuracy is that of `sigma` for all.

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
