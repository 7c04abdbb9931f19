"""The result of an audit of representations on a terminal."""

from __future__ import annotations

import sys
from typing import Any

from lethe.cli.show_rest import print_rest
from lethe.evidence.findings import Findings


def _pair(measured: dict[str, Any] | None, decimals: int) -> str:
    if measured is None or measured["value"] is None:
        return "-"
    value, low, high = (measured[key] for key in ("value", "low", "high"))
    return f"{value:.{decimals}f}\n{low:.{decimals}f} to {high:.{decimals}f}"


def print_embeddings(findings: Findings, folder: str) -> None:
    """The candidates as a table, the operating points, and where the document lies."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(soft_wrap=not sys.stdout.isatty(), highlight=False)
    frontier = findings.frontier
    confidence = findings.reproduction["confidence"]
    table = Table(
        title=f"{findings.subject['name']}: candidates, {confidence:.0%} intervals",
        box=SIMPLE_HEAD,
        pad_edge=False,
        title_justify="left",
    )
    table.add_column("candidate", no_wrap=True, min_width=22)
    merit = frontier["utility"].split(" ")[0]
    for heading in ("lift", "nobody above", merit, "lost"):
        table.add_column(heading, overflow="fold")
    for candidate in findings.candidates:
        mark = "*" if candidate["name"] in frontier["pareto"] else ""
        taken = candidate["name"] == frontier["operating_point"]
        bound = candidate["bound"]
        table.add_row(
            Text(f"{'>' if taken else mark:<2}{candidate['name']}"),
            _pair(candidate["risk"], 2),
            "-" if bound is None else f"{100 * bound:.3g}%",
            _pair(candidate["utility"], 3),
            _pair(candidate["utility_loss"], 3),
        )
    console.print(table)
    console.print(Text("nobody above: share of single vectors that no attacker can exceed naming"))
    console.print(Text("* no other candidate is better in both measured lift and utility"))
    console.print(Text(f"> the one to take: {frontier['rule']}"))
    print_rest(console, findings, folder)
