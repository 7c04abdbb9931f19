"""A training step never reads a value back from its device: on a GPU that would make it wait."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from lethe.training.augment import Augment
from lethe.training.loop import train_models
from lethe.training.recipe import PER_GPU, Layout, TorchRecipe, Treatment, Work

aten = torch.ops.aten
WAITS = (aten._local_scalar_dense, aten.nonzero, aten.is_nonzero, aten.equal, aten.masked_select)
RNG = np.random.default_rng(0)
FEATURES = RNG.random((24, 48), dtype=np.float32)
LABELS = RNG.integers(0, 3, 24)


class Watch(TorchDispatchMode):
    """Lists the operations whose result Python, or the size of a tensor, waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        masks = func.overloadpacket in (aten.index, aten.index_put, aten.index_put_) and any(
            at is not None and at.dtype in (torch.bool, torch.uint8) for at in args[1]
        )
        if masks or func.overloadpacket in WAITS:
            self.waited.append(str(func))
        return func(*args, **(kwargs or {}))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.again, self.drop = nn.Conv2d(4, 4, 3, padding=1), nn.Dropout(0.2)
        self.leave = nn.Linear(64, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.enter(x.reshape(-1, 3, 4, 4))).relu()
        return self.leave(self.drop(h + self.again(h)).flatten(1))


RECIPE = TorchRecipe(
    Net,
    epochs=2,
    batch_size=4,
    learning_rate=0.1,
    optimizer="sgd",
    momentum=0.9,
    nesterov=True,
    schedule="one-cycle",
    label_smoothing=0.1,
    clip_norm=1.0,
    augment=Augment((3, 4, 4), flip=True, crop=1, cutout=2),
)


def waits(recipe: TorchRecipe, layout: Layout) -> list[str]:
    members = np.zeros((2, 24), bool)
    members[0, ::2] = members[1, 1::2] = True
    with Watch() as watch:
        made = train_models(
            Work(
                recipe,
                FEATURES,
                LABELS,
                members,
                members[0] | members[1],
                Treatment(weights=RNG.random(24).astype(np.float32), noise=0.01),
                [1, 2],
                layout,
            )
        )
        assert len(list(made)) == 2
    return watch.waited


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_no_step_waits(optimizer: str) -> None:
    momentum = 0.9 if optimizer == "sgd" else 0.0
    recipe = replace(RECIPE, optimizer=optimizer, momentum=momentum, nesterov=momentum > 0)
    assert waits(recipe, Layout("alone", 1)) == []


def test_early_stopping_waits_once_an_epoch_and_the_watch_sees_it() -> None:
    found = waits(replace(RECIPE, patience=9), Layout("alone", 1))
    assert (
        sum("_local_scalar_dense" in one or "is_nonzero" in one for one in found)
        == 2 * RECIPE.epochs
    )


def test_few_processes_share_a_gpu() -> None:
    assert Layout("alone", 1, "cuda").workers(16) == PER_GPU
    assert Layout("alone", 1, "cuda").workers(1) == 1
    assert Layout("alone", 1).workers(16) == 16
