"""`lethe audit table`, `records` and `synthetic`: measure rows that are handed out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lethe.cli.options import (
    AS_USUAL,
    RunOptions,
    Subject,
    audited,
    given_in,
    grouped,
    merged,
    options_for,
    run_folder,
    settings_of,
    subject_named,
)
from lethe.data.columns import Columns, Grouped, as_text, check_column, read_columns
from lethe.data.large import read_head, read_table
from lethe.data.schema import Schema
from lethe.data.sorted_records import read_facts
from lethe.data.source import SUFFIXES, TypedColumn, infer_schema, read_typed
from lethe.errors import InputError
from lethe.linkage.audit import WHOLE, audit_records, audit_synthetic, audit_table
from lethe.linkage.settings import RecordSettings, SyntheticSettings, TableSettings
from lethe.linkage.table.domains import as_declared, domains_of
from lethe.training.fingerprint import digest

if TYPE_CHECKING:
    from lethe.data.sorted_records import Release
    from lethe.evidence.findings import Findings

_NAMES = {"queries": "query", "population": "people"}
if TYPE_CHECKING:
    TableOptions = TableSettings
    RecordOptions = RecordSettings
    SyntheticOptions = SyntheticSettings
else:
    TableOptions = options_for(
        TableSettings,
        names=_NAMES,
        leave=("schema", "ruled_out", "hierarchies"),
        others={"epsilon": "Mitigations", "delta": "Mitigations"},
    )
    RecordOptions = options_for(
        RecordSettings,
        names=_NAMES,
        leave=(
            *("value_scale", "time_scale", "support", "popular", "share", "pseudonyms"),
            *("sought", "predict"),
        ),
    )
    SyntheticOptions = options_for(
        SyntheticSettings, names=_NAMES, leave=("columns", "neighbours", "tolerance", "linked")
    )
Names = Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())]


@grouped
@dataclass(frozen=True, kw_only=True)
class TableInput:
    """What a table holds.

    Parameters
    ----------
    quasi
        Columns that an adversary may know of a person: --quasi age,sex,zip.
    sensitive
        Column that nobody should learn.
    person
        Column of the person behind each row, who counts once. [each row is another person's]
    hierarchy
        COLUMN=FILE: how it is made coarser, a csv file of each value and its ever coarser labels.
    population
        File with the same columns of everybody the rows may be of: journalist risk.
    schema
        TOML file of types and possible values, for synthetic rows: `lethe schema FILE` writes a
        draft. They have its columns. Without it, it is read off FILE and taken to be public.
    inside
        Name of the table in a DuckDB file.
    memory
        That may be used for FILE, such as 4GB; larger files are sorted on disk. [what is free]
    """

    quasi: Names = None
    sensitive: str | None = None
    person: str | None = None
    hierarchy: Names = None
    population: Path | None = None
    schema: Path | None = None
    inside: str | None = None
    memory: str | None = None


@grouped
@dataclass(frozen=True, kw_only=True)
class RecordInput:
    """What a file of facts holds.

    Parameters
    ----------
    person
        Column of the people.
    item
        Column of the items.
    value
        Column of numbers, such as ratings.
    time
        Column of dates, ISO texts, or numbers since 1970.
    unit
        Of times that are numbers: days, seconds, milliseconds, microseconds, nanoseconds. [auto]
    keep
        Of several facts of a person about an item, such as visits: all, first or last. [all]
    aux
        File of facts that an adversary really has, or an earlier release: who of it is in FILE?
    aux_columns
        Its columns, if they have other names: person,item,value,time.
    truth
        csv or parquet with the columns aux and release: names of the same people in both.
    inside
        Name of the table in a DuckDB file.
    memory
        That may be used for FILE, such as 4GB; larger files are sorted on disk. [what is free]
    """

    person: str | None = None
    item: str | None = None
    value: str | None = None
    time: str | None = None
    unit: str | None = None
    keep: str | None = None
    aux: Path | None = None
    aux_columns: str | None = None
    truth: Path | None = None
    inside: str | None = None
    memory: str | None = None


@grouped
@dataclass(frozen=True, kw_only=True)
class SyntheticInput:
    """What synthetic rows are compared with.

    Parameters
    ----------
    original
        The rows that FILE was made from.
    control
        Rows from the same source that nothing was made from.
    quasi
        Columns that an adversary may know of a person: --quasi age,sex,zip.
    sensitive
        Column that is guessed; without it inference is left out.
    linked
        Columns that a second source holds, linked with --quasi through FILE. [none; all others
        where a rule asks for linkability]
    """

    original: Path | None = None
    control: Path | None = None
    quasi: Names = None
    sensitive: str | None = None
    linked: Names = None


TABLE = TableInput(), TableOptions()
RECORDS = RecordInput(), RecordOptions()
SYNTHETIC = SyntheticInput(), SyntheticOptions()


def table(
    file: Path | None = None,
    /,
    *,
    columns: TableInput = TABLE[0],
    settings: TableOptions = TABLE[1],
    run: RunOptions = AS_USUAL,
) -> int:
    """Audit a table of people: who stands out, what it reveals, and what would coarser rows change?

    Parameters
    ----------
    file
        csv, parquet, npz or a DuckDB file.
    """
    return _audited("table", file, given_in(columns, settings), run, _table)


def records(
    file: Path | None = None,
    /,
    *,
    columns: RecordInput = RECORDS[0],
    settings: RecordOptions = RECORDS[1],
    run: RunOptions = AS_USUAL,
) -> int:
    """Audit facts about people, such as ratings, purchases or clicks: how few name a person?

    Parameters
    ----------
    file
        csv, parquet or a DuckDB file of one row a fact, or a SciPy sparse matrix (npz) of people
        and items.
    """
    return _audited("records", file, given_in(columns, settings), run, _records)


def synthetic(
    file: Path | None = None,
    /,
    *,
    columns: SyntheticInput = SYNTHETIC[0],
    settings: SyntheticOptions = SYNTHETIC[1],
    run: RunOptions = AS_USUAL,
) -> int:
    """Audit synthetic rows: do they single out, link or reveal the people they were made from?

    Parameters
    ----------
    file
        The synthetic rows: csv or parquet.
    """
    return _audited("synthetic", file, given_in(columns, settings), run, _synthetic)


def _audited(
    kind: str,
    given: Path | None,
    options: dict[str, Any],
    run: RunOptions,
    subject_of: Callable[[Path, Mapping[str, Any]], Subject],
) -> int:
    file = Path(subject_named(given, run.config, f"audit {kind}"))
    options = merged(run.config, {**options, "out": run.out})
    subject = subject_of(file, options)
    code = audited(subject, {"command": f"audit {kind}", "file": str(file), **options}, run)
    if options.get("pairs") and not run.as_json:
        _print_pairs(run_folder(options["out"], subject.title, subject.name))
    return code


def _subject(
    file: Path,
    files: Sequence[Path],
    marks: Sequence[str],
    notes: tuple[str, ...],
    audit: Callable[..., Findings],
    *given: Any,
    **settings: Any,
) -> Subject:
    """An audit of rows, bound to the content of its files, columns and seed.

    Settings may change between runs of a folder.
    """
    hashes = []
    for path in files:
        with path.open("rb") as opened:  # it may be larger than the memory
            hashes.append(hashlib.file_digest(opened, "sha256").hexdigest())
    return Subject(
        file.stem,
        digest(*hashes, *marks),
        lambda folder, progress: audit(*given, say=progress.say, folder=folder, **settings),
        notes,
    )


def split_names(given: Sequence[str] | str | None) -> tuple[str, ...]:
    """Names that are separated by commas, by blanks, or given one by one.

    >>> split_names(["age,sex", "zip"])
    ('age', 'sex', 'zip')
    """
    listed = [given] if isinstance(given, str) else list(given or ())
    return tuple(name.strip() for text in listed for name in text.split(",") if name.strip())


def _quasi(options: Mapping[str, Any], kind: str) -> tuple[str, ...]:
    quasi = split_names(options["quasi"])
    if not quasi:
        raise InputError(f"lethe audit {kind} needs --quasi COLUMNS that an adversary may know.")
    return quasi


def _table(file: Path, options: Mapping[str, Any]) -> Subject:
    quasi = _quasi(options, "table")
    declared = None if options["schema"] is None else Schema.load(options["schema"])
    given = {**options, "schema": declared}
    given |= {key: split_names(options[key]) or None for key in ("text", "group")}
    pairs = [text.partition("=") for text in split_names(options["hierarchy"])]
    if odd := [column for column, sign, _ in pairs if not sign]:
        raise InputError(f"hierarchy={odd[0]!r} must be COLUMN=FILE, such as age=age.csv.")
    given["hierarchies"] = {column: path for column, _, path in pairs}
    settings = settings_of(TableSettings, given, _NAMES)
    if not settings.epsilon and (declared is not None or options["bins"] is not None):
        raise InputError("--schema and --bins are for synthetic rows; --epsilon says how private.")
    secret, person = options["sensitive"], options["person"]
    further = [name for name in (secret, person, settings.weight) if name is not None]
    # Queries and models may use any column; without them, only those that are named are read.
    named = (
        None
        if settings.queries or settings.predict or settings.utility_model or settings.write_release
        else list(dict.fromkeys([*quasi, *further, *settings.group, *(declared or ())]))
    )
    memory: str | None = options["memory"]
    columns: Columns | Mapping[str, TypedColumn] | Grouped
    everybody: Columns | Grouped | None = None
    notes: tuple[str, ...] = ()
    # Archives of arrays have types of their own; `dp_rows` casts them.
    if settings.epsilon and file.suffix.lower() in SUFFIXES:
        schema = declared or _inferred(file, options["inside"], named)
        domains_of(schema, settings.bins)  # refused before a run folder is there
        settings = replace(settings, schema=schema)
        columns = read_typed(file, schema, options["inside"])
    else:
        whole = next((name for name in WHOLE if getattr(settings, name)), None)
        whole = whole and {"queries": "query"}.get(whole, whole.replace("_", "-"))
        columns, notes = read_table(file, named, options["inside"], memory=memory, whole=whole)
    if options["population"] is not None:
        everybody, more = read_table(Path(options["population"]), list(quasi), memory=memory)
        notes += more
        if settings.schema is not None and not isinstance(everybody, Grouped):
            everybody = as_declared(settings.schema, everybody)
    files = [file, *([] if everybody is None else [Path(options["population"])])]
    marks = [*quasi, str(secret), *([] if person is None else [person]), str(settings.seed)]
    return _subject(
        file,
        files,
        marks,
        notes,
        audit_table,
        columns,
        quasi,
        secret,
        person=person,
        population=everybody,
        beside=read_head(file, options["inside"]),
        name=file.stem,
        suffix=suffix if (suffix := file.suffix.lower()) in (".csv", ".feather") else ".parquet",
        settings=settings,
    )


def _inferred(file: Path, inside: str | None, named: Sequence[str] | None) -> Schema:
    """What the file looks like; the guarantee says that it was read off the rows."""
    found = infer_schema(file, inside)
    return found if named is None else Schema(tuple(found[name] for name in named))


def _synthetic(file: Path, options: Mapping[str, Any]) -> Subject:
    quasi = _quasi(options, "synthetic")
    for name in ("original", "control"):
        if options[name] is None:
            raise InputError(f"lethe audit synthetic needs --{name} FILE to compare with.")
    given = {**options, **{key: split_names(options[key]) or None for key in ("linked", "text")}}
    settings = settings_of(SyntheticSettings, given, _NAMES)
    files = [Path(options["original"]), file, Path(options["control"])]
    original, made, control = (read_columns(path) for path in files)
    secret = options["sensitive"]
    marks, rows = [*quasi, str(secret), str(settings.seed)], (original, made, control)
    how: dict[str, Any] = {"name": file.stem, "settings": settings}
    return _subject(file, files, marks, (), audit_synthetic, *rows, quasi, secret, **how)


def _records(file: Path, options: Mapping[str, Any]) -> Subject:
    settings = settings_of(RecordSettings, options, _NAMES)
    names = [options[name] for name in ("person", "item", "value", "time")]
    ratings, said = _read(file, names, options, options["inside"])
    files, aux, truth = [file], None, None
    if options["aux"] is not None:
        files.append(Path(options["aux"]))
        given = split_names(options["aux_columns"])
        if given and len(given) != sum(name is not None for name in names):
            raise InputError(
                f"aux_columns={options['aux_columns']!r} must name as many columns as were named "
                "for the release: person,item,value,time."
            )
        theirs = iter(given)
        others = [next(theirs) if given and name is not None else name for name in names]
        read, more = _read(files[-1], others, options, None)
        aux, said = replace(read, name=files[-1].stem), (*said, *more)
    elif options["truth"] is not None or options["aux_columns"] or options["pairs"]:
        raise InputError("--truth, --aux-columns and --pairs need --aux FILE, which is missing.")
    if options["truth"] is not None:
        files.append(Path(options["truth"]))
        pairs = read_columns(files[-1])
        for name in ("aux", "release"):
            check_column("truth", name, pairs, files[-1])
        truth = (as_text(pairs["aux"]), as_text(pairs["release"]))

    head = read_head(file, options["inside"])
    beside = {name: column for name, column in head.items() if name not in names}
    how = {"aux": aux, "truth": truth, "beside": beside, "settings": settings}
    marks = [*map(str, names), str(options["unit"]), str(options["keep"]), str(settings.seed)]
    notes = tuple(f"{one.name}: {note}" for one in (ratings, aux) if one for note in one.notes)
    return _subject(file, files, marks, (*said, *notes), audit_records, ratings, **how)


def _read(
    file: Path,
    names: Sequence[str | None],
    options: Mapping[str, Any],
    inside: str | None,
) -> tuple[Release, tuple[str, ...]]:
    person, item, value, time = names
    if (person is None or item is None) and file.suffix.lower() != ".npz":
        raise InputError("--person and --item go together: name both columns.")
    return read_facts(
        file,
        person or "person",
        item or "item",
        value,
        time,
        unit=options["unit"] or "auto",
        keep=options["keep"] or "all",
        table=inside,
        memory=options["memory"],
    )


_PAIRS = 20  # printed; the file has all


def _print_pairs(folder: Path) -> None:
    """Who was named as whom, from the kept table of records: personal data, asked for."""
    from rich.text import Text

    from lethe.report.terminal import terminal, titled

    kept = next(iter(sorted(folder.glob("records.*"))), None)
    columns = {} if kept is None else read_columns(kept)
    console = terminal()
    if "attacker" not in columns:
        console.print(Text("Nobody was named."))
        return
    decides = [at for at, one in enumerate(columns["decides"]) if str(one) in ("True", "1")]
    table = titled("who was named as whom (personal data)")
    for name in ("person", "record", "attacker", "score"):
        table.add_column(name)
    for at in decides[:_PAIRS]:
        names = [str(columns[name][at]) for name in ("person", "record", "attacker")]
        table.add_row(*names, f"{float(columns['score'][at]):.3g}")
    console.print(table)
    if len(decides) > _PAIRS:
        console.print(Text(f"and {len(decides) - _PAIRS} more in {kept}"))
