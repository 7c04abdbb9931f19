"""`lethe query`: the table of answers, what it cost, and refusals with exit code 2."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import command
from registered_data import budget_for, registered

from lethe.cli import run
from lethe.evidence.of_answers import Charge
from lethe.queries.ledger.ledger import open_ledger
from lethe.queries.registration import find

MEAN = "mean(age) in [18, 100] by county"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.parquet"
    ages = np.arange(3000) % 60 + 20
    pq.write_table(pa.table({"age": ages, "county": ["Kent", "Essex", "Kent"] * 1000}), path)
    registered(path)
    return path


@pytest.fixture
def budget(tmp_path: Path, people: Path) -> Path:
    whole = Charge("epsilon", 10**9, 10**13)
    return budget_for(find(people), tmp_path / "b.db", whole, analysts={"local": whole})


def spent(budget: Path) -> int:
    ledger = open_ledger(budget)
    units = ledger.status("people").spent.units
    ledger.close()
    return units


def asked(*words: object) -> int:
    return run(["query", *map(str, words)])


def test_the_command_of_the_manual(people: Path, budget: Path) -> None:
    """In a process of its own, where warnings are errors."""
    done = command("query", people, MEAN, "--epsilon", 0.5, "--delta", 1e-6, "--budget", budget)
    assert done.returncode == 0, done.stderr
    for word in ("county", "Essex", "Kent", "95 % error interval", "Cost: epsilon 0.5", "Left:"):
        assert word in done.stdout
    assert spent(budget) == 500_000_000


def test_json_is_json(people: Path, budget: Path, capsys: pytest.CaptureFixture[str]) -> None:
    among = "histogram(county) among ['Kent', 'Essex']"
    assert asked(people, among, "--epsilon", 0.5, "--budget", budget, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["key"] for row in told["rows"]] == [{"county": "Essex"}, {"county": "Kent"}]
    assert told["cost"] == {"rule": "epsilon", "amount": 0.5, "delta": 0.0}
    assert told["left"]["amount"] == 0.5 and told["stored"] is False


def test_a_dry_run_spends_nothing(
    people: Path, budget: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (people, "count()", "--epsilon", 0.5, "--budget", budget, "--dry-run")
    assert asked(*words) == 0
    told = capsys.readouterr().out
    for word in (
        "Before noise, one person moves a count by at most 1.",
        "Noise alone moves the answer by at most about 6, 19 times out of 20.",
        "e^0.5 = 1.65 times as likely",
        "size: at most 1 values",
        "It would cost epsilon 0.5 of the epsilon 1, delta 1e-05 you have left.",
        "Nothing was spent",
    ):
        assert word in told
    assert asked(*words, "--json") == 0
    assert json.loads(capsys.readouterr().out)["scale"] == 2.0
    assert spent(budget) == 0


def test_an_explanation_comes_before_the_answer(
    people: Path, budget: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(people, "count()", "--epsilon", 0.5, "--budget", budget, "--explain") == 0
    told = capsys.readouterr().out
    assert told.index("You ask: count().") < told.index("Cost: epsilon 0.5.")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["count()", "--epsilon", "-0.5"], "epsilon=-0.5"),
        (["count()", "--epsilon", "2"], "does not fit|left|not enough"),
        (["mean(county) in [18, 100]", "--epsilon", "0.5"], "holds text, not numbers"),
        ([MEAN, "--epsilon", "0.5"], "--delta 1e-6"),
    ],
)
def test_refusals_have_exit_code_2_and_cost_nothing(
    people: Path, budget: Path, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert asked(people, *words, "--budget", budget) == 2
    told = capsys.readouterr()
    assert any(word in told.err for word in why.split("|")) and not told.out
    assert spent(budget) == 0


def test_without_a_budget_it_must_be_said(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(people, "count()", "--epsilon", 1) == 2
    assert "lethe budget create" in capsys.readouterr().err
    assert asked(people, "count()", "--epsilon", 1, "--no-budget") == 0
    told = capsys.readouterr()
    assert "nobody counts" in told.err and "No budget was charged." in told.out


def test_a_question_beyond_a_limit_is_refused_and_the_limit_can_be_raised(
    people: Path, budget: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ages = ", ".join(map(str, range(20, 70)))
    query = f"histogram(county) among ['Kent', 'Essex'] by age among [{ages}]"
    paid = ("--epsilon", 0.1, "--budget", budget)
    for option, most in (("cells", 99), ("seconds", 1e-3), ("megabytes", 1e-2)):
        assert asked(people, query, *paid, f"--{option}", most) == 2
        told = capsys.readouterr()
        assert f"take {option}" in told.err and "Nothing was spent" in told.err and not told.out
    assert spent(budget) == 0
    assert asked(people, query, *paid, "--cells", 100, "--dry-run") == 0
    assert "size: at most 100 values" in capsys.readouterr().out
    assert asked(people, query, *paid, "--cells", 100) == 0


def test_of_a_large_table_the_first_values_are_printed(
    people: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lethe.cli.query._PRINTED", 3)
    numbers = ", ".join(map(str, range(8)))
    words = (people, f"count() by age among [{numbers}]", "--epsilon", 1, "--no-budget")
    assert asked(*words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.lstrip().startswith(tuple("01234567")) for line in lines) == 3
    assert "and 5 more; --json prints all." in lines
    assert asked(*words, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 8
