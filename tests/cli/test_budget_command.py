"""`lethe budget` from end to end."""

import contextlib
import csv
import io
import json
import shutil

import pytest

from lethe.cli import run
from lethe.evidence.guarantee import Guarantee
from lethe.queries.ledger.ledger import open_ledger
from lethe.queries.registration import find


@pytest.fixture
def told(capsys):
    """Runs a command in this process: exit code, output, errors."""

    def runs(*arguments):
        code = run(["budget", *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return runs


@pytest.mark.parametrize(
    "words",
    [
        ("create", "b.db", "--epsilon", "1", "--dataset", "\udcff"),
        ("create", "b.db", "--epsilon", "1", "--dataset", "x", "--analyst", "\udcff=1"),
        *[
            (*words, "--dataset", "\udcff")
            for words in (
                ("grant", "b.db", "bob", "0.5"),
                ("raise", "b.db", "2", "--reason", "more"),
                ("show", "b.db"),
                ("export", "b.db"),
                ("report", "b.db", "--out", "run"),
            )
        ],
        ("grant", "b.db", "\udcff", "0.5"),
        ("raise", "b.db", "2", "--reason", "\udcff"),
        ("accept", "b.db", "--reason", "\udcff"),
    ],
)
def test_bytes_that_are_no_text_are_refused(tmp_path, monkeypatch, told, words):
    monkeypatch.chdir(tmp_path)
    told("create", "b.db", "--epsilon", "1", "--dataset", "made")
    code, _, err = told(*words)
    assert code == 2 and err.count("lethe:") == 1, err


@pytest.fixture
def place(tmp_path, told):
    """A ledger bound to a file, with two analysts."""
    (tmp_path / "people.csv").write_text("age\n40\n")
    (tmp_path / "people.csv.schema.toml").write_text('[columns.age]\ntype = "whole"\n')
    path = tmp_path / "b.db"
    data = ["--data", tmp_path / "people.csv", "--epsilon", "3", "--delta", "1e-6"]
    analysts = ["--analyst", "alice=1.0", "--analyst", "bob=2,1e-7", "--queries", "20"]
    assert told("create", path, *data, *analysts)[0] == 0
    return path


def ask(path, epsilon, query="count()", analyst="alice"):
    ledger = open_ledger(path)
    data = path.with_name("people.csv")
    cost = Guarantee("pure-dp", {"epsilon": epsilon}, "add/remove", "record")
    with contextlib.closing(ledger):
        receipt = ledger.spend(
            dataset="people.csv",
            analyst=analyst,
            query=query,
            guarantee=cost,
            fingerprint=find(data).fingerprint(),
        )
        ledger.answered(receipt, "1")
    return receipt


def test_what_was_made_is_shown(place, told, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    ask(place, 0.5)
    code, out, _ = told("show", place)
    assert code == 0
    text = " ".join(out.split())
    assert "people.csv: epsilon 3, delta 1e-06 by record, 16.7% spent" in text
    assert "alice epsilon 1, delta 1e-06 epsilon 0.5" in text
    assert "1 of 20" in text and "by at most a factor of 1.65" in text  # e^0.5
    code, out, _ = told("show", place, "--json")
    (found,) = json.loads(out)
    assert found["spent"]["units"] == 5 * 10**8 and found["left"]["amount"] == 2.5
    assert [one["limit"]["delta"] for one in found["analysts"]] == [1e-6, 1e-7]
    assert found["bound"] is True and "fingerprint" not in found


@pytest.mark.parametrize(
    ("options", "rule", "units"),
    [
        (["--epsilon", "0.3"], "epsilon", 3 * 10**8),
        (["--rho", "0.125"], "rho", 125 * 10**6),
        (["--mu2", "2"], "mu2", 2 * 10**9),
    ],
)
def test_every_currency(tmp_path, told, options, rule, units):
    kept = ["--dataset", "x", "--unit", "user", "--relation", "replace-one"]
    assert told("create", tmp_path / "b.db", *kept, *options)[0] == 0
    with contextlib.closing(open_ledger(tmp_path / "b.db")) as ledger:
        status = ledger.status("x")
    assert (status.budget.rule, status.budget.units) == (rule, units)
    assert (status.unit, status.relation, status.open) == ("user", "replace-one", True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "one of --epsilon, --rho and --mu2"),
        (["--epsilon", "1", "--rho", "1"], "one of --epsilon"),
        (["--epsilon", "-1"], "epsilon=-1.0"),
        (["--epsilon", "nan"], "epsilon=nan"),
        (["--epsilon", "1", "--delta", "1"], "delta=1.0"),
        (["--rho", "1", "--delta", "1e-6"], "--delta"),
        (["--epsilon", "1", "--analyst", "alice"], "NAME=AMOUNT"),
        (["--epsilon", "1", "--analyst", "=1"], "NAME=AMOUNT"),
        (["--epsilon", "1", "--analyst", "a=1,2,3"], "NAME=AMOUNT"),
        (["--epsilon", "1", "--analyst", "a=-1"], "epsilon=-1.0"),
        (["--epsilon", "1", "--analyst", "a=1", "--analyst", "a=2"], "twice"),
        (["--epsilon", "1", "--queries", "0"], "queries=0"),
    ],
)
def test_wrong_input_makes_no_ledger(tmp_path, told, options, said):
    code, _, err = told("create", tmp_path / "b.db", "--dataset", "x", *options)
    assert code == 2 and said in err
    assert not (tmp_path / "b.db").exists()


def test_a_name_or_a_file_is_needed(tmp_path, told):
    code, _, err = told("create", tmp_path / "b.db", "--epsilon", "1")
    assert code == 2 and "--data FILE" in err
    code, _, err = told("create", tmp_path / "b.db", "--data", tmp_path / "no", "--epsilon", "1")
    assert code == 2 and "must be one of .parquet, .csv, .duckdb" in err
    data = tmp_path / "no.csv"
    code, _, err = told("create", tmp_path / "b.db", "--data", data, "--epsilon", "1")
    assert code == 2 and "does not exist" in err
    data.write_text("age\n40\n")
    code, _, err = told("create", tmp_path / "b.db", "--data", data, "--epsilon", "1")
    assert code == 2 and "has no schema yet: run `lethe schema" in err
    assert [path.name for path in tmp_path.iterdir()] == ["no.csv"]


def test_no_ledger_says_how_to_make_one(tmp_path, told):
    for name in ("show", "verify", "anchor", "export", "report"):
        code, _, err = told(name, tmp_path / "none.db")
        assert code == 2 and "lethe budget create" in err, name


def test_grant_and_raise(place, told):
    assert told("grant", place, "carol", "0.5", "--queries", "3")[0] == 0
    ask(place, 0.5, analyst="carol")
    code, _, err = told("raise", place, "2", "--reason", "more")
    assert code == 2 and "raised only" in err
    code, _, err = told("raise", place, "4")
    assert code == 2
    code, out, _ = told("raise", place, "4", "--reason", "the board agreed")
    assert code == 0 and "epsilon 3" in out and "epsilon 4" in out
    out = told("show", place)[1]
    assert "the board agreed" in out and "carol" in out


def test_verify_with_an_anchor(place, told):
    ask(place, 0.5)
    code, out, _ = told("anchor", place)
    head, number, name = out.split()
    assert (code, len(head), number, name) == (0, 64, "4", "people.csv")
    ask(place, 0.25, "sum(age) in [0, 100]")
    code, out, _ = told("verify", place, "--head", head)
    assert code == 0 and "7 entries read: all hashes, numbers and sums fit." in out
    assert "Not compared" not in out and "Not compared" in told("verify", place)[1]
    code, out, _ = told("verify", place, "--head", "0" * 64)
    assert code == 1 and "WRONG" in out and "cannot be trusted" in out


def test_an_anchor_in_a_file_finds_an_old_copy_and_accept_goes_on(place, told, tmp_path):
    kept = tmp_path / "kept.anchor"
    assert told("anchor", place, "--to", kept)[0] == 0
    for name in ("b.db", "b.db-lock"):
        shutil.copy(place.with_name(name), tmp_path / f"old-{name}")
    ask(place, 0.5)
    code, out, _ = told("verify", place, "--anchor", kept)
    assert code == 0 and "Not compared" not in out
    assert told("anchor", place, "--to", kept)[0] == 0
    for name in ("b.db", "b.db-lock"):
        shutil.copy(tmp_path / f"old-{name}", place.with_name(name))
    code, out, _ = told("verify", place, "--anchor", kept)
    assert code == 1 and "old copy was put back" in out
    code, _, err = told("anchor", place, "--to", kept)
    assert code == 1 and "lethe budget accept" in err
    code, _, err = told("accept", place, "--anchor", kept)
    assert code == 2  # a reason is needed
    code, out, _ = told("accept", place, "--anchor", kept, "--reason", "disk of Monday")
    assert code == 0 and "written into every data set" in out
    code, out, _ = told("verify", place, "--anchor", kept)
    assert code == 0 and "disk of Monday" in out
    assert "disk of Monday" in told("show", place)[1]
    assert told("report", place, "--anchor", kept, "--out", tmp_path / "run")[0] == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "disk of Monday" in page
    claims = json.loads((tmp_path / "run" / "findings.json").read_text())["guarantees"]
    assert not any(
        "rolled back" in text for one in claims for text in one["guarantee"]["assumptions"]
    )
    assert told("report", place, "--out", tmp_path / "free")[0] == 0
    claims = json.loads((tmp_path / "free" / "findings.json").read_text())["guarantees"]
    assert all("rolled back" in one["guarantee"]["assumptions"][-1] for one in claims)


def test_a_missing_count_has_a_way_out_of_one_command(place, told):
    place.with_name("b.db-lock").unlink()
    code, _, err = told("grant", place, "bob", "0.5")
    assert code == 1 and "lethe budget accept" in err and err.count("\n") <= 2
    assert told("verify", place)[0] == 1
    assert told("accept", place, "--reason", "copied without it")[0] == 0
    assert told("grant", place, "bob", "0.5")[0] == 0


def test_export_in_both_forms(place, told):
    ask(place, 0.5, query='sum(x) in [0, 1] where c = "a,b"')
    lines = [json.loads(line) for line in told("export", place)[1].splitlines()]
    assert [one["kind"] for one in lines] == ["create", "grant", "grant", "spend", "answer"]
    rows = list(csv.DictReader(io.StringIO(told("export", place, "--form", "csv")[1])))
    assert [one["hash"] for one in rows] == [one["hash"] for one in lines]
    assert json.loads(rows[3]["body"]) == lines[3]["body"]


def test_several_data_sets_must_be_named(place, told):
    assert told("create", place, "--dataset", "other", "--rho", "1")[0] == 0
    code, _, err = told("export", place)
    assert code == 2 and "other, people.csv" in err
    code, _, err = told("export", place, "--dataset", "othr")
    assert code == 2 and "Did you mean 'other'" in err
    assert told("export", place, "--dataset", "other")[0] == 0
    assert len(told("anchor", place)[1].splitlines()) == 2


def test_report_writes_a_run(place, told, tmp_path):
    ask(place, 0.5)
    out = tmp_path / "run"
    code, said, _ = told("report", place, "--out", out, "--rule", "spent<=0.4")
    assert code == 1 and "✕ Fail: spent <= 0.4" in said
    modes = {path.name: path.stat().st_mode & 0o077 for path in (out, *out.rglob("*"))}
    assert set(modes.values()) == {0}, modes  # questions and answers stand in it
    document = json.loads((out / "findings.json").read_text())
    assert document["subject"]["release"] == "queries"
    assert document["queries"]["ledger"]["spent"]["amount"] == 0.5
    assert "What was answered and paid" in (out / "report.html").read_text()
    assert told("report", place, "--out", tmp_path / "other", "--rule", "spent<=0.5")[0] == 0
