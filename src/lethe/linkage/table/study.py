"""A table with quasi-identifiers: what it tells as it is, and after recoding and suppression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lethe.data.columns import as_text, encode, missing
from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Refusal
from lethe.evidence.frontier import Candidate
from lethe.linkage.codes import Int, classes_of, count
from lethe.linkage.measurement import BASELINE, Measurement
from lethe.linkage.settings import TableSettings
from lethe.linkage.table.anonymity import (
    Anonymity,
    Diversity,
    Journalist,
    anonymity,
    diversity,
)
from lethe.linkage.table.candidates import (
    Context,
    Plan,
    Table,
    compared,
    context_of,
    measure_recoded,
)
from lethe.linkage.table.dp_rows import DpRows
from lethe.linkage.table.homogeneity import Disclosure, disclosure
from lethe.linkage.table.population import PopulationUniqueness, population_uniqueness
from lethe.linkage.table.recoding import Hierarchy, coarsen, recode
from lethe.linkage.table.synthetic import dp_name, measure_synthetic
from lethe.linkage.uniqueness import Uniqueness, uniqueness
from lethe.training.fingerprint import digest, hash_array


@dataclass(frozen=True, eq=False)
class TableStudy:
    """All that was measured on a table.

    Attributes:
        table: what is released.
        hierarchies: of its quasi-identifiers.
        anonymity: as it is.
        diversity: of the sensitive column; None without one.
        disclosure: likewise.
        uniqueness: of subsets of the quasi-identifiers.
        population: under a model; None where no size was told.
        journalist: against a population table; None without one.
        candidates: the table as it is, then the candidates.
        skipped: name and reason of candidates that could not be made.
        synthetic: rows of the candidates that are synthetic, by name: those that were measured.
    """

    table: Table
    hierarchies: tuple[Hierarchy, ...]
    anonymity: Anonymity
    diversity: Diversity | None
    disclosure: Disclosure | None
    uniqueness: Uniqueness
    population: PopulationUniqueness | Refusal | None
    journalist: Journalist | None
    candidates: tuple[Candidate, ...]
    skipped: Mapping[str, str]
    synthetic: Mapping[str, DpRows]


def study_table(table: Table, settings: TableSettings) -> TableStudy:
    """Count classes, attack them, recode, and count again.

    Raises:
        InputError: columns that cannot be read, or a population without the table's people.
    """
    sure = settings.confidence
    context = context_of(table, settings)
    hierarchies, secret = context.hierarchies, context.secret
    codes = [one.codes for one in hierarchies]
    found = anonymity(codes, confidence=sure, times=table.times)
    population: PopulationUniqueness | Refusal | None = None
    if settings.population is not None:
        try:
            population = population_uniqueness(
                found.of_class.size, settings.population, confidence=sure
            )
        except NotMeasurable as error:
            population = Refusal(str(error))
    everyone, stay = np.ones(len(codes[0]), bool), (0,) * len(hierarchies)
    base = measure_recoded(context, Plan(BASELINE, "the table as it is", stay, everyone))
    skipped: dict[str, str] = {}
    made: dict[str, DpRows] = {}
    return TableStudy(
        table,
        hierarchies,
        found,
        None if secret is None else diversity(found.of_class, secret, distance=settings.distance),
        None
        if secret is None
        else disclosure(found.of_class, secret, ruled_out=settings.ruled_out, confidence=sure),
        uniqueness(codes, settings.most, confidence=sure, times=table.times),
        population,
        None
        if context.people is None
        else context.people.risk(hierarchies, stay, everyone, table.times, sure),
        tuple(_candidates(context, base, skipped, made)),
        skipped,
        made,
    )


def fingerprint_of(study: TableStudy) -> str:
    """Hash of the rows' quasi-identifiers, whatever their order."""
    classes = study.anonymity.of_class
    one_of = np.empty(len(classes.size), np.int64)
    one_of[classes.of_row] = np.arange(len(classes.of_row))
    parts = [hash_array(classes.size)]
    for column in study.hierarchies:
        values = encode(study.table.columns[column.name]).values
        codes = column.codes[one_of].astype(np.int64)
        parts += [column.name, hash_array(as_text(values)), hash_array(codes)]
    return digest(*parts)


def warnings_of(study: TableStudy) -> list[tuple[str, str]]:
    """Columns whose role should be looked at, with the reason."""
    rows, found = study.table.rows, []
    for one in study.hierarchies:
        levels = len(one.steps[0])
        if levels == rows:
            found.append(
                (one.name, "every row has a value of its own; a direct identifier should go")
            )
        elif levels == 1:
            found.append((one.name, "all rows have the same value; it identifies nobody"))
        if gaps := _gaps(study.table, one.name):
            found.append((one.name, f"{gaps} values are missing; missing counts as a value"))
    return found


def _gaps(table: Table, name: str) -> int:
    """Rows whose value is missing; it is the last level."""
    column = encode(table.columns[name])
    if not missing(column.values[-1:]).any():
        return 0
    return int(count(column.codes, column.levels, table.times)[-1])


def _candidates(
    context: Context, base: Measurement, skipped: dict[str, str], made: dict[str, DpRows]
) -> Iterator[Candidate]:
    yield base.candidate(context.settings.confidence, baseline=None)
    for plan in _plans(context.table.times, context.hierarchies, context.settings, skipped):
        if not plan.released.any():
            skipped[plan.name] = "no row would be left"
            continue
        try:
            yield compared(context, measure_recoded(context, plan), base)
        except NotMeasurable as error:
            skipped[plan.name] = str(error)
    for epsilon in context.settings.epsilon:
        try:
            release, rows = measure_synthetic(context, epsilon)
        except NotMeasurable as error:
            skipped[dp_name(epsilon)] = str(error)
            continue
        made[release.name] = rows
        yield compared(context, release, base)


def _plans(
    times: Int | None,
    hierarchies: Sequence[Hierarchy],
    settings: TableSettings,
    skipped: dict[str, str],
) -> Iterator[Plan]:
    everyone = np.ones(len(hierarchies[0].codes), bool)
    stay = (0,) * len(hierarchies)
    for up in (1, 2, 3):
        steps = coarsen(hierarchies, up)
        yield Plan(f"coarser-{up}", f"every column {up} step(s) coarser", steps, everyone)
    if len(hierarchies) > 1:
        at = _most_identifying(hierarchies)
        steps = tuple(len(one.steps) - 1 if at == j else 0 for j, one in enumerate(hierarchies))
        name = hierarchies[at].name
        yield Plan(f"without-{name}", f"column {name!r} is not released", steps, everyone)
    of_size = classes_of([one.codes for one in hierarchies], times).of_size
    for k in settings.ks:
        words = f"rows in classes below {k} are not released"
        yield Plan(f"suppress-{k}", words, stay, of_size >= k)
    for k in settings.ks:
        try:
            made = recode(hierarchies, k, settings.suppress, times)
        except NotMeasurable as error:
            skipped[f"k-{k}"] = str(error)
            continue
        words = f"{k}-anonymous by global recoding and suppression of at most {settings.suppress:g}"
        yield Plan(f"k-{k}", words, made.steps, made.kept)


def _most_identifying(hierarchies: Sequence[Hierarchy]) -> int:
    """The column without which the fewest classes are left."""
    left = [
        len(classes_of([one.codes for j, one in enumerate(hierarchies) if j != at]).size)
        for at in range(len(hierarchies))
    ]
    return int(np.argmin(left))
