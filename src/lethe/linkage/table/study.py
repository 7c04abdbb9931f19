"""A table with quasi-identifiers: what it tells as it is, after recoding, and as findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lethe.assess.input_checks import InputCheck
from lethe.assess.run import Facts, attack, check
from lethe.data.columns import as_text, encode, missing
from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Refusal
from lethe.evidence.frontier import Candidate
from lethe.linkage.codes import Int, classes_of, count
from lethe.linkage.document import (
    BASELINE,
    Measurement,
    RowsSubject,
    of_1000,
    utility_in_words,
    utility_left,
)
from lethe.linkage.settings import TableSettings
from lethe.linkage.table.anonymity import (
    Anonymity,
    Disclosure,
    Diversity,
    Journalist,
    anonymity,
    disclosure,
    diversity,
)
from lethe.linkage.table.candidates import (
    Context,
    Plan,
    Table,
    compared,
    context_of,
    dp_name,
    measure_recoded,
    measure_synthetic,
    synthetic_rows,
)
from lethe.linkage.table.dp_rows import DpRows
from lethe.linkage.table.population import (
    PopulationUniqueness,
    Uniqueness,
    population_uniqueness,
    uniqueness,
)
from lethe.linkage.table.recoding import Hierarchy, coarsen, recode
from lethe.training.fingerprint import digest, hash_array


@dataclass(frozen=True, eq=False)
class TableStudy:
    """All that was measured on a table.

    Attributes:
        synthetic: rows of the candidates that are synthetic, by name: those that were measured.
    """

    table: Table  # what is released
    hierarchies: tuple[Hierarchy, ...]  # of its quasi-identifiers
    anonymity: Anonymity  # as it is
    diversity: Diversity | None  # of the sensitive column; None without one
    disclosure: Disclosure | None  # likewise
    uniqueness: Uniqueness  # of subsets of the quasi-identifiers
    population: PopulationUniqueness | Refusal | None  # under a model; None where no size was told
    journalist: Journalist | None  # against a population table; None without one
    candidates: tuple[Candidate, ...]  # the table as it is, then the candidates
    skipped: Mapping[str, str]  # name and reason of candidates that could not be made
    synthetic: Mapping[str, DpRows]


def study_table(table: Table, settings: TableSettings) -> TableStudy:
    """Count classes, attack them, recode, and count again.

    Raises InputError: columns that cannot be read, or a population without the table's people.
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
            # Written whatever becomes of the measurements: else a missing file would tell of a row.
            rows = made[dp_name(epsilon)] = synthetic_rows(context, epsilon)
            yield compared(context, measure_synthetic(context, rows, epsilon), base)
        except NotMeasurable as error:
            skipped[dp_name(epsilon)] = str(error)


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


Json = dict[str, Any]
_SIZES = (1, 2, 3, 5, 10, 20, 50, 100)
_LISTED = 10
_SYNTHETIC = (
    "A synthetic row is nobody's. Its risk counts as if every synthetic row that agrees with a "
    "person in all quasi-identifiers, in the cells that were counted, were a copy of such a row: "
    "chance agreement is in it, so it is an upper limit of linkage, on the same axis as the "
    "others. What is proven is in the guarantee, not in this number."
)
_LIMITS = (
    "k-anonymity is a property of a table, not a proof of privacy: who knows more than the "
    "quasi-identifiers that were named, or meets a class with one sensitive value, is not stopped.",
    "Which columns an adversary can know is a judgement; a column that was not named is "
    "taken as unknown to everybody.",
    "Persons with several rows are not joined: audit one row a person.",
    "Shares are counted in the rows at hand, so they have no sampling error; what they "
    "would be for other rows is another question.",
)


@dataclass(frozen=True, eq=False)
class TableSubject(RowsSubject):
    """What the findings say of a table."""

    study: TableStudy
    settings: TableSettings
    inputs: tuple[InputCheck, ...] = ()

    def facts(self) -> Facts:
        study, settings = self.study, self.settings
        table = study.table
        secret = table.sensitive
        return self.compose(
            name=table.name,
            summary=(
                f"{table.rows:,} rows; quasi-identifiers {', '.join(table.quasi)}"
                + ("." if secret is None else f"; sensitive column {secret}.")
            ),
            threat_model={
                "goal": "singling out and linkage: find a person's row"
                + ("" if secret is None else f"; inference: learn {secret}"),
                "knowledge": f"exact values of {', '.join(table.quasi)} of a person in the table",
                "access": "the whole table",
                "budget": "every row, every subset of columns that was searched",
                "unit": "row, one a person",
            },
            data={
                "records": table.rows,
                "columns": len(table.columns),
                "quasi": {one.name: len(one.steps[0]) for one in study.hierarchies},
                "fingerprint": fingerprint_of(study),
            },
            attacks=_attacks(study, settings),
            not_run=_not_run(study),
            utility=utility_in_words(settings, "two-way counts that are still right"),
            risk="marketer risk: share of rows that a linkage of everybody gets right",
            checks=[check(f"column {name}", "warn", detail) for name, detail in warnings_of(study)]
            or [check("columns", "pass", "no quasi-identifier is constant, unique or incomplete")],
            limits=[*_LIMITS, *([_SYNTHETIC] if study.synthetic else [])],
            section=_section(study),
            reproduction={
                "quasi": list(table.quasi),
                "sensitive": secret,
                "ks": list(settings.ks),
                "suppress": settings.suppress,
                "most": settings.most,
                "distance": settings.distance,
                "population": settings.population,
                **_private(settings),
            },
        )

    def plain_words(self) -> list[str]:
        """What was found, for a reader of nothing else."""
        study = self.study
        found, rows = study.anonymity, study.table.rows
        words = [
            f"Of 1,000 rows, {of_1000(found.unique.value)} are alone with their values of "
            f"{', '.join(study.table.quasi)}; who links everybody gets "
            f"{of_1000(found.marketer.value)} of 1,000 right (a random guess: {1000 / rows:.2g})."
        ]
        size = max(study.uniqueness.by_size)
        best = study.uniqueness.by_size[min(size, 3)][0]
        names = ", ".join(study.table.quasi[at] for at in best.columns)
        words.append(
            f"The {len(best.columns)} column(s) {names} alone single out "
            f"{of_1000(best.unique.value)} of 1,000 rows."
        )
        if study.disclosure is not None:
            told = study.disclosure
            words.append(
                f"The quasi-identifiers give {study.table.sensitive} away for certain in "
                f"{of_1000(told.homogeneous.value)} of 1,000 rows; the best guess is right in "
                f"{of_1000(told.guessed[0].value)}, without the table's classes in "
                f"{of_1000(told.blind.value)}."
            )
        made = [candidate for candidate in study.candidates if candidate.name.startswith("k-")]
        if made:
            candidate = made[-1]
            text = (
                f"Made {candidate.details['k']}-anonymous, the table keeps "
                f"{utility_left(candidate, study.candidates[0])} and a linkage of everybody "
                f"gets {of_1000(getattr(candidate.risk, 'value', 0.0))} of 1,000 right"
            )
            if study.disclosure is not None and candidate.details["certain"]["value"]:
                text += (
                    f"; yet {study.table.sensitive} is still certain in "
                    f"{of_1000(candidate.details['certain']['value'])} of 1,000 rows"
                )
            words.append(text + ". That is no proof of privacy.")
        words += [
            f"The synthetic rows {candidate.name} keep "
            f"{utility_left(candidate, study.candidates[0])}; who takes those that agree with a "
            f"person for copies gets at most {of_1000(getattr(candidate.risk, 'value', 0.0))} of "
            f"1,000 right. They are proven to be ({candidate.settings['epsilon']:g}, "
            f"{candidate.settings['delta']:g})-differentially private, under the assumptions that "
            "are listed."
            for candidate in study.candidates
            if candidate.name in study.synthetic
        ]
        return words

    @cached_property
    def people(self) -> Sequence[Json]:
        """Everybody, the most exposed first; empty unless kept."""
        return _people(self.study) if self.settings.keep_records else ()


def _private(settings: TableSettings) -> Json:
    if not settings.epsilon:
        return {}
    return {
        "epsilon": list(settings.epsilon),
        "delta": settings.delta,
        "schema": None if settings.schema is None else settings.schema.to_json()["columns"],
        "bins": settings.bins,
    }


def _attacks(study: TableStudy, settings: TableSettings) -> list[Json]:
    known = "exact quasi-identifiers of a person in the table"
    rows = [
        attack(
            "classes",
            "Look a person up by the joint quasi-identifiers",
            "Sweeney 2002; El Emam 2013 (prosecutor, marketer)",
            known,
            {"columns": len(study.table.quasi)},
        ),
        attack(
            "subsets",
            "Rows that few columns single out, all subsets",
            "Sweeney 2000",
            "exact values of any few of the quasi-identifiers",
            {"most": settings.most},
        ),
    ]
    if study.disclosure is not None:
        rows.append(
            attack(
                "homogeneity",
                "Read the sensitive value off the class; rule values out first",
                "Machanavajjhala et al. 2007, section 2",
                f"{known}; values that the person does not have",
                {"ruled_out": list(settings.ruled_out)},
            )
        )
    if study.journalist is not None:
        rows.append(
            attack(
                "journalist",
                "Look the table's rows up in a population table",
                "El Emam 2013",
                "quasi-identifiers of the whole population",
                {},
            )
        )
    return rows


def _not_run(study: TableStudy) -> list[Json]:
    rows = [
        {
            "name": "linkage with errors",
            "why": "quasi-identifiers are taken as known exactly; errors make it harder",
        }
    ]
    if study.journalist is None:
        rows.append({"name": "journalist risk", "why": "no population table was given"})
    if study.disclosure is None:
        rows.append({"name": "homogeneity", "why": "no sensitive column was named"})
    return rows


def _section(study: TableStudy) -> Json:
    found, names = study.anonymity, study.table.quasi
    size = found.of_class.size
    edges = [*_SIZES, np.inf]
    counts = [
        int(size[(size >= a) & (size < b)].sum()) for a, b in zip(edges, edges[1:], strict=False)
    ]
    section: Json = {
        "kind": "quasi",
        "rows": study.table.rows,
        "quasi": list(names),
        "sensitive": study.table.sensitive,
        "anonymity": {
            "k": found.k,
            "classes": found.classes,
            "below": {str(k): one.to_json() for k, one in found.below.items()},
            "prosecutor": found.prosecutor,
            "marketer": found.marketer.to_json(),
            "unique": found.unique.to_json(),
            "sizes": {"from": list(_SIZES), "rows": counts},
        },
        "uniqueness": _uniqueness(study),
    }
    if study.diversity is not None and study.disclosure is not None:
        varied, told = study.diversity, study.disclosure
        section["diversity"] = {
            "distinct_l": varied.distinct_l,
            "entropy_l": varied.entropy_l,
            "t": varied.t,
            "alpha": varied.alpha,
            "distance": varied.distance,
        }
        section["disclosure"] = {
            "certain": {str(j): one.to_json() for j, one in told.certain.items()},
            "guessed": {str(j): one.to_json() for j, one in told.guessed.items()},
            "blind": told.blind.to_json(),
        }
    if study.journalist is not None:
        section["journalist"] = {
            "highest": study.journalist.highest,
            "mean": study.journalist.mean.to_json(),
            "unique": study.journalist.unique.to_json(),
        }
    if isinstance(study.population, Refusal):
        section["population"] = study.population.to_json()
    elif study.population is not None:
        section["population"] = {
            "model": study.population.model,
            "people": study.population.population,
            "of_uniques": study.population.of_uniques.to_json(),
            "of_rows": study.population.of_rows.to_json(),
        }
    return section


def _uniqueness(study: TableStudy) -> Json:
    names = study.table.quasi
    return {
        "singled_out": {str(m): one.to_json() for m, one in study.uniqueness.singled_out.items()},
        "subsets": {
            str(m): [
                {
                    "columns": [names[column] for column in subset.columns],
                    "unique": subset.unique.to_json(),
                }
                for subset in listed[:_LISTED]
            ]
            for m, listed in study.uniqueness.by_size.items()
        },
    }


def _people(study: TableStudy) -> list[Json]:
    """Rows that the fewest columns single out, first."""
    needed, size = study.uniqueness.needed, study.anonymity.of_class.of_size
    order = np.lexsort((size, np.where(needed == 0, np.iinfo(np.int64).max, needed)))
    return [
        {
            "rank": rank,
            "id": f"row {row + 1}",
            "columns_needed": int(needed[row]) or None,
            "class_size": int(size[row]),
        }
        for rank, row in enumerate(order.tolist(), start=1)
    ]
