"""Which way of training is chosen, and what it is checked against first."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lethe.errors import InputError
from lethe.training import calibrate as module
from lethe.training.calibrate import calibrate
from lethe.training.chunks import Spec
from lethe.training.engines import Probe, half_of_memory, settled_layout
from lethe.training.folder import RunFolder
from lethe.training.loop import default_layout
from lethe.training.networks import layers
from lethe.training.recipe import Layout, SklearnRecipe, TorchRecipe, Treatment
from lethe.training.wrapped import wrapped

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(60, 16)).astype(np.float32)
LABELS = RNG.integers(0, 3, 60)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))


def convolution() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3)
    )


class Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 3), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.first(x) + self.second(x)


def trial(make: Any, **changes: Any) -> Probe:
    everyone = np.ones(60, bool)
    plain = Probe(TorchRecipe(make), FEATURES, LABELS, everyone, 0, 2, half_of_memory())
    return replace(plain, **changes)


def test_what_is_chosen_is_among_what_was_tried() -> None:
    for make in (mlp, convolution, Sum):
        found = calibrate(trial(make))
        layout = Layout.from_json(found)
        assert any(
            name.startswith(f"{layout.kind} of {layout.width} on") for name in found["seconds"]
        )
        assert all(seconds > 0 for seconds in found["seconds"].values())
        assert found["bytes"] > 0 and "one thread a worker" in layout.why
        assert default_layout(TorchRecipe(make)).why in layout.why


def test_stacks_stay_within_the_memory_given() -> None:
    each = calibrate(trial(mlp))["bytes"]
    for models in (1, 3):
        found = calibrate(trial(mlp, memory=2 * models * each, workers=2))
        assert found["width"] <= models
    # Even where nothing fits, one model at a time is tried.
    assert calibrate(trial(mlp, memory=1))["width"] == 1


def test_the_estimate_of_memory_holds_for_what_is_counted_by_hand() -> None:
    parameters = 16 * 8 + 8 + 8 * 3 + 3
    rows = 60
    # The batch, three layers' outputs and the Sequential's own, each with its gradient and a copy.
    activations = 3 * rows * (16 + 8 + 8 + 3 + 3)
    assert calibrate(trial(mlp))["bytes"] == 4 * (5 * parameters + activations)


def test_written_out_layers_that_compute_something_else_are_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backward = layers.Linear.backward

    def wrong(self: Any, grad: torch.Tensor, need_input: bool) -> torch.Tensor | None:
        return backward(self, grad * 1.01, need_input)

    monkeypatch.setattr(layers.Linear, "backward", wrong)
    found = calibrate(trial(mlp))
    assert found["kind"] != "chain" and "other gradients than the module" in found["why"]


def test_layers_that_cannot_run_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, x: torch.Tensor, training: bool) -> torch.Tensor:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(layers.Relu, "forward", broken)
    found = calibrate(trial(mlp))
    assert found["kind"] != "chain" and "no such thing" in found["why"]


def test_another_rounding_needs_a_clear_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images channels-last are taken from 1.25 times as fast on."""
    for gain, last in ((1.2, False), (1.3, True)):

        def timed(*given: Any, gain: float = gain) -> float:
            return 1.0 / gain if given[3].images_last else 1.0

        monkeypatch.setattr(module, "_time", timed)
        assert calibrate(trial(convolution))["images_last"] == last


def test_a_gpu_is_tried_beside_the_layers_that_the_structure_suggests() -> None:
    chain = Layout("chain", 16)
    tried = list(module._candidates(chain, "cuda", 16, images=False))
    assert tried[0] == chain and (tried[-1].kind, tried[-1].device) == ("alone", "cuda")


def spec(recipe: Any) -> Spec:
    return Spec(FEATURES, LABELS, 3, np.ones(60, bool), recipe, Treatment(), 0)


def test_a_run_keeps_the_layout_it_settled_on(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", "audit") as folder:
        first = settled_layout(folder, spec(TorchRecipe(mlp)), 2)
        assert folder.manifest["layout"]["seconds"]
        folder.manifest["layout"] |= {"width": 3, "why": "said so"}
        again = settled_layout(folder, spec(TorchRecipe(mlp)), 2)
        assert first is not None and again == replace(first, width=3, why="said so")


def test_estimators_need_no_layout(tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    with RunFolder(tmp_path / "run", "audit") as folder:
        assert settled_layout(folder, spec(SklearnRecipe(LogisticRegression())), 2) is None
        assert "layout" not in folder.manifest


def test_a_classifier_with_too_few_answers_is_refused_in_words() -> None:
    """One output for three classes ended with an index out of bounds."""
    with pytest.raises(InputError, match="1 numbers a record for 3 classes: .*one logit a class"):
        wrapped(lambda: nn.Linear(16, 1), FEATURES, 3)
