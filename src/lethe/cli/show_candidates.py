"""The table of candidates on a terminal, alike for every kind of release."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lethe.evidence.findings import Findings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Json = Mapping[str, Any]


def terminal() -> Console:
    """Where results are printed; lines are broken on a terminal only, never in a file."""
    from rich.console import Console

    return Console(soft_wrap=not sys.stdout.isatty(), highlight=False)


def titled(title: str | None = None) -> Table:
    """An empty table with a line under its head."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(title=title, box=SIMPLE_HEAD, pad_edge=False, title_justify="left")


def print_candidates(
    console: Console,
    findings: Findings,
    headings: Sequence[str],
    cells: Callable[[Json], Sequence[str]],
    width: int,
    better_in: str,
) -> None:
    """All candidates, one a row, the Pareto set and the operating point marked.

    Args:
        console: where to.
        findings: of the audit.
        headings: of the columns after the name.
        cells: text of these columns for a candidate.
        width: of the column of names, at least.
        better_in: what no other candidate is better in both of.
    """
    from rich.text import Text

    frontier, confidence = findings.frontier, findings.reproduction["confidence"]
    table = titled(f"{findings.subject['name']}: candidates, {confidence:.0%} intervals")
    table.add_column("candidate", no_wrap=True, min_width=width)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for candidate in findings.candidates:
        mark = "*" if candidate["name"] in frontier["pareto"] else ""
        taken = candidate["name"] == frontier["operating_point"]
        name = Text(f"{'>' if taken else mark:<2}{candidate['name']}")
        table.add_row(name, *cells(candidate))
    console.print(table)
    if len(findings.candidates) == 1:
        return
    console.print(Text(f"* no other candidate is better in both {better_in}"))
    console.print(Text(f"> the one to take: {frontier['rule']}"))
