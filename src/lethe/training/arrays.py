"""What every table of numbers must be before anything is computed from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError

_BLOCK = 256


def check_table(name: str, table: NDArray[Any], axes: tuple[str, ...]) -> None:
    """Refuse a table that is empty, of another shape, or holds numbers that are not finite.

    Args:
        name: of the table, for the message.
        table: of any kind of numbers.
        axes: what its axes stand for, such as ``("models", "records")``.

    Raises:
        InputError: the message names the first place that is not finite.
    """
    if table.ndim != len(axes) or 0 in table.shape:
        raise InputError(
            f"{name} has shape {table.shape}; it must be ({', '.join(axes)}), none of them 0."
        )
    if table.dtype.kind not in "fc":
        return
    for start in range(0, len(table), _BLOCK):
        wrong = np.argwhere(~np.isfinite(table[start : start + _BLOCK]))
        if len(wrong):
            place = [int(at) for at in wrong[0]]
            place[0] += start
            where = ", ".join(f"{axis} {at}" for axis, at in zip(axes, place, strict=True))
            raise InputError(
                f"{name} at {where} is {table[tuple(place)]}; every number must be finite: "
                "compute signals from logits, which stay finite where probabilities round to 1."
            )
