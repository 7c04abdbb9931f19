"""Tables of the classes; of the foremost candidates only, where all would make a page too large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lethe.report.numbers import fixed, grouped, rate

Json = Mapping[str, Any]

_MOST_ROWS, _MOST_CLASSES = 2000, 500


def class_tables(document: Json, baseline: Json | None, chosen: Json | None) -> dict[str, Any]:
    """Utility, loss, weight and risk by class.

    Args:
        document: `Findings.to_json()`.
        baseline: the release as it is now; its table is always there.
        chosen: the candidate put forward; its table likewise.

    Returns:
        The tables in the order of the findings, and how many candidates are left out.
    """
    listed = [one for one in document["candidates"] if one.get("per_class")]
    pareto = document["frontier"]["pareto"]
    ranked = sorted(
        listed, key=lambda one: (one is not baseline, one is not chosen, one["name"] not in pareto)
    )
    kept, rows = set(), 0
    for one in ranked:
        rows += min(len(one["per_class"]), _MOST_CLASSES)
        if rows <= _MOST_ROWS or one is baseline or one is chosen:
            kept.add(id(one))
    tables = [_table(one, one is baseline) for one in listed if id(one) in kept]
    return {"tables": tables, "left_out": len(listed) - len(tables)}


def _table(candidate: Json, baseline: bool) -> dict[str, Any]:
    every = candidate["per_class"]
    rows = _smallest(every)
    return {
        "name": candidate["name"],
        "baseline": baseline,
        "left_out": len(every) - len(rows),
        "weights": any("mean_weight" in row for row in rows),
        "losses": any(row.get("utility_loss") for row in rows),
        "rates": any("tpr" in row for row in rows),
        "rows": [
            {
                "class": row["class"],
                "records": grouped(row["records"]),
                "utility": rate(row["utility"]),
                "loss": rate(row.get("utility_loss")),
                "weight": fixed(row["mean_weight"], 3) if "mean_weight" in row else "",
                "tpr": rate(row.get("tpr")),
            }
            for row in rows
        ],
    }


def _smallest(rows: Sequence[Json]) -> list[Json]:
    """The classes with the fewest records, in their order: these are the ones that bear a risk."""
    kept = sorted(range(len(rows)), key=lambda at: (rows[at]["records"], at))[:_MOST_CLASSES]
    return [rows[at] for at in sorted(kept)]
