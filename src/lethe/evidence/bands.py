"""A band that holds a whole curve at once, from the pulls of two-way clusters.

A sup-t band: the largest studentised deviation over the grid takes the place of a single one
(Montiel Olea and Plagborg-Moller, Journal of Applied Econometrics 2019, algorithm 2).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from lethe.errors import check_between
from lethe.evidence.twoway import Influence, interaction_of, share_estimate

Float = NDArray[np.float64]

_DRAWS = 8000


def simultaneous_band(
    tpr: Float,
    influence: Influence,
    places: Sequence[int] | NDArray[np.integer],
    members: int,
    records: int,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[Float, Float]:
    """Limits that hold the true TPR at every grid point together.

    Each limit is that of the pointwise interval (Korn-Graubard on the two-way variance) at the
    higher confidence that `joint_confidence` finds, with the point's own Student-t degrees of
    freedom.

    Guarantee: asymptotic, in the number of target and record clusters; every pointwise interval
        of the same confidence lies within the band.
    Assumes: clusters are independent; the grid was fixed beforehand. Between grid points the
        curve is held by monotony only.

    Args:
        tpr: (G,) measured TPR, each in [0, 1].
        influence: of clusters on the TPR of each grid point, among other statistics.
        places: (G,) where these stand in `influence`.
        confidence: of the whole band, in (0, 1).
        seed: of the simulated deviations.

    Returns: (G,) lower and (G,) upper limits.
    """
    columns = np.asarray(places, np.intp)
    joint = joint_confidence(influence, columns, confidence, seed)
    limits = [
        share_estimate(float(value), influence.spread(int(place)), members, records, joint)
        for value, place in zip(tpr, columns, strict=True)
    ]
    low = np.array([limit.low for limit in limits], np.float64)
    return low, np.array([limit.high for limit in limits], np.float64)


def joint_confidence(
    influence: Influence, places: NDArray[np.intp], confidence: float = 0.95, seed: int = 0
) -> float:
    """The confidence that each of some intervals needs for all to hold together.

    The `confidence` quantile of the largest of correlated standard normals, as the confidence
    of a single one. Between that of one interval (all move together) and Sidak's (none do).

    Args:
        places: (G,) the statistics to hold together; those without spread count for nothing.
        confidence: that all hold, in (0, 1).
    """
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    value, vector = np.linalg.eigh(two_way_correlation(influence, places))
    # The symmetric root: others turn with the signs of eigenvectors, which processors choose.
    root = (vector * np.sqrt(np.where(value > 1e-12, value, 0.0))) @ vector.T
    if not root.any():
        return confidence
    deviation = np.abs(_normals(seed, root.shape[1]) @ root.T).max(axis=1)
    # Simulation error must not make the band narrower than one interval.
    largest = max(float(np.quantile(deviation, confidence)), float(ndtri((1 + confidence) / 2)))
    return float(1 - 2 * ndtr(-largest))


@functools.lru_cache(maxsize=2)  # all attacks of an audit are read on one grid
def _normals(seed: int, columns: int) -> Float:
    return np.random.default_rng([seed, 17]).standard_normal((_DRAWS, columns))


def two_way_correlation(influence: Influence, places: NDArray[np.intp]) -> Float:
    """(G, G) correlation of the estimates: C_targets + C_records - C_interaction, scaled.

    Of C_targets + C_records - C_interaction, what the variances of `twoway.combine` have above the
    diagonal is added as noise of each point's own: caution. Rows of points without spread are 0.

    Args:
        places: (G,) which of them.
    """
    targets, records, cells = influence.pulls.covariances(places)
    covariance = records  # of a single target records alone vary
    if influence.clusters[0] > 1:
        held = _semidefinite(interaction_of((targets, records, cells), influence.clusters))
        covariance = _semidefinite(targets + records - held)
    variance = np.array([influence.spread(int(place)).variance for place in places])
    covariance += np.diag(np.maximum(variance - np.diag(covariance), 0.0))
    scale = np.sqrt(np.diag(covariance))
    # A statistic that no cluster moves has nothing but rounding errors in its row.
    scale = np.where((variance <= 0) | (scale <= 0), np.inf, scale)
    return np.asarray(covariance / scale[:, None] / scale[None, :])


def _semidefinite(matrix: Float) -> Float:
    """The nearest matrix without negative variance in any direction."""
    value, vector = np.linalg.eigh(matrix)
    return np.asarray((vector * np.maximum(value, 0.0)) @ vector.T)
