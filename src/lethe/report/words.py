"""Plain-words sentences: what the numbers mean for 1,000 people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lethe.errors import InputError
from lethe.evidence.rules import (
    EMBEDDING_METRICS,
    MECHANISM_METRICS,
    METRICS,
    QUERY_METRICS,
    RECORD_METRICS,
    SYNTHETIC_METRICS,
    TABLE_METRICS,
    parse_rule,
)
from lethe.report.epsilons import parameter
from lethe.report.numbers import fixed, grouped, percent

Json = Mapping[str, Any]

OUTCOMES = {
    "pass": ("Pass", "✓"),
    "fail": ("Fail", "✕"),
    "not-enough-evidence": ("Not enough evidence", "?"),
    "not-tested": ("Not tested", "–"),
}
OUTCOME_MEANINGS = {
    "pass": "the upper confidence limit meets the criterion",
    "fail": "the lower confidence limit breaks the criterion",
    "not-enough-evidence": "the interval holds the criterion's limit",
    "not-tested": "nothing was measured for this criterion",
}
RELEASES = {
    "model": "a trained model",
    "embeddings": "representations",
    "table": "a table of rows",
    "queries": "answers to queries",
}
KINDS = {
    "pure-dp": "pure differential privacy",
    "approx-dp": "approximate differential privacy",
    "gdp": "Gaussian differential privacy",
    "zcdp": "zero-concentrated differential privacy",
    "individual-dp": "individual differential privacy",
    "identification-bound": "bound on identification",
    "certified-radius": "certified radius",
    "asymptotic": "asymptotic statement",
    "empirical-only": "measured only",
}

# Of a guarantee, what a sentence on it names; the rest stands in its table.
_LEADING = ("epsilon", "delta", "mu", "rho", "success", "users")
_MOST_CLAIMS, _MOST_NAMED = 4, 3


def count_of(share: float, records: int) -> str:
    """How many of `records`, with a decimal only where it is needed.

    >>> count_of(0.052, 1000), count_of(0.0013, 1000)
    ('52', '1.3')
    """
    number = share * records
    return grouped(round(number)) if number >= 9.95 else grouped(round(number, 1))


def naming(tpr: Json, fpr: float) -> str:
    """What a true positive rate means for a round number of training records.

    Args:
        tpr: an estimate of the findings.
        fpr: the false positive rate it was measured at.

    >>> naming({"value": 0.052, "low": 0.046, "high": 0.059, "confidence": 0.95}, 0.001)
    'of 1,000 training records an attacker who may be wrong once in 1,000 names 52 \
(95 % interval: 46 to 59); a random guess names 1'
    """
    records = 1000
    while records * fpr < 0.9999:
        records *= 10
    once = 1 / fpr
    often = (
        f"once in {grouped(round(once))}"
        if abs(once - round(once)) < 1e-6
        else f"in {percent(fpr)} of cases"
    )
    start = f"of {grouped(records)} training records an attacker who may be wrong {often} names"
    blind = f"a random guess names {count_of(fpr, records)}"
    low, high = tpr["low"], tpr["high"]
    if tpr["value"] is None:
        return f"{start} at most {count_of(high, records)}; {blind}" if high is not None else ""
    named = count_of(tpr["value"], records)
    if low is not None and high is not None:
        named += (
            f" ({percent(tpr['confidence'])} interval: {count_of(low, records)} to "
            f"{count_of(high, records)})"
        )
    return f"{start} {named}; {blind}"


def judged_rates(candidate: Json) -> dict[float, Json]:
    """TPR by FPR of the strongest attack, with limits that allow for having chosen it."""
    return {
        float(quantity.removeprefix("tpr@")): measured
        for quantity, measured in candidate["measures"].items()
        if quantity.startswith("tpr@") and measured is not None
    }


def strictest_rate(candidate: Json) -> tuple[float, Json] | None:
    """The smallest FPR that could be measured for the strongest attack, and the TPR there."""
    rates = [
        (fpr, tpr)
        for fpr, tpr in judged_rates(candidate).items()
        if "refused" not in tpr and (tpr["value"] is not None or tpr["high"] is not None)
    ]
    return min(rates, key=lambda pair: pair[0]) if rates else None


def risk_fpr(candidate: Json) -> float | None:
    """The FPR at which the candidate's risk was read, if it is such a rate at all."""
    for fpr, tpr in judged_rates(candidate).items():
        if tpr == candidate["risk"]:
            return fpr
    return None


def exposed_few(top_auc: Json) -> str:
    """What the AUC of the most exposed records means."""
    low, high = top_auc["low"], top_auc["high"]
    times = f"{_times(top_auc['value'])} times in 100"
    if low is not None and high is not None and _times(low) != _times(high):
        times += f" ({percent(top_auc['confidence'])} interval: {_times(low)} to {_times(high)})"
    return (
        "for the most exposed 1 % of records, shown one model trained with the record and one "
        f"without it, an attacker tells which is which {times}; a coin manages 50"
    )


def _times(auc: float) -> str:
    return "more than 99" if auc > 0.99 else f"{100 * auc:.0f}"


def price(candidate: Json, margin: float) -> str:
    """What the candidate costs in utility, with the verdict against the margin."""
    loss = candidate.get("utility_loss")
    if not loss or loss["value"] is None:
        return ""
    points = fixed(abs(loss["value"]), 4)
    change = f"loses {points}" if loss["value"] > 0 else f"gains {points}"
    most = "" if loss["high"] is None else f", at worst a loss of {fixed(loss['high'], 4)}"
    if loss["high"] is not None and loss["high"] <= 0:
        most = ""
    verdicts = {
        "yes": f"this is within the margin of {margin:g} that was fixed before the run",
        "no": f"this is more than the margin of {margin:g} that was fixed before the run",
        "unclear": f"whether this is within the margin of {margin:g} is not shown: more models "
        "are needed",
    }
    verdict = verdicts.get(candidate.get("equivalent", ""), "")
    return f"it {change} in utility{most}" + (f"; {verdict}" if verdict else "")


def proof(guarantees: Sequence[Json]) -> str:
    """Which candidates carry a proof, and of what."""
    proven = [entry for entry in guarantees if entry["guarantee"]["proven"]]
    if not guarantees:
        return ""
    if not proven:
        return (
            "nothing here is proven: every number says what these attacks found, and a stronger "
            "attack may find more"
        )
    named = ", ".join(entry["candidate"] for entry in proven)
    claims = "; ".join(
        f"{entry['candidate']}: {claim_of(entry['guarantee'])}" for entry in proven[:_MOST_CLAIMS]
    )
    return f"a proof comes with {named} only ({claims}); all other numbers are measured"


def claim_of(guarantee: Json) -> str:
    """What a guarantee says in short: the kind, its leading numbers, and whom it protects.

    >>> claim_of({"kind": "approx-dp", "parameters": {"epsilon": 4.0, "delta": 1e-05},
    ...           "relation": "add/remove", "unit": "record"})
    'approximate differential privacy, epsilon 4, delta 1e-05, add/remove a record'
    """
    numbers = [
        f"{name.replace('_', ' ')} {parameter(name, guarantee['parameters'][name])}"
        for name in _LEADING
        if name in guarantee["parameters"]
    ]
    whom = " a ".join(guarantee[key] for key in ("relation", "unit") if guarantee[key] != "none")
    kind = str(KINDS.get(guarantee["kind"], guarantee["kind"]))
    return ", ".join([kind, *numbers, *([whom] * bool(whom))])


def not_tested(document: Json) -> list[str]:
    """What was not run, and why; attacks with one reason together, the short groups first."""
    groups: dict[str, list[str]] = {}
    for one in document["rules"]:
        if one["outcome"] == "not-tested":
            groups.setdefault("nothing was measured for this rule", []).append(str(one["rule"]))
    for one in document["attacks_not_run"]:
        groups.setdefault(str(one["why"]), []).append(str(one.get("title", one["name"])))
    said = []
    for why, named in sorted(groups.items(), key=lambda group: len(group[1])):
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        said.append(f"{', '.join(named[:_MOST_NAMED])}{more}: {why.rstrip('.')}")
    return said


def plain_words(
    document: Json, chosen: Json | None, baseline: Json | None
) -> list[tuple[str, list[str]]]:
    """The box at the top: what is spoken of, and sentences about it.

    Args:
        document: the findings.
        chosen: the candidate that the audit puts forward, if any.
        baseline: the release as it is now, if any.
    """
    blocks = []
    for lead, candidate in (("As it is now", baseline), ("With", chosen)):
        if candidate is None or (lead == "With" and candidate is baseline):
            continue
        found = strictest_rate(candidate)
        said = [naming(found[1], found[0])] if found else []
        if not found and "refused" in candidate["risk"]:
            said.append(f"the risk could not be measured: {candidate['risk']['refused']}")
        top = (candidate.get("vulnerability") or {}).get("top_auc") or {}
        if top.get("value") is not None:
            said.append(exposed_few(top))
        if candidate is not baseline:
            said.append(price(candidate, document["frontier"]["margin"]))
        name = lead if lead != "With" else f"With “{candidate['name']}”"
        blocks.append((name, [_sentence(text) for text in said if text]))
    proven = proof(document["guarantees"])
    if proven:
        blocks.append(("Proof", [_sentence(proven)]))
    return [block for block in blocks if block[1]]


def rule_in_words(text: str) -> str:
    """A rule as a sentence a reader without the grammar understands; empty if it has another form.

    >>> rule_in_words("tpr@0.001 <= 0.05")
    'true positive rate of the strongest attack at an FPR of 0.1 %: at most 0.05'
    """
    for metrics in (
        METRICS,
        EMBEDDING_METRICS,
        TABLE_METRICS,
        RECORD_METRICS,
        SYNTHETIC_METRICS,
        MECHANISM_METRICS,
        QUERY_METRICS,
    ):
        try:
            rule = parse_rule(text, metrics)
            break
        except InputError:
            continue
    else:
        return ""
    what = metrics[rule.metric]
    if rule.fpr is not None:
        what = what.replace("at an FPR", f"at an FPR of {percent(rule.fpr)}")
    return f"{'width of the interval of ' if rule.on_width else ''}{what}: at most {rule.limit:g}"


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
