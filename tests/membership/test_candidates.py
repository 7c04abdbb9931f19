"""Which mitigations an audit offers, builds and refuses."""

from typing import Any

import numpy as np
import pytest
from torch import nn

from lethe.errors import InputError
from lethe.membership.candidates import NAMES, build_candidates
from lethe.membership.settings import AuditSettings
from lethe.mitigations.mitigation import CHEAP, DRAWS, OUTPUT, PRIVATE, STANDARD, Obfuscation
from lethe.training.recipe import CallableRecipe, TorchRecipe

TORCH = TorchRecipe(lambda: nn.Linear(3, 2), epochs=6, optimizer="sgd")
ANY = CallableRecipe(lambda rows, weights, seed: lambda asked: asked)


def names(settings: AuditSettings, recipe: Any = TORCH) -> list[str]:
    return [mitigation.name for mitigation in build_candidates(settings, recipe)[0]]


def test_an_epsilon_puts_private_training_beside_them() -> None:
    settings = AuditSettings(epsilon=(8.0, 1.0, 8.0), delta=1e-5, local_epsilon=4.35)
    assert names(settings) == ["baseline", *STANDARD, "dp-sgd-eps1", "dp-sgd-eps8", "swag-ppm-4.35"]


def test_only_what_is_named() -> None:
    asked = AuditSettings(
        mitigations=("weighted-dp", "l2", "label-only"), epsilon=(2.0,), delta=1e-5
    )
    assert names(asked) == ["baseline", "l2", "label-only", "weighted-dp-eps2"]
    assert names(AuditSettings(mitigations=("none",))) == ["baseline"]


def test_all_says_what_is_missing() -> None:
    built, skipped = build_candidates(AuditSettings(mitigations=("all",)), TORCH)
    assert {*STANDARD, *CHEAP, *OUTPUT} < {one.name for one in built}
    lacking = {entry.name: entry.why for entry in skipped}
    assert "--epsilon" in lacking["dp-sgd"] and "--local-epsilon" in lacking["swag-ppm"]
    everything = AuditSettings(mitigations=("all",), epsilon=(4.0,), delta=1e-5, local_epsilon=2.0)
    made = len(build_candidates(everything, TORCH)[0])
    assert made + len(build_candidates(everything, TORCH)[1]) == 1 + len(NAMES)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": (1.0,)}, "delta is not given"),
        ({"epsilon": (0.0,), "delta": 1e-5}, "epsilon"),
        ({"mitigations": ("dp-sgd",)}, "--epsilon"),
        ({"mitigations": ("swag-ppm",)}, "--local-epsilon"),
        ({"mitigations": ("dp-sdg",)}, "Did you mean"),
        ({"mitigations": ("all", "l2")}, "stands alone"),
        ({"clip": 0.0}, r"clip=0.0 must be in \[1e-09"),
        ({"mitigations": ("l2",), "epsilon": (1.0,), "delta": 1e-5}, "add dp-sgd, or leave --eps"),
        ({"mitigations": ("none",), "local_epsilon": 1.0}, "add swag-ppm, or leave --local"),
        (
            {"mitigations": ("swag-ppm",), "local_epsilon": 1.0, "epsilon": (1.0,), "delta": 0.1},
            "dp",
        ),
        ({"local_epsilon": -1.0}, "local_epsilon"),
        ({"release": "dp-sgd-eps1"}, "release"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        build_candidates(AuditSettings(**changes), TORCH)


def test_what_a_recipe_cannot_carry() -> None:
    built, skipped = build_candidates(AuditSettings(), ANY)
    assert "uniform-noise" in {entry.name for entry in skipped}
    assert "weighted" in [one.name for one in built]
    with pytest.raises(InputError, match="torch recipe"):
        build_candidates(AuditSettings(mitigations=("dp-sgd",), epsilon=(1.0,), delta=1e-5), ANY)


def test_a_target_that_the_recipe_cannot_carry_is_refused_and_all_goes_on_without() -> None:
    mixing = TorchRecipe(lambda: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    private = AuditSettings(epsilon=(1.0,), delta=1e-5)
    with pytest.raises(InputError, match="'dp-sgd': 1 .BatchNorm1d. mixes .* GroupNorm"):
        build_candidates(private, mixing)
    with pytest.raises(InputError, match="Leave --epsilon out"):
        build_candidates(private, ANY)
    number = TorchRecipe(lambda: nn.Linear(3, 1), loss="squared-error")
    with pytest.raises(InputError, match="'swag-ppm': .* regression"):
        build_candidates(AuditSettings(local_epsilon=4.0), number)
    everything = AuditSettings(mitigations=("all",), epsilon=(1.0,), delta=1e-5, local_epsilon=4.0)
    for recipe in (mixing, ANY):
        lacking = {entry.name for entry in build_candidates(everything, recipe)[1]}
        assert {*PRIVATE, *DRAWS} <= lacking


def test_candidates_of_ones_own() -> None:
    own = Obfuscation("mine", "half the passes", {"epochs": 3})
    settings = AuditSettings(mitigations=("none",), release="mine")
    assert [one.name for one in build_candidates(settings, TORCH, [own])[0]] == ["baseline", "mine"]
    with pytest.raises(InputError, match="mine"):
        build_candidates(settings, ANY, [own])


def test_no_function_of_an_answer_shows_more_than_the_answer() -> None:
    """Labels of changed copies tell more of a nearest neighbour than its own probabilities."""
    from sklearn.neighbors import KNeighborsClassifier

    import lethe

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(160, 3)), rng.integers(0, 2, 160)
    options = ("temperature", "label-only")
    found = lethe.audit(
        KNeighborsClassifier(1),
        X,
        y,
        models=8,
        mitigations=options,
        attack=["loss-threshold"],
        rule=["auc[class=1]<=0.9", "tpr@0.1[every class]<=0.9"],
        save=False,
        quiet=True,
        workers=1,
    )
    risk = {one["name"]: one["risk"] for one in found.candidates}
    labels = next(one for one in found.candidates if one["name"] == "label-only")
    groups = [name for name in labels["measures"] if "class" in name]
    assert len(groups) == 2
    alone = found.candidates[0]["attacks"]["loss-threshold"]["tpr"]["0.1"]
    assert labels["attacks"]["loss-threshold"]["tpr"]["0.1"]["value"] > alone["value"] + 0.02
    for full in found.candidates[:2]:  # a temperature can be undone
        listed = full["risk_from"]["results"]
        views = {one["view"] for one in listed}
        assert views == {"release", *options} - {full["name"]}
        assert all(full["risk"]["high"] >= one["estimate"]["high"] for one in listed)
        for limit in ("low", "value", "high"):
            assert full["risk"][limit] >= risk["label-only"][limit]
        for name in groups:
            of_view, whole = (one["measures"][name] for one in (labels, full))
            assert whole["value"] >= of_view["value"] and whole["high"] >= of_view["high"]
    assert {one["view"] for one in labels["risk_from"]["results"]} == {"release"}
