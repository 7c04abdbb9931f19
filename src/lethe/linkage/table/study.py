"""Study a table with quasi-identifiers: as it is, after recoding, and as findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.assess.run import AuditFacts, check
from lethe.assess.verdict import InputCheck
from lethe.data.columns import as_text, check_column, encode, missing
from lethe.errors import InputError, NotMeasurable, did_you_mean
from lethe.evidence.document import AttackRow, NotRun
from lethe.evidence.estimate import Refusal
from lethe.evidence.frontier import Candidate
from lethe.evidence.of_rows import (
    Diversity,
    Journalist,
    PopulationModel,
    QuasiSection,
    WithoutColumn,
)
from lethe.linkage.codes import Classes, Counting, Persons, classes_of, count, counted
from lethe.linkage.document import (
    BASELINE,
    RowRelease,
    RowsSubject,
    fields_of,
    percent,
    utility_in_words,
    utility_left,
)
from lethe.linkage.settings import TableSettings
from lethe.linkage.table.candidates import (
    Context,
    Plan,
    compared,
    context_of,
    dp_name,
    measure_recoded,
    measure_synthetic,
    synthetic_rows,
)
from lethe.linkage.table.dp_rows import DpRows
from lethe.linkage.table.inference import (
    Anonymity,
    Disclosure,
    anonymity,
    as_one_spelling,
    disclosure,
    diversity,
)
from lethe.linkage.table.population import (
    Uniqueness,
    population_uniqueness,
    uniqueness,
)
from lethe.linkage.table.reached import KNOWN, RowSet
from lethe.linkage.table.recoding import Hierarchy, coarsen, recode, released_columns
from lethe.training.fingerprint import digest, hash_array


def study_table(table: RowSet, settings: TableSettings) -> TableSubject:
    """Count classes, attack them, recode, and count again.

    Raises InputError: columns that cannot be read, or a population without the table's people.
    """
    sure = settings.confidence
    context = context_of(table, settings)
    hierarchies, secret = context.hierarchies, context.secret
    by_name = {hierarchy.name: hierarchy.codes for hierarchy in hierarchies}
    codes = list(by_name.values())
    measured = anonymity(codes, confidence=sure, times=table.counting)
    population: PopulationModel | Refusal | None = None
    try:
        if settings.population is not None:
            sizes = measured.of_class.sizes
            population = population_uniqueness(sizes, settings.population, confidence=sure)
        elif settings.weight is not None:
            check_column("weight", settings.weight, table.columns, table.name)
            stands = _weights(table, settings.weight)
            alone = np.flatnonzero(measured.of_class.of_size == 1)
            number = max(round(float(table.totals(stands)[0])), table.people)
            if isinstance(table.counting, Persons):  # each person once, by the mean of their rows
                person = table.counting.of_row
                stands = np.bincount(person, stands * table.counting.part).astype(np.float64)
                alone = np.unique(person[alone])
            population = population_uniqueness(
                measured.of_class.sizes, number, weights=stands[alone], confidence=sure
            )
    except NotMeasurable as error:
        population = Refusal(str(error))
    everyone, stay = np.ones(len(codes[0]), bool), (0,) * len(hierarchies)
    base = measure_recoded(context, Plan(BASELINE, "the table as it is", stay, everyone))
    without = {}
    if len(codes) > 1:
        for at, name in enumerate(table.quasi):
            without[name] = classes_of([*codes[:at], *codes[at + 1 :]], table.counting)
    skipped: dict[str, str] = {}
    synthetic: dict[str, DpRows] = {}
    plans: dict[str, Plan] = {}
    for plan in _plans(table.counting, hierarchies, measured.of_class, without, settings, skipped):
        if plan.released.any():
            plans[plan.name] = plan
        else:
            skipped[plan.name] = "no row would be left"
    varied = learnt = journalist = None
    if secret is not None:
        varied = diversity(measured.of_class, secret.codes, distance=settings.distance)
        learnt = disclosure(
            measured.of_class, secret, ruled_out=settings.ruled_out, confidence=sure
        )
    if context.people is not None:
        journalist = context.people.risk(hierarchies, stay, everyone, table.times, sure)
    return TableSubject(
        settings,
        tuple(_candidates(context, base, plans, skipped, synthetic)),
        skipped,
        table,
        hierarchies,
        measured,
        varied,
        learnt,
        uniqueness(by_name, settings.most, confidence=sure, times=table.counting),
        population,
        journalist,
        synthetic,
        plans,
        without,
    )


def _weights(table: RowSet, name: str) -> NDArray[np.float64]:
    """(rows,) people that each row stands for."""
    column = encode(table.columns[name])
    if column.values.dtype.kind not in "iuf":
        raise InputError(f"weight={name!r} is no column of numbers. Name the survey weights.")
    stands = column.values.astype(np.float64)[column.codes]
    if not (np.isfinite(stands) & (stands > 0)).all():
        raise InputError(
            f"weight={name!r} has gaps, infinities or numbers that are not above 0. A row stands "
            "for some people: mend those cells, or leave the rows out."
        )
    return stands


def fingerprint_of(study: TableSubject) -> str:
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


def warnings_of(study: TableSubject) -> list[tuple[str, str]]:
    """Columns whose role should be looked at, with the reason."""
    rows, warnings = study.table.rows, []
    for one in study.hierarchies:
        levels = len(one.steps[0])
        if levels == rows:
            warnings.append(
                (one.name, "every row has a value of its own; a direct identifier should go")
            )
        elif levels == 1:
            warnings.append((one.name, "all rows have the same value; it identifies nobody"))
        if gaps := _gaps(study.table, one.name):
            warnings.append((one.name, f"{gaps} values are missing; missing counts as a value"))
    if study.table.sensitive and (gaps := _gaps(study.table, study.table.sensitive)):
        text = f"{gaps} values are missing, which counts as a value that is guessed; leave those "
        warnings.append(
            (study.table.sensitive, f"{text}rows out to see what is learnt of the others")
        )
    return warnings


def _gaps(table: RowSet, name: str) -> int:
    """Rows whose value is missing; it is the last level."""
    column = encode(table.columns[name])
    if not missing(column.values[-1:]).any():
        return 0
    return int(count(column.codes, column.levels, table.times)[-1])


def _candidates(
    context: Context,
    base: RowRelease,
    plans: Mapping[str, Plan],
    skipped: dict[str, str],
    made: dict[str, DpRows],
) -> Iterator[Candidate]:
    yield base
    for plan in plans.values():
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
    times: Counting,
    hierarchies: Sequence[Hierarchy],
    classes: Classes,
    without: Mapping[str, Classes],
    settings: TableSettings,
    skipped: dict[str, str],
) -> Iterator[Plan]:
    everyone = np.ones(len(hierarchies[0].codes), bool)
    stay = (0,) * len(hierarchies)
    for up in (1, 2, 3):
        steps = coarsen(hierarchies, up)
        yield Plan(f"coarser-{up}", f"every column {up} step(s) coarser", steps, everyone)
    if without:  # the column without which the fewest classes are left
        name = min(without, key=lambda one: without[one].distinct)
        steps = tuple(len(one.steps) - 1 if one.name == name else 0 for one in hierarchies)
        yield Plan(f"without-{name}", f"column {name!r} is not released", steps, everyone)
    of_size = classes.of_size
    for k in settings.ks:
        words = f"rows in classes below {k} are not released"
        yield Plan(f"suppress-{k}", words, stay, of_size >= k)
    start: tuple[int, ...] | None = None
    for k in settings.ks:
        try:
            recoded = recode(hierarchies, k, settings.suppress, times, start)
            start = recoded.steps
        except NotMeasurable as error:
            skipped[f"k-{k}"] = str(error)
            continue
        words = f"{k}-anonymous by global recoding and suppression of at most {settings.suppress:g}"
        yield Plan(f"k-{k}", words, recoded.steps, recoded.kept)


_LISTED = 10
_SYNTHETIC = (
    "A synthetic row is nobody's. Its risk counts as if every synthetic row that agrees with a "
    "person in all quasi-identifiers, in the cells that were counted, were a copy of such a row: "
    "chance agreement is in it, so it is an upper limit of linkage, on the same axis as the "
    "others. Guesses of the sensitive value count what holds of people in general, too. What is "
    "proven is in the guarantee, not in this number."
)
_LIMITS = (
    "k-anonymity is a property of a table, not a proof of privacy: who knows more than the "
    "quasi-identifiers that were named, or meets a class with one sensitive value, is not stopped.",
    "Which columns an adversary can know is a judgement; a column that was not named is "
    "taken as unknown to everybody.",
    "Shares are counted exactly in the rows at hand, so they have no sampling error; what they "
    "would be for other rows is another question.",
)
_GUESSED = (
    "People whose rows are suppressed or coarse are also guessed by one column or by an additive "
    "model of all, from the rows of others; another model may guess more of them."
)
_ONE_ROW = "Persons with several rows are not joined: say who they are with --person."


@dataclass(frozen=True, eq=False)
class TableSubject(RowsSubject):
    """All measurements on a table, and the findings about them.

    Attributes:
        synthetic: rows of the candidates that are synthetic, by name: those that were measured.
        plans: the recoded candidates, by name.
        without: by quasi-identifier, the classes if it is not released; none of a single one.
    """

    settings: TableSettings
    measured: tuple[Candidate, ...]
    skipped: Mapping[str, str]
    table: RowSet  # what is released
    hierarchies: tuple[Hierarchy, ...]  # of its quasi-identifiers
    anonymity: Anonymity  # as it is
    diversity: Diversity | None  # of the sensitive column; None without one
    disclosure: Disclosure | None  # likewise
    uniqueness: Uniqueness  # of subsets of the quasi-identifiers
    population: PopulationModel | Refusal | None  # under a model; None where no size was told
    journalist: Journalist | None  # against a population table; None without one
    synthetic: Mapping[str, DpRows]
    plans: Mapping[str, Plan]
    without: Mapping[str, Classes]
    inputs: tuple[InputCheck, ...] = ()

    def facts(self) -> AuditFacts:
        settings, table = self.settings, self.table
        secret, people = table.sensitive, ""
        if table.person is not None:
            people = f" of {table.people:,} persons ({table.person})"
        sure, every = self.anonymity.unique.confidence, self.uniqueness.subsets
        subsets = {m: listed[: _LISTED if m > 2 else None] for m, listed in every.items()}
        return self.compose(
            name=table.name,
            summary=(
                f"{table.rows:,} rows{people}; quasi-identifiers {', '.join(table.quasi)}"
                + ("." if secret is None else f"; sensitive column {secret}.")
            ),
            threat_model={
                "goal": "singling out and linkage: find a person's row"
                + ("" if secret is None else f"; inference: learn {secret}"),
                "knowledge": f"exact values of {', '.join(table.quasi)} of a person in the table",
                "access": "the whole table",
                "budget": "every row, every subset of columns that was searched",
                "unit": "row, one a person" if table.person is None else "person, all rows",
            },
            data={
                "records": table.rows,
                **({} if table.person is None else {"people": table.people}),
                "columns": len(table.columns),
                "quasi": {one.name: len(one.steps[0]) for one in self.hierarchies},
                "fingerprint": fingerprint_of(self),
            },
            attacks=_attacks(self),
            attacks_not_run=_not_run(self),
            utility=utility_in_words(settings, "two-way counts that are still right"),
            risk="share of people who are linked rightly, or whose sensitive value is learnt: the "
            "worse",
            checks=[check(f"column {name}", "warn", detail) for name, detail in warnings_of(self)]
            or [check("columns", "pass", "no quasi-identifier is constant, unique or incomplete")],
            limits=[
                *_LIMITS,
                *([_ONE_ROW] if table.person is None else []),
                *([] if secret is None else [_GUESSED]),
                *([_SYNTHETIC] if self.synthetic else []),
            ],
            section=QuasiSection(
                rows=table.rows,
                people=None if table.person is None else table.people,
                quasi=table.quasi,
                sensitive=secret,
                anonymity=self.anonymity,
                uniqueness=replace(self.uniqueness, subsets=subsets),
                columns=[
                    WithoutColumn(
                        name,
                        counted(left.distinct / table.people, table.people, sure),
                        counted(left.smaller(2) / table.people, table.people, sure),
                    )
                    for name, left in self.without.items()
                ],
                diversity=self.diversity,
                disclosure=self.disclosure,
                journalist=self.journalist,
                population=self.population,
                words=self.plain_words(),
            ),
            reproduction={
                "quasi": list(table.quasi),
                "sensitive": secret,
                **fields_of(settings, "ks", "suppress", "most", "distance", "tolerance"),
                "population": settings.population,
                **({} if table.person is None else {"person": table.person}),
                **({"group": list(settings.group)} if settings.group else {}),
                **({} if settings.weight is None else {"weight": settings.weight}),
                **({"hierarchies": sorted(files)} if (files := settings.hierarchies) else {}),
                **_private(settings),
            },
        )

    def plain_words(self) -> list[str]:
        """Say what was found, in sentences for a lay reader."""
        measured, people = self.anonymity, self.table.people
        rows = "rows" if self.table.person is None else "persons"
        words = [
            f"Of the {rows}, {percent(measured.unique.value)} are alone with their values of "
            f"{', '.join(self.table.quasi)}; an attacker who links every row is right for "
            f"{percent(measured.marketer.value)} (a random guess: {percent(1 / people)})."
        ]
        subsets = self.uniqueness.subsets
        best = subsets[min(max(subsets), 3)][0]
        names = ", ".join(best.columns)
        words.append(
            f"The {len(best.columns)} column(s) {names} alone single out "
            f"{percent(best.unique.value)} of the {rows}."
        )
        if self.disclosure is not None:
            learnt = self.disclosure.best
            near = f" {learnt.within}" if learnt.within else ""
            words.append(
                f"The quasi-identifiers reveal {self.table.sensitive}{near} for certain in "
                f"{percent(learnt.certain.value)} of the {rows}; the best guess is right in "
                f"{percent(learnt.guessed.value)}, without the table's classes in "
                f"{percent(learnt.blind.value)}."
            )
        recoded = [candidate for candidate in self.measured if candidate.name.startswith("k-")]
        if recoded:
            candidate = recoded[-1]
            text = (
                f"Made {candidate.details.k}-anonymous, the table keeps "
                f"{utility_left(candidate, self.measured[0])} and an attacker who "
                f"links every row is right for {percent(candidate.measures['marketer'])}"
            )
            if self.disclosure is not None and (certain := candidate.details.certain.value):
                text += (
                    f"; yet {self.table.sensitive} is still certain in "
                    f"{percent(certain)} of the {rows}"
                )
            words.append(text + ". That is no proof of privacy.")
        words += [
            f"The synthetic rows {candidate.name} keep "
            f"{utility_left(candidate, self.measured[0])}; an attacker who takes those that "
            f"agree with a person for copies is right for at most "
            f"{percent(candidate.measures['marketer'])}. They are proven to be "
            f"({candidate.settings['epsilon']:g}, {candidate.settings['delta']:g})-differentially "
            "private, under the assumptions that are listed."
            for candidate in self.measured
            if candidate.name in self.synthetic
        ]
        return words

    def released(self, name: str) -> dict[str, NDArray[Any]]:
        """Rows of a recoded candidate as they are handed out, ordered by their values.

        The order of the file is lost with that, and so are the names of persons: they are numbered
        as they come.

        Raises InputError: there is no such candidate.
        """
        if name not in self.plans:
            why = f": {self.skipped[name].rstrip('.')}" if name in self.skipped else ""
            raise InputError(
                f"write_release={name!r} is no candidate that was made{why}."
                f"{did_you_mean(name, self.plans)} There are: {', '.join(self.plans)}."
            )
        plan, table = self.plans[name], self.table
        left = {key: one for key, one in table.plain.items() if plan.name != f"without-{key}"}
        rows = released_columns(left, self.hierarchies, plan.steps, plan.released)
        person = None if table.person is None else as_one_spelling(rows.pop(table.person)).codes
        rank = classes_of([encode(column).codes for column in rows.values()]).of_row
        number = np.zeros(len(rank), np.int64)
        if person is not None:  # numbered by what is released of them, so that no name has a part
            _, person = np.unique(person, return_inverse=True)
            within = np.lexsort([rank, person])
            sets = np.split(rank[within], np.flatnonzero(np.diff(person[within])) + 1)
            ordered = sorted(range(len(sets)), key=lambda one: sets[one].tolist())
            number = np.argsort(ordered)[person]
        order = np.lexsort([number, rank])
        written = {key: column[order] for key, column in rows.items()}
        if table.person is not None:
            written[table.person] = number[order] + 1
        return written

    def exposed(self) -> list[dict[str, object]]:
        """Rows that the fewest columns single out, first."""
        needed, size = self.uniqueness.needed, self.anonymity.of_class.of_size
        order = np.lexsort((size, np.where(needed == 0, np.iinfo(np.int64).max, needed)))
        disclosure = self.disclosure
        return [
            {
                "rank": rank,
                "id": f"row {row + 1}",
                "columns_needed": int(needed[row]) or None,
                "class_size": int(size[row]),
                "linked": 1 / int(size[row]),
                **({} if disclosure is None else {"guessed": float(disclosure.best.of_row[row])}),
            }
            for rank, row in enumerate(order.tolist(), start=1)
        ]


def _private(settings: TableSettings) -> Mapping[str, Any]:
    if not settings.epsilon:
        return {}
    return {
        **fields_of(settings, "epsilon", "delta"),
        "schema": None if settings.schema is None else settings.schema.to_json()["columns"],
        "bins": settings.bins,
    }


def _attacks(study: TableSubject) -> list[AttackRow]:
    rows = [
        AttackRow(
            "classes",
            "Look a person up by the joint quasi-identifiers",
            "Sweeney 2002; El Emam 2013 (prosecutor, marketer)",
            KNOWN,
            {"columns": len(study.table.quasi)},
        ),
        AttackRow(
            "subsets",
            "Rows that few columns single out, all subsets",
            "Sweeney 2000",
            "exact values of any few of the quasi-identifiers",
            {"most": study.settings.most},
        ),
    ]
    if study.disclosure is not None:
        rows.append(
            AttackRow(
                "homogeneity",
                "Read the sensitive value off the class; rule values out first",
                "Machanavajjhala et al. 2007, section 2",
                f"{KNOWN}; values that the person does not have",
                {"ruled_out": list(study.settings.ruled_out)},
            )
        )
        rows.append(
            AttackRow(
                "best-guess",
                "Guess the sensitive value that is right for most of the class, less a baseline "
                "guess",
                "optimal for the class; of numbers, right within the tolerance",
                KNOWN,
                {"tolerance": study.disclosure.best.within or "equal values"},
            )
        )
    if study.journalist is not None:
        rows.append(
            AttackRow(
                "journalist",
                "Look the table's rows up in a population table",
                "El Emam 2013",
                "quasi-identifiers of the whole population",
                {},
            )
        )
    return rows


def _not_run(study: TableSubject) -> list[NotRun]:
    exact = "quasi-identifiers are taken as known exactly; errors make it harder"
    rows = [NotRun("linkage with errors", exact)]
    if study.journalist is None:
        rows.append(NotRun("journalist risk", "no population table was given"))
    if study.disclosure is None:
        rows.append(NotRun("homogeneity", "no sensitive column was named"))
    return rows
