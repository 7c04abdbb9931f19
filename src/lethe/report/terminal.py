"""The first screen on a terminal: headline, four lines, one table, the path of the report."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING

from lethe.evidence.findings import Findings
from lethe.report.catalogue import say
from lethe.report.first_screen import First, first_screen
from lethe.report.numbers import Cell
from lethe.report.severity import outcome

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Drawn

_STYLES = {"high": "bold red", "moderate": "bold yellow", "low": "bold green"}


def terminal() -> Console:
    """Where results are printed; lines are broken on a terminal only, never in a file."""
    from rich.console import Console

    return Console(soft_wrap=not sys.stdout.isatty(), highlight=False)


def titled(title: str | None = None) -> Drawn:
    """An empty table with a line under its head."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Drawn

    return Drawn(title=title, box=SIMPLE_HEAD, pad_edge=False, title_justify="left")


def print_findings(findings: Findings, folder: str) -> None:
    """What was found, on standard output.

    Args:
        findings: of any release.
        folder: of the run; the report lies in it.
    """
    from rich.text import Text

    from lethe.report.common import room_of

    room = room_of(findings.to_json())
    document, first = room.document, first_screen(room, {}, None)
    console = terminal()
    _print_head(console, first)
    if first.options is not None and len(first.options.rows) > 1:
        drawn = titled(None if document.candidates else first.options.title)
        for head, numeric in zip(first.options.heads, first.options.numeric, strict=True):
            drawn.add_column(head, justify="right" if numeric else "left", overflow="fold")
        for name, cells in first.options.rows:
            drawn.add_row(Text(name), *(Text(_cell(cell)) for cell in cells))
        console.print(drawn)
        console.print(Text(" ".join(first.notes)))
    for skipped in document.frontier.skipped:
        console.print(Text(say("terminal.skipped", **vars(skipped))))
    for rule in document.rules:
        result = outcome(rule.outcome, 1)
        line = say(
            "terminal.rule" if rule.fixed else "terminal.rule.late",
            mark=result.mark,
            word=say(f"outcome.{result.code}"),
            rule=rule.rule,
            option=rule.candidate,
        )
        console.print(Text(line))
        if rule.reason:
            console.print(Text(say("terminal.reason", reason=rule.reason)))
    for check in document.checks:
        if check.status != "pass":
            option = check.candidate or say("checks.all")
            console.print(Text(say("terminal.check", **{**vars(check), "option": option})))
    console.print(Text(say("terminal.report", path=f"{folder}/report.html")))


def _print_head(console: Console, first: First) -> None:
    from rich.text import Text

    def printed(text: str, indent: int = 0) -> Text:
        lines = [text] if console.soft_wrap else wrapped(text, console.width, " " * indent)
        return Text("\n".join(lines))

    head = printed(first.lead + first.headline)
    head.stylize("bold")
    head.stylize(_STYLES.get(first.level, "bold"), 0, len(first.lead))
    console.print(head)
    console.print(printed(first.verdict))
    console.print()
    for card in first.cards:
        title = f"{card.title + ':':<12}"
        line = printed(f"{title}{card.large}{card.line}", len(title))
        end = len(title) + len(card.large)
        end += len(title) * line.plain[:end].count("\n")  # the indent of each new line
        line.stylize("bold", len(title), end)
        line.stylize("dim", 0, len(title))
        console.print(line)
    console.print()


def wrapped(text: str, width: int, indent: str) -> list[str]:
    """Lines in which a number stays with its percent sign.

    Names come from data: no character of theirs may move the cursor of a terminal.
    """
    whole = "".join(sign if sign.isprintable() else " " for sign in text).replace(" %", "\u00a0%")
    lines = textwrap.wrap(whole, width, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]


def _cell(cell: Cell | str) -> str:
    """A number, and its interval below it."""
    if isinstance(cell, str):
        return cell
    if cell.kind == "refused":
        return say("unmeasured")
    return f"{cell.value}\n{cell.interval}" if cell.interval else cell.value or "–"
