"""The result of an audit of a mechanism on a terminal."""

from __future__ import annotations

from typing import Any

from lethe.cli.show_candidates import terminal, titled
from lethe.cli.show_rest import print_rest
from lethe.evidence.findings import Findings


def print_mechanism(findings: Findings, section: dict[str, Any], folder: str) -> None:
    """Limits by pair of inputs, the words, and where the document lies."""
    from rich.text import Text

    console = terminal()
    claim, confidence = section["claim"], findings.reproduction["confidence"]
    shown = titled(
        f"{findings.subject['name']}: lower limits on {claim['measure']}, "
        f"{confidence:.0%} confidence for all; claimed: {claim['words']}"
    )
    for heading in (
        "inputs that differ in one person",
        "at least",
        "observed",
        "event",
        "neighbour",
    ):
        shown.add_column(heading, overflow="fold")
    for pair in section["pairs"]:
        value, (first, second) = pair["limit"]["value"], pair["shares"]
        shown.add_row(
            Text(pair["name"]),
            f"{pair['limit']['low']:.3f}",
            "-" if value is None else f"{value:.3f}",
            f"{first:.2%}",
            f"{second:.2%}",
        )
    console.print(shown)
    for words in (findings.queries or {})["words"]:
        if words not in findings.verdict["words"]:
            console.print(Text(words))
    print_rest(console, findings, folder)
