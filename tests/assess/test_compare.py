"""Differences between two audits: hand-worked intervals, coverage, directions, proofs."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report.sample import document
from scipy.stats import binomtest

from lethe.assess.compare import (
    MOVED,
    UNKNOWN,
    WITHIN,
    Comparison,
    RuleChange,
    compare_runs,
    difference,
)
from lethe.errors import InputError
from lethe.evidence.estimate import Estimate
from lethe.evidence.findings import Findings
from lethe.evidence.guarantee import CLAIMS


def estimate(value: float, low: float, high: float, confidence: float = 0.95) -> Estimate:
    return Estimate(value, low, high, confidence, "made up", 100)


def wilson(successes: int, trials: int) -> Estimate:
    limits = binomtest(successes, trials).proportion_ci(0.95, "wilson")
    return estimate(successes / trials, limits.low, limits.high)


def test_a_published_interval() -> None:
    """Newcombe 1998, table II, example (a): 56/70 against 48/80, method 10: 0.0524 to 0.3339."""
    found = difference(wilson(48, 80), wilson(56, 70))
    assert found is not None and found.low is not None and found.high is not None
    assert (found.value, round(found.low, 4), round(found.high, 4)) == (
        pytest.approx(0.2),
        0.0524,
        0.3339,
    )


limits = st.tuples(*[st.floats(0, 1)] * 3).map(sorted)


@given(limits, limits)
def test_the_two_directions_mirror_each_other(a: list[float], b: list[float]) -> None:
    one, two = (estimate(side[1], side[0], side[2]) for side in (a, b))
    there, back = difference(one, two), difference(two, one)
    assert there is not None and back is not None
    assert there.value == pytest.approx(-(back.value or 0))
    assert there.low == pytest.approx(-(back.high or 0)) and there.low <= there.high
    assert (there.width or 0) >= max(a[2] - a[1], a[1] - a[0], b[2] - b[1]) - 1e-9


@pytest.mark.parametrize(
    "other",
    [
        Estimate(None, None, 0.2, 0.95, "limit", 0),
        Estimate(0.1, None, 0.2, 0.95, "one-sided", 9),
        estimate(0.1, 0.05, 0.2, confidence=0.9),
    ],
)
def test_what_cannot_be_given(other: Estimate) -> None:
    assert difference(estimate(0.1, 0.05, 0.2), other) is None
    assert difference(other, estimate(0.1, 0.05, 0.2)) is None


CLASSES = [part["class"] for part in document(["baseline"])["candidates"][0]["per_class"]]


def changed(edit: Any) -> Comparison:
    """The sample against itself after an edit."""
    after = document(["baseline", "weighted"])
    edit(after)
    return compare_runs(
        Findings.from_json(document(["baseline", "weighted"])), Findings.from_json(after)
    )


def named(found: Comparison, quantity: str) -> Any:
    return next(
        one for one in found.changes if (one.candidate, one.quantity) == ("baseline", quantity)
    )


def test_nothing_changes_in_the_sample_itself() -> None:
    found = changed(lambda after: None)
    assert {one.verdict for one in found.changes} <= {WITHIN, UNKNOWN}
    assert not found.worse and not found.settings
    assert {one.quantity for one in found.changes} >= {
        *("auc", "tpr@0.01", "top-t", "utility", f"utility of class {CLASSES[1]}")
    }


def shifted(part: dict[str, Any], by: float) -> None:
    for key in ("value", "low", "high"):
        part[key] += by


def test_direction_utility_down_is_worse_and_risk_up_is_worse() -> None:
    def edit(after: dict[str, Any]) -> None:
        first = after["candidates"][0]
        shifted(first["utility"], -0.5)
        shifted(first["measures"]["top-t"], -3.0)
        shifted(first["per_class"][1]["utility"], 0.5)

    found = changed(edit)
    assert (named(found, "utility").verdict, named(found, "utility").worse) == (MOVED, True)
    assert (named(found, "top-t").verdict, named(found, "top-t").worse) == (MOVED, False)
    assert named(found, f"utility of class {CLASSES[1]}").worse is False
    assert named(found, f"utility of class {CLASSES[2]}").verdict == WITHIN
    assert found.worse


def test_a_move_within_both_intervals_is_none() -> None:
    width = document(["baseline"])["candidates"][0]["utility"]
    # A fall is judged by the lower limit before and the upper one after.
    both = math.hypot(width["high"] - width["value"], width["value"] - width["low"])
    small = changed(lambda after: shifted(after["candidates"][0]["utility"], -0.95 * both))
    large = changed(lambda after: shifted(after["candidates"][0]["utility"], -1.05 * both))
    assert named(small, "utility").verdict == WITHIN
    assert named(large, "utility").verdict == MOVED


def test_settings_versions_and_data_are_named() -> None:
    def edit(after: dict[str, Any]) -> None:
        after["reproduction"]["seed"] += 1
        after["reproduction"]["versions"]["numpy"] = "0"
        after["data"]["fingerprint"] = "other"

    found = changed(edit)
    assert set(found.settings) == {"seed", "versions.numpy", "fingerprint"}
    assert found.settings["versions.numpy"][1] == "0"


DP = {
    "kind": "approx-dp",
    "proven": True,
    "parameters": {"epsilon": 2.0, "delta": 1e-5},
    "relation": "add/remove",
    "unit": "record",
    "assumptions": [],
    "voided_by": [],
}


@pytest.mark.parametrize(
    ("before", "after", "weaker"),
    [
        ({}, {"parameters": {"epsilon": 1.0, "delta": 1e-5}}, False),
        ({}, {"parameters": {"epsilon": 3.0, "delta": 1e-5}}, True),
        ({}, {"parameters": {"epsilon": 1.0, "delta": 1e-4}}, True),
        ({}, {"unit": "user"}, True),
        (  # DP-SGD with twice the noise was called weaker: its settings were taken for claims
            {"parameters": {"epsilon": 8.0, "delta": 1e-5, "noise_multiplier": 0.7, "steps": 90.0}},
            {"parameters": {"epsilon": 2.0, "delta": 1e-5, "noise_multiplier": 1.4, "steps": 99.0}},
            False,
        ),
        (
            {"parameters": {"epsilon": 2.0, "delta": 1e-5, "noise_multiplier": 1.4}},
            {"parameters": {"epsilon": 8.0, "delta": 1e-5, "noise_multiplier": 0.7}},
            True,
        ),
        ({}, {"kind": "empirical-only", "proven": False, "parameters": {}}, True),
        ({"kind": "empirical-only", "proven": False, "parameters": {}}, {}, False),
        (
            {"kind": "certified-radius", "parameters": {"radius": 0.5}},
            {"kind": "certified-radius", "parameters": {"radius": 0.4}},
            True,
        ),
        (
            {"kind": "certified-radius", "parameters": {"radius": 0.5}},
            {"kind": "certified-radius", "parameters": {"radius": 0.6}},
            False,
        ),
    ],
)
def test_a_proof_that_got_weaker(
    before: dict[str, Any], after: dict[str, Any], weaker: bool
) -> None:
    sides = []
    for part in (before, after):
        told = document(["baseline"])
        told["guarantees"] = [{"candidate": "baseline", "guarantee": {**DP, **part}}]
        sides.append(Findings.from_json(told))
    found = compare_runs(*sides)
    assert [change.weaker for change in found.guarantees] == [weaker]
    assert found.worse is weaker


def test_rules_that_changed_and_kinds_that_differ() -> None:
    def edit(after: dict[str, Any]) -> None:
        after["rules"] = [
            {"rule": "auc <= 0.5", "candidate": "baseline", "outcome": "fail", "evidence": None}
        ]

    found = changed(edit)
    assert RuleChange("auc <= 0.5", "baseline", None, "fail") in found.rules
    assert found.worse
    other = document(["baseline"])
    other["subject"]["release"] = "queries"
    with pytest.raises(InputError, match="model and queries"):
        compare_runs(Findings.from_json(document()), Findings.from_json(other))


def test_every_parameter_of_a_proof_is_a_claim_or_a_setting() -> None:
    """A claim in the wrong direction would turn weaker into stronger."""
    lower = {name for name, direction in CLAIMS.items() if direction < 0}
    assert {"epsilon", "delta", "rho", "mu", "success"} <= lower and CLAIMS["radius"] > 0
    settings = {"noise_multiplier", "sampling_rate", "steps", "runs", "sensitivity", "draws"}
    assert not settings & set(CLAIMS)


def test_different_data_are_said_first(capsys: pytest.CaptureFixture[str]) -> None:
    from lethe.report.history import comparison_lines

    sides = [document(["baseline"]) for _ in range(2)]
    sides[1]["data"]["fingerprint"] = "other"
    sides[1]["reproduction"]["seed"] = 9
    found = compare_runs(*(Findings.from_json(side) for side in sides))
    assert found.data == ("fingerprint",) and found.to_json()["different_data"] == ["fingerprint"]
    assert next(iter(found.settings)) == "fingerprint"
    print("\n".join(comparison_lines(found)))
    assert capsys.readouterr().out.startswith("different data (fingerprint)")
    same = compare_runs(*(Findings.from_json(document(["baseline"])) for _ in range(2)))
    assert same.data == ()
