"""Inputs whose scale no private record decides.

Loaders give columns mean 0 and standard deviation 1 over all records, private ones included. Scaled
again by the held-out records alone, such a column is what it would have been if the held-out
records had scaled it at once: the first scaling cancels, and with it what it told.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError

MOST = 5.0
"""Deviations from the held-out mean beyond which a value is cut off: one record alone does not
decide it, and a column that hardly varies among the held-out records would be blown up."""

_ROUNDING = 1e-3


def scaled_by_held_out(
    features: NDArray[np.floating], pool: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Columns that were standardised over all records, standardised over the held-out ones.

    Args:
        features: (N, D) inputs; other shapes come back as they are, since images are scaled by
            constants.
        pool: (N,) True where a record can be a member; the others are held out.

    Returns:
        (N, D) float32. A column that does not vary among the held-out records is 0; columns that
        were not standardised, such as one-hot codes, stay as they are.

    Raises:
        InputError: standardised columns and fewer than two held-out records.

    >>> column = np.array([[-(2**0.5)], [2**0.5], [0.0], [0.0]])
    >>> scaled_by_held_out(column, np.array([False, True, False, True])).round(3).ravel()
    array([-1.,  3.,  1.,  1.], dtype=float32)
    """
    given = np.asarray(features, np.float32)
    if given.ndim != 2:
        return given
    mean, spread = given.mean(axis=0, dtype=np.float64), given.std(axis=0, dtype=np.float64)
    done = (np.abs(mean) < _ROUNDING) & (np.abs(spread - 1) < _ROUNDING)
    if not done.any():
        return given
    held = ~pool
    if held.sum() < 2:
        raise InputError(
            "the inputs are scaled by statistics of the private records, which no noise covers: "
            "hold out two or more records to scale by, or scale by constants."
        )
    out = given.copy()
    own = given[:, done].astype(np.float64)
    centre, width = own[held].mean(axis=0), own[held].std(axis=0)
    scaled = np.divide(own - centre, width, out=np.zeros_like(own), where=width > 0)
    out[:, done] = np.clip(scaled, -MOST, MOST)
    return out
