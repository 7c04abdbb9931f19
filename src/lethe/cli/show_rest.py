"""What stands below every table of candidates on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lethe.cli.show_candidates import terminal
from lethe.evidence.findings import Findings

if TYPE_CHECKING:
    from rich.console import Console


def print_rest(console: Console, findings: Findings, folder: str) -> None:
    """What was skipped, rules, self-checks that did not pass, words, and where the report is."""
    from rich.text import Text

    for skipped in findings.frontier.get("skipped", ()):
        console.print(Text(f"skipped: {skipped['name']}: {skipped['why']}"))
    for ruling in findings.rules:
        late = "" if ruling.get("fixed", True) else " (fixed after the run)"
        told = f"{ruling['outcome']}: {ruling['rule']} on {ruling['candidate']}{late}"
        console.print(Text(told))
    for check in findings.checks:
        if check["status"] != "pass":
            told = f"{check['status']}: {check['name']} ({check['candidate']}): {check['detail']}"
            console.print(Text(told))
    for words in findings.verdict["words"]:
        console.print(Text(words))
    console.print(Text(f"report: {folder}/report.html"))


def print_words(findings: Findings, folder: str) -> None:
    """Of a ledger: the plain words, and what stands below them."""
    from rich.text import Text

    console = terminal()
    for words in (findings.queries or {})["words"]:
        if words not in findings.verdict["words"]:
            console.print(Text(words))
    print_rest(console, findings, folder)
