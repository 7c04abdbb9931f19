"""Output checking: pass, review or fail for each row of a table, and room for a remark by hand."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lethe.errors import InputError
from lethe.evidence.document import RuleRow
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.rules import CONFIDENCE, FAIL, PASS, Rule, judge, parse_rule
from lethe.report.catalogue import say
from lethe.report.sections import Column


def readable(rules: Sequence[str], metrics: Mapping[str, str]) -> list[Rule]:
    """The rules of a run without those that this version does not know."""
    found = []
    for text in rules:
        with contextlib.suppress(InputError):
            found.append(parse_rule(text, metrics))
    return found


def checked(
    rules: Sequence[RuleRow],
    metrics: Mapping[str, str],
    known: Mapping[str, Measured | None],
    group: str = "",
) -> str:
    """What the rules of a run say of one row: a failure first; empty where none is about it.

    Args:
        rules: of the run.
        metrics: those of the release.
        known: by metric, what was measured of the row alone.
        group: of people, such as ``town=Oak``; rules on other groups are not about it.
    """
    outcomes: dict[str, str] = {}
    for row in rules:
        for rule in readable([row.rule], metrics):
            about = rule.group in ("", group, f"every {group.partition('=')[0]}")
            if about and rule.metric in known:
                outcome = judge(rule, known[rule.metric])
                # Of a rule that could not be decided no row passes: its checks stand for all.
                blocked = outcome == PASS and row.outcome not in (PASS, FAIL)
                outcomes.setdefault(row.outcome if blocked else outcome, str(rule))
    if FAIL in outcomes:
        return say("check.fail", why=outcomes[FAIL])
    for outcome, text in outcomes.items():
        if outcome != PASS:
            return say("check.review", why=text)
    return say("check.pass") if outcomes else ""


def check_columns(
    rules: Sequence[RuleRow],
    metrics: Mapping[str, str],
    known: Callable[[Any], Mapping[str, Measured | None]],
) -> list[Column]:
    """The columns "check" and "remark" of a table over results; without a limit, to review."""

    def words(row: Any) -> str:
        said = checked(rules, metrics, known(row), getattr(row, "name", ""))
        return said or say("check.review", why=say("check.none"))

    return [(say("check"), words), (say("check.remark"), lambda _: "")]


def exactly(value: float) -> Estimate:
    """A number that was counted."""
    return Estimate(value, value, value, CONFIDENCE, "", 1)
