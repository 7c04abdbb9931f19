"""Rows that are released, one a person, and what their columns are to an adversary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from lethe.data.columns import Coded, Grouped, check_column
from lethe.data.source import TypedColumn
from lethe.errors import InputError
from lethe.linkage.codes import Int

Columns = Mapping[str, NDArray[Any] | Coded]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows that are released.

    Attributes:
        name: of the release.
        columns: (rows,) each, as `lethe.data.columns.read_columns` gives them.
        quasi: columns that an adversary may know.
        sensitive: column that nobody should learn; None = there is none.
        population: the quasi-identifiers of everybody the rows may be of; None = not known.
        times: (rows,) how many equal rows each row stands for; None = one each.
        typed: those of `columns` that were read by a schema, as it declares them.
    """

    name: str
    columns: Columns
    quasi: tuple[str, ...]
    sensitive: str | None = None
    population: Columns | Grouped | None = None
    times: Int | None = None
    typed: Mapping[str, TypedColumn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.quasi:
            check_column("quasi", name, self.columns, self.name)
        if not self.quasi or len(set(self.quasi)) != len(self.quasi):
            raise InputError(f"quasi needs at least 1 column, each once; got {list(self.quasi)}.")
        if self.sensitive is not None:
            check_column("sensitive", self.sensitive, self.columns, self.name)
            if self.sensitive in self.quasi:
                raise InputError(
                    f"sensitive={self.sensitive!r} is also in quasi. Take it out of one of them."
                )
        lengths = {len(column) for column in self.columns.values()}
        if len(lengths) != 1 or self.rows < 2:
            raise InputError(f"{self.name} needs at least 2 rows in every column, as many in each.")

    @property
    def rows(self) -> int:
        """How many are released."""
        if self.times is not None:
            return int(self.times.sum())
        return len(self.columns[self.quasi[0]])

    @property
    def plain(self) -> dict[str, NDArray[Any]]:
        """Columns with a value for every row; none where equal rows are grouped."""
        return {
            name: column for name, column in self.columns.items() if not isinstance(column, Coded)
        }
