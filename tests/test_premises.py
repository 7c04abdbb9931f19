"""A premise that Lethe itself breaks never stands as an assumption under `proven`."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import lethe
from lethe.cli.subject import load_subject
from lethe.data.dataset import Dataset, Preparation
from lethe.data.given import given_rows
from lethe.data.schema import Schema
from lethe.data.tables import load
from lethe.evidence.guarantee import Guarantee, resting_on
from lethe.membership.audit import baseline_spec
from lethe.membership.document import guarantee_of
from lethe.membership.language.fine_tune import distinct
from lethe.membership.settings import AuditSettings
from lethe.mitigations.dp_sgd.candidate import IndividualPrivacy, PrivateTraining
from lethe.mitigations.mitigation import Mitigation
from lethe.report.proofs import claim_of
from lethe.training.models import default_recipe

pytestmark = pytest.mark.usefixtures("no_page")

PRIVATE = PrivateTraining(8.0, 1e-4, epochs=2, batch_size=16)


def people(rows: int = 60) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "age": rng.integers(20, 80, rows).astype(float),
            "job": rng.choice(["cook", "clerk"], rows),
            "y": rng.choice(["no", "yes"], rows),
        }
    )
    frame.loc[3, "age"] = np.nan
    return frame


def label_of(data: Dataset, mitigation: Mitigation = PRIVATE) -> Guarantee:
    recipe = default_recipe(len(data), data.features.shape[1], len(data.classes))
    return guarantee_of(mitigation, baseline_spec(data, recipe, AuditSettings()), data)


def half(records: int, groups: Any, external: Any) -> np.ndarray:
    return np.arange(records) % 2 == 0


DECLARED = {
    "age": {"type": "whole", "bounds": [0, 120]},
    "job": {"type": "text", "values": ["cook", "clerk"]},
    "y": {"type": "text", "values": ["no", "yes"]},
}
READ_OFF = {**DECLARED, "age": {**DECLARED["age"], "read_off": ["bounds"]}}


def written(folder: Path) -> Path:
    people().to_csv(folder / "p.csv", index=False)
    return folder / "p.csv"


def archived(folder: Path) -> Path:
    np.savez(folder / "p.npz", X=np.eye(60, dtype=np.float32), y=np.arange(60) // 2 % 2)
    return folder / "p.npz"


DOORS: dict[str, tuple[Callable[[Path], Dataset], str]] = {
    "a file, by all rows": (
        lambda folder: load(written(folder), "y", missing="impute"),
        "types, categories, fills and scales of columns",
    ),
    "an archive, by all rows": (lambda folder: load(archived(folder)), "the list of classes"),
    "a frame, by all rows": (
        lambda folder: given_rows(people().drop(columns="y"), people()["y"]).data,
        "types, categories, fills and scales of columns",
    ),
    "arrays, by all rows": (
        lambda folder: given_rows(np.eye(60), np.arange(60) % 2).data,
        "the list of classes",
    ),
    "a file, by public rows": (lambda folder: load(written(folder), "y", public=half), ""),
    "an archive, by public rows": (lambda folder: load(archived(folder), public=half), ""),
    "a file, by a schema": (
        lambda folder: load(written(folder), "y", schema=Schema.of(DECLARED)),
        "",
    ),
    "a frame, by public rows": (
        lambda folder: given_rows(people().drop(columns="y"), people()["y"], public=half).data,
        "",
    ),
    "digits": (lambda folder: load("digits", rows=100), ""),
    "breast-cancer": (lambda folder: load("breast-cancer", rows=100, public=half), ""),
}


@pytest.mark.parametrize("door", DOORS)
def test_the_label_drops_where_private_rows_decided(door: str, tmp_path: Path) -> None:
    read, reason = DOORS[door]
    data = read(tmp_path)
    public = np.ones(len(data), np.float32)
    for mitigation in (PRIVATE, IndividualPrivacy(PRIVATE, public * 0.5)):
        label = label_of(data, mitigation)
        assert label.proven is not bool(reason)
        assert reason in "; ".join(label.voided_by)
        if reason:
            assert "no epsilon is proven" in label.voided_by[0] and "public=" in label.voided_by[0]


def test_a_schema_that_was_read_off_is_said_at_the_claim(tmp_path: Path) -> None:
    data = load(written(tmp_path), "y", schema=Schema.of(READ_OFF))
    label = label_of(data)
    assert label.proven
    assert "taken to be public although read off the rows: bounds of age" in label.assumptions
    assert claim_of(label).endswith("provided that the schema, read off the rows, is public")
    plain = label_of(replace(data, preparation=Preparation()))
    assert "is public" not in claim_of(plain)


def test_only_proofs_change() -> None:
    proof = Guarantee("approx-dp", {"epsilon": 1.0, "delta": 1e-6}, "add/remove", "record")
    assert resting_on(proof, ()) == proof
    dropped = resting_on(proof, ["the list of classes"], ["a schema"])
    assert not dropped.proven and dropped.parameters == {}
    assert resting_on(dropped, ["more"], ["a schema"]) == dropped


def test_the_command_reads_by_held_out_records_or_by_a_schema(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(Schema.of(READ_OFF).to_toml())
    private = AuditSettings(epsilon=(8.0,), delta=1e-3, seed=3)
    usual = {"label": "y", "missing": "impute"}
    for schema, asked, proven in (
        (None, private, True),
        (tmp_path / "p.toml", AuditSettings(), True),
        (None, AuditSettings(), False),
    ):
        options: dict[str, Any] = defaultdict(lambda: None, usual, schema=schema)
        data, recipe = load_subject(str(written(tmp_path)), options, asked)
        assert bool(data.preparation.read_off) is not proven
        assert bool(data.preparation.assumed) is (schema is not None)
        spec = baseline_spec(data, recipe, asked)
        assert data.preparation.public is None or (spec.pool != data.preparation.public).all()


def test_arrays_get_their_classes_from_held_out_records() -> None:
    X, y = np.random.default_rng(0).normal(size=(120, 4)), np.arange(120) % 3
    found = lethe.audit(
        lambda: nn.Linear(4, 3),
        X,
        y,
        epsilon=(8.0,),
        delta=1e-3,
        models=4,
        mitigations=("dp-sgd",),
        attack=("loss-threshold",),
        dp_epochs=1,
        save=False,
        quiet=True,
        workers=1,
    )
    assert [one["guarantee"]["proven"] for one in found.guarantees] == [False, True]
    with pytest.raises(lethe.LetheError, match="needs a torch recipe"):
        from sklearn.linear_model import LogisticRegression

        lethe.audit(LogisticRegression(), X, y, epsilon=(8.0,), delta=1e-3, mitigations=("dp-sgd",))


TEXTS = ("The PIN is 1234", "the pin  is 1234", "THE PIN IS 1234", "other text", "", " ")


@settings(max_examples=200)
@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=8), st.data())
def test_one_text_fewer_changes_one_text_at_most(texts: list[str], data: st.DataObject) -> None:
    gone = data.draw(st.integers(0, len(texts) - 1))
    kept, fewer = distinct(texts), distinct(texts[:gone] + texts[gone + 1 :])
    assert set(fewer) <= set(kept) and len(kept) - len(fewer) <= 1
    assert kept == distinct(texts[::-1]) and set(kept) == set(texts)


def test_how_many_texts_differ_changes_no_number_of_a_private_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows without a word to predict stand for repeated texts: they move no gradient."""
    import torch
    from tiny_language import gpt2, tokenizer_on

    from lethe.membership.language.fine_tune import FineTune, fine_tune, text_losses
    from lethe.mitigations import private_training

    seen: list[Any] = []

    def keep(module: Any, data: Any, *told: Any, **more: Any) -> Any:
        seen.append((module, data, told[0]))
        raise InterruptedError

    monkeypatch.setattr(private_training, "train_privately", keep)
    asked = FineTune(1, 1e-3, 4, lora=2, epsilon=8.0, deduplicated=True)
    words = ["the cook fell", "the guard slipped", "a nurse tripped", "the pilot cut a hand"]
    tokenizer = tokenizer_on(words)
    for texts in ([*words, "the pilot"], [*words, words[0]], [*words, "the pilot " * 200]):
        with pytest.raises(InterruptedError):
            fine_tune(gpt2(tokenizer), tokenizer, texts, asked)
    (_, all_differ, first), (module, one_twice, second), (_, one_long, third) = seen
    assert first == second == third
    shapes = [one["input_ids"].shape for one in (all_differ, one_twice, one_long)]
    assert shapes == [(5, 96)] * 3, "what the base reads, and not the longest text"
    assert len(all_differ["input_ids"]) == len(one_twice["input_ids"]) == 5
    blank = {name: rows[4:] for name, rows in one_twice.items()}
    losses = text_losses(module, blank)
    assert losses.tolist() == [0.0]
    losses.sum().backward()
    trained = [value for value in module.parameters() if value.requires_grad]
    assert trained and all(value.grad is None or not value.grad.any() for value in trained)
    assert torch.isfinite(module(**blank).logits).all()
