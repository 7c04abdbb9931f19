"""A table with quasi-identifiers: what it tells as it is, and after recoding and suppression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.columns import check_column, missing
from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Measured, Refusal
from lethe.linkage.anonymity import (
    Anonymity,
    Diversity,
    Journalist,
    anonymity,
    diversity,
    journalist,
)
from lethe.linkage.answers import answers_kept
from lethe.linkage.codes import Int, classes_of, counted, encode
from lethe.linkage.homogeneity import Disclosure, disclosure
from lethe.linkage.kept import counts_kept
from lethe.linkage.population import PopulationUniqueness, population_uniqueness
from lethe.linkage.recoding import Ladder, coarsen, ladder, recode, released_columns
from lethe.linkage.settings import TableSettings
from lethe.linkage.uniqueness import Uniqueness, uniqueness
from lethe.linkage.way import BASELINE, Way, less

_ASSUMED = (
    "the adversary knows the quasi-identifiers that were named, exactly, and no other column",
    "one row a person",
)
_NO_PROOF = "k-anonymity is no proof of privacy: classes can share a sensitive value"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows that are released.

    Attributes:
        name: of the release.
        columns: (rows,) each, as `lethe.columns.read_columns` gives them.
        quasi: columns that an adversary may know.
        sensitive: column that nobody should learn; None = there is none.
        population: the quasi-identifiers of everybody the rows may be of; None = not known.
    """

    name: str
    columns: Mapping[str, NDArray[Any]]
    quasi: tuple[str, ...]
    sensitive: str | None = None
    population: Mapping[str, NDArray[Any]] | None = None

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
        if len(lengths) != 1 or min(lengths) < 2:
            raise InputError(f"{self.name} needs at least 2 rows in every column, as many in each.")

    @property
    def rows(self) -> int:
        """How many are released."""
        return len(self.columns[self.quasi[0]])


@dataclass(frozen=True, eq=False)
class TableStudy:
    """All that was measured on a table.

    Attributes:
        table: what is released.
        ladders: of its quasi-identifiers.
        anonymity: as it is.
        diversity: of the sensitive column; None without one.
        disclosure: likewise.
        uniqueness: of subsets of the quasi-identifiers.
        population: under a model; None where no size was told.
        journalist: against a population table; None without one.
        ways: the table as it is, then the candidates.
        skipped: name and reason of candidates that could not be made.
    """

    table: Table
    ladders: tuple[Ladder, ...]
    anonymity: Anonymity
    diversity: Diversity | None
    disclosure: Disclosure | None
    uniqueness: Uniqueness
    population: PopulationUniqueness | Refusal | None
    journalist: Journalist | None
    ways: tuple[Way, ...]
    skipped: Mapping[str, str]


def study_table(table: Table, settings: TableSettings) -> TableStudy:
    """Count classes, attack them, recode, and count again.

    Raises:
        InputError: columns that cannot be read, or a population without the table's people.
    """
    sure = settings.confidence
    ladders = tuple(ladder(name, table.columns[name]) for name in table.quasi)
    codes = [one.codes for one in ladders]
    found = anonymity(codes, confidence=sure)
    secret = None if table.sensitive is None else encode(table.columns[table.sensitive]).codes
    population: PopulationUniqueness | Refusal | None = None
    if settings.population is not None:
        try:
            population = population_uniqueness(
                found.of_class.size, settings.population, confidence=sure
            )
        except NotMeasurable as error:
            population = Refusal(str(error))
    skipped: dict[str, str] = {}
    return TableStudy(
        table,
        ladders,
        found,
        None if secret is None else diversity(found.of_class, secret, distance=settings.distance),
        None
        if secret is None
        else disclosure(found.of_class, secret, ruled_out=settings.ruled_out, confidence=sure),
        uniqueness(codes, settings.most, confidence=sure),
        population,
        None if table.population is None else _in_population(table, sure),
        tuple(_ways(table, ladders, secret, settings, skipped)),
        skipped,
    )


def warnings_of(study: TableStudy) -> list[tuple[str, str]]:
    """Columns whose role should be looked at, with the reason."""
    rows, found = study.table.rows, []
    for one in study.ladders:
        levels = len(one.steps[0])
        if levels == rows:
            found.append(
                (one.name, "every row has a value of its own; a direct identifier should go")
            )
        elif levels == 1:
            found.append((one.name, "all rows have the same value; it identifies nobody"))
        if gaps := int(missing(study.table.columns[one.name]).sum()):
            found.append((one.name, f"{gaps} values are missing; missing counts as a value"))
    return found


def _in_population(table: Table, confidence: float) -> Journalist:
    assert table.population is not None
    both = []
    for name in table.quasi:
        check_column("quasi", name, table.population, "the population table")
        sides = (table.columns[name], table.population[name])
        kinds = {"number" if side.dtype.kind in "iuf" else side.dtype.kind for side in sides}
        if len({"text" if kind in "OU" else kind for kind in kinds}) != 1:
            raise InputError(
                f"column {name!r} has other types in table and population. Give it one type."
            )
        both.append(encode(np.concatenate(sides)).codes)
    of_row = classes_of(both).of_row
    mine, theirs = of_row[: table.rows], of_row[table.rows :]
    classes = classes_of([mine])
    people = np.bincount(theirs, minlength=int(of_row.max()) + 1)
    _, first = np.unique(classes.of_row, return_index=True)
    return journalist(classes, people[mine[first]], confidence=confidence)


def _ways(
    table: Table,
    ladders: Sequence[Ladder],
    secret: Int | None,
    settings: TableSettings,
    skipped: dict[str, str],
) -> Iterator[Way]:
    everyone = np.ones(table.rows, bool)
    stay = (0,) * len(ladders)
    base = _measure(
        BASELINE, "the table as it is", table, ladders, stay, everyone, secret, settings, None
    )
    yield base
    for name, words, steps, kept in _plans(ladders, settings, skipped):
        if not kept.any():
            skipped[name] = "no row would be left"
            continue
        yield _measure(name, words, table, ladders, steps, kept, secret, settings, base)


Plan = tuple[str, str, tuple[int, ...], NDArray[np.bool_]]


def _plans(
    ladders: Sequence[Ladder], settings: TableSettings, skipped: dict[str, str]
) -> Iterator[Plan]:
    everyone = np.ones(len(ladders[0].codes), bool)
    stay = (0,) * len(ladders)
    for times in (1, 2, 3):
        steps = coarsen(ladders, times)
        yield f"coarser-{times}", f"every column {times} step(s) coarser", steps, everyone
    if len(ladders) > 1:
        at = _most_identifying(ladders)
        steps = tuple(len(one.steps) - 1 if at == j else 0 for j, one in enumerate(ladders))
        name = ladders[at].name
        yield f"without-{name}", f"column {name!r} is not released", steps, everyone
    of_size = classes_of([one.codes for one in ladders]).of_size
    for k in settings.ks:
        yield f"suppress-{k}", f"rows in classes below {k} are not released", stay, of_size >= k
    for k in settings.ks:
        try:
            made = recode(ladders, k, settings.suppress)
        except NotMeasurable as error:
            skipped[f"k-{k}"] = str(error)
            continue
        words = f"{k}-anonymous by global recoding and suppression of at most {settings.suppress:g}"
        yield f"k-{k}", words, made.steps, made.kept


def _most_identifying(ladders: Sequence[Ladder]) -> int:
    """The column without which the fewest classes are left."""
    left = [
        len(classes_of([one.codes for j, one in enumerate(ladders) if j != at]).size)
        for at in range(len(ladders))
    ]
    return int(np.argmin(left))


def _measure(
    name: str,
    words: str,
    table: Table,
    ladders: Sequence[Ladder],
    steps: tuple[int, ...],
    kept: NDArray[np.bool_],
    secret: Int | None,
    settings: TableSettings,
    base: Way | None,
) -> Way:
    """Everything is a share of the rows of the table, those that are not released included."""
    rows, sure = table.rows, settings.confidence
    columns = [one.at(step)[kept] for one, step in zip(ladders, steps, strict=True)]
    found = anonymity(columns, confidence=sure)
    alone = int((found.of_class.size == 1).sum())
    marketer = counted(found.classes / rows, rows, sure)
    prosecutor = counted(found.prosecutor, rows, sure)
    unique = counted(alone / rows, rows, sure)
    evidence: dict[str, Measured] = {
        "marketer": marketer,
        "prosecutor": prosecutor,
        "unique": unique,
    }
    details: dict[str, Any] = {
        "k": found.k,
        "classes": found.classes,
        "released": int(kept.sum()),
        "unique": unique.to_json(),
        "prosecutor": prosecutor.to_json(),
        "steps": {
            one.name: {
                "step": step,
                "of": len(one.steps) - 1,
                "groups": int(one.steps[step].max()) + 1,
            }
            for one, step in zip(ladders, steps, strict=True)
        },
    }
    if secret is not None:
        told = disclosure(
            found.of_class, secret[kept], ruled_out=settings.ruled_out, confidence=sure
        )
        varied = diversity(found.of_class, secret[kept], distance=settings.distance)
        part = float(kept.mean())
        certain = counted(part * (told.homogeneous.value or 0.0), rows, sure)
        evidence["certain"] = certain
        details |= {
            "certain": certain.to_json(),
            "guessed": told.guessed[0].to_json(),
            "blind": told.blind.to_json(),
            "distinct_l": varied.distinct_l,
            "entropy_l": varied.entropy_l,
            "t": varied.t,
            "alpha": varied.alpha,
        }
    utility = counted(_utility(table, ladders, steps, kept, secret, settings), rows, sure)
    loss = change = None
    if base is not None and isinstance(base.risk, type(marketer)):
        loss = less(base.utility.value or 0.0, utility.value or 0.0, rows, sure)
        change = less(marketer.value or 0.0, base.risk.value or 0.0, rows, sure)
        evidence["utility-loss"] = loss
    return Way(
        name,
        words,
        {f"step of {one.name}": step for one, step in zip(ladders, steps, strict=True) if step},
        marketer,
        utility,
        loss,
        change,
        evidence,
        details,
        (*_ASSUMED, _NO_PROOF) if name.startswith("k-") else _ASSUMED,
    )


def _utility(
    table: Table,
    ladders: Sequence[Ladder],
    steps: Sequence[int],
    kept: NDArray[np.bool_],
    secret: Int | None,
    settings: TableSettings,
) -> float:
    if settings.queries:
        released = released_columns(table.columns, ladders, steps, kept)
        return answers_kept(table.columns, released, settings.queries)
    original = [one.codes for one in ladders]
    released_codes = [one.at(step)[kept] for one, step in zip(ladders, steps, strict=True)]
    groups = [one.steps[step] for one, step in zip(ladders, steps, strict=True)]
    if secret is not None:
        original.append(secret)
        released_codes.append(secret[kept])
        groups.append(np.arange(int(secret.max()) + 1))
    return counts_kept(original, released_codes, groups)
