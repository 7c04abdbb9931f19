"""Half precision is for the forward pass: norms and sums are made in the parameters' own."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def full_precision(like: Tensor) -> AbstractContextManager[object]:
    """Autocast off for the device of a tensor; nothing is done where it is off already."""
    kind = like.device.type
    if torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()
