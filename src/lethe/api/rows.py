"""Audits of rows that are handed out: tables, facts about people, synthetic rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError
from lethe.linkage.settings import RecordSettings, SyntheticSettings, TableSettings
from lethe.runs.run import content, perform
from lethe.runs.settings import audit_of, keywords_of

if TYPE_CHECKING:
    from lethe.data.records import Ratings
    from lethe.data.schema import Schema
    from lethe.evidence.findings import Findings


@audit_of(TableSettings)
def audit_table(
    rows: Any,
    /,
    quasi: str | Sequence[str],
    sensitive: str | None = None,
    *,
    person: str | None = None,
    population: Any = None,
    people: int | None = None,
    schema: Any = None,
    inside: str | None = None,
    memory: str | None = None,
    **settings: Any,
) -> Findings:
    """Is this table anonymous? Who stands out, what that gives away, and what coarser rows change.

    Args:
        rows: a data frame, Arrow table, mapping of columns, or a file.
        quasi: columns that an adversary may know of a person: --quasi age,sex,zip.
        sensitive: column that nobody should learn.
        person: column of the person behind each row, who counts once. [each row is another
            person's]
        population: file with the same columns of everybody the rows may be of: journalist risk.
        people: size of the population that the rows are a random sample of: an estimate under a
            model of how many unique rows are unique there.
        schema: TOML file of types and possible values, for synthetic rows: `lethe schema FILE`
            writes a draft. They have its columns. Without it, it is read off FILE and taken to be
            public.
        inside: name of the table in a DuckDB file.
        memory: that may be used for FILE, such as 4GB; larger files are sorted on disk. [what is
            free]
        settings: of `TableSettings`.

    >>> people = {"age": [30, 30, 41, 52], "sick": [True, False, True, True]}
    >>> audit_table(people, "age", "sick", save=False, quiet=True).candidates[0]["unique"]["value"]
    0.5
    """
    from lethe.data.columns import ARROW, Grouped, arrow_table
    from lethe.data.given import cells_of, columns_of
    from lethe.data.large import read_head, read_table
    from lethe.data.schema import Schema
    from lethe.data.source import SUFFIXES, read_typed
    from lethe.data.typed import cast
    from lethe.linkage import audit as linkage
    from lethe.linkage.table.domains import as_declared, domains_of

    how, asked = keywords_of(TableSettings, settings, population=people)
    declared = Schema.load(schema) if isinstance(schema, str | Path) else schema
    if not asked.epsilon and (declared is not None or "bins" in settings):
        raise InputError("--schema and --bins are for synthetic rows; --epsilon says how private.")
    if asked.write_release is not None and not how.save:
        raise InputError("write_release writes to the run folder: leave save=False out.")
    asked = replace(asked, schema=declared)
    columns_known = (quasi,) if isinstance(quasi, str) else tuple(quasi)
    file = Path(rows) if isinstance(rows, str | Path) else None
    notes: tuple[str, ...] = ()
    columns: Any
    source: Any = file
    table: Any = None  # whose cells are cast one by one, where there is a schema
    if file is None:
        columns, table = columns_of(rows, "rows"), rows
        source = columns
    else:
        further = [column for column in (sensitive, person, asked.weight) if column is not None]
        # Queries and models may use any column; without them, only those that are named are read.
        named = (
            None
            if asked.queries or asked.predict or asked.utility_model or asked.write_release
            else list(dict.fromkeys([*columns_known, *further, *asked.group, *(declared or ())]))
        )
        # Archives of arrays have types of their own and no gaps; `dp_rows` casts them.
        if asked.epsilon and file.suffix.lower() in SUFFIXES:
            enforced = declared or _inferred(file, inside, named)
            domains_of(enforced, asked.bins)  # refused before a run folder is there
            asked = replace(asked, schema=enforced)
            columns = read_typed(file, enforced, inside)
        else:
            whole = next((option for option in linkage.WHOLE if getattr(asked, option)), None)
            whole = whole and {"queries": "query"}.get(whole, whole.replace("_", "-"))
            columns, notes = read_table(file, named, inside, memory=memory, whole=whole)
            in_arrow = asked.epsilon and file.suffix.lower() in ARROW
            table = arrow_table(file) if in_arrow else None
    if declared is not None and table is not None:
        there = [name for name in declared if name in columns]
        typed = {name: cast(cells_of(table[name], name), declared[name]) for name in there}
        columns = {**columns, **typed}
    everybody: Any = None
    crowd = population
    if isinstance(population, str | Path):
        crowd = Path(population)
        everybody, more = read_table(crowd, list(columns_known), memory=memory)
        notes += more
        if asked.schema is not None and not isinstance(everybody, Grouped):
            everybody = as_declared(asked.schema, everybody)
    elif population is not None:
        everybody = crowd = columns_of(population, "population")
    called = how.name or _named(rows, "table")
    suffix = ".csv" if file is None else file.suffix.lower()
    return perform(
        "audit_table",
        how,
        called,
        content(source, crowd, *columns_known, str(sensitive), person, seed=asked.seed),
        asked,
        lambda run, progress: linkage.audit_table(
            columns,
            columns_known,
            sensitive,
            person=person,
            population=everybody,
            beside=None if file is None else read_head(file, inside),
            name=called,
            suffix=suffix if suffix in (".csv", ".feather") else ".parquet",
            settings=asked,
            say=progress.say,
            folder=run,
        ),
        notes=notes,
    )


def _named(rows: Any, usual: str) -> str:
    return Path(rows).stem if isinstance(rows, str | Path) else usual


def _inferred(file: Path, inside: str | None, named: Sequence[str] | None) -> Schema:
    """Infer a schema from the file; the guarantee says that it was read off the rows."""
    from lethe.data.schema import Schema
    from lethe.data.source import infer_schema

    draft = infer_schema(file, inside)
    return draft if named is None else Schema(tuple(draft[name] for name in named))


@audit_of(RecordSettings)
def audit_records(
    rows: Any,
    /,
    person: str | None = None,
    item: str | None = None,
    value: str | None = None,
    time: str | None = None,
    *,
    unit: str = "auto",
    keep: str = "all",
    aux: Any = None,
    aux_columns: str | None = None,
    truth: Any = None,
    inside: str | None = None,
    memory: str | None = None,
    **settings: Any,
) -> Findings:
    """How few facts about a person (ratings, purchases, clicks) name them?

    Args:
        rows: one row a fact: a data frame, Arrow table, mapping of columns, or a file; or a file
            of a SciPy sparse matrix (npz) of people and items.
        person: column of the people.
        item: column of the items.
        value: column of numbers, such as ratings.
        time: column of dates, ISO texts, or numbers since 1970.
        unit: of times that are numbers: days, seconds, milliseconds, microseconds, nanoseconds.
        keep: of several facts of a person about an item, such as visits: all, first or last.
        aux: file of facts that an adversary really has, or an earlier release: who of it is in
            FILE?
        aux_columns: its columns, if they have other names: person,item,value,time.
        truth: file (csv or parquet) with the columns aux and release: names of the same people in
            both.
        inside: name of the table in a DuckDB file.
        memory: that may be used for FILE, such as 4GB; larger files are sorted on disk. [what is
            free]
        settings: of `RecordSettings`.

    >>> import numpy as np
    >>> who, rng = np.repeat(np.arange(30), 9), np.random.default_rng(0)
    >>> films = {"who": who, "film": rng.integers(0, 200, 270)}
    >>> found = audit_records(films, "who", "film", targets=20, save=False, quiet=True)
    >>> found.candidates[0]["risk"]["value"] > 0.9
    True
    """
    from lethe.data.columns import as_text, check_column
    from lethe.data.given import columns_of
    from lethe.linkage import audit as linkage

    how, asked = keywords_of(RecordSettings, settings)
    names = [person, item, value, time]
    read = partial(_facts, unit=unit, keep=keep, memory=memory)
    ratings, beside, notes, source = read(rows, names, how.name or _named(rows, "records"), inside)
    sources, earlier, pairs = [source], None, None
    if aux is not None:
        theirs = [column.strip() for column in (aux_columns or "").split(",") if column.strip()]
        if theirs and len(theirs) != sum(column is not None for column in names):
            raise InputError(
                f"aux_columns={aux_columns!r} must name as many columns as were named for the "
                "release: person,item,value,time."
            )
        listed = iter(theirs or [column for column in names if column is not None])
        others = [None if column is None else next(listed) for column in names]
        earlier, _, more, source = read(aux, others, _named(aux, "other"), None)
        notes, sources = (*notes, *more), [*sources, source]
    elif truth is not None or aux_columns or asked.pairs:
        raise InputError("--truth, --aux-columns and --pairs need --aux FILE, which is missing.")
    if truth is not None:
        known = columns_of(truth, "truth")
        sources.append(Path(truth) if isinstance(truth, str | Path) else known)
        for column in ("aux", "release"):
            check_column("truth", column, known, str(truth))
        pairs = (as_text(known["aux"]), as_text(known["release"]))
    return perform(
        "audit_records",
        how,
        ratings.name,
        content(*sources, *map(str, names), unit, keep, seed=asked.seed),
        asked,
        lambda run, progress: linkage.audit_records(
            ratings,
            aux=earlier,
            truth=pairs,
            beside=beside,
            settings=asked,
            say=progress.say,
            folder=run,
        ),
        notes=notes,
    )


def _facts(
    facts: Any,
    names: Sequence[str | None],
    called: str,
    inside: str | None,
    *,
    unit: str,
    keep: str,
    memory: str | None,
) -> tuple[Ratings, Mapping[str, Any], tuple[str, ...], Any]:
    """Facts, the columns beside them, what was changed on reading, and what they are bound to."""
    from lethe.data.columns import check_column
    from lethe.data.given import columns_of
    from lethe.data.large import gb, limit_of, read_head, too_large
    from lethe.data.records import from_columns, load_ratings

    (person, item, value, time), limit = names, limit_of(memory)
    file = Path(facts) if isinstance(facts, str | Path) else None
    if (person is None or item is None) and (file is None or file.suffix.lower() != ".npz"):
        raise InputError("--person and --item go together: name both columns.")
    if file is not None:
        release = load_ratings(
            file,
            person or "person",
            item or "item",
            value,
            time,
            unit=unit,
            keep=keep,
            table=inside,
            memory=limit,
        )
        release = replace(release, name=called)
        head = read_head(file, inside, skip=[column for column in names if column])
    else:
        head = columns_of(facts, called)
        roles = zip(("person", "item", "value", "time"), names, strict=True)
        named = {role: column for role, column in roles if column is not None}
        for column in named.values():
            check_column("column", column, head, called)
        columns = {role: head[column] for role, column in named.items()}
        release = from_columns(columns, name=called, unit=unit, keep=keep)
    beside = {column: cells for column, cells in head.items() if column not in names}
    notes = tuple(f"{release.name}: {note}" for note in release.notes)
    if file is not None and too_large(file, limit):
        notes = (f"{file.name} was sorted by DuckDB within {gb(limit)} of memory.", *notes)
    return release, beside, notes, file or head


@audit_of(SyntheticSettings)
def audit_synthetic(
    synthetic: Any,
    /,
    original: Any,
    control: Any,
    quasi: str | Sequence[str],
    sensitive: str | None = None,
    **settings: Any,
) -> Findings:
    """Do synthetic rows single out, link or reveal the people they were made from?

    Args:
        synthetic: the made rows: a data frame, Arrow table, mapping of columns, or a file.
        original: the rows that FILE was made from.
        control: rows from the same source that nothing was made from.
        quasi: columns that an adversary may know of a person: --quasi age,sex,zip.
        sensitive: column that is guessed; without it inference is left out.
        settings: of `SyntheticSettings`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> used, unused = ({"age": rng.integers(0, 5000, 300)} for _ in range(2))
    >>> found = audit_synthetic(used, used, unused, "age", save=False, quiet=True)
    >>> found.candidates[0]["risk"]["low"] > 0.5
    True
    """
    from lethe.data.given import columns_of
    from lethe.linkage import audit as linkage

    how, asked = keywords_of(SyntheticSettings, settings)
    parts = {"original": original, "synthetic": synthetic, "control": control}
    tables = {called: columns_of(rows, called) for called, rows in parts.items()}
    sources = [
        Path(rows) if isinstance(rows, str | Path) else tables[called]
        for called, rows in parts.items()
    ]
    columns_known = (quasi,) if isinstance(quasi, str) else tuple(quasi)
    called = how.name or _named(synthetic, "synthetic")
    return perform(
        "audit_synthetic",
        how,
        called,
        content(*sources, *columns_known, str(sensitive), seed=asked.seed),
        asked,
        lambda run, progress: linkage.audit_synthetic(
            tables["original"],
            tables["synthetic"],
            tables["control"],
            columns_known,
            sensitive,
            name=called,
            settings=asked,
            say=progress.say,
            folder=run,
        ),
    )
