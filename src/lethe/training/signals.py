"""The membership signal phi = log(p_y / (1 - p_y)) of the true label, higher = better known.

Computed from logits as z_y - logsumexp of the others, which stays finite for any finite
logits (Carlini et al. 2022, section IV-C; the naive form saturates at p = 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError

_TINY = float(np.finfo(np.float64).tiny)


def signal_from_logits(
    logits: NDArray[np.floating], labels: NDArray[np.integer]
) -> NDArray[np.float32]:
    """phi from logits.

    Args:
        logits: (n, C) unnormalised log-probabilities, C >= 2, any float type.
        labels: (n,) true class codes.

    Returns:
        (n,) float32, higher = the true label is more certain.

    Raises:
        InputError: a logit is NaN; the message names the first record.

    >>> signal_from_logits(np.array([[0.0, 0.0]]), np.array([1])).tolist()
    [0.0]
    """
    wide = np.asarray(logits, dtype=np.float64)
    _check(wide, labels, "logits")
    rows = np.arange(len(wide))
    own = wide[rows, labels]
    others = wide.copy()
    others[rows, labels] = -np.inf
    peak = others.max(axis=1)
    with np.errstate(invalid="ignore"):
        rest = peak + np.log(np.exp(others - peak[:, None]).sum(axis=1))
    limit = float(np.finfo(np.float32).max)
    signal: NDArray[np.float32] = np.clip(own - rest, -limit, limit).astype(np.float32)
    return signal


def signal_from_probabilities(
    probabilities: NDArray[np.floating], labels: NDArray[np.integer]
) -> NDArray[np.float32]:
    """phi from class probabilities, in float64 with the other classes summed.

    1 - p_y would lose everything once p_y rounds to 1; the sum of the others does not.

    Args:
        probabilities: (n, C), rows sum to about 1.
        labels: (n,) true class codes.
    """
    wide = np.asarray(probabilities, dtype=np.float64)
    _check(wide, labels, "probabilities")
    rows = np.arange(len(wide))
    own = wide[rows, labels]
    others = wide.copy()
    others[rows, labels] = 0.0
    ratio = np.log(np.maximum(own, _TINY)) - np.log(np.maximum(others.sum(axis=1), _TINY))
    signal: NDArray[np.float32] = ratio.astype(np.float32)
    return signal


def _check(outputs: NDArray[np.float64], labels: NDArray[np.integer], what: str) -> None:
    if outputs.ndim != 2 or outputs.shape[0] != len(labels) or outputs.shape[1] < 2:
        raise InputError(
            f"{what} have shape {outputs.shape}, expected ({len(labels)}, classes) "
            "with at least 2 classes."
        )
    bad = np.isnan(outputs).any(axis=1)
    if bad.any():
        raise InputError(
            f"{what} hold NaN for {int(bad.sum())} records, the first is record "
            f"{int(np.flatnonzero(bad)[0])}; lower the learning rate or look at that record."
        )
