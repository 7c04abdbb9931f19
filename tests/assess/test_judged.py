"""What rules are judged on, read from finished documents of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from golden.golden_runs import EVERYWHERE
from report.sample import document

from lethe.assess.judged import (
    evidence_of,
    judge_anew,
    judge_stored,
    judged_candidates,
    kind_of,
    metrics_of,
    read_rules,
)
from lethe.assess.verdict import HARMLESS, decide
from lethe.errors import InputError
from lethe.evidence.document import CandidateRow, CheckRow
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.findings import Findings
from lethe.evidence.plain import read
from lethe.evidence.rules import METRICS, METRICS_OF, PASS, UNDECIDED, Rule, parse_rule

# Measured only where verification or an attribute is asked for, or one model is fitted already.
OPTED = ("eer", "min-cllr", "d-sys", "disclosure", "attribute-gain", "estimated")

GOLDEN = Path(__file__).parents[1] / "golden"


def golden(kind: str) -> Findings:
    found = json.loads((GOLDEN / f"{kind}.json").read_text())
    return Findings.from_json(found)


def findings(**changed: Any) -> Findings:
    return Findings.from_json({**document(["baseline", "weighted"]), "rules": [], **changed})


@pytest.mark.parametrize("kind", EVERYWHERE)
def test_judged_again_a_rule_comes_to_what_the_run_said(kind: str) -> None:
    found = golden(kind)
    stored = judge_stored(found, "run")
    assert stored or kind == "ledger"
    table = {f"r{at}": str(one.rule) for at, one in enumerate(stored)}
    for one, again in zip(stored, judge_anew(found, "run", read_rules(table), None), strict=True):
        assert (again.candidate, again.outcome, again.fixed) == (one.candidate, one.outcome, True)
        assert again.evidence == one.evidence, str(one.rule)


@pytest.mark.parametrize("kind", [kind for kind in EVERYWHERE if kind != "mechanism"])
def test_every_metric_has_evidence_on_every_candidate(kind: str) -> None:
    """Measured, refused with the reason, or null; a metric that is not there is a mistake."""
    found = golden(kind)
    assert metrics_of(found) is METRICS_OF[kind_of(found)]
    if found.queries is not None:
        return
    for candidate in found.candidates:
        for metric in set(metrics_of(found)) - set(OPTED):
            named = [q for q in candidate["measures"] if q.partition("@")[0] == metric]
            assert named, (candidate["name"], metric)
            for quantity in named:
                rule = parse_rule(f"{quantity} <= 1", metrics_of(found))
                stored = read(Measured, candidate["measures"][quantity])
                assert evidence_of(found, candidate, rule) == stored


def test_a_rate_that_was_not_asked_for_is_not_there() -> None:
    found = findings()
    assert evidence_of(found, found.candidates[0], Rule("tpr", 0.002, 1.0)) is None
    assert kind_of(found) == "model" and metrics_of(found) is METRICS


def test_the_candidate_that_is_judged() -> None:
    found = findings(verdict={"outcome": "pass", "candidate": "weighted", "words": []})
    assert [one["name"] for one in judged_candidates(found)] == ["weighted"]
    assert [one["name"] for one in judged_candidates(found, "baseline")] == ["baseline"]
    with pytest.raises(InputError, match="Did you mean 'weighted'"):
        judged_candidates(found, "wieghted")


def test_a_name_without_a_model_stands_for_that_candidate_of_each() -> None:
    made = document(["baseline", "weighted"])
    made["candidates"][1]["name"] = "mlp: noise-2"
    made["representations"] = {"models": [], "rule": ""}
    found = Findings.from_json({**made, "rules": []})
    assert [one["name"] for one in judged_candidates(found, "noise-2")] == ["mlp: noise-2"]


@pytest.mark.parametrize("kind", EVERYWHERE)
def test_a_failed_check_of_the_audit_or_of_what_is_judged_leaves_no_pass(kind: str) -> None:
    """Each check that the rooms file, failed: only those of other mitigations leave a pass."""
    found = golden(kind)
    metric = next(name for name in metrics_of(found) if name not in (*OPTED, *HARMLESS))
    rule, low = Rule(metric, 0.1, 1.0), Estimate(0.0, 0.0, 0.5, 0.95, "", 100)
    names = [one["name"] for one in found.candidates]
    judged = [f"{model}{name}" for model in ("", "mlp: ") for name in names] or [None]
    rows = [{**row, "status": "fail", "attack": ""} for row in found.checks]
    assert rows
    for name in judged:
        candidate = name and read(CandidateRow, {"name": name})
        assert decide(rule, low, candidate, []).outcome == PASS
        model = "mlp: " if name and name.startswith("mlp: ") else ""
        for row in rows:
            on = row["candidate"] and f"{model}{row['candidate']}"
            spared = name and on not in (None, name, f"{model}{names[0]}")
            check = read(CheckRow, {**row, "candidate": on})
            outcome = decide(rule, low, candidate, [check]).outcome
            assert outcome == (PASS if spared else UNDECIDED), (name, row["name"], on)


@pytest.mark.parametrize(
    ("limit", "powered"), [(0.77, False), (0.99, False), (1.0, True), (4.0, True)]
)
def test_a_mechanism_passes_only_where_twice_the_limit_would_have_shown(
    limit: float, powered: bool
) -> None:
    """1,500 runs show what is 1.55 times as loud; a leak was planted for the limit of 1."""
    found = golden("mechanism")
    (candidate,) = judged_candidates(found, None)
    seen = evidence_of(found, candidate, Rule("epsilon-lower", None, limit))
    assert seen is not None and seen.value is not None
    assert seen.high == (seen.value if powered else None)
