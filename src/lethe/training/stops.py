"""Epochs on the way at which models are asked, so that early stopping costs no further training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_PARTS = 8

Take = Callable[[int, int, NDArray[np.float32]], None]
"""(model, place of the stop, (N, C) outputs): what a model answers if its training ends there."""


def stop_epochs(epochs: int) -> tuple[int, ...]:
    """Whole epochs before the last at which a training can be cut, at most seven.

    They lie at the squares of the eighths of the training, denser at its beginning: where a
    network is trained for long, most of what it memorises is memorised early.

    Args:
        epochs: of the full training, >= 1; one epoch has no earlier stop.

    >>> stop_epochs(53), stop_epochs(4), stop_epochs(1)
    ((1, 3, 7, 13, 21, 30, 41), (1, 2, 3), ())
    """
    if epochs <= _PARTS:
        return tuple(range(1, epochs))
    grid = {max(1, round(epochs * (part / _PARTS) ** 2)) for part in range(1, _PARTS)}
    return tuple(sorted(grid))


@dataclass(frozen=True)
class Stops:
    """Where to ask models on the way, and who takes their answers.

    Attributes:
        epochs: ascending, each below the epochs of the training.
        take: called for every model at every stop, in no fixed order.
    """

    epochs: tuple[int, ...]
    take: Take
