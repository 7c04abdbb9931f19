"""RMIA, the relative attack, and BASE (Zarifzadeh, Liu, Shokri, ICML 2024; Lassila et al. 2025).

Both ask how much more likely the target makes a record's true label than other models do,
p(x)/P(x). BASE takes that ratio as it is. RMIA says which share of records that no model has
seen, z, has a smaller ratio: that is the record's place among what the target does to people
outside. p = sigmoid(phi) is the probability of the true label, so both are for classification.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

Float = NDArray[np.float64]

MINIMUM_POPULATION = 30
"""Records that no model has seen, without which RMIA is refused."""
_SMALLEST = 1e-12
_TAIL = 0.1


def log_ratio(phi: Float, p_in: Float, p_out: Float) -> Float:
    """log p(x) - log P(x), P(x) the mean of the means IN and OUT: the BASE score, online.

    Args:
        phi: (N,) the target's signals, log-odds of the true label.
        p_in: (N,) mean probability of the true label over reference models that trained on it.
        p_out: (N,) the same over those that did not.

    Returns:
        (N,) higher = member.
    """
    return _against(phi, (p_in + p_out) / 2)


def log_ratio_offline(phi: Float, p_out: Float, a: float = 1.0) -> Float:
    """log p(x) - log P(x), P(x) = ((1 + a) P_out + 1 - a)/2 (RMIA, eq. 10 and appendix B.2.2).

    With a = 1, P(x) is the mean over models that did not train on the record: BASE, offline.

    Args:
        phi: (N,) the target's signals, log-odds of the true label.
        p_out: (N,) mean probability of the true label over models that did not train on it.
        a: in [0, 1], how near the mean IN is taken to be to the mean OUT.

    Returns:
        (N,) higher = member.
    """
    return _against(phi, ((1 + a) * p_out + 1 - a) / 2)


def _against(phi: Float, prior: Float) -> Float:
    return np.asarray(log_expit(phi) - np.log(np.maximum(prior, _SMALLEST)))


def place(ratio: Float, points: Float, gamma: float = 1.0) -> Float:
    """Log-odds of the share of z-points whose ratio, times gamma, lies below a record's.

    The plain share saturates: all records above the last z-point tie at 1. Here it is
    interpolated between the z-points, and beyond them the tail goes on as an exponential with
    the mean excess of the outermost tenth. Within one target the order is that of the ratio.

    Args:
        ratio: (N,) log p(x)/P(x).
        points: (H,) log p(z)/P(z).
        gamma: > 0.

    Returns:
        (N,) higher = member.
    """
    ordered = np.sort(points)
    asked = ratio - np.log(gamma)
    levels, first, times = np.unique(ordered, return_index=True, return_counts=True)
    share = (first + times / 2) / len(ordered)
    below = np.log(np.interp(asked, levels, share))
    above = np.log(np.interp(asked, levels, 1 - share))
    tail = max(1, round(_TAIL * len(ordered)))
    above -= np.maximum(asked - levels[-1], 0.0) / _excess(ordered[-tail - 1 :])
    below -= np.maximum(levels[0] - asked, 0.0) / _excess(-ordered[tail::-1])
    return np.asarray(below - above)


def _excess(tail: Float) -> float:
    """Mean excess of the points of a tail, ascending, over its first."""
    return max(float((tail[1:] - tail[0]).mean()), 1e-6)


def plain_share(ratio: Float, points: Float, gamma: float = 1.0) -> Float:
    """The share itself, as published: z-points with p(x)/P(x) > gamma p(z)/P(z), in [0, 1].

    Args and direction as `place`.
    """
    asked = ratio - np.log(gamma)
    return np.asarray(np.searchsorted(np.sort(points), asked, "left") / len(points))
