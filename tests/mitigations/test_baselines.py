"""Cheap comparators: regularisers, and limits on outputs measured on real digits."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from torch import nn

from lethe.mitigations.mitigation import cheap_baselines, default_decay, output_limits
from lethe.training.answers import LabelOnly, Rounding, Temperature
from lethe.training.recipe import CallableRecipe, SklearnRecipe, TorchRecipe, Treatment

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
        assert one.settings == treatment.of_the_loop
        assert RECIPE.refuses(one.treatment(NONE)) is None
        claim = one.guarantee()
        assert claim.kind == "empirical-only" and "a stronger attack" in claim.voided_by


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


def test_every_limit_says_what_it_is() -> None:
    limits = output_limits()
    assert [limit.name for limit in limits] == ["temperature", "rounding", "label-only"]
    answers: list[Any] = [Temperature(4.0), Rounding(1), LabelOnly()]
    for limit, answer in zip(limits, answers, strict=True):
        treatment = limit.treatment(NONE)
        assert treatment.answer == answer and not limit.needs_weights
        assert treatment.describe() == {**Treatment().describe(), "answer": answer.describe()}
        assert set(limit.settings) < {*answer.describe(), "copies_of"}
        claim = limit.guarantee()
        assert claim.kind == "empirical-only" and not claim.proven
        assert any("release of the parameters" in one for one in claim.voided_by)
    assert "undoes it" in limits[0].guarantee().assumptions[0]
    assert "copies" in limits[1].guarantee().voided_by[1]
    assert f"{LabelOnly().copies} changed copies" in limits[2].guarantee().assumptions[0]
