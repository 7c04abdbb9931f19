"""Training loops of other libraries as recipes; here what they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError


def checked_labels(labels: NDArray[Any], inputs: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Labels in the type that losses take: int64 class codes, or float32 targets.

    Raises InputError: labels or an input are not one entry a record, or of another type.
    """
    codes = np.asarray(labels)
    if codes.ndim != 1 or codes.dtype.kind not in "iuf":
        raise InputError(
            f"labels have shape {codes.shape} and type {codes.dtype}, expected one class code or "
            "target for each record."
        )
    for name, array in inputs.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise InputError(f"{name} must be a NumPy array of numbers, one row a record.")
        if not array.ndim or len(array) != len(codes):
            raise InputError(
                f"{name} has shape {array.shape}, labels have {len(codes)} records: give one row "
                "for each record of the data set, in its order."
            )
    return codes.astype(np.float32 if codes.dtype.kind == "f" else np.int64)


def plain_settings(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings as plain values, for findings."""
    plain = (bool, int, float, str, type(None))
    return {
        key: value if isinstance(value, plain) else type(value).__name__
        for key, value in options.items()
    }
