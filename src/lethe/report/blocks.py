"""Blocks that the page of an audit of rows is made of: headings, facts and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lethe.report.numbers import Cell, measured, rate

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Block:
    """A heading, words, rows of facts and a table; what is empty is not printed.

    Attributes:
        title: heading.
        words: paragraphs.
        facts: label and text.
        heads: of the table; the first is the name of a row.
        rows: name, and cells or texts.
    """

    title: str
    words: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    heads: Sequence[str] = ()
    rows: Sequence[tuple[str, Sequence[Cell]]] = field(default_factory=list)


def text_cell(text: str) -> Cell:
    """Plain text, shown as it is."""
    return Cell("estimate", text)


def share_cell(one: Json | None) -> Cell:
    """A share; without its interval where that is the share itself, for it was counted."""
    if one is None or "refused" in one or not one["low"] == one["value"] == one["high"]:
        return rate(one)
    return text_cell(share_text(one))


def share_text(one: Json) -> str:
    """A share that was counted, without an interval of no width."""
    return measured({**one, "low": None, "high": None}, 4).value
