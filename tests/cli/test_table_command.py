"""`lethe audit table`, `records` and `synthetic`: files, rules, exit codes, what is refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from linkage_facts import only_mitigations
from small_runs import people_files

from lethe.cli import run
from lethe.cli.audits import split_names
from lethe.data.columns import as_text, read_columns

pytestmark = pytest.mark.usefixtures("no_drawing")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    people_files(tmp_path)
    facts = (tmp_path / "films.csv").read_text().splitlines()[1:]
    older = [line.replace(",", ";", 1).replace(";", ",") for line in facts[:90]]
    (tmp_path / "older.csv").write_text("\n".join(["user,movie,mark,on", *older]) + "\n")
    pairs = "\n".join(["aux,release", *(f"{at},{at}" for at in range(10))])
    (tmp_path / "truth.csv").write_text(pairs + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audit(*arguments: object, kind: str = "") -> int:
    kind = kind or ("records" if "--person" in arguments else "table")
    return run(["audit", kind, *map(str, arguments), "--quiet"])


def test_a_table_from_file_to_report(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("people.csv", "--quasi", "age,town", "--sensitive", "sick", "--out", "run")
    assert audit(*asked, "--ks", 2, 3, "--rule", "unique<=0.1") == 1
    told = capsys.readouterr().out
    assert "✕ Fail: unique <= 0.1 on baseline" in told and "nothing proven" in told
    found = json.loads((place / "run" / "findings.json").read_text())
    assert found["subject"]["release"] == "table" and found["table"]["kind"] == "quasi"
    assert {"k-2", "k-3"} <= {one["name"] for one in found["candidates"]}
    assert "<svg" in (place / "run" / "report.html").read_text()
    assert not list((place / "run").glob("records.*"))
    # The same question again gives the same bytes, and another release can be judged.
    before = (place / "run" / "findings.json").read_bytes()
    assert audit(*asked, "--ks", 2, 3, "--rule", "unique<=0.1") == 1
    assert (place / "run" / "findings.json").read_bytes() == before
    assert audit(*asked, "--ks", 2, 3, "--rule", "prosecutor<=0.5", "--release", "k-2") == 0


def test_records_with_a_second_release(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("films.csv", "--person", "who", "--item", "film", "--value", "stars", "--time", "day")
    more = ("--aux", "older.csv", "--aux-columns", "user,movie,mark,on", "--truth", "truth.csv")
    assert audit(*asked, *more, "--targets", 10, "--out", "run") == 0
    page = (place / "run" / "report.html").read_text()
    # Thirty people are too few for a threshold that names at most one of a hundred outside.
    assert re.search(r">0 of 10<.*>10 of 10<", page, re.S)
    found = json.loads((place / "run" / "findings.json").read_text())
    assert found["table"]["auxiliary"]["known_pairs"] == 10
    assert not list((place / "run").glob("records.*"))


def two_services(place: Path) -> tuple[list[str], list[str]]:
    """150 people in a release; 12 of them, under other names, and 40 others in an earlier one.

    Some people have far more facts than most, so one of them stands out for many an outsider.
    """
    rng = np.random.default_rng(3)
    weight = 1 / np.arange(3, 83)

    def facts(name: str) -> list[str]:
        count = int(rng.choice([12, 14, 60], p=[0.5, 0.48, 0.02]))
        items = rng.choice(80, count, replace=False, p=weight / weight.sum())
        days = rng.integers(10_000, 10_900, count)
        marks = rng.integers(1, 6, count)
        rows = zip(items.tolist(), marks.tolist(), days.tolist(), strict=True)
        return [f"{name},{item},{mark},{day}" for item, mark, day in rows]

    now = {f"now{at}": facts(f"now{at}") for at in range(150)}
    shared = [f"now{at}" for at in range(0, 120, 10)]
    then = [row for at in range(40) for row in facts(f"other{at}")]
    for at, name in enumerate(shared):
        # Two of twelve facts are missing in the earlier table, and days are off by some.
        for row in now[name][:10]:
            _, item, mark, day = row.split(",")
            then.append(f"then{at},{item},{mark},{int(day) + int(rng.integers(-5, 6))}")
    head = "who,film,stars,day"
    (place / "now.csv").write_text("\n".join([head, *(r for rows in now.values() for r in rows)]))
    (place / "then.csv").write_text("\n".join([head, *then]))
    known = [f"then{at},{name}" for at, name in enumerate(shared)]
    (place / "who.csv").write_text("\n".join(["aux,release", *known]))
    return [f"then{at}" for at in range(12)], shared


def test_who_was_matched_is_kept_and_outsiders_are_not_named(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default rule names the shared people and hardly any other; 1.5 names many others."""
    only_mitigations(monkeypatch)
    then, shared = two_services(place)
    asked = ("now.csv", "--person", "who", "--item", "film", "--value", "stars", "--time", "day")
    more = ("--unit", "days", "--aux", "then.csv", "--truth", "who.csv", "--targets", 30)
    assert audit(*asked, *more, "--keep-records", "--pairs", "--out", "kept") == 0
    told = capsys.readouterr().out
    assert "who was named as whom" in told and shared[3] in told
    (file,) = (place / "kept").glob("records.*")
    assert file.stat().st_mode & 0o077 == 0
    kept = read_columns(file)
    decides = np.asarray([str(one) in ("True", "1") for one in kept["decides"]])
    named = dict(
        zip(as_text(kept["person"])[decides], as_text(kept["record"])[decides], strict=True)
    )
    assert {name: named.get(name) for name in then} == dict(zip(then, shared, strict=True))
    assert len(named) - 12 <= 3  # of 40 others; the threshold is set by 150 people
    assert set(as_text(kept["attacker"])) <= {"likelihood", "fitting", "scoreboard-rh"}
    assert (np.asarray(kept["score"], float) >= np.asarray(kept["threshold"], float)).all()

    found = json.loads((place / "kept" / "findings.json").read_text())
    by = {one["name"]: one for one in found["table"]["auxiliary"]["attackers"]}
    assert by["scoreboard-rh"]["compared"]["counts"]["others_named"] >= 5
    # Who it is stands in the kept file alone.
    for name in ("findings.json", "report.html"):
        assert "then3" not in (place / "kept" / name).read_text()
    assert "12 of 12" in (place / "kept" / "report.html").read_text()


def test_synthetic_rows_need_a_control(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("made.csv", "--quasi", "age", "town", "--sensitive", "sick", "--attacks", 20)
    asked += ("--original", "people.csv")
    assert audit(*asked, "--control", "control.csv", kind="synthetic") in (0, 3)
    assert "linkability" in capsys.readouterr().out
    assert audit(*asked, kind="synthetic") == 2
    assert "needs --control: rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("people.csv",), "needs --quasi: columns"),
        (("people.csv", "--quasi", "agee"), "Did you mean 'age'"),
        (("people.csv", "--quasi", "age", "--phi", "2"), "Unknown option: --phi"),
        (("people.csv", "--quasi", "age", "--attacks", "2"), "Unknown option: --attacks"),
        (("films.csv", "--person", "who"), "--person and --item go together"),
        (("films.csv", "--person", "who", "--item", "film", "--ks", "3"), "Unknown option: --ks"),
        (("films.csv", "--person", "who", "--item", "film", "--truth", "t.csv"), "need --aux FILE"),
        (
            ("films.csv", "--person", "who", "--item", "film", "--pairs", "--keep-records"),
            "need --aux FILE",
        ),
        (
            ("films.csv", "--person", "who", "--item", "film", "--aux", "older.csv", "--pairs"),
            "Add keep_records",
        ),
        (("people.csv", "--quasi", "age", "--linked", "town"), "Unknown option: --linked"),
        (
            ("films.csv", "--person", "who", "--item", "film", "--aux", "older.csv")
            + ("--aux-columns", "user"),
            "must name as many columns",
        ),
        (("films.csv", "--person", "who", "--item", "film", "--quasi", "age"), "Unknown option"),
        (("people.csv", "--quasi", "age", "--rule", "auc<=0.6"), "unknown metric 'auc'"),
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
    assert "nothing proven" in capsys.readouterr().out
    assert "Journalist: highest" in (tmp_path / "one" / "report.html").read_text()
    found = json.loads((tmp_path / "one" / "findings.json").read_text())
    assert found["candidates"][0]["utility"]["value"] > 0.9
    assert found["reproduction"]["predict"] == "income"
    assert audit(*asked, "two", "--utility-model", "use.py:size", "--ks", "500") == 0
    told = capsys.readouterr().out
    assert "not measured: k-500: k=500 needs at least 500 rows, got 200." in told
    page = (tmp_path / "two" / "report.html").read_text()
    assert "140.000" in page and "k=500 needs at least 500 rows" in page
    assert audit(*asked, "three", "--epsilon", "1", "--schema", "no.toml") == 2
    assert "no.toml does not exist. `lethe schema DATA` writes one" in capsys.readouterr().err
    (tmp_path / "people.schema.toml").write_text('[columns.age]\ntype = "whole"\n')
    assert audit(*asked, "four", "--schema", "people.schema.toml") == 2
    assert "--schema and --bins are for synthetic rows" in capsys.readouterr().err
    assert audit(*asked, "five", "--epsilon", "1", "--schema", "people.schema.toml") == 2
    assert "column 'age' has no bounds in the schema" in capsys.readouterr().err
    assert not (tmp_path / "five").exists()
