"""`lethe audit table`: three kinds of files, rules, exit codes and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lethe.cli import run
from lethe.cli.table_subject import split_names


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    ages, towns = rng.integers(20, 70, 120), rng.choice(["a", "b", "c"], 120)
    sick = rng.integers(0, 2, 120)
    rows = [f"{a},{t},{s}" for a, t, s in zip(ages, towns, sick, strict=True)]
    for name, part in (("people", rows[:60]), ("control", rows[60:]), ("made", rows[30:90])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["age,town,sick", *part]) + "\n")
    facts = [
        f"{person},{item},{rng.integers(1, 6)},2020-01-{rng.integers(1, 29):02d}"
        for person in range(30)
        for item in rng.choice(40, 9, replace=False)
    ]
    (tmp_path / "films.csv").write_text("\n".join(["who,film,stars,day", *facts]) + "\n")
    older = [line.replace(",", ";", 1).replace(";", ",") for line in facts[:90]]
    (tmp_path / "older.csv").write_text("\n".join(["user,movie,mark,on", *older]) + "\n")
    pairs = "\n".join(["aux,release", *(f"{at},{at}" for at in range(10))])
    (tmp_path / "truth.csv").write_text(pairs + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audit(*arguments: object) -> int:
    return run(["audit", "table", *map(str, arguments), "--quiet"])


def test_a_table_from_file_to_report(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("people.csv", "--quasi", "age,town", "--sensitive", "sick", "--out", "run")
    assert audit(*asked, "--ks", 2, 3, "--gate", "unique<=0.1") == 1
    told = capsys.readouterr().out
    assert "fail: unique <= 0.1 on baseline" in told and "Nothing here is proven" in told
    found = json.loads((place / "run" / "findings.json").read_text())
    assert found["subject"]["release"] == "table" and found["table"]["kind"] == "quasi"
    assert {"k-2", "k-3"} <= {one["name"] for one in found["candidates"]}
    assert "<svg" in (place / "run" / "report.html").read_text()
    assert not list((place / "run").glob("records.*"))
    # The same question again gives the same bytes, and another release can be judged.
    before = (place / "run" / "findings.json").read_bytes()
    assert audit(*asked, "--ks", 2, 3, "--gate", "unique<=0.1") == 1
    assert (place / "run" / "findings.json").read_bytes() == before
    assert audit(*asked, "--ks", 2, 3, "--gate", "prosecutor<=0.5", "--release", "k-2") == 0


def test_records_with_a_second_release(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("films.csv", "--person", "who", "--item", "film", "--value", "stars", "--time", "day")
    more = ("--aux", "older.csv", "--aux-columns", "user,movie,mark,on", "--truth", "truth.csv")
    assert audit(*asked, *more, "--targets", 10, "--out", "run", "--keep-records") == 0
    assert "10 of the 10 who are known to be in both" in capsys.readouterr().out
    found = json.loads((place / "run" / "findings.json").read_text())
    assert found["table"]["auxiliary"]["known_pairs"] == 10
    (kept,) = (place / "run").glob("records.*")
    assert kept.stat().st_mode & 0o077 == 0


def test_synthetic_rows_need_a_control(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("people.csv", "--quasi", "age", "town", "--sensitive", "sick", "--attacks", 20)
    assert audit(*asked, "--synthetic", "made.csv", "--control", "control.csv") in (0, 3)
    assert "linkability" in capsys.readouterr().out
    assert audit(*asked, "--synthetic", "made.csv") == 2
    assert "--synthetic and --control go together" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("people.csv",), "needs --quasi COLUMNS"),
        (("people.csv", "--quasi", "agee"), "Did you mean 'age'"),
        (("people.csv", "--quasi", "age", "--phi", "2"), "--phi is for another kind of audit"),
        (("people.csv", "--quasi", "age", "--attacks", "2"), "--attacks is for another kind"),
        (("films.csv", "--person", "who"), "--person and --item go together"),
        (("films.csv", "--person", "who", "--item", "film", "--ks", "3"), "--ks is for another"),
        (("films.csv", "--person", "who", "--item", "film", "--truth", "t.csv"), "about --aux"),
        (
            ("films.csv", "--person", "who", "--item", "film", "--aux", "older.csv")
            + ("--aux-columns", "user"),
            "must name as many columns",
        ),
        (("people.csv", "--quasi", "age", "--gate", "auc<=0.6"), "unknown metric 'auc'"),
    ],
)
def test_what_does_not_fit_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert audit(*arguments) == 2
    assert said in capsys.readouterr().err
    assert not (place / "lethe-runs").exists()


def test_names_come_by_comma_or_one_by_one() -> None:
    assert split_names("a, b") == ("a", "b")
    assert split_names(["a,b", "c"]) == ("a", "b", "c")
    assert split_names(None) == ()


def test_a_use_a_population_and_what_was_skipped_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    rows = [
        f"{age},{sex},{'high' if age > 50 else 'low'}"
        for age, sex in zip(rng.integers(20, 80, 200), rng.integers(0, 2, 200), strict=True)
    ]
    (tmp_path / "people.csv").write_text("\n".join(["age,sex,income", *rows]) + "\n")
    (tmp_path / "use.py").write_text("def size(released, held_out): return len(released['age'])\n")
    monkeypatch.chdir(tmp_path)
    asked = ("people.csv", "--quasi", "age,sex", "--out")
    assert audit(*asked, "one", "--predict", "income", "--population", "people.csv") == 0
    told = capsys.readouterr().out
    assert "journa" in told and "Nothing here is proven" in told
    found = json.loads((tmp_path / "one" / "findings.json").read_text())
    assert found["candidates"][0]["utility"]["value"] > 0.9
    assert found["reproduction"]["predict"] == "income"
    assert audit(*asked, "two", "--utility-model", "use.py:size", "--ks", "500") == 0
    told = capsys.readouterr().out
    assert "skipped: k-500: k=500 needs at least 500 rows, got 200." in told
    assert "140.0000" in told
    page = (tmp_path / "two" / "report.html").read_text()
    assert "Not measured" in page and "k=500 needs at least 500 rows" in page
    assert audit(*asked, "three", "--epsilon", "1", "--schema", "no.toml") == 2
    assert "no.toml does not exist. `lethe schema DATA` writes one" in capsys.readouterr().err
    (tmp_path / "people.schema.toml").write_text('[columns.age]\ntype = "whole"\n')
    assert audit(*asked, "four", "--schema", "people.schema.toml") == 2
    assert "--schema and --bins are for synthetic rows" in capsys.readouterr().err
    assert audit(*asked, "five", "--epsilon", "1", "--schema", "people.schema.toml") == 2
    assert "column 'age' has no bounds in the schema" in capsys.readouterr().err
    assert not (tmp_path / "five").exists()
