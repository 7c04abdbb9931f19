"""Every way to train gives what torch's own loop gives; steps, weights and noise by hand."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from plain_loop import train_plainly
from torch import nn

from lethe.errors import InputError
from lethe.training.augment import Augment
from lethe.training.batches import validation_rows
from lethe.training.design import membership, model_seed
from lethe.training.loop import default_layout, train_models
from lethe.training.recipe import Layout, TorchRecipe, Treatment, Work

RECORDS, POOL, WIDTH, CLASSES = 45, 37, 5, 3
RNG = np.random.default_rng(1)
FEATURES = RNG.normal(size=(RECORDS, WIDTH)).astype(np.float32)
LABELS = RNG.integers(0, CLASSES, RECORDS)
MEMBERS = np.zeros((8, RECORDS), bool)
MEMBERS[:, :POOL] = membership(8, POOL, 0)
MASK = np.arange(RECORDS) < POOL
SEEDS = [model_seed(0, at) for at in range(8)]
WEIGHTS = RNG.random(RECORDS).astype(np.float32)
DROPPED = (RNG.random(RECORDS) < 0.6).astype(np.float32)
CHAIN, ALONE = Layout("chain", 4), Layout("alone", 1)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, CLASSES))


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, CLASSES))


def batch_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 1, WIDTH)),
        nn.Conv2d(1, 4, (1, 3), padding=(0, 1)),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d((1, 2)),
        nn.Conv2d(4, 6, 1, bias=False),
        nn.GroupNorm(2, 6),
        nn.SiLU(),
        nn.AvgPool2d((1, 2)),
        nn.Flatten(),
        nn.Linear(6, CLASSES),
    )


class Residual(nn.Module):
    """Not a plain chain of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 8), nn.Linear(8, 8)
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.3)
        self.last = nn.Linear(8, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.first(x)).relu()
        return self.last(h + self.drop(self.second(h).tanh()))


class Transformer(nn.Module):
    """One block of attention over the features as tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(1, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.last = nn.Linear(8, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.block(self.enter(x[..., None])).mean(1))


SGD = TorchRecipe(net, epochs=3, batch_size=4, learning_rate=0.1, optimizer="sgd")
RECIPES = {
    "sgd": SGD,
    "momentum": replace(SGD, momentum=0.9),
    "nesterov": replace(SGD, momentum=0.9, nesterov=True),
    "decay": replace(SGD, weight_decay=0.05),
    "adam": replace(SGD, optimizer="adam", learning_rate=0.01),
    "adamw": replace(SGD, optimizer="adamw", learning_rate=0.01, weight_decay=0.1),
    "one row a step": replace(SGD, batch_size=1, momentum=0.9, learning_rate=0.01),
    "one batch": replace(SGD, batch_size=1000),
    "cosine": replace(SGD, schedule="cosine"),
    "cosine after a rise": replace(SGD, schedule="cosine", warmup=0.3),
    "constant after a rise": replace(SGD, warmup=0.5, momentum=0.9),
    "one cycle": replace(SGD, schedule="one-cycle", optimizer="adam"),
    "smoothing": replace(SGD, label_smoothing=0.2),
    "clipping": replace(SGD, clip_norm=0.3),
    "patience": replace(SGD, epochs=12, learning_rate=1.0, patience=2, validation=0.3),
    "patience of one": replace(
        SGD, epochs=12, optimizer="adam", learning_rate=0.3, patience=1, validation=0.5
    ),
}
TREATMENTS = {
    "plain": Treatment(),
    "weights": Treatment(weights=WEIGHTS),
    "noise": Treatment(noise=0.05),
    "weights and noise": Treatment(weights=WEIGHTS, noise=0.05),
    "removal": Treatment(weights=DROPPED, remove=True),
    "removal and noise": Treatment(weights=DROPPED, remove=True, noise=0.05),
    "early": Treatment(epochs=1),
    "decay": Treatment(weight_decay=0.2),
    "smoothing": Treatment(label_smoothing=0.4),
    "mixup": Treatment(mixup=0.5),
    "mixup of weighted rows": Treatment(weights=WEIGHTS, mixup=2.0, label_smoothing=0.2),
    "mixup where rows are removed": Treatment(weights=DROPPED, remove=True, mixup=1.0),
    "average": Treatment(average=0.7),
    "average of the last step": Treatment(average=1e-9, weight_decay=0.3),
}


def plainly(recipe: TorchRecipe, treatment: Treatment, models: int = 4) -> np.ndarray:
    return np.stack(
        [
            train_plainly(recipe, FEATURES, LABELS, row, MASK, treatment, seed)
            for row, seed in zip(MEMBERS[:models], SEEDS, strict=False)
        ]
    )


def train(
    recipe: TorchRecipe,
    treatment: Treatment,
    rows: slice = slice(0, 4),
    layout: Layout = CHAIN,
    features: np.ndarray = FEATURES,
    members: np.ndarray = MEMBERS,
) -> np.ndarray:
    models = train_models(
        Work(recipe, features, LABELS, members[rows], MASK, treatment, SEEDS[rows], layout)
    )
    return np.stack(list(models))


def follows_the_plain_loop(recipe: TorchRecipe, treatment: Treatment) -> None:
    wanted = plainly(recipe, treatment, 2)
    for layout, rows in ((CHAIN, slice(0, 4)), (ALONE, slice(0, 2))):
        found = train(recipe, treatment, rows, layout)[:2]
        assert np.abs(found - wanted).max() < 1e-4, layout


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_every_way_trains_as_torchs_own_loop(recipe: TorchRecipe) -> None:
    follows_the_plain_loop(recipe, Treatment(weights=WEIGHTS, noise=0.02))


@pytest.mark.parametrize("treatment", TREATMENTS.values(), ids=TREATMENTS)
def test_every_treatment_is_that_of_torchs_own_loop(treatment: Treatment) -> None:
    adam = replace(SGD, optimizer="adam", momentum=0.0, learning_rate=0.01)
    for recipe in (SGD, adam) if treatment.weight_decay else (adam,):
        follows_the_plain_loop(recipe, treatment)


@pytest.mark.parametrize("make_module", [dropping, batch_norm, images, Residual, Transformer])
def test_every_kind_of_network_trains_alike_however_many_at_once(
    make_module: Callable[[], nn.Module],
) -> None:
    """Masks, running statistics and residuals are each model's own."""
    recipe = replace(SGD, make_module=make_module, optimizer="adam", learning_rate=0.01)
    treatment = Treatment(noise=0.01)
    wanted = plainly(recipe, treatment)
    widths = (1, 3, 4)
    ways = [ALONE]
    if default_layout(recipe).kind == "chain":
        ways += [Layout("chain", width) for width in widths]
    else:
        assert make_module in (images, Residual, Transformer)
    for layout in ways:
        assert np.abs(train(recipe, treatment, layout=layout) - wanted).max() < 1e-4


@pytest.mark.parametrize("make_module", [dropping, batch_norm, images, Residual])
def test_mixtures_and_averages_reach_every_kind_of_network(
    make_module: Callable[[], nn.Module],
) -> None:
    """Running statistics are averaged along; AveragedModel(use_buffers=True) is the oracle."""
    recipe = replace(SGD, make_module=make_module, optimizer="adam", learning_rate=0.02)
    treatment = Treatment(mixup=1.0, average=0.5, weight_decay=0.01)
    wanted = plainly(recipe, treatment)
    ways = [ALONE]
    if default_layout(recipe).kind == "chain":
        ways += [Layout("chain", 1), Layout("chain", 3)]
    for layout in ways:
        assert np.abs(train(recipe, treatment, layout=layout) - wanted).max() < 1e-4
    assert np.abs(wanted - plainly(recipe, replace(treatment, average=None))).max() > 1e-3


@pytest.mark.parametrize("make_module", [net, dropping, batch_norm])
def test_written_out_layers_give_the_same_bits_in_every_stack(
    make_module: Callable[[], nn.Module],
) -> None:
    """Where no layer takes an exponential, whose vectorised form rounds otherwise at the ends."""
    recipe = replace(SGD, make_module=make_module, optimizer="adam", learning_rate=0.01)
    one, *others = (train(recipe, Treatment(), layout=Layout("chain", w)) for w in (1, 2, 3, 4))
    assert all(np.array_equal(one, other) for other in others)


def test_a_regression_trains_on_standard_units_and_answers_in_its_own() -> None:
    targets = 1000.0 + 50 * RNG.normal(size=RECORDS)
    recipe = replace(SGD, make_module=lambda: nn.Linear(WIDTH, 1), loss="squared-error")
    for layout in (CHAIN, ALONE):
        models = train_models(
            Work(recipe, FEATURES, targets, MEMBERS[:2], MASK, Treatment(), SEEDS[:2], layout)
        )
        for ours, row, seed in zip(models, MEMBERS, SEEDS, strict=False):
            wanted = train_plainly(recipe, FEATURES, targets, row, MASK, Treatment(), seed)
            assert ours.shape == (RECORDS, 1)
            assert np.abs(ours - wanted).max() < 1e-4 * 50
            assert abs(ours.mean() - 1000) < 50


def test_the_loop_refuses_what_a_recipe_cannot_do() -> None:
    regression = replace(SGD, make_module=lambda: nn.Linear(WIDTH, 1), loss="squared-error")
    for recipe, treatment, why in [
        (regression, Treatment(label_smoothing=0.1), "label smoothing needs classes"),
        (replace(SGD, patience=2), Treatment(average=0.5), "patience ends the training"),
    ]:
        with pytest.raises(InputError, match=why):
            train(recipe, treatment)


def test_early_stopping_holds_rows_back_and_stops_each_model_by_itself() -> None:
    recipe = RECIPES["patience"]
    rows = np.flatnonzero(MEMBERS[0])
    held = validation_rows(rows, SEEDS[0], recipe.held_back)
    assert len(held) == round(0.3 * len(rows)) and set(held) < set(rows)
    assert not np.array_equal(held, validation_rows(rows, SEEDS[1], recipe.held_back))
    never = train(replace(recipe, patience=1000), Treatment())
    stopped = train(recipe, Treatment())
    assert np.abs(stopped - train(replace(recipe, patience=None), Treatment())).max() > 1e-3
    # Whoever stops keeps the best state seen so far, which a longer wait may only improve on.
    assert np.isfinite(never).all() and np.isfinite(stopped).all()


def test_augmentation_follows_each_models_own_stream() -> None:
    recipe = replace(SGD, make_module=net, augment=Augment((1, 1, WIDTH), flip=True), batch_size=6)
    plain = train(replace(recipe, augment=None), Treatment())
    wide = train(recipe, Treatment(), layout=Layout("chain", 4))
    assert np.abs(wide - plain).max() > 1e-3
    for layout in (Layout("chain", 1), ALONE):
        assert np.abs(train(recipe, Treatment(), layout=layout) - wide).max() < 1e-4


def test_half_precision_is_another_result_close_by() -> None:
    recipe = replace(SGD, precision="bfloat16")
    assert default_layout(recipe).kind == "alone"
    exact = train(SGD, Treatment())
    rough = train(recipe, Treatment(), layout=ALONE)
    assert 1e-4 < np.abs(rough - exact).max() < 0.2


def test_inputs_of_several_axes_reach_the_module_as_they_are() -> None:
    shaped = np.stack([FEATURES, -FEATURES], axis=1)
    recipe = replace(
        SGD, make_module=lambda: nn.Sequential(nn.Flatten(), nn.Linear(2 * WIDTH, CLASSES))
    )
    one = train(recipe, Treatment(), features=shaped)
    wanted = train_plainly(recipe, shaped, LABELS, MEMBERS[0], MASK, Treatment(), SEEDS[0])
    assert np.abs(one[0] - wanted).max() < 1e-4


# --- one step by hand ---------------------------------------------------------------------
