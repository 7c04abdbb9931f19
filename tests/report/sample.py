"""A findings document as an audit of a model would give it: seven candidates, one refusal each."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

from lethe.evidence.findings import Findings

Json = dict[str, Any]

CLASSES = [f"digit {number}" for number in range(10)]
FPRS = ("0.1", "0.01", "0.001")
NORMAL = NormalDist()

# name: (mitigation, settings, utility, utility lost, shift of the scores, largest t, mean top t)
CANDIDATES: dict[str, tuple[str, Json, float, float, float, float, float]] = {
    "baseline": ("none", {}, 0.9722, 0.0, 0.55, 6.91, 5.12),
    "uniform-noise": ("noise on every gradient", {"noise": 0.01}, 0.9703, 0.0019, 0.42, 4.80, 3.71),
    "weighted": (
        "weights by t-score",
        {"alpha": 2.0, "beta": 2.0, "noise": 0.0},
        0.9689,
        0.0033,
        0.19,
        2.64,
        2.05,
    ),
    "weighted-noise": (
        "weights by t-score and noise",
        {"alpha": 2.0, "beta": 2.0, "noise": 0.01},
        0.9681,
        0.0041,
        0.15,
        2.21,
        1.72,
    ),
    "removal": ("records with t > 2 removed", {"share": 0.04}, 0.9652, 0.0070, 0.24, 3.05, 2.31),
    "equal-mean-weight": (
        "every record at the mean weight",
        {"weight": 0.87},
        0.9695,
        0.0027,
        0.47,
        5.93,
        4.40,
    ),
    "early-stopping": ("half the epochs", {"epochs": 15}, 0.9541, 0.0181, 0.30, 3.96, 2.90),
}


def estimate(
    value: float | None, half: float, low: float = -math.inf, high: float = math.inf, n: int = 46000
) -> Json:
    """An estimate with symmetric limits, cut at the natural ends."""
    at = 0.0 if value is None else value
    return {
        "value": value,
        "low": None if value is None else max(low, at - half),
        "high": min(high, at + half),
        "confidence": 0.95,
        "method": "two-way bootstrap",
        "n": n,
    }


def curve(shift: float) -> Json:
    """The ROC of two normals `shift` apart."""
    fpr = [0.0] + [10 ** (-3.6 + 3.6 * at / 140) for at in range(141)]
    tpr = [0.0] + [1.0 if at == 1 else NORMAL.cdf(NORMAL.inv_cdf(at) + shift) for at in fpr[1:]]
    return {
        "fpr": fpr,
        "tpr": tpr,
        "low": [max(0.0, at - 0.25 * at * (1 - at) - 0.0004) for at in tpr],
        "high": [min(1.0, at + 0.28 * at * (1 - at) + 0.0006) for at in tpr],
        "band_low": [max(0.0, at - 0.38 * at * (1 - at) - 0.0006) for at in tpr],
        "band_high": [min(1.0, at + 0.42 * at * (1 - at) + 0.0009) for at in tpr],
    }


def attack(shift: float, refuse: bool) -> Json:
    """One attack's results; the smallest FPR may be refused."""
    tpr: Json = {}
    tau: Json = {}
    for fpr in FPRS:
        budget = float(fpr)
        share = NORMAL.cdf(NORMAL.inv_cdf(budget) + shift)
        tpr[fpr] = estimate(share, 0.12 * share + 0.0004, 0, 1)
        tau[fpr] = estimate(math.log(share / budget), 0.12)
    if refuse:
        why = {"refused": "fpr=0.001 needs at least 1000 distinct records, got 719."}
        tpr["0.001"] = tau["0.001"] = why
    return {
        "auc": estimate(NORMAL.cdf(shift / math.sqrt(2)), 0.011, 0, 1),
        "tpr": tpr,
        "tau": tau,
        "realised_fpr": {"0.1": 0.1, "0.01": 0.0093, "0.001": 0.00099},
        "roc": curve(shift),
    }


def histogram(top: float) -> Json:
    """Counts of t-scores: a bulk near 0.3 and a thin tail up to `top`."""
    edges = [-1 + 0.25 * at for at in range(34)]
    counts = []
    for edge in edges[:-1]:
        bulk = 900 * math.exp(-(((edge - 0.2) / 0.45) ** 2))
        tail = 90 * math.exp(-(edge - 0.5) / (top / 4.6)) if 0.5 <= edge < top else 0.0
        counts.append(float(int(bulk + tail)))
    return {"edges": edges, "counts": counts}


def guarantee() -> Json:
    """What a defence that was only measured comes with."""
    return {
        "kind": "empirical-only",
        "proven": False,
        "parameters": {},
        "relation": "none",
        "unit": "record",
        "assumptions": ["the attacks of this audit"],
        "voided_by": ["a stronger attack"],
    }


def candidate(name: str) -> Json:
    """One of `CANDIDATES` with everything an audit measures of it."""
    mitigation, settings, utility, loss, shift, max_t, top_t = CANDIDATES[name]
    attacks = {
        "lira-online": attack(shift, refuse=False),
        "lira-offline": attack(shift * 0.8, refuse=False),
        "loss-threshold": attack(shift * 0.3, refuse=True),
    }
    first = name == "baseline"
    result = {
        "name": name,
        "mitigation": mitigation,
        "settings": settings,
        "utility": estimate(utility, 0.0031, 0, 1),
        "risk": attacks["lira-online"]["tpr"]["0.01"],
        "utility_loss": None if first else estimate(loss, 0.0036),
        "risk_change": None
        if first
        else estimate(attacks["lira-online"]["tpr"]["0.01"]["value"] - 0.0379, 0.0031),
        "guarantee": guarantee(),
        "measures": {
            "auc": attacks["lira-online"]["auc"],
            "top-t": estimate(top_t, 0.31),
            "utility-loss": None if first else estimate(loss, 0.0036),
            **{
                f"{metric}@{fpr}": attacks["lira-online"][metric][fpr]
                for metric in ("tpr", "tau")
                for fpr in FPRS
            },
        },
        "risk_from": {"attack": "lira-online", "view": "release", "results": []},
        "shown": [],
        "strongest_attack": "lira-online",
        "models": 64,
        "train_utility": estimate(min(utility + 0.021, 0.999), 0.0012, 0, 1),
        "attacks": attacks,
        "vulnerability": {
            "top_t": estimate(top_t, 0.31),
            "max_t": estimate(max_t, 0.88),
            "top_auc": estimate(NORMAL.cdf(top_t), 0.004, 0, 1),
            "baseline_records_t": estimate(top_t / 2, 0.1),
            "selection": "Chosen on one half of the models, measured on the other.",
            "histogram": histogram(max_t),
        },
        "per_class": [
            {
                "class": label,
                "records": 142 + at,
                "utility": estimate(min(utility - 0.02 + 0.004 * ((7 * at) % 10), 0.998), 0.008),
                "utility_loss": None if first else estimate(loss * (0.4 + at % 3), 0.006),
            }
            for at, label in enumerate(CLASSES)
        ],
    }
    if not first:
        result["equivalent"] = (
            "yes" if loss + 0.0036 <= 0.01 else "no" if loss - 0.0036 > 0.01 else "unclear"
        )
        result["moved"] = {
            "records": 1401,
            "mean_change": estimate(0.05, 0.02),
            "newly_exposed": 3,
            "words": "3 of 1401 records that were not exposed before are exposed now.",
        }
    return result


def document(names: list[str] | None = None) -> Json:
    """The findings as plain JSON."""
    chosen = list(CANDIDATES) if names is None else names
    candidates = [candidate(name) for name in chosen]
    return {
        "schema": "lethe-findings/3",
        "subject": {
            "release": "model",
            "name": "digits",
            "summary": "A small network that reads handwritten digits.",
        },
        "threat_model": {
            "goal": "tell whether a record was in the training data",
            "knowledge": "the distribution of the data, the recipe and the mitigation",
            "access": "logits of the released model",
            "budget": "64 shadow models",
            "unit": "record",
        },
        "data": {
            "records": 1797,
            "pool": 1437,
            "holdout": 360,
            "features": 64,
            "classes": CLASSES,
            "class_counts": [178, 182, 177, 183, 181, 182, 181, 179, 174, 180],
            "fingerprint": "sha256:3f1c9e",
            "source": "scikit-learn digits",
        },
        "attacks": [
            {
                "name": "lira-online",
                "title": "LiRA, online",
                "paper": "Carlini et al. 2022, Membership inference attacks from first principles",
                "threat": "shadow models with and without each record",
                "settings": {"variance": "per record", "models": 64},
            },
            {
                "name": "lira-offline",
                "title": "LiRA, offline",
                "paper": "Carlini et al. 2022",
                "threat": "shadow models without the record",
                "settings": {"variance": "per record"},
            },
            {
                "name": "loss-threshold",
                "title": "Loss threshold",
                "paper": "Yeom et al. 2018",
                "threat": "the released model alone",
                "settings": {},
            },
        ],
        "attacks_not_run": [
            {"name": "rmia", "why": "no population points were set aside"},
            {"name": "label-only", "why": "the release gives logits, which tell more"},
        ],
        "baseline": {"candidate": "baseline"} if "baseline" in chosen else None,
        "candidates": candidates,
        "frontier": {
            "utility": "accuracy on the hold-out",
            "risk": "TPR at 1 % FPR of the strongest attack",
            "margin": 0.01,
            "pareto": [
                name
                for name in ("baseline", "uniform-noise", "weighted", "weighted-noise")
                if name in chosen
            ],
            "knee": "weighted" if "weighted" in chosen else None,
            "operating_point": "weighted-noise" if "weighted-noise" in chosen else None,
            "rule": "lowest risk among the candidates whose upper utility loss is within 0.01.",
        },
        "records": {
            "kept": True,
            "exposed": [
                {
                    "id": f"r{at:04d}",
                    "label": CLASSES[at],
                    "t": 6.9 - at / 3,
                    "se": 0.4,
                    "low": 6.1 - at / 3,
                    "high": 7.7 - at / 3,
                    "auc": 0.9999 - at / 1000,
                    "auc_low": 0.998 - at / 1000,
                    "auc_high": 1.0,
                    "weight": 0.05 + at / 50,
                }
                for at in range(8)
            ],
        },
        "checks": []
        if not chosen
        else [
            {
                "name": "null scores",
                "candidate": None,
                "status": "pass",
                "detail": "Random scores reach AUC 0.5.",
                "estimate": estimate(0.5003, 0.004, 0, 1),
            },
            {
                "name": "known-leaky model",
                "candidate": "baseline",
                "status": "pass",
                "detail": "The attack finds a model that was trained to remember.",
            },
            {
                "name": "tied scores",
                "candidate": "baseline",
                "status": "warn",
                "detail": "4 % of the scores are tied; realised rates are below the budget.",
            },
        ],
        "rules": [
            {
                "rule": "tpr@0.01 <= 0.05",
                "candidate": "weighted-noise",
                "outcome": "pass",
                "evidence": estimate(0.0149, 0.0022, 0, 1),
            },
            {
                "rule": "top-t <= 1.5",
                "candidate": "weighted-noise",
                "outcome": "not-enough-evidence",
                "evidence": estimate(1.72, 0.31),
            },
            {
                "rule": "tpr@0.0001 <= 0.01",
                "candidate": "weighted-noise",
                "outcome": "not-enough-evidence",
                "evidence": {
                    "refused": "fpr=0.0001 needs at least 10000 distinct records, got 1437."
                },
            },
        ]
        if "weighted-noise" in chosen
        else [],
        "verdict": {
            "outcome": "not-enough-evidence" if "weighted-noise" in chosen else "not-tested",
            "candidate": "weighted-noise" if "weighted-noise" in chosen else None,
            "words": ["One of three criteria passes; two need more models or more records."]
            if "weighted-noise" in chosen
            else ["No criterion was set."],
        },
        "guarantees": [{"candidate": c["name"], "guarantee": c["guarantee"]} for c in candidates],
        "limits": ["Records are taken to be independent people."],
        "context": {
            "report_id": "DPO-2025-014",
            "author": "A. Auditor",
            "purpose": "reading digits",
            "people": {"controller": "Example Ltd"},
            "ticket": "ML-77",
        },
        "reproduction": {
            "seed": 0,
            "versions": {"lethe-privacy": "0.1.0", "numpy": "2.1.3", "torch": "2.6.0"},
            "settings": {"models": 64, "recipe": "mlp"},
            "spec_hash": "9b2f11aa",
        },
    }


MANIFEST: Json = {
    "created": "2025-01-02T03:04:05Z",
    "finished": "2025-01-02T03:05:11Z",
    "wall_seconds": 66.2,
    "machine": "x86-64, 2 cores",
    "versions": {"python": "3.11.9"},
    "command": ["lethe", "audit", "model", "digits"],
}


def small() -> Json:
    """Three candidates, where more would only take time."""
    return document(["baseline", "weighted", "weighted-noise"])


def findings(names: list[str] | None = None) -> Findings:
    """The sample as `Findings`; an empty list gives a release without candidates."""
    return Findings.from_json(document(names))


def table_release() -> Findings:
    """A release of another kind: no candidates, nothing by record."""
    plain = document([])
    plain["subject"] = {"release": "table", "name": "visits", "summary": "One row a visit."}
    plain["frontier"] |= {"utility": "not compared", "risk": "share of rows linked"}
    plain["records"] = {"kept": False, "exposed": []}
    plain["attacks"] = [
        {
            "name": "scoreboard",
            "title": "Scoreboard linkage",
            "paper": "Narayanan and Shmatikov 2008",
            "threat": "a few known cells",
            "settings": {},
            "linked": estimate(0.21, 0.02, 0, 1),
        }
    ]
    return Findings.from_json(plain)
