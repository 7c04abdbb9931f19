"""Wrong input: a message that names value, rule and way out, exit code 2, nothing written."""

import numpy as np
import pytest
from small_runs import people_files

from lethe.cli import run

pytestmark = pytest.mark.usefixtures("no_page")


SYNTHETIC = "audit synthetic made.csv --original people.csv --control control.csv".split()


def refused(capsys, tmp_path, *arguments, code=2, out=True):
    folder = tmp_path / "out"
    extra = ["--out", str(folder)] if out else []
    assert run([*map(str, arguments), *extra]) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert not folder.exists()  # the corrected command can use it
    return captured.err + captured.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["audit", "model", "digitz"], ["'digitz'", "Did you mean 'digits'?"]),
        (["audit", "model", "digits", "--models", "3"], ["models=3", "at least 4"]),
        (["audit", "model", "digits", "--rule", "tpr<=0.1"], ["tpr@0.01"]),
        (["audit", "model", "digits", "--confidence", "95"], ["confidence=95", "(0, 1)"]),
        (["audit", "model", "digits", "--noise", "-1"], ["noise=-1"]),
        (["audit", "model", "digits", "--seed", "-1"], ["seed=-1"]),
        (["audit", "model", "digits", "--release", "wieghted"], ["Did you mean 'weighted'?"]),
        (["audit", "model", "digits", "--mitigations", "remval"], ["Did you mean 'removal'?"]),
        (["audit", "model", "digits", "--recipe", "nowhere.py:make"], ["nowhere.py"]),
        (["audit", "model", "digits", "--recipe", "make"], ["file.py:name"]),
        (["audit", "scores", "nowhere.npz"], ["nowhere.npz"]),
        (["audit", "records", "films.csv", "--person", "whom", "--item", "film"], ["'whom'"]),
        ([*SYNTHETIC, "--quasi", "age,twn"], ["Did you mean 'town'?"]),
        (["audit", "model", "people.csv", "--label", "sik"], ["Did you mean 'sick'?"]),
        (["audit", "model", "people.csv", "--label", "sick", "--group", "whose"], ["'whose'"]),
        (["audit", "embeddings", "people.csv", "--user", "twn"], ["people.csv"]),
        (
            ["audit", "table", "people.csv", "--quasi", "age", "--people", "2"],
            ["people (population)=2 must be at least"],
        ),
        (["split", "people.csv", "--seed", "-1"], ["seed=-1 must be at least 0"]),
        (["view", ".", "--serve", "--port", "-5"], ["port=-5 must be in [0, 65535]"]),
    ],
)
def test_wrong_arguments(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    people_files(tmp_path)
    message = refused(capsys, tmp_path, *arguments)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["split", "people.csv", "--out", "people.csv"],
            "people.csv is there already, with other rows; name another --out",
        ),
        (["demo", "--out", "people.csv"], "--out people.csv is a file; name a folder"),
    ],
)
def test_an_output_that_would_destroy_an_input(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    people_files(tmp_path)
    before = (tmp_path / "people.csv").read_bytes()
    assert words in refused(capsys, tmp_path, *arguments, out=False)
    assert (tmp_path / "people.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modells = 8\n", ["audit.toml", "Did you mean 'models'?"]),
        ("models = 8\nseed = = 1\n", ["line 2"]),
        ('models = "eight"\n', ["models='eight' must be a whole number"]),
        ("rule = 3\n", ["rule=3 must be a list of rules"]),
        ('rule = ["auc<=0.6"]\ngate = ["auc<=0.6"]\n', ["gate is another word for rule"]),
    ],
)
def test_mistakes_in_a_file_of_options(capsys, tmp_path, text, words):
    config = tmp_path / "audit.toml"
    config.write_text(text)
    message = refused(capsys, tmp_path, "audit", "model", "digits", "--config", config)
    assert all(word in message for word in words), message


def test_a_file_of_options_in_the_run_folder_is_kept(capsys, tmp_path):
    people_files(tmp_path)
    (tmp_path / "run").mkdir()
    config = tmp_path / "run" / "audit.toml"
    config.write_text('original = "people.csv"\nquasi = ["age", "twn"]\n')
    files = [str(tmp_path / name) for name in ("made.csv", "people.csv", "control.csv")]
    asked = ["audit", "synthetic", files[0], "--original", files[1], "--control", files[2]]
    assert run([*asked, "--config", str(config), "--out", str(tmp_path / "run")]) == 2
    assert config.exists() and "twn" in config.read_text()


def scores_file(tmp_path, models=8, records=40, **changes):
    rng = np.random.default_rng(0)
    members = np.zeros((models, records), bool)
    for pair in range(0, models - 1, 2):
        members[pair, rng.permutation(records)[: records // 2]] = True
        members[pair + 1] = ~members[pair]
    arrays = {"signals": rng.normal(size=members.shape) + members, "members": members, **changes}
    path = tmp_path / "scores.npz"
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    return path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"signals": np.zeros((8, 39))}, ["(8, 39)", "(8, 40)"]),
        ({"members": None}, ["members"]),
        ({"members": np.full((8, 40), 2)}, ["2"]),
        ({"signals": np.full((8, 40), np.nan)}, ["NaN"]),
        ({"ids": np.array(["a"] * 40)}, ["'a'"]),
        ({"models": 3}, ["at least 4"]),
    ],
)
def test_wrong_scores_files(capsys, tmp_path, changes, words):
    path = scores_file(tmp_path, **changes)
    message = refused(capsys, tmp_path, "audit", "scores", path)
    for word in words:
        assert word in message


def test_out_below_a_file_cannot_be_written(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    code = run(
        ["audit", "scores", str(scores_file(tmp_path)), "--out", str(tmp_path / "file" / "run")]
    )
    assert code == 4
    assert "--out" in capsys.readouterr().err
