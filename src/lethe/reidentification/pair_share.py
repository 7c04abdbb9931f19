"""The mean of Phi((x - y) / width) over all pairs of two long lists, without the pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from lethe.errors import check_between

Float = NDArray[np.float64]

_CURVE = 0.24197072451914337  # phi(1), the largest second derivative of Phi
_PLENTY = 1 << 21  # grid points that are still fast
_REACH = 9.0  # widths beyond which Phi is 0 or 1 to 1e-18
_ROUNDING = 1e-12
_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class PairShare:
    """Each value's mean share of pairs won.

    Attributes:
        ahead: (n,) mean over y of Phi((x_i - y) / width); its mean is the share over all pairs.
        behind: (m,) mean over x of Phi((x - y_j) / width).
        error: proven largest error of the mean over all pairs.
    """

    ahead: Float
    behind: Float
    error: float


def pair_share(x: Float, y: Float, width: float, tolerance: float = 1e-5) -> PairShare:
    """Share of pairs in which x + noise beats y, for noise of sd `width` on their difference.

    Both lists are spread over a grid of step h, each value to its two neighbours so that its mean
    stays. That moves a mean of f by at most h^2/8 max|f''|, for each of the two lists, and here
    max|f''| = phi(1)/width^2. One convolution then does all pairs, in O(n + g log g). Where the
    grid would be too long (tiny width) every x meets the y within 9 widths one by one.

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
    at = 0
    while at < len(x):
        end = max(at + 1, int(np.searchsorted(done, done[at] + _BLOCK, "right")) - 1)
        count = (last - first)[at:end]
        row = np.repeat(np.arange(at, end), count)
        column = np.arange(len(row)) - np.repeat(done[at:end] - done[at], count) + first[row]
        total[at:end] += np.bincount(
            row - at, ndtr((x[row] - ordered[column]) / width), minlength=end - at
        )
        at = end
    return total / len(y)
