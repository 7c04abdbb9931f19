"""F1 on the terminal: all candidates, and the baseline by size of the class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lethe.cli.show_candidates import titled
from lethe.evidence.findings import Findings


def print_f1(console: Any, findings: Findings) -> None:
    """Nothing where predicted classes were not kept."""
    from lethe.report.f1 import f1_view

    shown = f1_view(findings.candidates)
    if shown is None:
        return
    for at, table in enumerate(shown["tables"][:2]):
        made = titled(f"F1 on held-out records: {table['title'][0].lower()}{table['title'][1:]}")
        for heading in (table["heading"].lower(), *(("records", "classes") if at else ())):
            made.add_column(heading, no_wrap=True)
        made.add_column("weighted F1")
        made.add_column("macro F1")
        for row in table["rows"]:
            made.add_row(*_cells(row, bool(at)))
        console.print(made)
    if shown["not_measured"] != "0":
        console.print(
            f"{shown['not_measured']} classes are too small to hold a record out: not measured."
        )


def _cells(row: Mapping[str, Any], sizes: bool) -> list[str]:
    head = [row["name"], row["sizes"], row["classes"]] if sizes else [row["name"]]
    return [
        *head,
        *(f"{row[key].value or '-'}\n{row[key].interval}" for key in ("weighted", "macro")),
    ]
