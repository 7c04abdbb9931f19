"""What stands below every table on a terminal: what was skipped, rules, checks, words."""

from __future__ import annotations

import io
from dataclasses import replace

from report.sample import document
from rich.console import Console

from lethe.cli.show_rest import print_rest
from lethe.evidence.findings import Findings


def printed(found: Findings) -> str:
    console = Console(file=io.StringIO(), width=500)
    print_rest(console, found, "run")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_skipped_candidates_are_named_with_the_reason() -> None:
    found = Findings.from_json(document(["baseline"]))
    skipped = [{"name": "dp-sgd", "why": "the recipe [bold]has[/bold] batch statistics"}]
    with_one = replace(found, frontier={**found.frontier, "skipped": skipped})
    assert "skipped: dp-sgd: the recipe [bold]has[/bold] batch statistics\n" in printed(with_one)
    assert "skipped" not in printed(found)


def test_a_rule_that_came_late_says_so() -> None:
    entry = {"rule": "auc <= 1", "candidate": "baseline", "outcome": "pass", "evidence": None}
    found = Findings.from_json({**document(["baseline"]), "rules": [entry]})
    late = replace(found, rules=[{**entry, "fixed": False}])
    assert "pass: auc <= 1 on baseline\n" in printed(found)
    assert "pass: auc <= 1 on baseline (fixed after the run)\n" in printed(late)
