"""Hugging Face models as recipes, built from a configuration: nothing is downloaded."""

import functools
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from lethe.errors import InputError
from lethe.training.adapters.huggingface import huggingface_recipe
from lethe.training.outputs import train_callable
from lethe.training.recipe import Treatment

RNG = np.random.default_rng(0)
LABELS = np.arange(48) % 2
# The first word gives the class away.
ENCODINGS = {
    "input_ids": np.column_stack([LABELS + 1, RNG.integers(3, 20, (48, 5))]),
    "attention_mask": np.ones((48, 6), np.int64),
}
ROWS = np.flatnonzero(RNG.random(48) < 0.6)
WEIGHTS = RNG.random(48).astype(np.float32)
ARGUMENTS = {"num_train_epochs": 4, "per_device_train_batch_size": 8, "learning_rate": 5e-3}


def make(labels: int = 2, dropout: float = 0.1) -> Any:
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=20,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=6,
            num_labels=labels,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
    )


def train(treatment: Treatment | None = None, seed: int = 0, **given: Any) -> Any:
    settings = {"make_model": make, "encodings": ENCODINGS, "labels": LABELS, **given}
    recipe = huggingface_recipe(**{"arguments": ARGUMENTS, **settings})
    return train_callable(recipe, 48, ROWS, treatment or Treatment(), seed)


plainly = functools.cache(train)


def test_a_model_learns_quietly_and_follows_its_seed(capfd: Any) -> None:
    one, again, other = train(seed=2**40 + 5), train(seed=2**40 + 5), plainly()
    assert one.shape == (48, 2) and one.dtype == np.float32
    assert (one == again).all() and (one != other).any()
    assert (one.argmax(axis=1) == LABELS).mean() > 0.8
    said = capfd.readouterr()
    assert said.out == "" and said.err == ""


def test_equal_weights_give_the_models_own_loss() -> None:
    own, ours = plainly(), train(weighted=True)
    assert ours == pytest.approx(own, abs=1e-5)


def test_a_record_of_weight_zero_pulls_no_gradient() -> None:
    one_batch = {**ARGUMENTS, "per_device_train_batch_size": 48, "num_train_epochs": 2}
    settings: dict[str, Any] = {
        "make_model": lambda: make(dropout=0.0),
        "arguments": one_batch,
        "weighted": True,
    }
    chosen = Treatment(weights=(LABELS == 0).astype(np.float32))
    changed = {**ENCODINGS, "input_ids": ENCODINGS["input_ids"].copy()}
    changed["input_ids"][LABELS == 1] = 7
    one, two = train(chosen, **settings), train(chosen, **settings, encodings=changed)
    assert one[LABELS == 0] == pytest.approx(two[LABELS == 0], abs=1e-5)
    plain = train(**settings), train(**settings, encodings=changed)
    assert np.abs(plain[0] - plain[1])[LABELS == 0].max() > 1e-3


def test_predictions_of_a_regression() -> None:
    targets = 2.0 * LABELS - 1
    recipe = huggingface_recipe(
        lambda: make(1), ENCODINGS, targets, arguments={**ARGUMENTS, "num_train_epochs": 8}
    )
    assert recipe.task == "regression"
    out = train_callable(recipe, 48, ROWS, Treatment(), 0)
    assert out.shape == (48, 1) and np.mean((out[:, 0] - targets) ** 2) < 0.5


def test_weights_are_refused_unless_the_recipe_says_so() -> None:
    plain = huggingface_recipe(make, ENCODINGS, LABELS)
    assert "say weighted=True" in str(plain.refuses(Treatment(weights=WEIGHTS)))
    assert plain.refuses(Treatment(weights=WEIGHTS, remove=True)) is None
    weighted = huggingface_recipe(make, ENCODINGS, LABELS, weighted=True)
    assert weighted.refuses(Treatment(weights=WEIGHTS)) is None
    assert weighted.code_hash() != plain.code_hash()
    assert plain.describe()["encodings"] == "attention_mask, input_ids"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"arguments": {"seed": 3}}, r"'seed', which the adapter sets itself \(the model's own"),
        ({"arguments": {"num_epochs": 3}}, "arguments of the Trainer: .*num_epochs"),
        ({"encodings": {}}, "must hold the model's inputs"),
        ({"encodings": {"labels": LABELS}}, "labels go into labels"),
        ({"encodings": {"input_ids": LABELS[:9]}}, r"input_ids has shape \(9,\), labels have 48"),
        ({"encodings": {"input_ids": [[1]] * 48}}, "input_ids must be a NumPy array"),
        (
            {"weighted": True, "arguments": {"label_smoothing_factor": 0.1}},
            "takes no label_smoothing_factor",
        ),
        ({"make_model": lambda: 3}, "returned int, expected a torch.nn.Module"),
        ({"make_model": lambda: torch.nn.Linear(2, 2)}, "Linear, expected a Hugging Face model"),
    ],
)
def test_what_cannot_be_used_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        train(**given)
