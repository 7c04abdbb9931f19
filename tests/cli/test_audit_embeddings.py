"""`lethe audit embeddings`: files in, documents and an exit code out."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pytest
from reidentification_people import population

from lethe.cli import run
from lethe.evidence.findings import schema

LESS = {"draws": 2, "plays": 200, "radius-points": 50, "radius-draws": 100}
FAST = [
    *("--sigma", "0.5", "2", "--averaged", "1", "4"),
    *(word for name, value in LESS.items() for word in (f"--{name}", str(value))),
]


def save(folder, name="mlp", **changed):
    """Files of vectors and of their head."""
    people = {**population(), **changed}
    weight, bias = people.pop("head")
    np.savez(folder / f"{name}.npz", **{k: v for k, v in people.items() if v is not None})
    np.savez(folder / f"{name}-head.npz", w=weight, b=bias)
    return folder / f"{name}.npz", folder / f"{name}-head.npz"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run with a gate that holds, and its folder."""
    folder = tmp_path_factory.mktemp("embeddings")
    file, head = save(folder)
    out = folder / "run"
    gate = ["--gate", "bound<=0.9", "--release", "noise-2"]
    code = run(
        ["audit", "embeddings", str(file), "--head", str(head), "--out", str(out), "--quiet"]
        + [*FAST, *gate, "--keep-records"]
    )
    return code, file, out


def test_a_run_leaves_its_documents(finished):
    code, _, out = finished
    assert code == 0
    document = json.loads((out / "findings.json").read_bytes())
    jsonschema.validate(document, schema())
    assert document["verdict"]["outcome"] == "pass"
    assert [one["name"] for one in document["candidates"]][:3] == [
        "baseline",
        "noise-0.5",
        "noise-2",
    ]
    page = (out / "report.html").read_text()
    assert "Certified radii" in page
    drawn = {path.name for path in (out / "figures").iterdir()}
    for name in ("decay", "proof", "utility", "certified"):
        assert f"1-{name}.svg" in drawn
    assert "<svg" in (out / "figures" / "1-decay.svg").read_text()


def test_the_table_of_people_is_for_its_owner_alone(finished):
    import pyarrow.parquet

    path = finished[2] / "records.parquet"
    assert path.stat().st_mode & 0o777 == 0o600
    table = pyarrow.parquet.read_table(path)
    assert table.num_rows == 40
    assert str(table["id"][0]).startswith("reader-9")
    assert b"reader-9" not in (finished[2] / "findings.json").read_bytes()


def test_what_was_asked_can_be_asked_again(finished, tmp_path):
    _, file, out = finished
    again = tmp_path / "again"
    asked = ["--config", str(out / "audit.toml"), "--out", str(again), "--quiet"]
    assert run(["audit", "embeddings", str(file), *asked]) == 0
    assert (again / "findings.json").read_bytes() == (out / "findings.json").read_bytes()


def test_a_broken_rule_is_exit_1_and_the_table_names_the_candidates(tmp_path, capsys):
    file, _ = save(tmp_path)
    asked = [str(file), "--out", str(tmp_path / "run"), "--gate", "lift<=1.5", *FAST]
    assert run(["audit", "embeddings", *asked]) == 1
    told = capsys.readouterr()
    assert "✕ Fail: lift <= 1.5 on baseline" in told.out
    assert "noise-0.5" in told.out
    assert "noise 0.5: attacked" in told.err


def test_several_models_side_by_side(tmp_path):
    people = population()
    first, head = save(tmp_path)
    second, other = save(tmp_path, "lstm", representations=3 * people["representations"])
    asked = [str(first), str(second), "--head", str(head), "--head", str(other)]
    out = tmp_path / "run"
    assert run(["audit", "embeddings", *asked, "--out", str(out), "--quiet", *FAST]) == 0
    document = json.loads((out / "findings.json").read_bytes())
    assert [one["name"] for one in document["representations"]["models"]] == ["mlp", "lstm"]
    assert "Models side by side" in (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"user_ids": np.array(["a", 7] * 10, object)}, "objects"),
        ({"labels": None, "representations": np.full((307, 6), np.nan)}, "NaN"),
    ],
)
def test_bad_files_are_refused(tmp_path, capsys, changed, words):
    file, _ = save(tmp_path, **changed)
    assert run(["audit", "embeddings", str(file), "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_file_of_options_is_checked_too(tmp_path, capsys):
    file, _ = save(tmp_path)
    (tmp_path / "asked.toml").write_text('sigma = ["much"]\n')
    asked = [str(file), "--config", str(tmp_path / "asked.toml"), "--out", str(tmp_path / "run")]
    assert run(["audit", "embeddings", *asked]) == 2
    assert "sigmas='much' must be a number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([], "needs a file"),
        (["FILE", "--head", "HEAD", "--head", "HEAD"], "files=1 and heads=2"),
        (["FILE", "--sigma", "-1"], "sigma"),
        (["FILE", "--gate", "tpr@0.1<=1"], "unknown metric"),
        (["FILE", "--release", "noise-9", *FAST], "no candidate"),
        (["FILE", "--known", "a", "--later", "b"], "period"),
    ],
)
def test_bad_requests_are_refused(tmp_path, capsys, asked, words):
    file, head = save(tmp_path)
    names = {"FILE": str(file), "HEAD": str(head)}
    given = [names.get(word, word) for word in asked]
    assert run(["audit", "embeddings", *given, "--out", str(tmp_path / "run"), "--quiet"]) == 2
    assert words in capsys.readouterr().err
