"""Output checking, and its pictures where there is something to draw and where there is not."""

import re
from typing import Any

import pytest
from report.documents import document

from lethe.evidence.document import RuleRow
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.rules import NOT_TESTED, TABLE_METRICS, UNDECIDED
from lethe.report.common import room_of
from lethe.report.output_check import checked, exactly
from lethe.report.sections import charts

OPEN = Estimate(0.2, 0.1, 0.3, 0.95, "", 9)


@pytest.mark.parametrize(
    ("rules", "group", "said"),
    [
        (["unique <= 0.5", "marketer <= 0.3"], "", "✓ Pass"),
        (["unique <= 0.5", "unique <= 0.05"], "", "✕ Fail: unique <= 0.05"),
        (["unique <= 0.2"], "", "? Review: unique <= 0.2"),
        (["certain <= 0.2"], "", "? Review: certain <= 0.2"),  # refused
        (["prosecutor <= 0.2"], "", ""),  # not known of a row
        (["unique[every sex] <= 0.05"], "sex=f", "✕ Fail: unique[every sex] <= 0.05"),
        (["unique[sex=m] <= 0.05"], "sex=f", ""),
        (["unique[every sex] <= 0.05"], "town=Ash", ""),
        (["of another version <= 3", "unique <= 0.5"], "", "✓ Pass"),
        ([], "", ""),
    ],
)
def test_a_row_is_judged_by_the_rules_that_are_about_it(rules, group, said) -> None:
    known = {"unique": OPEN, "marketer": exactly(0.3), "certain": Refusal("too few")}
    rows = [RuleRow(rule=rule, candidate="", outcome="pass", evidence=OPEN) for rule in rules]
    assert checked(rows, TABLE_METRICS, known, group) == said


@pytest.mark.parametrize(
    ("outcome", "said"),
    [("fail", "✓ Pass"), *((o, "? Review: unique <= 0.5") for o in (UNDECIDED, NOT_TESTED))],
)
def test_no_row_passes_a_rule_that_could_not_be_decided(outcome, said) -> None:
    """A failed check of the audit leaves a rule open although every number meets it."""
    row = RuleRow(rule="unique <= 0.5", candidate="", outcome=outcome, evidence=OPEN)
    assert checked([row], TABLE_METRICS, {"unique": OPEN}) == said


def drawn(plain: dict[str, Any]) -> dict[str, str]:
    return {name: chart.svg for name, chart in room_of(plain).charts.items()}  # type: ignore[attr-defined]


def test_the_heat_map_shows_every_pair_and_is_left_out_where_there_is_none() -> None:
    plain = document("table")
    svg = drawn(plain)["pairs"]
    assert re.findall(r">(\d+)</text>", svg).count("68") == 1  # age and town
    assert "1. age" in svg and "2. town" in svg and 'aria-label="Heat map' in svg
    plain["table"]["quasi"] = ["age"]
    assert "pairs" not in drawn(plain)
    plain = document("table")
    for found in plain["table"]["uniqueness"].values():
        found.pop("2")
    assert ">68</text>" not in drawn(plain)["pairs"]


@pytest.mark.parametrize("questions", [0, 1, 12, 13, 600])
def test_the_budget_is_drawn_with_its_questions(questions: int) -> None:
    plain = document("ledger")
    first, asked = plain["queries"]["ledger"]["burn"][:2]
    listed = [{**asked, "question": f"count() {at}"} for at in range(questions)]
    plain["queries"]["ledger"]["burn"] = [first, *listed]
    room = room_of(plain)
    chart = room.chart()
    assert (chart is None) is (questions == 0)  # nothing was spent
    if chart is not None:
        assert 'aria-label="' in chart.svg and f"{questions}. count() {questions - 1}" in chart.svg
        assert ("1. count() 0" in chart.svg) is (questions <= 12)
        assert ("last 12 of" in chart.title) is (questions > 12)
    tables = [part for part in room.attacks()]
    assert len(tables) == bool(questions)
    if questions > 500:
        assert len(tables[0].rows) == 500 and "100 more questions" in tables[0].note


@pytest.mark.parametrize("within", [True, False])
def test_groups_are_drawn_at_the_threshold_of_the_rules_on_groups(within: bool) -> None:
    plain = document("model")
    rate = {"value": 0.4, "low": 0.3, "high": 0.5, "confidence": 0.95, "method": "", "n": 99}
    plain["rules"] = [{**plain["rules"][0], "rule": "tpr@0.01[every class] <= 0.25"}]
    for candidate in plain["candidates"] if within else []:
        candidate["slices"][0]["slices"][0]["tpr_within"] = rate
    section = room_of(plain).exposed()
    drawn = next(chart for chart in charts([section]) if chart.name == "groups")
    words = " ".join(re.findall(r">([^<>]+)</text>", drawn.svg))
    assert ("threshold within the group" in words) is within
    assert ("one threshold for all" in words) is not within
    assert "limit of a rule on groups, 25 %" in words
