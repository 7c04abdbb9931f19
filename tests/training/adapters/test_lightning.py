"""Lightning modules as recipes, under both names that Lightning is sold under."""

from typing import Any

import lightning.pytorch
import numpy as np
import pytest
import pytorch_lightning
import torch
from torch import nn

from lethe.errors import InputError
from lethe.training.adapters.lightning import lightning_recipe
from lethe.training.outputs import train_callable
from lethe.training.recipe import Treatment

RNG = np.random.default_rng(0)
LABELS = np.arange(60) % 3
FEATURES = (RNG.normal(size=(60, 4)) + LABELS[:, None]).astype(np.float32)
ROWS = np.flatnonzero(RNG.random(60) < 0.6)
WEIGHTS = RNG.random(60).astype(np.float32)


class Steps:
    """What users write, for either base class."""

    def __init__(self, out: int = 3, rate: float = 0.05) -> None:
        super().__init__()
        self.layers, self.rate = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.1)), rate
        self.last = nn.Linear(16, out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(x))

    def training_step(self, batch: Any, at: int) -> torch.Tensor:
        x, y, *weight = batch
        loss = nn.functional.cross_entropy(self(x), y, reduction="none")
        return (loss * weight[0]).mean() if weight else loss.mean()

    def validation_step(self, batch: Any, at: int) -> None:
        raise AssertionError("nothing is validated")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), self.rate)


class New(Steps, lightning.pytorch.LightningModule):
    pass


class Old(Steps, pytorch_lightning.LightningModule):
    pass


def train(make: Any = New, treatment: Treatment | None = None, seed: int = 0, **given: Any) -> Any:
    settings = {"epochs": 20, "batch_size": 16, **given}
    recipe = lightning_recipe(make, FEATURES, LABELS, **settings)
    return train_callable(recipe, 60, ROWS, treatment or Treatment(), seed)


@pytest.mark.parametrize("make", [New, Old])
def test_a_module_learns_quietly_and_follows_its_seed(make: Any, capfd: Any) -> None:
    one, again = train(make, seed=5), train(make, seed=5)
    assert one.shape == (60, 3) and one.dtype == np.float32
    assert (one == again).all() and (one != train(make, seed=6)).any()
    assert (one.argmax(axis=1) == LABELS)[ROWS].mean() > 0.6
    said = capfd.readouterr()
    assert said.out == "" and said.err == ""


def test_one_full_batch_without_dropout_is_a_gradient_step() -> None:
    def make() -> Any:
        module = New(rate=0.5)
        module.layers = nn.Identity()
        module.last = nn.Linear(4, 3)
        nn.init.zeros_(module.last.weight)
        nn.init.zeros_(module.last.bias)
        return module

    out = train(make, Treatment(weights=WEIGHTS), epochs=1, batch_size=60, weighted=True)
    x, hot = FEATURES[ROWS], np.eye(3)[LABELS[ROWS]]
    slope = WEIGHTS[ROWS][:, None] * (1 / 3 - hot) / len(ROWS)
    wanted = -0.5 * (FEATURES @ (x.T @ slope) + slope.sum(axis=0))
    assert out == pytest.approx(wanted, abs=1e-5)


def test_predictions_of_a_regression() -> None:
    class Regression(New):
        def training_step(self, batch: Any, at: int) -> torch.Tensor:
            x, y = batch
            return nn.functional.mse_loss(self(x)[:, 0], y)

    targets = FEATURES.sum(axis=1).astype(np.float64)
    recipe = lightning_recipe(lambda: Regression(1), FEATURES, targets, epochs=30, batch_size=8)
    assert recipe.task == "regression"
    out = train_callable(recipe, 60, ROWS, Treatment(), 0)
    assert out.shape == (60, 1)
    assert np.mean((out[:, 0] - targets)[ROWS] ** 2) < 0.3 * np.var(targets)


def test_weights_are_refused_unless_the_module_takes_them() -> None:
    plain = lightning_recipe(New, FEATURES, LABELS)
    assert "weighted=True" in str(plain.refuses(Treatment(weights=WEIGHTS)))
    assert plain.refuses(Treatment(weights=WEIGHTS, remove=True)) is None
    weighted = lightning_recipe(New, FEATURES, LABELS, weighted=True)
    assert weighted.refuses(Treatment(weights=WEIGHTS)) is None
    assert weighted.code_hash() != plain.code_hash()


def test_options_reach_the_trainer_and_the_description() -> None:
    clipped = train(trainer_options={"gradient_clip_val": 1e-6})
    assert np.abs(clipped - train(epochs=1, make=lambda: New(rate=0.0))).max() < 1e-3
    recipe = lightning_recipe(New, FEATURES, LABELS, trainer_options={"gradient_clip_val": 0.5})
    assert recipe.describe() == {
        "kind": "lightning",
        "epochs": 10,
        "batch_size": 64,
        "weighted": False,
        "gradient_clip_val": 0.5,
        "outputs": "logits",
        "version": "",
    }


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"epochs": 0}, "epochs=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"trainer_options": {"max_epochs": 3}}, "which the adapter sets itself; use epochs="),
        ({"trainer_options": {"logger": True}}, "'logger', which the adapter sets itself. Leave"),
        ({"trainer_options": {"gradient_clip": 1}}, "Did you mean 'gradient_clip_val'"),
        ({"outputs": "logit"}, "outputs='logit' must be one of"),
        ({"make": lambda: nn.Linear(4, 3)}, "Linear, expected a LightningModule.*TorchRecipe"),
    ],
)
def test_what_cannot_be_used_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        train(**given)


@pytest.mark.parametrize(
    ("features", "labels", "why"),
    [
        (FEATURES[:50], LABELS, r"features has shape \(50, 4\), labels have 60 records"),
        (FEATURES, LABELS.astype(str), "expected one class code or target"),
        (FEATURES, np.eye(3)[LABELS], r"labels have shape \(60, 3\)"),
        (FEATURES.tolist(), LABELS, "features must be a NumPy array of numbers"),
    ],
)
def test_data_of_other_shapes_are_refused(features: Any, labels: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        lightning_recipe(New, features, labels)
