"""Modules that do not stack: one at a time, by autograd."""

import numpy as np
import pytest
import torch
from torch import nn

from lethe.training.loop import train_models
from lethe.training.recipe import Layout, TorchRecipe, Treatment, Work
from lethe.training.users_code import build_module

RNG = np.random.default_rng(0)
LABELS = np.arange(60) % 3
FEATURES = (RNG.normal(size=(60, 4)) + LABELS[:, None]).astype(np.float32)
ROWS = np.flatnonzero(RNG.random(60) < 0.6)


def alone(
    recipe: TorchRecipe, treatment: Treatment, seed: int, layout: Layout | None = None
) -> np.ndarray:
    members = np.isin(np.arange(60), ROWS)[None]
    everyone = np.ones(60, bool)
    layout = layout or Layout("alone", 1)
    return next(
        train_models(Work(recipe, FEATURES, LABELS, members, everyone, treatment, [seed], layout))
    )


def convolution() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 4)),
        nn.Conv1d(1, 2, 2),
        nn.BatchNorm1d(2),
        nn.Flatten(),
        nn.Linear(6, 3),
    )


def test_training_leaves_torchs_global_stream_alone() -> None:
    torch.manual_seed(0)
    wanted = torch.rand(1)
    torch.manual_seed(0)
    alone(TorchRecipe(convolution, epochs=1), Treatment(), 3)
    assert torch.equal(torch.rand(1), wanted)


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(4, 3), nn.Linear(4, 3)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x) * self.frozen


def test_parameters_that_the_loss_does_not_reach_get_noise_without_a_crash() -> None:
    recipe = TorchRecipe(Unused, epochs=1, optimizer="sgd")
    out = alone(recipe, Treatment(noise=0.01), 0)
    assert np.isfinite(out).all()


def test_everything_removed_trains_nothing_and_does_not_crash() -> None:
    nobody = Treatment(weights=np.zeros(60, np.float32), remove=True)
    recipe = TorchRecipe(lambda: nn.Linear(4, 3), epochs=2, optimizer="sgd")
    with torch.no_grad():
        start = build_module(recipe.make_module, 0)(torch.from_numpy(FEATURES))
    for out in (alone(recipe, nobody, 0), alone(recipe, nobody, 0, Layout("chain", 1))):
        assert out == pytest.approx(start.numpy(), abs=1e-6)
