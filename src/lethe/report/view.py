"""What the page shows, in the order and shape in which the templates print it.

Templates only print: every choice (which candidate is put forward, which columns a table has)
is made here, on the plain JSON of the findings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lethe.evidence.findings import Findings
from lethe.report import words
from lethe.report.classes import class_tables
from lethe.report.context_fields import given_risk, groups, run_facts
from lethe.report.coverage import coverage
from lethe.report.embeddings import embeddings_view, words_of
from lethe.report.epsilons import epsilon_views, parameter
from lethe.report.f1 import f1_view
from lethe.report.mechanism import mechanism_view, words_of_mechanism
from lethe.report.numbers import (
    Cell,
    facts,
    fixed,
    grouped,
    interval_methods,
    percent,
    rate,
    score,
)
from lethe.report.proven_measured import proven_measured
from lethe.report.queries import ledger_view, words_of_ledger
from lethe.report.residual import DRAFTED, residual_risk
from lethe.report.slices import person_table, slice_tables
from lethe.report.table import table_view, words_of_table

Json = Mapping[str, Any]

MOST_EXPOSED = 100
_MOST_PANELS = 8
_ATTACK_KEYS = {"name", "title", "paper", "threat", "settings"}


def build(document: Json, manifest: Json) -> dict[str, Any]:
    """Everything but the figures.

    Args:
        document: `Findings.to_json()`.
        manifest: facts of the run; may be empty.
    """
    from lethe.report.changes import changes  # NumPy comes with it

    candidates = document["candidates"]
    baseline, chosen = before_and_after(document)
    release = document["subject"]["release"]
    subject_rest = {
        k: v for k, v in document["subject"].items() if k not in ("release", "name", "summary")
    }
    shown = {
        "subject": document["subject"],
        "subject_facts": facts(subject_rest),
        "release": words.RELEASES.get(release, release),
        "verdict": document["verdict"],
        "outcome": outcome(document["verdict"]["outcome"]),
        "rules": [_rule_row(rule) for rule in document["rules"]],
        "changes": changes(Findings.from_json(document)),
        "residual": residual_risk(document, given_risk(document)),
        "drafted": DRAFTED,
        "plain_words": words_of_table(document)
        if document.get("table")
        else words_of(document)
        if document.get("representations")
        else words_of_mechanism(document)
        if (document.get("queries") or {}).get("mechanism")
        else words_of_ledger(document)
        if document.get("queries")
        else words.plain_words(document, chosen, baseline),
        "embeddings": embeddings_view(document),
        "table": table_view(document),
        "mechanism": mechanism_view(document),
        "ledger": ledger_view(document),
        "frontier": document["frontier"],
        "utility_name": utility_name(document["frontier"]["utility"]),
        "candidates": [_candidate_row(document, at) for at in range(len(candidates))],
        "stops": [_stops(document, c) for c in candidates if c.get("stops")],
        "names": {"baseline": name_of(baseline), "chosen": name_of(chosen)},
        "fprs": [(fpr, percent(float(fpr))) for fpr in rates_of(candidates)],
        "band": band_confidence(candidates),
        "strongest": [row for c in candidates for row in _attack_rows(document, c) if row["top"]],
        "attack_rows": [row for c in candidates for row in _attack_rows(document, c)],
        "vulnerability": [_vulnerability_row(c) for c in candidates if c.get("vulnerability")],
        "histograms": _histogram_tables(candidates),
        "differences": [_difference_row(c) for c in candidates if c.get("utility_loss")],
        "moved": [_moved_row(c) for c in candidates if c.get("moved")],
        "f1": f1_view(candidates),
        "epsilons": epsilon_views(candidates),
        "proven_measured": proven_measured(document),
        "classes": class_tables(document, baseline, chosen),
        "slices": slice_tables(baseline),
        "persons": person_table(baseline),
        "records": document["records"],
        "exposed": []
        if document.get("representations") or document.get("table")
        else _exposed(document["records"]),
        "checks": [{**c, "measured": str(rate(c.get("estimate")))} for c in document["checks"]],
        "guarantees": [_guarantee_row(entry) for entry in document["guarantees"]],
        "threat_model": facts(document["threat_model"]),
        "data": facts(document["data"]),
        "interval_methods": interval_methods(document),
        "attacks": [_attack(attack) for attack in document["attacks"]],
        "attacks_not_run": document["attacks_not_run"],
        "not_tested": words.not_tested(document),
        "limits": document["limits"],
        "context": groups(document, manifest),
        "reproduction": facts(document["reproduction"]),
        "run": run_facts(manifest),
    }
    return {**shown, "fields": coverage(shown, document)}


def before_and_after(document: Json) -> tuple[Json | None, Json | None]:
    """The baseline, and the candidate to set against it.

    That is the operating point; where it is the baseline itself or missing, the candidate of
    the verdict, else the one with the lowest measured risk.
    """
    by_name = {candidate["name"]: candidate for candidate in document["candidates"]}
    baseline = by_name.get((document["baseline"] or {}).get("candidate", ""))
    others = [c for c in document["candidates"] if c is not baseline]
    named = (document["frontier"]["operating_point"], document["verdict"]["candidate"])
    for name in named:
        if name in by_name and by_name[name] is not baseline:
            return baseline, by_name[name]
    known = [c for c in others if c["risk"].get("value") is not None]
    return baseline, min(known, key=lambda c: float(c["risk"]["value"]), default=None)


def panels(document: Json) -> list[Json]:
    """The candidates that get a panel of their own in the figures: the foremost few."""
    baseline, chosen = before_and_after(document)
    others = [c for c in document["candidates"] if c is not baseline]
    pareto = document["frontier"]["pareto"]
    ranked = sorted(others, key=lambda c: (c is not chosen, c["name"] not in pareto))
    kept = [id(c) for c in ranked[:_MOST_PANELS]]
    return [c for c in others if id(c) in kept]


def utility_name(described: str) -> str:
    """Utility in a word: ``held-out R²`` is ``R²``.

    >>> utility_name("held-out accuracy"), utility_name("not provided")
    ('accuracy', 'utility')
    """
    for known in ("held-out ", " of one released draw"):
        if known in described:
            return described.replace(known, "")
    return "utility"


def name_of(candidate: Json | None) -> str:
    """Its name, or nothing."""
    return "" if candidate is None else str(candidate["name"])


def outcome(code: str) -> dict[str, str]:
    """How an outcome is printed: a word and a mark, never colour alone."""
    word, mark = words.OUTCOMES.get(code, (code, "?"))
    meaning = words.OUTCOME_MEANINGS.get(code, "")
    return {"code": code, "word": word, "mark": mark, "meaning": meaning}


def rates_of(candidates: Sequence[Json]) -> list[str]:
    """Every FPR that some attack was read at, the largest first."""
    seen = {
        fpr
        for candidate in candidates
        for attack in (candidate.get("attacks") or {}).values()
        for fpr in (*attack["tpr"], *attack["tau"])
    }
    return sorted(seen, key=lambda fpr: (-float(fpr), fpr))


def band_confidence(candidates: Sequence[Json]) -> str | None:
    """With what confidence each shaded band holds its whole curve; None if one does not."""
    found: set[float] = set()
    for candidate in candidates:
        attack = (candidate.get("attacks") or {}).get(candidate.get("strongest_attack"))
        if attack and len(attack["roc"]["fpr"]) > 1:
            if "band_low" not in attack["roc"]:
                return None
            found.add(attack["auc"]["confidence"])
    return percent(found.pop()) if len(found) == 1 else None


def _rule_row(rule: Json) -> dict[str, Any]:
    text = rule["rule"]
    ruling = outcome(rule["outcome"])
    evidence = rule["evidence"] or {}
    if ruling["code"] == "not-enough-evidence" and "refused" in evidence:
        ruling["meaning"] = "the value could not be measured"
    form = score if text.replace("width(", "").lstrip().startswith(("tau", "top-t")) else rate
    return {
        "rule": text,
        "words": words.rule_in_words(text),
        "candidate": rule["candidate"],
        "evidence": form(rule["evidence"]),
        "outcome": ruling,
    }


def _candidate_row(document: Json, at: int) -> dict[str, Any]:
    candidate, frontier = document["candidates"][at], document["frontier"]
    name, risk, utility = candidate["name"], candidate["risk"], candidate["utility"]
    standing = []
    if name == (document["baseline"] or {}).get("candidate"):
        standing.append("as it is now")
    if name == frontier["operating_point"]:
        standing.append("operating point")
    if name == frontier["knee"]:
        standing.append("knee")
    on_plane = risk.get("value") is not None and utility["value"] is not None
    pareto = name in frontier["pareto"]
    standing.append("Pareto" if pareto else "dominated" if on_plane else "not on the chart")
    return {
        "at": at,
        "name": name,
        "mitigation": candidate["mitigation"],
        "settings": facts(candidate["settings"]),
        "risk": rate(risk),
        "utility": rate(utility),
        "train": rate(candidate.get("train_utility")),
        "models": grouped(candidate["models"]) if "models" in candidate else "",
        "strongest": candidate.get("strongest_attack", ""),
        "standing": standing,
        "pareto": pareto,
        "operating": name == frontier["operating_point"],
        # Beyond the slider counts by the upper limit; without one it is never accepted.
        "bound": "–" if candidate.get("bound") is None else fixed(candidate["bound"], 4),
        "tier": candidate.get("tier", ""),
        "limit": "" if risk.get("high") is None else f"{risk['high']:.8g}",
        "merit": "" if utility["value"] is None else f"{utility['value']:.8g}",
    }


def _stops(document: Json, candidate: Json) -> dict[str, Any]:
    """The epochs that a candidate's training could end at, the one it was measured at marked."""
    titles = {attack["name"]: attack["title"] for attack in document["attacks"]}
    attack = candidate["stops"][0]["attack"]
    return {
        "name": candidate["name"],
        "attack": titles.get(attack, attack),
        "full": candidate["settings"]["full_epochs"],
        "rows": [
            {
                "epochs": stop["epochs"],
                "risk": rate(stop["risk"]),
                "utility": rate(stop["utility"]),
                "lost": rate(stop["utility_loss"]),
                "best": stop["epochs"] == candidate["settings"]["epochs"],
            }
            for stop in candidate["stops"]
        ],
    }


def _attack_rows(document: Json, candidate: Json) -> list[dict[str, Any]]:
    titles = {attack["name"]: attack["title"] for attack in document["attacks"]}
    attacks = candidate.get("attacks") or {}
    fprs = rates_of(document["candidates"])
    return [
        {
            "candidate": candidate["name"],
            "span": len(attacks) if at == 0 else 0,
            "attack": titles.get(name, name),
            "top": name == candidate.get("strongest_attack"),
            "auc": rate(attack["auc"]),
            "tpr": [_rate_cell(attack, fpr) for fpr in fprs],
            "tau": [_tau_cell(attack, fpr) for fpr in fprs],
        }
        for at, (name, attack) in enumerate(attacks.items())
    ]


def _rate_cell(attack: Json, fpr: str) -> dict[str, Any]:
    """A TPR, with the FPR really used where tied scores keep it below the budget."""
    realised = attack["realised_fpr"].get(fpr)
    short = realised is not None and abs(realised - float(fpr)) > 0.05 * float(fpr)
    return {
        "cell": rate(attack["tpr"].get(fpr)),
        "realised": percent(float(f"{realised:.3g}")) if short else "",
    }


def _tau_cell(attack: Json, fpr: str) -> Cell:
    tau, tpr = attack["tau"].get(fpr), attack["tpr"].get(fpr)
    if tau is not None and "refused" in tau and tau == tpr:
        return Cell("refused", reason="for the same reason as its TPR")
    return score(tau)


def _vulnerability_row(candidate: Json) -> dict[str, Any]:
    vulnerability = candidate["vulnerability"]
    return {
        "name": candidate["name"],
        "max_t": score(vulnerability["max_t"]),
        "top_t": score(vulnerability["top_t"]),
        "tracked_t": score(vulnerability.get("baseline_records_t", vulnerability["top_t"])),
        "top_auc": rate(vulnerability["top_auc"]),
        "selection": vulnerability["selection"],
    }


def _histogram_tables(candidates: Sequence[Json]) -> list[dict[str, Any]]:
    """Counts behind the distributions; candidates with the same bins share a table."""
    tables: dict[tuple[float, ...], dict[str, Any]] = {}
    for candidate in candidates:
        shape = (candidate.get("vulnerability") or {}).get("histogram")
        if not shape:
            continue
        edges = tuple(shape["edges"])
        table = tables.setdefault(edges, {"names": [], "columns": []})
        table["names"].append(candidate["name"])
        table["columns"].append(shape["counts"])
    result = []
    for edges, table in tables.items():
        bins = [f"{fixed(a, 2)} to {fixed(b, 2)}" for a, b in zip(edges, edges[1:], strict=False)]
        rows = [
            (name, [grouped(n) for n in counts])
            for name, *counts in zip(bins, *table["columns"], strict=False)
            if any(counts)
        ]
        result.append({"names": table["names"], "rows": rows})
    return result


def _difference_row(candidate: Json) -> dict[str, Any]:
    return {
        "name": candidate["name"],
        "utility_loss": rate(candidate["utility_loss"]),
        "equivalent": candidate.get("equivalent", ""),
        "risk_change": rate(candidate["risk_change"]),
    }


def _moved_row(candidate: Json) -> dict[str, Any]:
    moved = candidate["moved"]
    return {
        "name": candidate["name"],
        "records": grouped(moved["records"]),
        "mean_change": score(moved["mean_change"]),
        "newly_exposed": grouped(moved["newly_exposed"]),
        "words": moved["words"],
    }


def _exposed(records: Json) -> list[list[str]]:
    if not records["kept"]:
        return []

    def show(record: Json, key: str, decimals: int) -> str:
        value = record.get(key)
        return "–" if value is None else fixed(value, decimals)

    def pair(record: Json, low: str, high: str, decimals: int) -> str:
        return f"[{show(record, low, decimals)}, {show(record, high, decimals)}]"

    return [
        [
            str(record.get("id", "–")),
            str(record.get("label", "–")),
            show(record, "t", 2),
            pair(record, "low", "high", 2),
            show(record, "auc", 4),
            pair(record, "auc_low", "auc_high", 4),
            show(record, "weight", 3),
        ]
        for record in records["exposed"][:MOST_EXPOSED]
    ]


def _guarantee_row(entry: Json) -> dict[str, Any]:
    guarantee = entry["guarantee"]
    return {
        "candidate": entry["candidate"],
        "kind": words.KINDS.get(guarantee["kind"], guarantee["kind"]),
        "proven": guarantee["proven"],
        "parameters": [
            (name.replace("_", " "), parameter(name, value))
            for name, value in guarantee["parameters"].items()
        ],
        "relation": guarantee["relation"],
        "unit": guarantee["unit"],
        "assumptions": guarantee["assumptions"],
        "voided_by": guarantee["voided_by"],
    }


def _attack(attack: Json) -> dict[str, Any]:
    rest = {key: item for key, item in attack.items() if key not in _ATTACK_KEYS}
    return {
        "title": attack["title"],
        "name": attack["name"],
        "paper": attack["paper"],
        "threat": attack["threat"],
        "settings": facts(attack["settings"]) + facts(rest),
    }
