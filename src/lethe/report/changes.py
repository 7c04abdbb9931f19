"""What would change a verdict: a few sentences for each rule, from the findings alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lethe.assess.judged import evidence_of, metrics_of
from lethe.assess.verdict import Decision, decide
from lethe.errors import InputError
from lethe.evidence.document import CandidateRow, CheckRow
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.findings import Findings
from lethe.evidence.plain import read
from lethe.evidence.rules import FAIL, PASS, Rule, judge, parse_rule
from lethe.report.catalogue import say
from lethe.report.numbers import few, grouped, share_words
from lethe.report.severity import IN_PERCENT
from lethe.report.utility import Utility

_MOST_NAMED = 3
_MOST_OPTIONS = 6
_MOST_TIMES = 1_000
# Metrics that another `--rule` alone does not get measured.
_NEEDS_MORE = {
    "journalist",
    "utility-loss",
    "rho-lower",
    "mu-lower",
    "epsilon-lower",
    "reuse",
    "top-t",
}


def changes(findings: Findings) -> list[tuple[str, list[str]]]:
    """Each rule with sentences on what would change its outcome; `findings` of any release."""
    return [(str(entry["rule"]), _sentences(findings, entry)) for entry in findings.rules]


def _sentences(findings: Findings, entry: Mapping[str, Any]) -> list[str]:
    try:
        rule = parse_rule(entry["rule"], metrics_of(findings))
    except InputError:
        return [say("change.unreadable")]
    found = read(Measured, entry["evidence"])
    if entry.get("reason"):
        return [f"{entry['reason'][:1].upper()}{entry['reason'][1:].rstrip('.')}."]
    outcome = judge(rule, found)
    if found is None:
        more = f"change.again.{rule.metric}" if rule.metric in _NEEDS_MORE else "change.again"
        return [say("change.unmeasured"), say(more, rule=rule)]
    if isinstance(found, Refusal):
        return [say("change.refused", reason=found.reason)]
    if rule.on_width:
        return _of_width(rule, found, outcome)
    if rule.at_least:
        return _of_least(findings, entry["candidate"], rule, found, outcome)
    if outcome == PASS:
        return _room_left(rule, found, findings)
    if outcome == FAIL:
        return _who_would_pass(findings, entry["candidate"], rule, found)
    others = passing(findings, entry["candidate"], rule)
    return [*_how_much_more(rule, found), *([_named(others, findings)] if others else [])]


def _of_least(
    findings: Findings, judged: str, rule: Rule, found: Estimate, outcome: str
) -> list[str]:
    """Of a metric that must stay above its limit."""
    ends = {"low": found.low, "high": found.high, "limit": rule.limit}
    numbers = {key: "–" if end is None else _show(rule, end) for key, end in ends.items()}
    key = {PASS: "passes", FAIL: "fails"}.get(outcome, "open")
    others = [] if outcome == PASS else passing(findings, judged, rule)
    said = [say(f"change.least.{key}", **numbers)]
    return [*said, _named(others, findings)] if others else said


def _room_left(rule: Rule, found: Estimate, findings: Findings) -> list[str]:
    assert found.high is not None
    high, limit = found.high, rule.limit
    numbers = {"high": _show(rule, high), "limit": _show(rule, limit)}
    numbers["room"] = _gap(rule, limit - high)
    said = [say("change.passes", **numbers)]
    if findings.queries is not None and "ledger" in findings.queries:
        return [*said, say("change.passes.ledger")]
    if high > 0 and limit > 0:
        times = limit / high
        key = "change.passes.times" if times >= 1.005 else "change.passes.least"
        said.append(say(key, times=f"{times:.3g}"))
    return [*said, say("change.passes.below", **numbers)]


def _who_would_pass(findings: Findings, judged: str, rule: Rule, found: Estimate) -> list[str]:
    assert found.low is not None
    low, limit = found.low, rule.limit
    numbers = {"low": _show(rule, low), "limit": _show(rule, limit)}
    said = [say("change.fails", **numbers, over=_gap(rule, low - limit))]
    if findings.queries is not None:
        kind = "ledger" if "ledger" in findings.queries else "mechanism"
        return [*said, say(f"change.fails.{kind}")]
    if others := passing(findings, judged, rule):
        return [*said, _named(others, findings)]
    rest = [row for row in findings.candidates if row["name"] != judged]
    if not rest:
        return [*said, say("change.fails.alone")]
    said.append(say("change.fails.all"))
    highs = [
        (measured.high, str(row["name"]))
        for row in rest
        for measured in [_evidence(findings, row, rule)]
        if isinstance(measured, Estimate) and measured.high is not None
    ]
    if highs:
        high, name = min(highs)
        said.append(say("change.fails.nearest", name=name, high=_show(rule, high)))
    return said


def passing(findings: Findings, judged: str, rule: Rule) -> list[CandidateRow]:
    """The other candidates on which the rule would pass."""
    return [row for row, (one,) in _decided(findings, judged, [rule]) if one.outcome == PASS]


def _decided(
    findings: Findings, judged: str, rules: Sequence[Rule]
) -> Iterator[tuple[CandidateRow, list[Decision]]]:
    """The other candidates, each with the outcome of every rule."""
    checks = read(Sequence[CheckRow], findings.checks)
    for row in findings.candidates if rules else ():
        if row["name"] != judged:
            one = read(CandidateRow, row)
            yield one, [decide(rule, _evidence(findings, row, rule), one, checks) for rule in rules]


def meeting(findings: Findings, judged: str) -> tuple[list[CandidateRow], dict[str, str]]:
    """The other candidates that meet every rule; and by name, why numbers that do earn no pass."""
    met, unearned = list[CandidateRow](), dict[str, str]()
    try:
        rules = [parse_rule(entry["rule"], metrics_of(findings)) for entry in findings.rules]
    except InputError:
        return met, unearned
    for row, decided in _decided(findings, judged, rules):
        missing = [decision.reason for decision in decided if decision.outcome != PASS]
        if not missing:
            met.append(row)
        elif all(missing):
            unearned[row.name] = missing[0]
    return met, unearned


def met_by(findings: Findings, judged: str) -> list[str]:
    """Sentences about `meeting`."""
    met, unearned = meeting(findings, judged)
    names = few([row.name for row in met], _MOST_OPTIONS)
    said = [say("limits.met_by", names=names) if met else say("limits.met_by_none")]
    for name in list(unearned)[:1]:
        names = few(list(unearned), _MOST_OPTIONS)
        said.append(say("limits.unearned", names=names, name=name, reason=unearned[name]))
    return said if findings.rules and len(findings.candidates) > 1 else []


def _named(passing: Sequence[CandidateRow], findings: Findings) -> str:
    """Who would pass, on the frontier first, the cheapest first, with the price."""
    pareto = findings.frontier["pareto"]
    ranked = sorted(passing, key=lambda row: (row.name not in pareto, _price(row.utility_loss)))
    utility = Utility(findings.frontier["utility"])
    named = [
        say("change.option", name=row.name, cost=_cost(row.utility_loss, utility)) for row in ranked
    ]
    rest = len(ranked) - _MOST_NAMED
    key, names = "change.named.more" if rest > 0 else "change.named", "; ".join(named[:_MOST_NAMED])
    return say(key, names=names, n=rest, utility=findings.frontier["utility"])


def _price(loss: Measured | None) -> float:
    return math.inf if not isinstance(loss, Estimate) or loss.value is None else loss.value


def _cost(loss: Measured | None, utility: Utility) -> str:
    if not isinstance(loss, Estimate) or loss.value is None:
        return say("change.cost.unmeasured")
    return say(f"change.cost.{'loses' if loss.value >= 0 else 'gains'}", loss=utility.loss(loss))


def _how_much_more(rule: Rule, found: Estimate) -> list[str]:
    """The limit that lies within the interval, and what it takes until it does not."""
    value, low, high, limit = found.value, found.low, found.high, rule.limit
    numbers = {
        key: "" if end is None else _show(rule, end)
        for key, end in (("value", value), ("low", low), ("high", high), ("limit", limit))
    }
    if high is None:
        return [say("change.open.no_high", **numbers)]
    if value is None:
        times = high / limit if limit > 0 else math.inf
        return [say("change.open.none", **numbers), *_narrower(times, 1, "pass")]
    power = 1 if value == low == 0 or value == high == 1 else 2  # as `sample_for_rule`
    if value < limit:
        times = (high - value) / (limit - value)
        return [say("change.open.high", **numbers), *_narrower(times, power, "pass")]
    if low is None:
        return [say("change.open.no_low", **numbers), say("change.again", rule=rule)]
    times = (value - low) / (value - limit) if value > limit else math.inf
    return [say("change.open.low", **numbers), *_narrower(times, power, "fail")]


def _of_width(rule: Rule, found: Estimate, outcome: str) -> list[str]:
    if found.width is None:
        return [say("change.width.unknown")]
    key = "change.width.passes" if outcome == PASS else "change.width"
    said = say(key, width=_gap(rule, found.width), limit=_gap(rule, rule.limit))
    if outcome == PASS:
        return [said]
    times = found.width / rule.limit if rule.limit > 0 else math.inf
    return [said, *_narrower(times, 2, "pass")]


def _narrower(narrower: float, power: int, then: str) -> list[str]:
    """Sentences on sizes, `sample_for_rule` in words: a width falls with n to the 1 / `power`."""
    times = narrower**power
    if times > _MOST_TIMES:
        return [say("change.too_near")]
    size = f"{times:.2g}" if times < 100 else grouped(float(f"{times:.2g}"))
    return [
        say(f"change.narrower.{then}", narrower=f"{narrower:.2g}", times=size),
        say("change.thumb.root" if power == 2 else "change.thumb.count"),
    ]


def _evidence(findings: Findings, candidate: Mapping[str, Any], rule: Rule) -> Measured | None:
    """What is known of a candidate; older or bare findings may lack what the metric needs."""
    try:
        return evidence_of(findings, candidate, rule)
    except (KeyError, TypeError, InputError):
        return None


def _show(rule: Rule, number: float) -> str:
    """A number in the unit of the rule."""
    if rule.metric in IN_PERCENT:
        return share_words(number, 3)
    return f"{number:.3g}".replace("-", "−")


def _gap(rule: Rule, number: float) -> str:
    """A difference of such numbers."""
    if rule.metric in IN_PERCENT:
        return say("points", value=share_words(number, 3).removesuffix(" %"))
    return _show(rule, number)
