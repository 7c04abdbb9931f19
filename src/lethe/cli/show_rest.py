"""What stands below every table of candidates on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lethe.evidence.findings import Findings

if TYPE_CHECKING:
    from rich.console import Console


def print_rest(console: Console, findings: Findings, folder: str) -> None:
    """Rules, self-checks that did not pass, the words of the verdict, and where the report is."""
    from rich.text import Text

    for ruling in findings.rules:
        console.print(Text(f"{ruling['outcome']}: {ruling['rule']} on {ruling['candidate']}"))
    for check in findings.checks:
        if check["status"] != "pass":
            told = f"{check['status']}: {check['name']} ({check['candidate']}): {check['detail']}"
            console.print(Text(told))
    for words in findings.verdict["words"]:
        console.print(Text(words))
    console.print(Text(f"report: {folder}/report.html"))
