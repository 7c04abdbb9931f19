"""Rules and what was not tested, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lethe.errors import InputError
from lethe.evidence.rules import METRICS, parse_rule
from lethe.report.catalogue import say
from lethe.report.numbers import percent

Json = Mapping[str, Any]

_MOST_NAMED = 3


def judged_rates(candidate: Json) -> dict[float, Json]:
    """TPR by FPR of the strongest attack, with limits that allow for having chosen it."""
    return {
        float(quantity.removeprefix("tpr@")): measured
        for quantity, measured in candidate["measures"].items()
        if quantity.startswith("tpr@") and measured is not None
    }


def not_tested(document: Json) -> list[str]:
    """What was not run, and why; attacks with one reason together, the short groups first."""
    groups: dict[str, list[str]] = {}
    for one in document["rules"]:
        if one["outcome"] == "not-tested":
            groups.setdefault(say("untested.rule"), []).append(str(one["rule"]))
    for one in document["attacks_not_run"]:
        groups.setdefault(str(one["why"]), []).append(str(one.get("title", one["name"])))
    said = []
    for why, named in sorted(groups.items(), key=lambda group: len(group[1])):
        names, rest = ", ".join(named[:_MOST_NAMED]), len(named) - _MOST_NAMED
        key = "untested.line.more" if rest > 0 else "untested.line"
        said.append(say(key, names=names, n=rest, why=why.rstrip(".")))
    return said


def rule_in_words(text: str, metrics: Mapping[str, str] = METRICS) -> str:
    """A rule as a sentence a reader without the grammar understands; empty if it has another form.

    Args:
        text: of the rule.
        metrics: those of the release, with what they are.

    >>> rule_in_words("tpr@0.001 <= 0.05")
    'true positive rate of the strongest attack at an FPR of 0.1 %: at most 0.05'
    """
    try:
        rule = parse_rule(text, metrics)
    except InputError:
        return ""
    what = metrics[rule.metric]
    if rule.fpr is not None:
        what = say("rules.words.fpr", what=what, fpr=percent(rule.fpr))
    if rule.on_width:
        what = say("rules.words.width", what=what)
    if rule.at_least:
        return say("rules.words.least", what=what, limit=f"{rule.limit:g}")
    return say("rules.words.limit", what=what, limit=f"{rule.limit:g}")
