"""What models that share a step say of every record, a part of the records at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from lethe.training.networks.base import Network


def all_outputs(network: Network, inputs: Tensor) -> Tensor:
    """(K, N, C) outputs in evaluation mode.

    Args:
        network: K models.
        inputs: (N, ...) records, on the device of the models.
    """
    rows = max(1, network.predict_cells // network.parameters.models)
    return torch.cat([network.predict(part, True) for part in torch.split(inputs, rows)], dim=1)
