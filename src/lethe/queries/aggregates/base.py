"""The base class of every aggregate of the query grammar: from its words to its noisy answers.

A subclass reads its part of a question, checks its columns, says which whole numbers of a row it
needs and how far a person can move their sums, and puts noise on them by
`lethe.queries.mechanisms`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Self

from lethe.data.schema import Schema
from lethe.errors import InputError
from lethe.queries.grammar import Bounds, Key
from lethe.queries.lattice import CellLayout, Exact, Groups, check_extent
from lethe.queries.privacy import Answer, Answers, Neighbours, Scalar, Spend
from lethe.queries.reader import Reader

Names = Sequence[Mapping[str, Scalar]]
"""Values of the group columns, by column, one a group."""


class Aggregate(ABC):
    """A frozen dataclass whose text is the one way to write it.

    Attributes:
        EXAMPLES: a question for each word that begins it.
        rows_matter: whether the noise of the answer depends on how many rows a group has.
        counts_rows: whether noisy counts of the groups are the answer already.
    """

    EXAMPLES: ClassVar[Mapping[str, str]]
    rows_matter: ClassVar[bool] = False
    counts_rows: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def read(cls, word: str, reader: Reader) -> Aggregate:
        """Read what follows `word` and its opening bracket, up to the end of the aggregate."""

    @property
    def clamped(self) -> tuple[tuple[str, Bounds], ...]:
        """Columns of numbers, with the bounds that their values are clamped to."""
        return ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it is about."""
        return tuple(name for name, _ in self.clamped)

    def bound(self, schema: Schema) -> Self:
        """Convert literals to the types of the columns.

        Raises InputError: a column or a literal of the wrong type, bounds that no lattice fits.
        """
        for name in self.columns:
            if not schema[name].kind.numeric:
                raise InputError(
                    f"column {name!r} holds {schema[name].kind.holds}, not numbers. Ask for "
                    "count() by it, or choose a column of numbers."
                )
        for _, bounds in self.clamped:
            check_extent(bounds.low, bounds.high)
        return self

    @abstractmethod
    def layout(self, keys: tuple[Key, ...], schema: Schema) -> CellLayout:
        """Lay the aggregate out for DuckDB in the groups of `keys`; reads no row.

        Raises InputError: bounds for which no lattice is fine enough.
        """

    def values(self, layout: CellLayout) -> int:
        """Count the values that answer each group."""
        return 1

    @abstractmethod
    def sensitivity(self, whose: Neighbours, grouped: bool) -> str:
        """Say how far one person can move the exact numbers before noise."""

    def explained(self) -> Iterator[str]:
        """Explain in sentences what happens to the values."""
        for column, bounds in self.clamped:
            low, high = str(bounds)[1:-1].split(", ")
            yield (
                f"Values of {column!r} below {low} count as {low} and those above {high} as "
                f"{high}: wide bounds make the noise large, narrow ones distort the values. "
                "Choose them without looking at the table."
            )

    @abstractmethod
    def answered(
        self, exact: Exact, layout: CellLayout, spend: Spend, whose: Neighbours
    ) -> tuple[Answer, ...]:
        """The answers of one group, with noise that costs `spend` in all."""

    def released(
        self, groups: Groups, names: Names, layout: CellLayout, spend: Spend, whose: Neighbours
    ) -> Answers:
        """The answers of all groups, whose names are public.

        Args:
            groups: exact numbers, at least one group.
            names: of the groups, in their order.
        """
        if not any(names):
            (exact,) = groups.values()
            rows = self.answered(exact, layout, spend, whose)
            return Answers(rows, rows[0].guarantee)
        share = spend.in_groups(whose.relation)
        parts = [self.answered(exact, layout, share, whose) for exact in groups.values()]
        return over_groups(parts, names, spend, whose)

    def made_up(self, layout: CellLayout, rows: int) -> Exact:
        """A group of rows that nobody has, to try the mechanism on."""
        sums = []
        for terms in layout.sums:  # u0, u0 * u0, u0 * u1, ... of values evenly between the bounds
            factors = terms.split(" * ")
            product = math.prod(layout.lattices[int(factor[1:])].width for factor in factors)
            square = len(factors) == 2 and len(set(factors)) == 1
            sums.append(rows * (product // 3 if square else product >> len(factors)))
        return Exact(rows, tuple(sums), (rows // max(layout.cells, 1),) * layout.cells)


def over_groups(
    parts: Sequence[Sequence[Answer]], names: Names, spend: Spend, whose: Neighbours
) -> Answers:
    """Answers of disjoint groups, under one guarantee.

    Under add/remove all groups together cost what one costs (parallel composition), with noise for
    `whose.rows` rows in each. Under replace-one a person may leave one group and join another: two
    groups, each given half by `Spend.in_groups`.

    Args:
        parts: the answers of each group, which cost `spend.in_groups(whose.relation)` together.
        names: of the groups, public: listed beforehand or found by `noisy_keys`.

    Raises InputError: an answer that cost more than a group may.
    """
    allowed = spend.in_groups(whose.relation).parameters
    rows = []
    for name, part in zip(names, parts, strict=True):
        cost = part[0].guarantee.parameters
        if any(cost[unit] > allowed.get(unit, 0.0) for unit in cost):
            raise InputError(
                f"a group cost {dict(cost)} and may cost {dict(allowed)}: "
                "ask each with spend.in_groups(whose.relation)."
            )
        rows += [replace(row, key={**name, **row.key}) for row in part]
    guarantee = whose.guarantee(spend, "the groups are disjoint and their names public")
    return Answers(tuple(rows), guarantee)
