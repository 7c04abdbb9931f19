"""The audit of rows, top to bottom: attack them as they are, make them coarser, attack again.

The joint claim: of these rows, as they are and in each form they could be released in, this is how
many a named adversary finds, or learns a secret of, and this much utility is left: lower limits, no
proof of privacy; nor is k-anonymity one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from lethe.assess.verdict import InputCheck
from lethe.data.columns import Grouped, as_text, table_bytes
from lethe.data.meaning import one_meaning
from lethe.data.records import Ratings
from lethe.data.source import TypedColumn
from lethe.errors import InputError
from lethe.evidence.findings import Findings
from lethe.linkage.inputs import table_checks
from lethe.linkage.records.study import study_records
from lethe.linkage.settings import RecordSettings, SyntheticSettings, TableSettings
from lethe.linkage.synthetic.study import study_synthetic
from lethe.linkage.table.domains import as_declared
from lethe.linkage.table.reached import RowSet
from lethe.linkage.table.study import study_table
from lethe.training.folder import RunFolder

Columns = Mapping[str, NDArray[Any]]
WHOLE = ("queries", "predict", "utility_model", "epsilon", "keep_records", "write_release")
"""Settings that need every row."""
Say = Callable[[str], None]


def audit_table(
    columns: Columns | Mapping[str, TypedColumn] | Grouped,
    quasi: Sequence[str],
    sensitive: str | None = None,
    *,
    person: str | None = None,
    population: Columns | Grouped | None = None,
    beside: Columns | None = None,
    name: str = "table",
    suffix: str = ".csv",
    settings: TableSettings | None = None,
    say: Say = lambda text: None,
    folder: RunFolder | None = None,
) -> Findings:
    """Is this table anonymous? See `lethe.audit_table`, which reads the rows for it.

    Args:
        columns: (rows,) by name, as `lethe.data.columns.read_columns` gives them. Or typed by
            `TableSettings.schema`; or the different rows with their number, see
            `lethe.data.large.read_grouped`.
        population: the same columns of everybody the rows may be of, the rows' own people
            included; None leaves the journalist risk out.
        beside: all columns of the file, or of its first rows, in which identifiers and persons with
            several rows are looked for; None = `columns`.
        suffix: of the file that a candidate's rows are written to: .csv, .parquet or .feather.
        say: told what is being done, one line each.
        folder: an open run folder, needed to keep the table of people; synthetic rows of the
            candidates are written there, as NAME.csv, and the rows of `write_release`.

    Guarantee:
        None: all candidates are labelled ``empirical-only``, the k-anonymous ones too, but for the
        synthetic rows of `TableSettings.epsilon`, see `lethe.linkage.table.dp_rows.dp_rows`.

    Assumes:
        The adversary knows nothing but the quasi-identifiers, of each row of a person; without
        `person` each row is another person's.

    Raises:
        InputError: unknown columns, lengths that differ, or a column that cannot be read;
            queries, a utility model, synthetic rows, `keep_records` or `write_release`, which need
            every row, where rows are grouped.

    >>> import numpy as np
    >>> ages = {"age": np.array([30, 30, 41, 52]), "sick": np.array([1, 0, 1, 1])}
    >>> audit_table(ages, ["age"], "sick").candidates[0]["unique"]["value"]
    0.5
    """
    settings = settings or TableSettings()
    if beside is None and not isinstance(columns, Grouped):
        beside = {key: one for key, one in columns.items() if not isinstance(one, TypedColumn)}
    checks: list[InputCheck] = []
    cells = [] if isinstance(columns, Grouped) else list(columns.values())
    declared = settings.schema is not None or any(isinstance(cell, TypedColumn) for cell in cells)
    if not (settings.epsilon or declared):
        tables = [columns, *([] if population is None else [population])]
        (columns, *others), checks = _mended(tables, settings.text, exact=True)
        population = others[0] if others else None
    if isinstance(columns, Grouped):
        for option in WHOLE:
            if getattr(settings, option):
                raise InputError(
                    f"{option} needs every row in memory, but equal rows of {name} are grouped. "
                    f"Leave {option} out, or read the table whole."
                )
        plain: dict[str, Any] = dict(columns.columns)
        times, typed = columns.times, {}
    else:
        times = None
        typed = {key: column for key, column in columns.items() if isinstance(column, TypedColumn)}
        if typed and settings.schema is None:
            raise InputError("columns that are typed need settings.schema, by which they are.")
        plain = {key: one for key, one in columns.items() if not isinstance(one, TypedColumn)}
        if settings.schema is not None:
            plain |= as_declared(settings.schema, typed)
    if person is not None and settings.epsilon:
        raise InputError(
            "synthetic rows are private by row; a person has several. Leave epsilon or person out."
        )
    table = RowSet(name, plain, tuple(quasi), sensitive, population, times, typed, person)
    say(f"{name}: {table.rows} rows, {len(table.quasi)} quasi-identifiers")
    study = study_table(table, settings)
    if beside and set(table.quasi) <= set(beside):
        decided = f"{settings.release} {settings.write_release}"
        coarser = re.search(r"\b(coarser|k|without)-", decided) is not None
        checks += table_checks(beside, table.quasi, sensitive, person=person, coarser=coarser)
    if folder is not None:
        for plan_name, rows in study.synthetic.items():
            folder.write(f"{plan_name}.csv", rows.to_csv())
    if settings.write_release is not None:
        released = study.released(settings.write_release)
        stops = {check.name for check in checks if check.effect == "stops"} - set(settings.accept)
        place = f"{settings.write_release}{suffix}"
        if folder is not None and not stops:
            folder.write(place, table_bytes(released, suffix))
        why = f" not written: {', '.join(sorted(stops))} of the input stops the verdict"
        say(f"{place}{why if stops else ' holds the released rows'}")
    return replace(study, inputs=tuple(checks)).findings(folder)


def audit_records(
    ratings: Ratings,
    *,
    aux: Ratings | None = None,
    truth: tuple[NDArray[Any], NDArray[Any]] | None = None,
    beside: Columns | None = None,
    settings: RecordSettings | None = None,
    say: Say = lambda text: None,
    folder: RunFolder | None = None,
) -> Findings:
    """Measure how few facts name a person in sparse records; see `lethe.audit_records`.

    Args:
        ratings: the release, see `lethe.data.records.load_ratings`.
        aux: what an adversary really has of some people, or an earlier release; None = nothing.
        truth: names in `aux` and names in `ratings` of the same people; None = not known. Enough
            of them are one more adversary of every candidate.
        beside: columns of the file that were not named.
        settings, say, folder: see `audit_table`.

    Guarantee:
        None: all candidates are labelled ``empirical-only``.

    Assumes:
        What is known of a simulated target is drawn at random from the release itself.

    Raises:
        InputError: `aux` shares no item with the release, truth that does not fit, or pairs that
            are asked for without `aux`.
        NotMeasurable: fewer than 2 people have enough facts.
    """
    settings = settings or RecordSettings()
    if settings.pairs and aux is None:
        raise InputError("pairs are people of an auxiliary table who were named. Add aux (--aux).")
    say(f"{ratings.name}: {ratings.facts} facts of {len(ratings.people)} people")
    if aux is not None:
        say(f"{ratings.name}: looking for the people of {aux.name}")
    names = None if truth is None else (as_text(truth[0]), as_text(truth[1]))
    study = study_records(ratings, settings, aux, names)
    checks = tuple(table_checks(beside or {}, (), None, persons=False))
    return replace(study, inputs=checks).findings(folder)


def audit_synthetic(
    original: Columns,
    synthetic: Columns,
    control: Columns,
    quasi: Sequence[str],
    sensitive: str | None = None,
    *,
    name: str = "synthetic rows",
    settings: SyntheticSettings | None = None,
    say: Say = lambda text: None,
    folder: RunFolder | None = None,
) -> Findings:
    """Do synthetic rows reveal the people they were made from? See `lethe.audit_synthetic`.

    All three tables have the same columns, (rows,) by name.

    Guarantee:
        None: synthetic rows are labelled ``empirical-only`` here. On rows that are independent of
        the original ones each excess is 0 in expectation, whatever the size of the control.

    Assumes:
        Original and control rows are drawn alike.

    Raises:
        InputError: tables that do not fit each other, or unknown columns.
    """
    settings, quasi = settings or SyntheticSettings(), tuple(quasi)
    say(f"{name}: three attacks, each against original and control rows")
    (original, synthetic, control), checks = _mended([original, synthetic, control], settings.text)
    study = study_synthetic(original, synthetic, control, quasi, sensitive, settings, name)
    checks += [*study.inputs, *table_checks(synthetic, quasi, sensitive, persons=False)]
    alike = "Keep one row for each of them."
    asked = (one for one in table_checks(original, quasi, sensitive) if one.name == "persons")
    checks += [replace(one, way_out=alike) for one in asked]
    return replace(study, inputs=tuple(checks)).findings(folder)


def _mended(
    tables: Sequence[Any], keep: Sequence[str], exact: bool = False
) -> tuple[list[Any], list[InputCheck]]:
    """The files with one type for each meaning, and what was changed."""
    read, notes = one_meaning(tables, keep, exact)
    mended: list[Any] = list(read)
    for at, table in enumerate(tables):
        if isinstance(table, Grouped):
            mended[at] = Grouped(mended[at], table.times)
    return mended, [InputCheck("types", "mends", note) for note in notes]
