"""Batch-normalisation statistics over dict batches, against the whole data at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lethe.errors import InputError
from lethe.mitigations.swag_release.records import forward_batch, recalculate_statistics


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.9)
        self.second = nn.BatchNorm1d(3)

    def forward(self, features: Tensor) -> Tensor:
        found: Tensor = self.second(self.drop(self.norm(features)))
        return found


def data() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(70, 3, generator=generator) * 3 + 5


@pytest.mark.parametrize("named", [True, False])
def test_statistics_are_those_of_all_records(named: bool) -> None:
    """Uneven batches: the mean is that of all 70; the variance is the batches' by their size."""
    rows, net = data(), Net()
    parts = list(rows.split(32))
    batches: list[Any] = parts
    if named:
        batches = [{"features": part, "labels": torch.zeros(len(part))} for part in parts]
    net.train()
    net.second.train(False)
    recalculate_statistics(net, batches, forward_batch)
    assert net.norm.running_mean is not None and net.norm.running_var is not None
    assert torch.allclose(net.norm.running_mean, rows.mean(0), atol=1e-5)
    wanted = sum(len(part) * part.var(0) for part in parts) / len(rows)
    assert torch.allclose(net.norm.running_var, torch.as_tensor(wanted), rtol=1e-5)
    # With dropout at work the second layer would see a variance near 10.
    assert net.second.running_var is not None
    assert torch.allclose(net.second.running_var, torch.ones(3), atol=0.1)
    assert net.training and not net.second.training
    assert net.norm.momentum == 0.1 and not net.norm._forward_pre_hooks


def test_images_and_an_own_forward() -> None:
    images = torch.randn(6, 2, 4, 4, generator=torch.Generator().manual_seed(1)) + 2
    net = nn.Sequential(nn.BatchNorm2d(2))
    batches = [{"pixels": images[:4]}, {"pixels": images[4:]}]
    recalculate_statistics(net, batches, lambda module, batch: module(batch["pixels"]))
    layer = net[0]
    assert isinstance(layer, nn.BatchNorm2d) and layer.running_mean is not None
    assert torch.allclose(layer.running_mean, images.mean((0, 2, 3)), atol=1e-5)


def test_a_batch_without_any_argument_of_the_model_leaves_it_as_it_was() -> None:
    net = Net()
    with pytest.raises(InputError, match="no entry of the batch"):
        recalculate_statistics(net, [{"x": data()}], forward_batch)
    assert net.training and net.norm.momentum == 0.1 and not net.norm._forward_pre_hooks
