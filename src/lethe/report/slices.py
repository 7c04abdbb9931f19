"""The tables of who bears the risk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lethe.report.numbers import fixed, grouped, percent, rate, score


def slice_tables(baseline: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """One table for each column by which the baseline's records were cut."""
    return [_table(entry) for entry in (baseline or {}).get("slices") or ()]


def person_table(baseline: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What adding up the records of each person finds; None if nobody has several."""
    found = (baseline or {}).get("persons")
    if not found:
        return None
    return {
        "attack": found["attack"],
        "persons": grouped(found["persons"]),
        "several": grouped(found["with_several_records"]),
        "most": grouped(found["most_records"]),
        "rates": [(percent(float(fpr)), rate(tpr)) for fpr, tpr in found["tpr"].items()],
        "auc": rate(found["auc"]),
    }


def _table(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "column": entry["column"],
        "attack": entry["attack"],
        "fpr": percent(entry["fpr"]),
        "refused": entry.get("refused", ""),
        "rows": [
            {
                "name": row["name"],
                "records": grouped(row["records"]),
                "tpr": rate(row["tpr"]),
                "fpr": rate(row["fpr"]),
                "auc": rate(row["auc"]),
                "t": score(row.get("t")),
                "p": _p(row["p"]),
                "differs": row["p"] is not None and row["p"] <= 0.05,
            }
            for row in entry.get("slices", ())
        ],
    }


def _p(value: float | None) -> str:
    """A p-value as it is usually written.

    >>> _p(0.0321), _p(1e-6), _p(None)
    ('0.032', 'below 0.001', '–')
    """
    if value is None:
        return "–"
    return "below 0.001" if value < 0.001 else fixed(value, 3)
