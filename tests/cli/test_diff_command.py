"""`lethe diff`: what moved between two finished runs beyond its interval."""

import json
from pathlib import Path
from typing import Any

import pytest
from small_runs import as_options, rows_run, scores_run

from lethe.cli import run

pytestmark = pytest.mark.usefixtures("no_page")

RULE = as_options(["auc<=0.8"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A weak leak, the same again with another seed, a strong one, and a table."""
    folder = tmp_path_factory.mktemp("diff")
    return {
        "weak": str(scores_run(folder / "weak", *RULE, shift=0.3)),
        "again": str(scores_run(folder / "again", *RULE, shift=0.3, seed=1)),
        "strong": str(scores_run(folder / "strong", *RULE, shift=2.5)),
        "table": str(rows_run(folder, "quasi")),
    }


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and what was printed."""
    capsys.readouterr()
    code = run(["diff", *arguments])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(told(capsys, *arguments, "--json")[1])


def test_a_run_against_itself_moves_nothing(
    runs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(capsys, runs["weak"], runs["weak"])
    assert {one["verdict"] for one in found["changes"]} <= {"within", "cannot tell"}
    assert all(
        one["difference"]["value"] == 0 for one in found["changes"] if one["verdict"] == "within"
    )
    assert (found["settings"], found["rules"], found["guarantees"]) == ({}, [], [])
    assert not found["worse"]
    code, out = told(capsys, runs["weak"], runs["weak"], "--fail-on", "worse")
    assert code == 0 and out.startswith("0 of ")


def test_another_seed_stays_within_and_the_data_are_named(
    runs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(capsys, runs["weak"], runs["again"])
    auc = next(one for one in found["changes"] if one["quantity"] == "auc")
    assert auc["verdict"] == "within" and auc["difference"]["value"] != 0
    assert "fingerprint" in found["settings"] and "models" not in found["settings"]
    asked = (runs["weak"], runs["again"])
    assert "within: auc" not in told(capsys, *asked)[1]
    assert "within: auc of baseline" in told(capsys, *asked, "--all")[1]


def test_a_stronger_leak_moved_for_the_worse(
    runs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(capsys, runs["weak"], runs["strong"])
    auc = next(one for one in found["changes"] if one["quantity"] == "auc")
    assert auc["verdict"] == "moved" and auc["worse"]
    gap = auc["difference"]
    assert gap["value"] == pytest.approx(auc["after"]["value"] - auc["before"]["value"])
    assert 0 < gap["low"] < gap["value"] < gap["high"]
    [rule] = found["rules"]
    assert (rule["before"], rule["after"]) == ("pass", "fail")
    assert told(capsys, runs["weak"], runs["strong"])[0] == 0
    code, out = told(capsys, runs["weak"], runs["strong"], "--fail-on", "worse")
    assert code == 1
    assert "moved (worse): auc of baseline: " in out
    assert "rule auc <= 0.8 on baseline: pass -> fail" in out
    # The other way round it is better, and nothing fails.
    code, out = told(capsys, runs["strong"], runs["weak"], "--fail-on", "worse")
    assert code == 0 and "moved (better): auc of baseline" in out


def test_different_kinds_and_candidates(
    runs: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = told(capsys, runs["weak"], runs["table"])
    assert code == 2 and "model and table/quasi" in out
    more = str(rows_run(tmp_path, "quasi", "--ks", "7"))
    out = told(capsys, runs["table"], more)[1]
    assert "only in B: k-7" in out or "only in B: suppress-7" in out
