"""What rules on a ledger of answers are judged on: numbers that were counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lethe.evidence.estimate import Estimate

CONFIDENCE = 0.95


def counted(ledger: Mapping[str, Any]) -> dict[str, Estimate]:
    """The `QUERY_METRICS` of the section ``ledger`` of findings; both limits are the value.

    Args:
        ledger: with budget, spent, queries, raises and entries.
    """
    spent = ledger["spent"]
    numbers = {
        "spent": spent["amount"],
        "share": spent["units"] / ledger["budget"]["units"],
        "delta": spent["delta"],
        "queries": float(ledger["queries"]),
        "raises": float(len(ledger["raises"])),
    }
    said, entries = "counted in the ledger; n is its entries", ledger["entries"]
    return {
        name: Estimate(value, value, value, CONFIDENCE, said, entries)
        for name, value in numbers.items()
    }
