"""Recipes for autocoders: the head stacks, the whole encoder learns, and both are reproducible."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_encoder import BODY, CAUSE, tiny_encoder

from lethe.data.text import find_encoder
from lethe.errors import InputError
from lethe.training.fingerprint import hash_json
from lethe.training.outputs import train_callable
from lethe.training.recipe import CallableRecipe, Treatment
from lethe.training.text_recipe import (
    FreshClassifier,
    fine_tune_recipe,
    fine_tune_seconds,
    head_recipe,
)

RNG = np.random.default_rng(5)
LABELS = RNG.integers(0, 2, 64)
TEXTS = [
    " ".join([("cut", "burn")[label], *RNG.choice(BODY + CAUSE[5:], RNG.integers(1, 9))])
    for label in LABELS
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("fine") / "tiny")


def recipe(folder: Path, epochs: int = 3) -> CallableRecipe:
    found = find_encoder(folder)
    return fine_tune_recipe(folder, found.tokens_of(TEXTS), LABELS, 2, found.content, epochs)


@pytest.mark.parametrize(("records", "epochs"), [(100, 60), (6400, 30), (10**6, 15)])
def test_large_data_take_fewer_passes(records: int, epochs: int) -> None:
    assert head_recipe(records, 4, 2).epochs == epochs


def test_fine_tuning_moves_every_layer_and_follows_its_seed(folder: Path) -> None:
    made = recipe(folder, epochs=2)
    rows = np.arange(0, 64, 2)
    one, again, other = (train_callable(made, 64, rows, Treatment(), seed) for seed in (1, 1, 2))
    assert one.shape == (64, 2) and (one == again).all() and (one != other).any()
    untrained = FreshClassifier(folder, 2)()
    assert untrained.config.num_labels == 2 and all(p.requires_grad for p in untrained.parameters())


def test_fine_tuning_learns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lethe.training.text_recipe.RATE", 1e-2)
    outputs = train_callable(recipe(folder, epochs=15), 64, np.arange(48), Treatment(), 0)
    assert (outputs[48:].argmax(axis=1) == LABELS[48:]).mean() > 0.8


def test_padding_that_all_rows_share_changes_nothing(folder: Path) -> None:
    tokens = find_encoder(folder).tokens_of(TEXTS)
    torch.manual_seed(0)
    model = FreshClassifier(folder, 2)().train(False)
    short = [row for row in range(64) if tokens["attention_mask"][row].sum() <= 6]
    batch = {name: torch.from_numpy(array[short]) for name, array in tokens.items()}
    seen = []
    model.bert.register_forward_pre_hook(
        lambda module, args, inputs: seen.append((args, inputs)), with_kwargs=True
    )
    with torch.no_grad():
        trimmed = model(**batch).logits
        whole = torch.cat(
            [
                model(**{name: part[at : at + 1] for name, part in batch.items()}).logits
                for at in range(len(short))
            ]
        )
    read = [*seen[0][0], *seen[0][1].values()]
    widths = {part.shape[1] for part in read if torch.is_tensor(part)}
    assert max(widths) <= 6 < tokens["input_ids"].shape[1]
    torch.testing.assert_close(trimmed, whole, atol=1e-5, rtol=1e-4)


def test_other_weights_texts_or_passes_are_other_models(folder: Path, tmp_path: Path) -> None:
    def named(made: CallableRecipe) -> tuple[str, str]:
        return made.code_hash(), hash_json(made.describe())

    first = named(recipe(folder))
    assert first == named(recipe(folder))
    assert first != named(recipe(folder, epochs=4))
    found = find_encoder(folder)
    other = find_encoder(tiny_encoder(tmp_path / "other", seed=4)).content
    tokens = found.tokens_of(TEXTS)
    assert first != named(fine_tune_recipe(folder, tokens, LABELS, 2, other))
    changed = found.tokens_of([*TEXTS[:-1], "leg"])
    assert first != named(fine_tune_recipe(folder, changed, LABELS, 2, found.content))


def test_the_expected_time_adds_steps_and_looks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that ticks at each look a forward pass takes 1 s and a whole step 2 s.

    64 records less a fifth, half of them in batches of 16, are 2 steps; 3 passes of them take
    12 s, and looking at all 64 records takes 4 s.
    """
    clock = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    assert fine_tune_seconds(recipe(folder, epochs=3), 0.2) == 16.0


def test_a_model_that_cannot_be_fine_tuned_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(InputError, match="the model folder .* cannot be read: "):
        FreshClassifier(tmp_path, 2)()
