"""The result of an audit of representations on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lethe.cli.show_candidates import print_candidates, terminal
from lethe.cli.show_rest import print_rest
from lethe.evidence.findings import Findings


def _pair(measured: dict[str, Any] | None, decimals: int) -> str:
    if measured is None or measured["value"] is None:
        return "-"
    value, low, high = (measured[key] for key in ("value", "low", "high"))
    return f"{value:.{decimals}f}\n{low:.{decimals}f} to {high:.{decimals}f}"


def _cells(candidate: Mapping[str, Any]) -> list[str]:
    bound = candidate["bound"]
    return [
        _pair(candidate["risk"], 2),
        "-" if bound is None else f"{100 * bound:.3g}%",
        _pair(candidate["utility"], 3),
        _pair(candidate["utility_loss"], 3),
    ]


def print_embeddings(findings: Findings, folder: str) -> None:
    """The candidates as a table, the operating points, and where the document lies."""
    from rich.text import Text

    console, merit = terminal(), str(findings.frontier["utility"]).split(" ")[0]
    headings = ("lift", "nobody above", merit, "lost")
    print_candidates(console, findings, headings, _cells, 22, "measured lift and utility")
    told = "nobody above: share of single vectors that no attacker can exceed naming"
    first = findings.candidates[0].get("risk_from")
    if first is not None:
        known = f"lift: of the strongest of {len(first['results'])} attackers"
        told = f"{known} ({first['attack']} on the baseline); {told}"
    console.print(Text(told))
    print_rest(console, findings, folder)
