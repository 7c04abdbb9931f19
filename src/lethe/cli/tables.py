"""Lines and tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Rows = tuple[Sequence[str], Iterable[Sequence[str]]]
"""Headings of a table, and its rows."""


def print_tables(
    before: Iterable[str], *tables: Rows, after: Iterable[str] = (), title: str | None = None
) -> None:
    """Print lines, tables and more lines; nothing in them is read as markup.

    Args:
        title: of the tables.
    """
    from rich.text import Text

    from lethe.report.terminal import terminal, titled

    console = terminal()
    for line in before:
        console.print(Text(line))
    for headings, rows in tables:
        table = titled(title)
        for heading in headings:
            table.add_column(heading, overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table)
    for line in after:
        console.print(Text(line))
