"""`lethe check`: finished runs of every release, judged by rules, for people and for CI."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from small_runs import ALL_RULES, as_options, language_run, rows_run, scores_run, vectors_run

from lethe.assess.judged import evidence_of, judged_candidates, metrics_of
from lethe.cli import run
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.findings import Findings
from lethe.evidence.plain import read
from lethe.evidence.rules import parse_rule

pytestmark = pytest.mark.usefixtures("no_page")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each kind, with every metric among its rules."""
    folder = tmp_path_factory.mktemp("small")
    made = {"model": scores_run(folder / "model", *as_options(ALL_RULES["model"]))}
    for kind in ("quasi", "records", "synthetic"):
        made[kind] = rows_run(folder, kind, *as_options(ALL_RULES[kind]))
    made["embeddings"] = vectors_run(folder, *as_options(ALL_RULES["embeddings"]))
    made["language-model"] = language_run(folder, *as_options(ALL_RULES["language-model"]))
    return made


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Exit code and what was printed."""
    capsys.readouterr()
    code = run(["check", *map(str, arguments)])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.parametrize("kind", list(ALL_RULES))
def test_what_a_run_judged_is_what_its_findings_hold(runs: dict[str, Path], kind: str) -> None:
    """The rules' own entries taken away, the same evidence is read from the candidates."""
    whole = Findings.load(runs[kind] / "findings.json")
    bare = Findings(**{**whole.__dict__, "rules": []})
    metrics = metrics_of(bare)
    assert {parse_rule(text, metrics).metric for text in ALL_RULES[kind]} <= set(metrics)
    for entry, text in zip(whole.rules, ALL_RULES[kind], strict=True):
        [candidate] = judged_candidates(bare)
        found = evidence_of(bare, candidate, parse_rule(text, metrics))
        stored = read(Measured, entry["evidence"])
        if isinstance(stored, Estimate):
            assert isinstance(found, Estimate)
            for name in ("value", "low", "high"):
                ours, expected = getattr(found, name), getattr(stored, name)
                same = None if expected is None else pytest.approx(expected, rel=1e-6)
                assert ours == same, (text, name)
        else:
            assert found == stored


@pytest.mark.parametrize("kind", list(ALL_RULES))
def test_the_rules_of_the_run_itself(
    runs: dict[str, Path], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = told(capsys, runs[kind])
    outcomes = [one["outcome"] for one in Findings.load(runs[kind] / "findings.json").rules]
    assert [line.split(":")[0] for line in out.splitlines() if line[0] != " "] == outcomes
    assert code == (1 if "fail" in outcomes else 3 if set(outcomes) != {"pass"} else 0)
    assert "ixed after the run" not in out


def test_exit_codes_fail_before_not_enough_evidence_before_pass(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    known = json.loads((runs["model"] / "findings.json").read_text())
    auc = next(one["evidence"] for one in known["rules"] if one["rule"].startswith("auc"))
    passes, fails = f"auc<={auc['high'] + 0.01}", f"auc<={auc['low'] - 0.01}"
    unclear = f"auc<={(auc['low'] + auc['high']) / 2}"
    ways = {(passes,): 0, (fails,): 1, (unclear,): 3, (passes, unclear): 3}
    ways |= {(unclear, fails, passes): 1, ("tpr@0.02<=1",): 3}
    for rules, expected in ways.items():
        asked = [word for rule in rules for word in ("--rule", rule)]
        code, out = told(capsys, runs["model"], *asked)
        assert code == expected, rules
        assert out.count("Fixed after the run.") == len(rules)
    assert "audit with --rule 'tpr@0.02 <= 1' to have it" in out


def test_one_system_with_several_releases(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A rule judges the runs that have its metric."""
    rules = ("--rule", "auc<=0.99", "--rule", "unique<=1", "--rule", "top-1<=1", "--json")
    code, out = told(capsys, runs["model"], runs["quasi"], runs["embeddings"], *rules)
    found = json.loads(out)["rules"]
    assert code == 0
    assert [(one["release"], one["rule"]) for one in found] == [
        ("model", "auc <= 0.99"),
        ("table/quasi", "unique <= 1"),
        ("embeddings", "top-1 <= 1"),
    ]
    code, out = told(capsys, runs["quasi"], "--rule", "tpr@0.1<=1")
    assert code == 2 and "unknown metric 'tpr'" in out


def test_another_candidate_is_judged_when_asked(
    runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The run's own rules on another candidate: chosen later, so not fixed."""
    assert told(capsys, runs["quasi"])[0] == 1
    code, out = told(capsys, runs["quasi"], "--release", "k-3")
    assert code == 0 and "unique of k-3 (people) is 0 [" in out
    assert out.count("Fixed after the run") == len(ALL_RULES["quasi"])
    code, out = told(capsys, runs["quasi"], "--release", "k-33")
    assert code == 2 and "Did you mean 'k-3'" in out


def test_a_baseline_accepts_what_is_known_and_stops_what_is_worse(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_folder = Path(shutil.copytree(runs["model"], tmp_path / "run"))
    base = tmp_path / "base.json"
    rule = ("--rule", "auc<=0.5")
    assert told(capsys, run_folder, *rule)[0] == 1
    assert told(capsys, run_folder, *rule, "--write-baseline", base)[0] == 0
    code, out = told(capsys, run_folder, *rule, "--baseline", base)
    assert code == 0 and "Fail, as is known" in out
    # A rule that the file does not hold is judged as it is.
    assert told(capsys, run_folder, "--rule", "auc<=0.51", "--baseline", base)[0] == 1

    def raised(document: Any, by: float) -> Any:
        """The same findings with an AUC that is higher."""
        part = document["candidates"][0]["measures"]["auc"]
        for key in ("value", "low", "high"):
            part[key] = round(part[key] + by, 8)
        return document

    file = run_folder / "findings.json"
    document = json.loads(file.read_text())
    width = document["rules"][0]["evidence"]["high"] - document["rules"][0]["evidence"]["low"]
    file.write_text(json.dumps(raised(document, 0.9 * width)))
    assert told(capsys, run_folder, *rule, "--baseline", base)[0] == 0
    file.write_text(json.dumps(raised(document, 0.2 * width)))
    code, out = told(capsys, run_folder, *rule, "--baseline", base)
    assert code == 1 and "Worse than in the baseline file" in out


def test_what_cannot_be_checked(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = rows_run(tmp_path, "quasi")
    empty = tmp_path / "rules.toml"
    empty.write_text('title = "nothing"\n')
    other = tmp_path / "base.json"
    other.write_text("[]")
    for arguments, words in {
        (): "needs a finished run",
        (bare,): "there is no rule to check",
        (runs["model"], "--rules", empty): "holds no rules",
        (tmp_path / "nowhere",): "does not exist",
        (runs["model"], "--rule", "auc"): "is not of the form",
        (runs["model"], "--baseline", other): "is no baseline",
    }.items():
        code, out = told(capsys, *arguments)
        assert code == 2 and words in out, arguments
