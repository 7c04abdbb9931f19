"""Progress and results on a terminal, or as plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from lethe.cli import interrupt
from lethe.cli.show_candidates import print_candidates, terminal, titled
from lethe.cli.show_f1 import print_f1
from lethe.cli.show_rest import print_rest, print_words
from lethe.cli.show_table import print_table
from lethe.evidence.findings import Findings

# The result of an audit of a mechanism on a terminal.


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


# The result of an audit of representations on a terminal.


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


_LOG_EVERY = 10.0


class Progress:
    """Shows how many shadow models are there: a bar on a terminal, a line now and then elsewhere.

    Use it as a context manager.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._bar: Any = None
        self._task: Any = None
        self._what = ""
        self._last = 0.0
        self._live = not quiet and sys.stderr.isatty()

    def __enter__(self) -> Progress:
        if self._live:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("shadow models"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def models(self, done: int, total: int, what: str) -> None:
        """`done` of `total` shadow models are there."""
        interrupt.check()
        if self._bar is not None:
            if what != self._what:
                if self._task is not None:
                    self._bar.remove_task(self._task)
                self._task = self._bar.add_task(f"training {what}", total=total)
            self._bar.update(self._task, completed=done)
        elif not self.quiet:
            now = time.monotonic()
            if what != self._what or done == total or now - self._last > _LOG_EVERY:
                self._last = now
                print(f"training {what}: {done}/{total} shadow models", file=sys.stderr, flush=True)
        self._what = what

    def say(self, text: str) -> None:
        """One line for the reader."""
        if self.quiet:
            return
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)


def _cell(measured: dict[str, Any] | None, percent: bool = True, decimals: int = 2) -> str:
    if measured is None:
        return "-"
    if "refused" in measured:
        return "refused"
    value, low, high = measured["value"], measured["low"], measured["high"]
    if value is None:
        return "-"
    if percent:
        return f"{value:.2%}\n{100 * low:.2f} to {high:.2%}"
    return f"{value:.{decimals}f}\n{low:.{decimals}f} to {high:.{decimals}f}"


def print_findings(findings: Findings, folder: str) -> None:
    """The candidates as a table, the verdict, and where the document lies."""
    from lethe.report.view import utility_name

    if findings.representations is not None:
        print_embeddings(findings, folder)
        return
    if findings.table is not None:
        print_table(findings, folder)
        return
    if findings.queries is not None and "mechanism" in findings.queries:
        print_mechanism(findings, findings.queries["mechanism"], folder)
        return
    if findings.queries is not None:
        print_words(findings, folder)
        return
    merit = utility_name(findings.frontier["utility"])
    shares = merit != "R²"

    def cells(candidate: Mapping[str, Any]) -> list[str]:
        best = candidate["attacks"][candidate["strongest_attack"]]
        return [
            _cell(candidate["risk"]),
            _cell(best["tpr"].get("0.001")),
            _cell(candidate["vulnerability"]["top_t"], percent=False),
            _cell(candidate["utility"], shares, 3),
            _cell(candidate["utility_loss"], shares, 3),
        ]

    console = terminal()
    risk = findings.frontier["risk"].split(" ")[0]
    headings = (risk, "tpr@.001", "t, top 1%", merit, "lost")
    print_candidates(console, findings, headings, cells, 19, f"risk and {merit}")
    for candidate in findings.candidates:
        if candidate.get("stops"):
            tried = ", ".join(str(stop["epochs"]) for stop in candidate["stops"])
            console.print(
                f"{candidate['name']}: {candidate['mitigation']} (after epoch {tried}); its limits "
                "allow for the choice",
                markup=False,
            )
    print_f1(console, findings)
    print_rest(console, findings, folder)
