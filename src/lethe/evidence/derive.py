"""What a rule is judged on, read from finished findings alone; one reader a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lethe.errors import InputError, did_you_mean
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.findings import Findings
from lethe.evidence.roc import tau_of
from lethe.evidence.rules import (
    EMBEDDING_METRICS,
    MECHANISM_METRICS,
    METRICS,
    QUERY_METRICS,
    RECORD_METRICS,
    SYNTHETIC_METRICS,
    TABLE_METRICS,
    Rule,
    parse_rule,
)
from lethe.evidence.spending import counted

Json = Mapping[str, Any]
_TABLES = {"quasi": TABLE_METRICS, "records": RECORD_METRICS, "synthetic": SYNTHETIC_METRICS}


def kind_of(findings: Findings) -> str:
    """The release, and for rows which of the three kinds: ``model``, ``table/quasi``, ..."""
    release = str(findings.subject["release"])
    return release if findings.table is None else f"{release}/{findings.table['kind']}"


def metrics_of(findings: Findings) -> Mapping[str, str]:
    """The metrics that rules on these findings may name, with what they are."""
    if findings.table is not None:
        return _TABLES[findings.table["kind"]]
    if _mechanism(findings) is not None:
        return MECHANISM_METRICS
    if findings.queries is not None:
        return QUERY_METRICS
    return {"model": METRICS, "embeddings": EMBEDDING_METRICS}.get(findings.subject["release"], {})


def judged_candidates(findings: Findings, release: str | None = None) -> list[Json]:
    """The candidates that rules judge.

    Args:
        findings: of any release.
        release: name of a candidate; where several models of vectors were audited, a name
            without a model stands for that candidate of each. None for the one that the run
            itself judged.

    Raises:
        InputError: there is no such candidate.
    """
    if findings.queries is not None and release is None:
        return [{"name": findings.verdict["candidate"]}]
    name = release or findings.verdict.get("candidate") or "baseline"
    names = [one["name"] for one in findings.candidates]
    found: list[Json] = [
        one
        for one in findings.candidates
        if one["name"] == name
        or (findings.representations is not None and one["name"].endswith(f": {name}"))
    ]
    if not found:
        raise InputError(
            f"release={name!r} is no candidate.{did_you_mean(name, names)} "
            f"There are: {', '.join(names)}."
        )
    return found


def measured_of(document: Json | None) -> Measured | None:
    """An estimate or a refusal of `findings.json`; None for null."""
    if document is None:
        return None
    if "refused" in document:
        return Refusal(document["refused"])
    return Estimate(
        *(document[key] for key in ("value", "low", "high", "confidence", "method", "n"))
    )


def evidence_of(findings: Findings, candidate: Json, rule: Rule) -> Measured | None:
    """What the findings hold on a rule's metric for a candidate; None if it was not measured.

    What the run itself judged is taken as it stands. Else the candidate is read.

    Args:
        findings: of any release.
        candidate: one of its candidates.
        rule: its metric is one of `metrics_of(findings)`.
    """
    mechanism = _mechanism(findings)
    if mechanism is not None:
        return _of_mechanism(mechanism, rule)
    if findings.queries is not None:
        return counted(findings.queries["ledger"])[rule.metric]
    for known in findings.rules:
        if known["candidate"] == candidate["name"]:
            stored = parse_rule(known["rule"], metrics_of(findings))
            if (stored.metric, stored.fpr) == (rule.metric, rule.fpr):
                return measured_of(known["evidence"])
    if rule.metric == "utility-loss":
        return measured_of(candidate["utility_loss"])
    if findings.table is not None:
        return _of_rows(findings, candidate, rule.metric)
    if findings.representations is not None:
        return _of_vectors(candidate, rule.metric, findings.reproduction["confidence"])
    return _of_model(candidate, rule)


def _of_model(candidate: Json, rule: Rule) -> Measured | None:
    if rule.metric == "top-t":
        return measured_of(candidate["vulnerability"]["top_t"])
    if rule.fpr is None:
        found = _rate(candidate, "auc", None)
    else:
        found = _rate(candidate, "tpr", rule.fpr)
    if rule.metric == "tau" and isinstance(found, Estimate):
        assert rule.fpr is not None
        return tau_of(found, rule.fpr)
    return found


def _rate(candidate: Json, metric: str, fpr: float | None) -> Measured | None:
    """Of the strongest attack; findings without it bound it from above by all attacks."""
    if "rates" in candidate:
        return measured_of(_at(candidate["rates"][metric], fpr))
    all_found = [
        measured_of(_at(result[metric], fpr)) for result in candidate.get("attacks", {}).values()
    ]
    for one in all_found:
        if not isinstance(one, Estimate):
            return one
    return _highest([one for one in all_found if isinstance(one, Estimate)])


def _highest(attacks: Sequence[Estimate]) -> Estimate | None:
    """The highest of several attacks: a lower limit would have to allow for the choice."""
    if len(attacks) < 2:
        return attacks[0] if attacks else None
    best = max(attacks, key=lambda one: -1.0 if one.value is None else one.value)
    highs = [one.high for one in attacks]
    high = None if None in highs else max(one for one in highs if one is not None)
    method = f"{best.method}; highest of {len(attacks)} attacks, no lower limit stored"
    return Estimate(best.value, None, high, best.confidence, method, best.n)


def _at(document: Json, fpr: float | None) -> Json | None:
    if fpr is None:
        return document
    return next((found for key, found in document.items() if float(key) == fpr), None)


def _of_vectors(candidate: Json, metric: str, confidence: float) -> Measured | None:
    if metric == "lift":
        return measured_of(candidate["risk"])
    if metric == "top-1":
        return measured_of(candidate["top_1"])
    if candidate["bound"] is None:
        return Refusal("nothing limits what an attacker may do with this release")
    return Estimate(None, None, candidate["bound"], confidence, "no attacker exceeds it", 0)


def _mechanism(findings: Findings) -> Json | None:
    """What was found on a mechanism, if that is what was audited."""
    return None if findings.queries is None else findings.queries.get("mechanism")


def _of_mechanism(mechanism: Json, rule: Rule) -> Measured | None:
    """The lower limit; it can pass a rule only if the runs would have shown twice as much."""
    if rule.metric == "reuse":
        return measured_of(mechanism["reuse"])
    claim, limit, less = mechanism["claim"], mechanism["limit"], mechanism["reach"]["too_small_by"]
    if rule.metric != f"{claim['measure']}-lower":
        return None
    powered = less is not None and 2 * rule.limit >= less * claim["value"]
    high = limit["low"] if powered else None
    rest = (limit[key] for key in ("confidence", "method", "n"))
    return Estimate(limit["low"], limit["low"], high, *rest)


def _of_rows(findings: Findings, candidate: Json, metric: str) -> Measured | None:
    assert findings.table is not None
    if metric in ("marketer", "top-1", "excess"):
        return measured_of(candidate["risk"])
    if findings.table["kind"] == "synthetic":
        return measured_of(candidate.get("excess", {}).get(metric))
    return measured_of(candidate.get(metric.replace("-", "_")))
