"""What a question will cost and how far off its answer will be, before a private row is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from lethe.data.schema import Schema
from lethe.errors import InputError
from lethe.evidence.guarantee import Guarantee
from lethe.queries.answer import Answer, Answers
from lethe.queries.bind import bind
from lethe.queries.evaluate import Exact, Groups, Layout, layout_of, unknown_groups
from lethe.queries.grammar import (
    Bounds,
    Categories,
    Count,
    Histogram,
    Mean,
    Mode,
    Quantile,
    Query,
    Regression,
    Sum,
    Variance,
)
from lethe.queries.privacy import Privacy
from lethe.queries.release import release

MADE_UP = (100, 10_000, 1_000_000)
"""Rows of a group for which a plan tells the error where that depends on them."""

MOST = 10**15
DISTINCT = "no two people share a name in the column of persons, as the schema reads it"


@dataclass(frozen=True)
class Plan:
    """What is known of an answer without the table's rows.

    Attributes:
        query: bound to the table's schema.
        privacy: cost and neighbours.
        layout: how the rows will be added up.
        sample: an answer of the same mechanism on rows that were made up.
        guarantee: of the whole answer, which is what a ledger charges.
        sensitivity: how far one person can move the exact numbers, in words.
        notes: what a reader must know.
        released: the guarantee as the mechanism states it, without what is assumed of the data.
    """

    query: Query
    privacy: Privacy
    layout: Layout
    sample: Answer
    guarantee: Guarantee
    sensitivity: str
    notes: tuple[str, ...]
    released: Guarantee

    @property
    def key(self) -> str:
        """Canonical text of question and privacy: equal text, same answer."""
        return f"{self.query} | {self.privacy}"

    @property
    def noise(self) -> str:
        """Mechanism and scale in words."""
        scale = self.sample.scale
        if scale is None:
            return self.sample.mechanism
        rows = isinstance(self.query.aggregate, Mean | Variance | Regression)
        where = f" of the answer at {MADE_UP[1]:,} rows in a group" if rows else ""
        return f"{self.sample.mechanism}, scale {scale:.4g}{where}"

    def errors(self) -> tuple[tuple[int | None, float], ...]:
        """Half width of the 95 % error interval, of noise alone, in units of the value.

        Returns:
            One for each of `MADE_UP` rows in a group, as drawn for rows that were made up; one
            with None where the rows do not matter; none where no interval exists.
        """
        if self.sample.low is None:
            return ()
        if isinstance(self.query.aggregate, Count | Sum | Histogram | Categories):
            return ((None, _half(self.sample)),)
        found = []
        for rows in MADE_UP:
            answers = _rehearsed(self.query, self.layout, self.privacy, rows).rows
            found += [(rows, _half(one)) for one in answers[:1] if one.low is not None]
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "query": str(self.query),
            "privacy": str(self.privacy),
            "mechanism": self.sample.mechanism,
            "scale": self.sample.scale,
            "sensitivity": self.sensitivity,
            "errors": [{"rows": rows, "half_width": half} for rows, half in self.errors()],
            "guarantee": self.guarantee.to_json(),
            "notes": list(self.notes),
        }


def make_plan(
    query: Query, schema: Schema, privacy: Privacy, assumptions: tuple[str, ...] = ()
) -> Plan:
    """Bind a question to a schema and say what its answer will be like.

    Args:
        query: as parsed.
        schema: of the table; its rows are not read.
        privacy: cost and neighbours.
        assumptions: what the guarantee rests on beside the mechanism's own.

    Raises:
        InputError: a column is unknown or of the wrong type, or the mechanism needs another cost.
    """
    query = bind(query, schema, privacy.person)
    layout = layout_of(query, schema)
    rehearsal = _rehearsed(query, layout, privacy, MADE_UP[1])
    if not rehearsal.rows:
        rehearsal = _rehearsed(query, layout, privacy, MOST)
    if not rehearsal.rows:
        raise InputError("at this cost no group is large enough to be shown: spend more.")
    sample, released = rehearsal.rows[0], rehearsal.guarantee
    notes = (*_notes(query, privacy), *sample.notes)
    named = () if privacy.person is None else (DISTINCT,)
    assumed = (*released.assumptions, *named, *schema.assumptions(), *assumptions)
    guarantee = replace(released, assumptions=assumed)
    words = sensitivity_words(query, privacy)
    return Plan(query, privacy, layout, sample, guarantee, words, notes, released)


def sensitivity_words(query: Query, privacy: Privacy) -> str:
    """How far one person can move the exact numbers before noise, in words.

    >>> from lethe.queries.parse import parse
    >>> sensitivity_words(parse("count()"), Privacy(epsilon=1.0, person="user", rows=3))
    'one person moves a count by at most 3'
    """
    rows = privacy.rows or 1
    swapped = privacy.relation == "replace-one"
    asked = query.aggregate
    in_all = (2 if swapped else 1) * rows
    many = f", all counts together by at most {in_all}" if _several_counts(query) else ""
    if isinstance(asked, Count | Histogram | Categories | Mode):
        return f"one person moves a count by at most {rows}{many}"
    if isinstance(asked, Quantile):
        return f"one person moves the rank of a candidate by at most {rows}"
    if isinstance(asked, Sum):
        return f"one person moves the sum by at most {_reach(asked.bounds, rows, swapped):g}"
    of = "the sum" if isinstance(asked, Mean) else "the sums of values, squares and products"
    return (
        f"one person has at most {rows} row{'s' if rows > 1 else ''} in {of} and in the count, "
        "each clamped to the bounds"
    )


def _reach(bounds: Bounds, rows: int, swapped: bool) -> float:
    low, high = float(bounds.low), float(bounds.high)
    return rows * (max(high, 0) - min(low, 0) if swapped else max(abs(low), abs(high)))


def _several_counts(query: Query) -> bool:
    return bool(query.by) or isinstance(query.aggregate, Histogram | Categories | Mode)


def _notes(query: Query, privacy: Privacy) -> tuple[str, ...]:
    found = []
    if privacy.person is None:
        found.append("a row counts as a person: say person and rows if people have several")
    else:
        found.append(
            f"at most {privacy.rows} rows of a person are used, the others are left out; rows "
            "without a person too"
        )
    if unknown_groups(query):
        found.append("groups with few rows are not shown: their mere presence would tell")
    return tuple(found)


def _rehearsed(query: Query, layout: Layout, privacy: Privacy, rows: int) -> Answers:
    """The mechanism on one group of rows that nobody has."""
    return release(query, _made_up(query, layout, rows), layout, privacy)


def _made_up(query: Query, layout: Layout, rows: int) -> Groups:
    group = tuple(key.among[0] if key.among else "somewhere" for key in query.by)
    sums = tuple(rows * _spread(one, layout) for one in layout.sums)
    cells = layout.cells
    if isinstance(query.aggregate, Histogram | Categories):
        cells = 1  # the others have the same noise
    return {group: Exact(rows, sums, (rows // max(cells, 1),) * cells)}


def _spread(words: str, layout: Layout) -> int:
    """Mean of u0, u0 * u0, u0 * u1, ... where values lie evenly between the bounds."""
    widths = [layout.lattices[int(name[1:])].width for name in words.split(" * ")]
    if len(widths) == 2 and len(set(words.split(" * "))) == 1:
        return widths[0] ** 2 // 3
    return math.prod(widths) >> len(widths)


def _half(answer: Answer) -> float:
    assert answer.low is not None and answer.high is not None
    return (answer.high - answer.low) / 2
