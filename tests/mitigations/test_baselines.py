"""Cheap regularisers: their settings reach the training, every recipe says which it takes."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from torch import nn

import lethe
from lethe.errors import InputError
from lethe.mitigations.baselines import cheap_baselines, default_decay
from lethe.training.design import holdout, membership, model_seed
from lethe.training.loop import train_models
from lethe.training.recipe import (
    CallableRecipe,
    Layout,
    SklearnRecipe,
    TorchRecipe,
    Treatment,
    Work,
)

NONE = np.ones(1, np.float32)
NAMES = ["l2", "label-smoothing", "mixup", "model-averaging"]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


RECIPE = TorchRecipe(network, epochs=20, batch_size=32, learning_rate=3e-3)


def test_every_baseline_says_what_it_is() -> None:
    found = cheap_baselines(RECIPE)
    assert [one.name for one in found] == NAMES
    wanted = [
        Treatment(weight_decay=1e-3),
        Treatment(label_smoothing=0.1),
        Treatment(mixup=1.0),
        Treatment(average=0.25),
    ]
    for one, treatment in zip(found, wanted, strict=True):
        assert one.treatment(NONE) == treatment and not one.needs_weights
        assert json.loads(json.dumps(dict(one.settings))) == treatment.of_the_loop
        assert RECIPE.refuses(one.treatment(NONE)) is None
        claim = one.guarantee()
        assert claim.kind == "empirical-only" and "a stronger attack" in claim.voided_by
        assert pickle.loads(pickle.dumps(one)) == one
    chosen = cheap_baselines(RECIPE, 0.5, 0.2, 0.3, 0.4)
    assert [list(one.settings.values()) for one in chosen] == [[0.5], [0.2], [0.3], [0.4]]
    with pytest.raises(InputError, match="mixup=0"):
        cheap_baselines(RECIPE, mixup=0)[2].treatment(NONE)


def test_the_penalty_goes_by_the_recipe() -> None:
    assert default_decay(TorchRecipe(network, weight_decay=5e-4)) == pytest.approx(5e-3)
    assert default_decay(TorchRecipe(network, optimizer="adamw")) == 0.1
    assert default_decay(SklearnRecipe(LogisticRegression())) == 1e-3


def test_recipes_refuse_what_they_cannot_do() -> None:
    regression = TorchRecipe(network, loss="squared-error")
    reasons = [regression.refuses(one.treatment(NONE)) for one in cheap_baselines(regression)]
    assert [reason is None for reason in reasons] == [True, False, True, True]
    table = CallableRecipe(lambda rows, weights, seed: lambda asked: np.zeros((len(asked), 2)))
    for recipe in (SklearnRecipe(LogisticRegression()), table):
        for one in cheap_baselines(recipe):
            assert "need a torch recipe" in str(recipe.refuses(one.treatment(NONE)))


def test_each_does_on_digits_what_it_is_for() -> None:
    """8 networks on halves of 1,437 digits: less confident on members, not less accurate."""
    data = lethe.load("digits")
    pool = ~holdout(data.labels, 0.2, 0)
    members = np.zeros((8, len(pool)), bool)
    members[:, pool] = membership(8, int(pool.sum()), 0)
    seeds = [model_seed(0, at) for at in range(8)]

    def seen(treatment: Treatment) -> tuple[float, float]:
        models = train_models(
            Work(
                RECIPE,
                data.features,
                data.labels,
                members,
                pool,
                treatment,
                seeds,
                Layout("chain", 8),
            )
        )
        outputs = np.stack(list(models)).astype(float)
        log_p = outputs - np.logaddexp.reduce(outputs, axis=2)[..., None]
        own = log_p[:, np.arange(len(pool)), data.labels]
        right = outputs.argmax(2) == data.labels
        return float(-own[members].mean()), float(right[:, ~pool].mean())

    loss, accuracy = seen(Treatment())
    for one in cheap_baselines(RECIPE, weight_decay=0.01):
        smooth, kept = seen(one.treatment(NONE))
        # sd of a mean of 8 x 360 rights is 0.004 at most.
        assert kept > accuracy - 0.012, one.name
        if one.name != "model-averaging":
            assert smooth > 2 * loss, one.name
        else:
            assert 0.3 * loss < smooth < 3 * loss and smooth != loss
