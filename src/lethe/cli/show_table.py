"""The result of an audit of rows on a terminal."""

from __future__ import annotations

import sys
from typing import Any

from lethe.cli.show_rest import print_rest
from lethe.evidence.findings import Findings

_COLUMNS = {
    "quasi": [("k", "k"), ("unique", "unique"), ("certain", "secret certain")],
    "records": [("match", "match"), ("exposed", "exposed"), ("false_match", "false match")],
    "synthetic": [("strongest", "strongest")],
}


def _shown(found: Any) -> str:
    if not isinstance(found, dict):
        return "-" if found is None else str(found)
    if found.get("value") is None:
        return "-"
    value, low, high = (found[key] for key in ("value", "low", "high"))
    if low == high == value or low is high is None:  # counted, or without an interval
        return f"{value:.4f}"
    ends = ["-" if end is None else f"{end:.4f}" for end in (low, high)]
    return f"{value:.4f}\n{ends[0]} to {ends[1]}"


def print_table(findings: Findings, folder: str) -> None:
    """The candidates as a table, the words, and where the document lies."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(soft_wrap=not sys.stdout.isatty(), highlight=False)
    frontier = findings.frontier
    kind = str((findings.table or {})["kind"])
    confidence = findings.reproduction["confidence"]
    shown = Table(
        title=f"{findings.subject['name']}: candidates, {confidence:.0%} intervals",
        box=SIMPLE_HEAD,
        pad_edge=False,
        title_justify="left",
    )
    shown.add_column("candidate", no_wrap=True, min_width=16)
    risk = frontier["risk"].split(":")[0] if ":" in frontier["risk"] else "excess"
    extra = [*_COLUMNS[kind]]
    if any("journalist" in one for one in findings.candidates):
        extra.insert(1, ("journalist", "journalist"))
    for heading in (risk, *(title for _, title in extra), "utility", "lost"):
        shown.add_column(heading, overflow="fold")
    for candidate in findings.candidates:
        mark = "*" if candidate["name"] in frontier["pareto"] else ""
        taken = candidate["name"] == frontier["operating_point"]
        shown.add_row(
            Text(f"{'>' if taken else mark:<2}{candidate['name']}"),
            _shown(candidate["risk"]),
            *(_shown(candidate.get(key)) for key, _ in extra),
            _shown(candidate["utility"]),
            _shown(candidate["utility_loss"]),
        )
    console.print(shown)
    console.print(Text("* no other candidate is better in both risk and utility"))
    console.print(Text(f"> the one to take: {frontier['rule']}"))
    proven = [one["candidate"] for one in findings.guarantees if one["guarantee"]["proven"]]
    said = "Nothing here is proven"
    if proven:
        said = f"Proven, as the report says, is {', '.join(proven)}; nothing else is"
    console.print(Text(f"{said}: k-anonymity, too, is measured only."))
    print_rest(console, findings, folder)
