"""Rules on finished findings: which were fixed before the run, and what a baseline file changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report.sample import document

from lethe.assess.judged import (
    Judged,
    WrittenRule,
    against_baseline,
    got_worse,
    judge_anew,
    judge_stored,
    metric_of,
    read_baseline,
    stamped,
    write_baseline,
)
from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.findings import Findings
from lethe.evidence.rules import (
    FAIL,
    METRICS,
    NOT_TESTED,
    PASS,
    SHARES,
    UNDECIDED,
    Rule,
    parse_rule,
)

ENTRIES: list[dict[str, Any]] = [
    {"rule": "auc <= 0.99", "candidate": "baseline", "outcome": "pass", "evidence": None},
    {"rule": "top-t <= 9", "candidate": "baseline", "outcome": "pass", "evidence": None},
]


def findings(rules: list[dict[str, Any]] | None = None) -> Findings:
    made = document(["baseline", "weighted"])
    return Findings.from_json({**made, "rules": ENTRIES if rules is None else rules})


def test_only_a_rule_that_the_run_had_for_the_candidate_was_fixed() -> None:
    asked = [WrittenRule("auc<=0.99"), WrittenRule("auc<=0.98"), WrittenRule("marketer<=1")]
    found = judge_anew(findings(), "run", asked)
    assert [(str(one.rule), one.fixed) for one in found] == [
        ("auc <= 0.99", True),
        ("auc <= 0.98", False),
    ]
    assert [one.fixed for one in judge_anew(findings(), "run", asked[:1], "weighted")] == [False]
    late = findings([{**ENTRIES[0], "fixed": False}])
    [told] = judge_stored(late, "run")
    assert not told.fixed and told.words.endswith("Fixed after the run.")


def test_a_stamp_marks_each_rule_and_corrects_the_words() -> None:
    verdict = {
        "outcome": "pass",
        "candidate": "baseline",
        "words": ["It meets every criterion that was fixed before the run.", "More."],
    }
    found = replace(findings(), verdict=verdict)
    written = [WrittenRule("auc<=0.99", "area", "far"), WrittenRule("top-t<=9")]
    both = stamped(found, written, ["auc <= 0.990", "top-t<=9"])
    assert [one["fixed"] for one in both.rules] == [True, True]
    assert (both.rules[0]["name"], both.rules[0]["why"]) == ("area", "far")
    assert "name" not in both.rules[1] and both.verdict == verdict
    one = stamped(found, written, ["top-t<=9"])
    assert [entry["fixed"] for entry in one.rules] == [False, True]
    assert one.verdict["words"][0].endswith("auc <= 0.99.")
    assert one.verdict["words"][1:] == ["It meets every criterion.", "More."]


@given(st.sampled_from(sorted(METRICS)), st.booleans(), st.floats(1e-6, 0.9), st.floats(-9, 9))
def test_the_metric_of_a_rule_is_found_without_reading_it(
    metric: str, width: bool, fpr: float, limit: float
) -> None:
    rates = {"tpr": fpr, "tau": fpr, "estimated": 0.01}
    quantity = Rule(metric, rates.get(metric), limit).quantity
    if not width:  # no limit below chance, or above what a share can be
        limit = 1.0 if metric in SHARES else abs(limit) + 1
    text = f" width( {quantity} ) <= {limit}" if width else f"{quantity}<={limit}"
    assert metric_of(text) == parse_rule(text).metric == metric


def judged(outcome: str, low: float | None, high: float | None, **more: Any) -> Judged:
    middle = None if low is None or high is None else (low + high) / 2
    evidence = Estimate(middle, low, high, 0.95, "made up", 50)
    rule = parse_rule("auc<=0.6")
    return replace(Judged("run", "s", "model", "baseline", rule, outcome, True, evidence), **more)


CASES = {
    "as it was": (judged(FAIL, 0.7, 0.8), judged(FAIL, 0.7, 0.8), PASS),
    "a little worse": (judged(FAIL, 0.7, 0.8), judged(FAIL, 0.79, 0.9), PASS),
    "beyond both intervals": (judged(FAIL, 0.7, 0.8), judged(FAIL, 0.81, 0.9), FAIL),
    "worse though the limit holds": (judged(PASS, 0.1, 0.2), judged(PASS, 0.3, 0.4), FAIL),
    "failed before, unclear now": (judged(FAIL, 0.7, 0.8), judged(UNDECIDED, 0.5, 0.7), PASS),
    "passed before, unclear now": (
        judged(PASS, 0.5, 0.59),
        judged(UNDECIDED, 0.55, 0.7),
        UNDECIDED,
    ),
    "unclear before, fails now": (judged(UNDECIDED, 0.5, 0.7), judged(FAIL, 0.61, 0.8), FAIL),
    "better": (judged(FAIL, 0.7, 0.8), judged(PASS, 0.1, 0.2), PASS),
    "a proven limit rose": (judged(PASS, None, 0.1), judged(PASS, None, 0.2), FAIL),
    "a proven limit stayed": (judged(FAIL, None, 0.1), judged(FAIL, None, 0.1), PASS),
    "not measured any more": (
        judged(PASS, 0.1, 0.2),
        judged(NOT_TESTED, 0.1, 0.2, evidence=None),
        NOT_TESTED,
    ),
    "refused before": (
        judged(UNDECIDED, 0, 1, evidence=Refusal("few")),
        judged(UNDECIDED, 0.5, 0.7),
        PASS,
    ),
    "another candidate": (
        judged(FAIL, 0.7, 0.8),
        judged(FAIL, 0.7, 0.8, candidate="weighted"),
        FAIL,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_against_a_baseline_file(case: str, tmp_path: Path) -> None:
    before, now, expected = CASES[case]
    write_baseline(tmp_path / "base.json", [before])
    [found] = against_baseline([now], read_baseline(tmp_path / "base.json"))
    assert found.outcome == expected
    assert bool(found.note) is (
        found.outcome != now.outcome
        or "beyond" in case
        or "rose" in case
        or "another" in case
        or "worse though" in case
    )


numbers = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted)


@given(numbers, numbers)
def test_worse_is_never_both_ways_and_never_where_intervals_meet(
    a: list[float], b: list[float]
) -> None:
    one, two = (Estimate(sum(x) / 2, x[0], x[1], 0.95, "", 5) for x in (a, b))
    assert not (got_worse(one, two) and got_worse(two, one))
    if a[1] >= b[0]:
        assert not got_worse(one, two)
    elif b[0] > a[1] + 1e-3:
        assert got_worse(one, two)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": "lethe-baseline/2", "rules": []}',
        '{"format": "lethe-baseline/1", "rules": [3]}',
        '{"format": "lethe-baseline/1"}',
    ],
)
def test_files_that_are_no_baseline(text: str, tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    file.write_text(text)
    with pytest.raises(InputError, match="base.json"):
        read_baseline(file)


def test_what_is_written_is_plain_and_sorted_by_nothing(tmp_path: Path) -> None:
    write_baseline(tmp_path / "b.json", [judged(FAIL, 0.7, 0.8)])
    [entry] = json.loads((tmp_path / "b.json").read_text())["rules"]
    assert set(entry) == {"subject", "release", "candidate", "rule", "outcome", "evidence"}
