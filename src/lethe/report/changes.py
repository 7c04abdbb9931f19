"""What would change a verdict: a sentence or two for each rule, from the findings alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lethe.assess.judged import evidence_of, judged_candidates, metrics_of
from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Measured, Refusal, measured_of
from lethe.evidence.findings import Findings
from lethe.evidence.rules import FAIL, PASS, Rule, judge, parse_rule
from lethe.report.numbers import fixed, grouped
from lethe.report.of_model import risk_fpr

Json = Mapping[str, Any]

_MOST_NAMED = 3
_MOST_TIMES = 1_000
# What to do so that a metric is measured at all, where another `--gate` alone is not enough.
_TO_RUN = {
    "journalist": "give the table of the population",
    "utility-loss": "judge a candidate: what is released now loses nothing against itself",
    "rho-lower": "claim a rho of the mechanism",
    "mu-lower": "claim a mu of the mechanism",
    "epsilon-lower": "claim an epsilon of the mechanism",
    "reuse": "let the mechanism answer with numbers, not with categories alone",
    "top-t": "train more shadow models",
}
# An example of a limit for those who have set none: habits, not law.
_HABITS: Sequence[tuple[str, float]] = (
    ("lift", 2.0),
    ("prosecutor", 0.2),
    ("singling-out", 0.1),
    ("top-1", 0.05),
    ("share", 0.8),
)


def changes(findings: Findings) -> list[tuple[str, list[str]]]:
    """Each rule, and what would change its outcome; without rules, one that could be set.

    Args:
        findings: of any release.

    Returns:
        Text of the rule, and sentences; an empty text where no rule was set.
    """
    if not findings.rules:
        found = _a_rule(findings)
        return [("", found)] if found else []
    return [(str(entry["rule"]), _sentences(findings, entry)) for entry in findings.rules]


def _sentences(findings: Findings, entry: Json) -> list[str]:
    try:
        rule = parse_rule(entry["rule"], metrics_of(findings))
    except InputError:
        return ["This rule is not of a form that this version can read."]
    found = measured_of(entry["evidence"])
    outcome = judge(rule, found)
    if found is None:
        return [_what_to_run(rule)]
    if isinstance(found, Refusal):
        return [f"The value could not be measured: {found.reason}"]
    if rule.on_width:
        return [_of_width(rule, found, outcome)]
    if outcome == PASS:
        return [_room_left(rule, found, findings)]
    if outcome == FAIL:
        return _who_would_pass(findings, entry["candidate"], rule, found)
    others = _passing(findings, entry["candidate"], rule)
    return [_how_much_more(rule, found), *([_named(others, findings)] if others else [])]


def _what_to_run(rule: Rule) -> str:
    hint = _TO_RUN.get(rule.metric)
    more = f", and {hint}" if hint else ""
    return f"Nothing was measured for this rule. Audit again with --gate '{rule}'{more}."


def _room_left(rule: Rule, found: Estimate, findings: Findings) -> str:
    assert found.high is not None
    high = found.high
    said = (
        f"It passes: the upper limit is {_show(high)}, "
        f"{_show(rule.limit - high)} below the limit of {_show(rule.limit)}."
    )
    if findings.queries is not None and "ledger" in findings.queries:
        return f"{said} Every further answer adds to it."
    if high > 0 and rule.limit > 0:
        times = rule.limit / high
        said += (
            f" It would break at a value {times:.3g} times as high"
            if times >= 1.005
            else " The least rise would break it"
        )
        said += ": through a stronger attack, a new training, or another way of release."
    return f"{said} A rule with a limit below {_show(high)} would not pass on this evidence."


def _who_would_pass(findings: Findings, judged: str, rule: Rule, found: Estimate) -> list[str]:
    assert found.low is not None
    said = [
        f"It fails: the lower limit is {_show(found.low)}, "
        f"{_show(found.low - rule.limit)} above the limit of {_show(rule.limit)}. "
        "More data would not mend this."
    ]
    if findings.queries is not None:
        spent = "ledger" in findings.queries
        return [
            *said,
            "What was answered cannot be taken back: set another rule, or answer no more."
            if spent
            else "Add noise to the mechanism, or claim what it really costs, and audit it again.",
        ]
    passing = _passing(findings, judged, rule)
    if passing:
        return [*said, _named(passing, findings)]
    others = [one for one in findings.candidates if one["name"] != judged]
    if not others:
        return [*said, "No other candidate was measured: try mitigations and audit again."]
    highs = [
        (measured.high, str(one["name"]))
        for one in others
        for measured in [_evidence(findings, one, rule)]
        if isinstance(measured, Estimate) and measured.high is not None
    ]
    nearest = ""
    if highs:
        high, name = min(highs)
        nearest = f" The nearest is “{name}” with an upper limit of {_show(high)}."
    return [*said, f"No candidate of this audit would pass this rule.{nearest}"]


def _passing(findings: Findings, judged: str, rule: Rule) -> list[Json]:
    """The other candidates on which the rule would pass."""
    return [
        one
        for one in findings.candidates
        if one["name"] != judged and judge(rule, _evidence(findings, one, rule)) == PASS
    ]


def _named(passing: Sequence[Json], findings: Findings) -> str:
    """Who would pass, on the frontier first, the cheapest first, with the price."""
    pareto = findings.frontier["pareto"]
    ranked = sorted(passing, key=lambda one: (one["name"] not in pareto, _price(one)))
    named = [f"“{one['name']}” ({_cost(one)})" for one in ranked[:_MOST_NAMED]]
    rest = len(ranked) - len(named)
    more = f", and {rest} more" if rest else ""
    return (
        f"The same rule would pass with {', '.join(named)}{more}. "
        f"Utility is: {findings.frontier['utility']}."
    )


def _price(candidate: Json) -> float:
    loss = (candidate.get("utility_loss") or {}).get("value")
    return math.inf if loss is None else float(loss)


def _cost(candidate: Json) -> str:
    loss = candidate.get("utility_loss")
    if not loss or loss["value"] is None:
        return "its loss of utility was not measured"
    most = "" if loss["high"] is None else f", at most {fixed(loss['high'], 4)}"
    if loss["value"] < 0:
        return f"gains {fixed(-loss['value'], 4)} in utility{_or_loses(loss['high'])}"
    return f"loses {fixed(loss['value'], 4)} in utility{most}"


def _or_loses(high: float | None) -> str:
    return "" if high is None or high <= 0 else f", at worst loses {fixed(high, 4)}"


def _how_much_more(rule: Rule, found: Estimate) -> str:
    """The limit that lies within the interval, and what it takes until it does not."""
    value, low, high, limit = found.value, found.low, found.high, rule.limit
    if high is None:
        return (
            "No upper limit is known here, so this rule cannot pass; it would fail if the lower "
            f"limit rose above {_show(limit)}."
        )
    if value is None:
        return _told(
            f"Nothing was found, but up to {_show(high)} cannot be ruled out, above the limit of "
            f"{_show(limit)}",
            high / limit if limit > 0 else math.inf,
            1,
            "pass",
        )
    if value < limit:
        said = (
            f"The upper limit, {_show(high)}, lies above the limit of {_show(limit)}, though the "
            f"value, {_show(value)}, lies below it"
        )
        return _told(said, (high - value) / (limit - value), 2, "pass")
    if low is None:
        return (
            f"The value, {_show(value)}, does not lie below the limit of {_show(limit)}, and no "
            f"lower limit is stored. Audit again with --gate '{rule}'."
        )
    said = (
        f"The lower limit, {_show(low)}, lies within the limit of {_show(limit)}, though the "
        f"value, {_show(value)}, lies above it"
    )
    near = value - limit
    return _told(said, (value - low) / near if near > 0 else math.inf, 2, "fail")


def _of_width(rule: Rule, found: Estimate, outcome: str) -> str:
    if found.width is None:
        return "The interval has only one end, so its width is not known."
    said = f"The interval is {_show(found.width)} wide, the limit {_show(rule.limit)}"
    if outcome == PASS:
        return f"{said}: it passes, and more data only narrow it."
    return _told(said, found.width / rule.limit if rule.limit > 0 else math.inf, 2, "pass")


def _told(said: str, narrower: float, power: int, then: str) -> str:
    """The sentence on sizes: a width falls with the root of n, a limit on zero finds with n."""
    times = narrower**power
    if times > _MOST_TIMES:
        return f"{said}. It is so near that no usual number of models or records would decide it."
    law = "the square root of their number" if power == 2 else "their number"
    return (
        f"{said}. If the value stayed, the interval would have to be {narrower:.2g} times narrower "
        f"for it to {then}, which takes about {_times(times)} times as many models or records. "
        f"This is a rule of thumb: the width falls with {law}, and more models help only as far as "
        "the records are many enough."
    )


def _times(times: float) -> str:
    return f"{times:.2g}" if times < 100 else grouped(float(f"{times:.2g}"))


def _a_rule(findings: Findings) -> list[str]:
    """Without a rule: one that could be set, and what it would have come to."""
    example = _example(findings)
    if example is None:
        return []
    said = [
        f"No rule was set, so nothing here could pass or fail. One could be: {example}. It must be "
        f"written down before the run: --gate '{example}', or [rules] in audit.toml. The number is "
        "an example; how much risk is acceptable is for people to say."
    ]
    try:
        judged = judged_candidates(findings)[0]
    except InputError:
        return said
    found = _evidence(findings, judged, example)
    if found is not None:
        outcome = judge(example, found).replace("-", " ")
        said.append(
            f"On these findings “{judged['name']}” would come to: {outcome}, with {found}. That is "
            "no test, since the result was known first."
        )
    return said


def _example(findings: Findings) -> Rule | None:
    metrics = metrics_of(findings)
    mechanism = (findings.queries or {}).get("mechanism")
    if mechanism is not None:
        claim = mechanism["claim"]
        return Rule(f"{claim['measure']}-lower", None, claim["value"] or 1.0)
    if "tpr" in metrics:
        fpr = next(filter(None, map(risk_fpr, findings.candidates)), 0.01)
        return Rule("tpr", fpr, float(f"{min(5 * fpr, 0.5):.2g}"))
    return next((Rule(name, None, limit) for name, limit in _HABITS if name in metrics), None)


def _evidence(findings: Findings, candidate: Json, rule: Rule) -> Measured | None:
    """What is known of a candidate; older or bare findings may lack what the metric needs."""
    try:
        return evidence_of(findings, candidate, rule)
    except (KeyError, InputError):
        return None


def _show(number: float) -> str:
    return f"{number:.3g}".replace("-", "−")
