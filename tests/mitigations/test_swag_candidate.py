"""A posterior draw as a way to train shadow models."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from lethe.mitigations.swag_release import (
    RELEASE,
    DrawMethod,
    PosteriorDraw,
    ReleaseSettings,
    child_seed,
    swag_ppm,
)
from lethe.training.loop import train_models
from lethe.training.recipe import CallableRecipe, Layout, TorchRecipe, Treatment, Work
from lethe.training.users_code import build_module


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


RECIPE = TorchRecipe(network, epochs=2, batch_size=8, optimizer="sgd", learning_rate=0.1)
POOL = np.arange(30) < 24


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, 3)).astype(np.float32)
    members = np.zeros((2, 30), bool)
    members[0, :12] = members[1, 12:24] = True
    return features, (features[:, 0] > 0).astype(np.int64), members


def method() -> DrawMethod:
    made = PosteriorDraw(4.0).treatment(np.ones(30, np.float32), POOL).method
    assert isinstance(made, DrawMethod)
    return DrawMethod(replace(made.settings, swag_epochs=3, draws=3, final_draws=3))


def test_each_shadow_model_is_a_draw_of_the_mechanism_on_its_own_records() -> None:
    features, labels, members = data()
    ways = method()
    outputs = list(
        train_models(
            Work(
                RECIPE,
                features,
                labels,
                members,
                POOL,
                Treatment(method=ways),
                [5, 6],
                Layout("alone", 1),
            )
        )
    )
    for at, seed in enumerate((5, 6)):
        own = np.flatnonzero(members[at])
        made = swag_ppm(
            build_module(network, seed),
            torch.from_numpy(features[own]),
            labels[own],
            ways.for_recipe(RECIPE),
            seed,
            draw_seed=child_seed(seed, RELEASE),
        )
        with torch.no_grad():
            expected = made.module(torch.from_numpy(features)).numpy()
        np.testing.assert_array_equal(outputs[at], expected)
    assert not np.array_equal(outputs[0], outputs[1])


def test_passes_and_rates_are_the_recipes() -> None:
    settings = method().for_recipe(RECIPE)
    assert (settings.fit_epochs, settings.refit_epochs, settings.batch_size) == (2, 2, 8)
    assert settings.swag_rate == pytest.approx(2 * settings.rate) == pytest.approx(0.2)


def test_every_setting_changes_the_hash() -> None:
    plain = DrawMethod(ReleaseSettings(4.0, "replace-one")).describe()
    for other in ({"epsilon": 2.0}, {"relation": "add/remove"}, {"floor": 0.1}, {"draws": 5}):
        changed = replace(ReleaseSettings(4.0, "replace-one"), **other)
        assert DrawMethod(changed).describe() != plain


def test_what_it_cannot_train() -> None:
    ways = method()
    mixing = TorchRecipe(lambda: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    assert "GroupNorm" in str(ways.refuses(mixing))
    number = TorchRecipe(lambda: nn.Linear(3, 1), loss="squared-error")
    assert "regression" in str(ways.refuses(number))
    assert "torch recipe" in str(ways.refuses(CallableRecipe(lambda r, w, s: lambda q: q)))
    assert ways.refuses(RECIPE) is None
