"""Outcome and severity: one rule each, monotone in the limits, the same in every medium."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.report.severity import LEVELS, advantage, outcome, severity

SHARES = st.floats(0, 1)


def share(low: float | None, high: float | None) -> Estimate:
    return Estimate(None, low, high, 0.95, "", 9)


@pytest.mark.parametrize(
    ("low", "high", "chance", "level"),
    [
        (0.01, 0.9, 0.01, "not-above-chance"),  # the lower limit is at chance
        (0.2, 0.2, 0.01, "high"),
        (0.1999, 0.9, 0.01, "moderate"),
        (0.011, 0.05, 0.01, "moderate"),
        (0.011, 0.0499, 0.01, "low"),
        (0.25, 0.9, 0.25, "not-above-chance"),
        (None, 0.9, 0.0, "not-above-chance"),  # no lower limit shows nothing
        (0.02, None, 0.01, "moderate"),  # no upper limit rules nothing out
    ],
)
def test_the_rule_at_its_boundaries(
    low: float | None, high: float | None, chance: float, level: str
) -> None:
    assert severity(share(low, high), chance) == level


@given(SHARES, SHARES, SHARES, SHARES, SHARES)
def test_limits_that_rise_never_lower_it(
    low: float, up: float, high: float, further: float, chance: float
) -> None:
    first, second = sorted((low, up)), sorted((high, further))
    before = severity(share(first[0], max(first[0], second[0])), chance)
    after = severity(share(first[1], max(first[1], second[1])), chance)
    assert LEVELS.index(before) <= LEVELS.index(after)


@pytest.mark.parametrize("nothing", [None, Refusal("too few"), share(None, None)])
def test_what_was_not_measured_has_no_severity(nothing: Measured | None) -> None:
    assert severity(nothing, 0.01) == ""


def test_an_auc_counts_by_its_advantage() -> None:
    found = advantage(Estimate(0.75, 0.5, None, 0.95, "", 9))
    assert (found.value, found.low, found.high) == (0.5, 0.0, None)


@pytest.mark.parametrize(
    ("code", "limits", "shown"),
    [("not-tested", 0, "no-limit"), ("not-tested", 2, "not-tested"), ("fail", 1, "fail")],
)
def test_not_tested_is_said_of_limits_only(code: str, limits: int, shown: str) -> None:
    assert outcome(code, limits).code == shown
