"""A document of a model whose seven options have numbers that are set by hand."""

import math
from statistics import NormalDist
from typing import Any

from report import documents

from lethe.evidence.findings import Findings

Json = dict[str, Any]

FPRS = ("0.1", "0.01", "0.001")
NORMAL = NormalDist()

# name: (utility lost, shift of the scores, mean of the largest t)
CANDIDATES: dict[str, tuple[float, float, float]] = {
    "baseline": (0.0, 0.55, 5.12),
    "uniform-noise": (0.0019, 0.42, 3.71),
    "weighted": (0.0033, 0.19, 2.05),
    "weighted-noise": (0.0041, 0.15, 1.72),
    "removal": (0.0070, 0.24, 2.31),
    "equal-mean-weight": (0.0027, 0.47, 4.40),
    "early-stopping": (0.0181, 0.30, 2.90),
}


def estimate(value: float, half: float, low: float = -math.inf, high: float = math.inf) -> Json:
    """An estimate with symmetric limits, cut at the natural ends."""
    ends = {"low": max(low, value - half), "high": min(high, value + half)}
    return {"value": value, **ends, "confidence": 0.95, "method": "two-way bootstrap", "n": 46000}


def candidate(name: str, template: Json) -> Json:
    """One of `CANDIDATES`: normal scores of members and others that lie `shift` apart."""
    loss, shift, top_t = CANDIDATES[name]
    rates: Json = {"tpr": {}, "tau": {}}
    for fpr in FPRS:
        share = NORMAL.cdf(NORMAL.inv_cdf(float(fpr)) + shift)
        rates["tpr"][fpr] = estimate(share, 0.12 * share + 0.0004, 0, 1)
        rates["tau"][fpr] = estimate(math.log(share / float(fpr)), 0.12)
    auc = estimate(NORMAL.cdf(shift / math.sqrt(2)), 0.011, 0, 1)
    lost = None if name == "baseline" else estimate(loss, 0.0036)
    attack = template["attacks"]["lira-online"] | rates | {"auc": auc}
    made = template | {
        "name": name,
        "risk": rates["tpr"]["0.01"],
        "risk_from": {"attack": "lira-online", "view": "release", "results": []},
        "utility_loss": lost,
        "risk_change": lost and estimate(rates["tpr"]["0.01"]["value"] - 0.0379, 0.0031),
        "measures": {"auc": auc, "top-t": estimate(top_t, 0.31), "utility-loss": lost}
        | {f"{metric}@{fpr}": rates[metric][fpr] for metric in rates for fpr in FPRS},
        "shown": [],
        "attacks": {"lira-online": attack},
    }
    made.pop("plants", None)
    return made


def document(names: list[str] | None = None) -> Json:
    """The findings as plain JSON."""
    plain = documents.document("model")
    chosen, template = list(CANDIDATES) if names is None else names, plain["candidates"][0]
    candidates = [candidate(name, template) for name in chosen]
    claims = [{"candidate": name, "guarantee": dict(template["guarantee"])} for name in chosen]
    rows = (
        ("tpr@0.01 <= 0.05", "pass", estimate(0.0149, 0.0022, 0, 1)),
        ("top-t <= 1.5", "not-enough-evidence", estimate(1.72, 0.31)),
        (
            "tpr@0.0001 <= 0.01",
            "not-enough-evidence",
            {"refused": "fpr=0.0001 needs at least 10000 distinct records, got 1437."},
        ),
    )
    rules = [
        {"rule": rule, "candidate": "weighted-noise", "outcome": outcome, "evidence": evidence}
        for rule, outcome, evidence in rows
    ]
    frontier = {"pareto": list(CANDIDATES)[:4], "operating_point": "weighted-noise"}
    changed = {"candidates": candidates, "guarantees": claims, "rules": rules, "checks": []}
    plain |= changed | {"frontier": plain["frontier"] | (frontier if chosen else {})}
    return plain


def findings() -> Findings:
    """The sample as `Findings`."""
    return Findings.from_json(document())
