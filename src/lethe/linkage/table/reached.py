"""Released rows, and the results of the attacks on each: by person, by group, in all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import (
    Coded,
    Grouped,
    as_text,
    check_column,
    encode,
    list_names,
    missing,
)
from lethe.data.source import TypedColumn
from lethe.errors import InputError, did_you_mean
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.of_rows import Guesses, PeopleGroup, TableDetails
from lethe.evidence.risk import AttackResult
from lethe.linkage.codes import Counting, Float, Int, Persons, counted, persons_of
from lethe.linkage.settings import TableSettings
from lethe.linkage.table.inference import as_one_spelling

Columns = Mapping[str, NDArray[Any] | Coded]


@dataclass(frozen=True, eq=False)
class RowSet:
    """Rows that are released.

    Attributes:
        population: the quasi-identifiers of everybody the rows may be of; None = not known.
        typed: those of `columns` that were read by a schema, as it declares them.
        person: column of the person behind each row; None = each row is another person's.
    """

    name: str  # of the release
    columns: Columns  # (rows,) each, as `lethe.data.columns.read_columns` gives them
    quasi: tuple[str, ...]  # columns that an adversary may know
    sensitive: str | None = None  # column that nobody should learn; None = there is none
    population: Columns | Grouped | None = None
    times: Int | None = None  # (rows,) how many equal rows each row stands for; None = one each
    typed: Mapping[str, TypedColumn] = field(default_factory=dict)
    person: str | None = None

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
        if self.person is not None:
            check_column("person", self.person, self.columns, self.name)
            if self.person in (*self.quasi, self.sensitive):
                raise InputError(
                    f"person={self.person!r} is also in quasi or sensitive. Take it out of them."
                )
            if self.population is not None:
                raise InputError(
                    "population is compared with rows of one person each, but person is given. "
                    "Leave one of them out."
                )
            if missing(as_one_spelling(self.columns[self.person]).values[-1:]).any():
                raise InputError(
                    f"person={self.person!r} is missing in some rows: whose they are "
                    "decides who hides among whom. Fill it, or leave those rows out."
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

    @cached_property
    def counting(self) -> Counting:
        """Return the weight of each row."""
        if self.person is None:
            return self.times
        return persons_of(as_one_spelling(self.columns[self.person]).codes, self.times)

    @cached_property
    def people(self) -> int:
        """Number of persons; of rows, if each row is a person of its own."""
        if isinstance(self.counting, Persons):
            return len(np.unique(self.counting.of_row))
        return self.rows

    @property
    def weight(self) -> Int | Float | None:
        """(rows,) what each row counts for; None = 1 each."""
        return self.counting.part if isinstance(self.counting, Persons) else self.times

    def totals(self, of_row: NDArray[Any], groups: Coded | None = None) -> Float:
        """(levels,) sum over the persons of each group of a number of each row; (1,) over all.

        A person is the mean of their rows.
        """
        weighted = of_row if self.weight is None else of_row * self.weight
        summed = np.array([weighted.sum(dtype=np.float64)])
        if groups is not None:
            summed = np.bincount(groups.codes, weighted, minlength=groups.levels)
        return np.round(summed, 6)  # counts stay whole, whatever the order of the rows

    @cached_property
    def declared(self) -> dict[str, NDArray[Any] | TypedColumn]:
        """Columns for synthetic rows: typed ones as the schema declares them."""
        return {**self.plain, **self.typed}

    @property
    def plain(self) -> dict[str, NDArray[Any]]:
        """Columns with a value for every row; none where equal rows are grouped."""
        return {
            name: column for name, column in self.columns.items() if not isinstance(column, Coded)
        }


KNOWN = "the quasi-identifiers of everybody, exactly"
_MOST_GROUPS = 100
Groups = Mapping[str, Coded]
"""By column, the group of each row; the values are their names."""


def groups_of(table: RowSet, settings: TableSettings) -> Groups:
    """Rows of every level of the declared groups.

    Raises InputError: no such column, too many levels, or a rule on a level that does not exist.
    """
    groups: dict[str, Coded] = {}
    for column in settings.group:
        check_column("group", column, table.columns, table.name)
        read = encode(table.columns[column])
        if read.levels > _MOST_GROUPS:
            raise InputError(
                f"group={column!r} has {read.levels} values, at most {_MOST_GROUPS} are measured. "
                "Declare a coarser column."
            )
        names = np.where(as_text(read.values) == "", "(missing)", as_text(read.values))
        groups[column] = Coded(read.codes, names)
    for rule in settings.rules():
        column, _, level = rule.group.partition("=")
        if level and level not in (listed := groups[column].values.tolist()):
            raise InputError(
                f"rule {str(rule)!r}: no row has {rule.group}.{did_you_mean(level, listed)} "
                f"There are: {list_names(listed)}."
            )
    return groups


@dataclass(frozen=True, eq=False)
class Learnt:
    """What the best guess of the sensitive value reaches on each row of the original table."""

    certain: NDArray[np.bool_]  # (rows,) whether the class leaves one guess, the right one
    right: Float  # (rows,) chance that the guess is right
    blind: NDArray[Any]  # (rows,) chance that the best guess without quasi-identifiers is
    within: str = ""  # what is right besides the very value; empty where nothing is


@dataclass(frozen=True, eq=False)
class Reached:
    """What all attacks reach on each row of the original table, 0 where it is not released."""

    linked: Float  # (rows,) chance that the row's person is linked
    alone: NDArray[np.bool_]  # (rows,) whether the row's person is alone in a class
    learnt: tuple[Learnt, ...] = ()  # exact guesses, then those within the tolerance

    def shares(self, table: RowSet, groups: Coded | None = None) -> dict[str, Float]:
        """(levels,) of the people in each group, by the name of the metric; (1,) of all people."""
        listed: dict[str, list[NDArray[Any]]] = {
            "marketer": [self.linked],
            "unique": [self.alone],
            "certain": [one.certain for one in self.learnt],
            "guessed": [one.right for one in self.learnt],
        }
        people = table.totals(np.ones(len(self.alone)), groups)
        return {
            name: np.minimum(
                np.max([table.totals(attack, groups) for attack in attacks], axis=0) / people, 1.0
            )
            for name, attacks in listed.items()
            if attacks
        }


@dataclass(frozen=True, eq=False)
class Reported:
    """What rules judge, the attacks on the release, its guesses (exact ones, all) and groups."""

    measures: dict[str, Measured]
    results: list[AttackResult]
    exact: Guesses | None
    guesses: Guesses | None
    groups: tuple[PeopleGroup, ...]

    def details(self, further: Mapping[str, Any]) -> TableDetails:
        """Return the details of the findings, with what else was counted on the release."""
        listed = ("unique", "prosecutor", "journalist", "population_marketer", "certain")
        names = () if self.guesses is None else ("certain", "guessed", "blind")
        guesses = {name: getattr(self.guesses, name) for name in names}
        measured = {name: self.measures[name] for name in listed if name in self.measures}
        return TableDetails(
            **{"exact": self.exact, "groups": self.groups, **further, **guesses, **measured}
        )


def reported(reached: Reached, table: RowSet, groups: Groups, confidence: float) -> Reported:
    """Summarise the attacks, in all and by group."""

    def counted_share(value: float) -> Estimate:
        return counted(value, table.people, confidence)

    measures: dict[str, Measured] = {
        name: counted_share(float(value[0])) for name, value in reached.shares(table).items()
    }
    results = [AttackResult("marketer", measures["marketer"], knows=KNOWN)]
    listed: list[Guesses] = []
    for learnt in reached.learnt:
        certain, guessed, blind = (
            min(float(table.totals(one)[0]) / table.people, 1.0)
            for one in (learnt.certain, learnt.right, learnt.blind)
        )
        listed.append(Guesses(counted_share(certain), counted_share(guessed), counted_share(blind)))
        if blind == 1:  # the classes reveal nothing that the table as a whole does not
            continue
        near = f", {learnt.within}" if learnt.within else ""
        gain = counted_share(max(guessed - blind, 0.0))
        results.append(AttackResult(f"homogeneity{near}", counted_share(certain), knows=KNOWN))
        results.append(AttackResult(f"best-guess{near}", gain, knows=KNOWN))
    rows: list[PeopleGroup] = []
    for column, of_row in groups.items():
        shares = reached.shares(table, of_row)
        people = np.round(table.totals(np.ones(len(of_row)), of_row), 3).tolist()
        mine = []
        for at, (level, number) in enumerate(zip(of_row.values.tolist(), people, strict=True)):
            size = max(round(number), 1)
            rates = [counted(float(values[at]), size, confidence) for values in shares.values()]
            mine.append(PeopleGroup(f"{column}={level}", number, *rates))
        for name, values in shares.items():
            measures |= {f"{name}[{group.name}]": getattr(group, name) for group in mine}
            measures[f"{name}[every {column}]"] = getattr(mine[int(np.argmax(values))], name)
        rows += mine
    exact = listed[0] if len(listed) > 1 else None
    return Reported(measures, results, exact, listed[-1] if listed else None, tuple(rows))
