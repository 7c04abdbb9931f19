"""The tables of F1, overall and by size of the class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lethe.report.numbers import grouped, rate

_LOST = ("weighted_lost", "macro_lost")


def f1_view(candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """One table of all candidates and the blind models, then one by class size for each.

    Args:
        candidates: of the findings; those without predicted classes have no table.

    Returns:
        What the template prints; None if no candidate has F1.
    """
    known = [candidate for candidate in candidates if candidate.get("f1")]
    if not known:
        return None
    first = known[0]["f1"]
    blind = [_row(one["name"] + " (blind)", one) for one in first.get("blind", ())]
    overall = [_row(candidate["name"], candidate["f1"]) for candidate in known]
    tables = [_table("All classes", "Candidate", overall + blind, sizes=False)]
    for candidate in known:
        rows = [_row(quarter["name"], quarter) for quarter in candidate["f1"]["quarters"]]
        title = f"By class size: {candidate['name']}"
        tables.append(_table(title, "Classes", rows, sizes=True))
    return {
        "tables": tables,
        "classes": grouped(first["classes"]),
        "not_measured": grouped(first["classes_not_measured"]),
    }


def _table(title: str, heading: str, rows: list[dict[str, Any]], sizes: bool) -> dict[str, Any]:
    lost = any(row[name].kind != "none" for row in rows for name in _LOST)
    return {"title": title, "heading": heading, "rows": rows, "sizes": sizes, "lost": lost}


def _row(name: str, one: Mapping[str, Any]) -> dict[str, Any]:
    sizes = ""
    if "smallest" in one:
        ends = (grouped(one["smallest"]), grouped(one["largest"]))
        sizes = ends[0] if ends[0] == ends[1] else " to ".join(ends)
    return {
        "name": name,
        "sizes": sizes,
        "classes": grouped(one["classes"]) if "classes" in one else "",
        "held_out": grouped(one["held_out"]) if "held_out" in one else "",
        **{key: rate(one.get(key)) for key in ("weighted", "macro", *_LOST)},
    }
