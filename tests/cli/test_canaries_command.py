"""Canaries from the command line: planted, trained on, found; and every wrong input."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from lethe.cli import run as lethe


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("canaries") / "plan"
    assert lethe(["canaries", "plant", "digits", "--count", "200", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def answered(planted) -> Path:
    """A forest that knows its training data by heart."""
    with np.load(planted / "train.npz") as train, np.load(planted / "ask.npz") as ask:
        model = RandomForestClassifier(40, random_state=0).fit(train["features"], train["labels"])
        path = planted / "answers.npz"
        np.savez(path, probabilities=model.predict_proba(ask["features"]))
    return path


def test_a_model_that_remembers_contradicts_a_small_epsilon(planted, answered, capsys) -> None:
    asked = ["canaries", "audit", str(planted / "canaries.safetensors"), "--scores", str(answered)]
    assert lethe([*asked, "--epsilon", "0.5", "--delta", "1e-5"]) == 1
    said = capsys.readouterr().out
    assert "contradicts the claimed (0.5, 1e-05)-DP under add/remove" in said
    found = json.loads((planted / "canaries.json").read_bytes())
    assert (found["canaries"], found["verdict"], found["form"]) == (200, "contradicts", "binomial")
    assert found["bounds"]["binomial"]["epsilon"]["low"] > 0.5
    assert found["bounds"]["gdp"]["only_if_gaussian_dp"] is True
    # Even if every guess were right, so few canaries could not contradict an epsilon of 50.
    assert lethe([*asked, "--epsilon", "50", "--delta", "1e-5"]) == 3
    assert "no leak above 50 could be planted" in capsys.readouterr().out


def test_a_training_that_was_watched_is_consistent(planted, tmp_path, capsys) -> None:
    """What `seen_in` gives, beside the plan: a model at chance that met every canary."""
    from lethe.membership.one_run import load_canaries

    plan = load_canaries(planted / "canaries.safetensors")
    plan.save(tmp_path / "canaries.safetensors")
    with np.load(planted / "train.npz") as train:
        seen = plan.seen_in([(train["features"], train["labels"])])
    (tmp_path / "canaries-training.json").write_text(json.dumps(seen))
    path = tmp_path / "noise.npz"
    np.savez(path, scores=np.random.default_rng(0).normal(size=200))
    asked = ["canaries", "audit", str(tmp_path / "canaries.safetensors"), "--scores", str(path)]
    assert lethe([*asked, "--epsilon", "1"]) == 0
    assert "is consistent with the claimed (1, 0)-DP" in capsys.readouterr().out


def test_what_is_trained_on_holds_the_inserted_canaries_and_no_others(planted) -> None:
    from lethe.membership.one_run import load_canaries

    plan = load_canaries(planted / "canaries.safetensors")
    with np.load(planted / "train.npz") as train, np.load(planted / "ask.npz") as ask:
        assert len(train["labels"]) == 1797 + plan.inserted.sum()
        assert (ask["features"] == plan.features).all() and len(ask["labels"]) == 200


WRONG = [
    (["--epsilon", "0"], "epsilon=0.0 must be"),
    (["--epsilon", "1", "--delta", "1"], "delta=1.0 must be"),
    (["--epsilon", "1", "--gdp"], "gdp=True needs delta > 0"),
    (["--guesses", "1.5"], "1.5"),
    (["--confidence", "1"], "confidence=1.0 must be"),
]


@pytest.mark.parametrize(("more", "says"), WRONG)
def test_wrong_options_are_refused(planted, answered, capsys, more, says) -> None:
    asked = ["canaries", "audit", str(planted / "canaries.safetensors"), "--scores", str(answered)]
    assert lethe([*asked, *more]) == 2
    assert says in capsys.readouterr().err


def test_wrong_files_are_refused(planted, answered, tmp_path, capsys) -> None:
    plan = str(planted / "canaries.safetensors")
    short = tmp_path / "short.npz"
    np.savez(short, scores=np.zeros(199))
    other = tmp_path / "other.npz"
    np.savez(other, outputs=np.zeros(200))
    words = tmp_path / "words.csv"
    words.write_text("scores\n" + "high\n" * 200)
    for arguments, says in (
        ([plan, "--scores", str(short)], "199 scores"),
        ([plan, "--scores", str(words)], "scores are object, not numbers"),
        ([plan, "--scores", str(answered), "--out", str(answered)], "is the file of the scores"),
        ([plan, "--scores", str(other)], "must hold one array named scores, logits or prob"),
        ([str(answered), "--scores", str(answered)], "is not readable"),
        ([str(tmp_path / "no.safetensors"), "--scores", str(answered)], "is not readable"),
    ):
        assert lethe(["canaries", "audit", *arguments]) == 2
        assert says in capsys.readouterr().err


def test_a_plan_is_not_planted_twice_in_one_place(planted, capsys) -> None:
    assert lethe(["canaries", "plant", "digits", "--count", "200", "--out", str(planted)]) == 2
    assert "holds canaries already" in capsys.readouterr().err
