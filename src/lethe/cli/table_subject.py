"""The rows that `lethe audit table` is told to audit, and which of its three audits they get."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lethe.cli.options import settings_of
from lethe.columns import Columns, as_text, check_column, read_columns
from lethe.data.schema import Schema
from lethe.data.source import SUFFIXES, TypedColumn, infer_schema, read_typed
from lethe.errors import InputError
from lethe.evidence.findings import Findings
from lethe.linkage.audit import audit_records, audit_synthetic, audit_table
from lethe.linkage.settings import RecordSettings, SyntheticSettings, TableSettings
from lethe.linkage.table.domains import as_declared, domains_of
from lethe.loaders.coded import Grouped
from lethe.loaders.large import read_facts, read_table
from lethe.loaders.rows import read_rows
from lethe.loaders.sorted_ratings import Release
from lethe.training.fingerprint import digest

_LISTS = ("ks", "queries", "gate", "epsilon")
_OF_RECORDS: tuple[str, ...] = (
    "item",
    "value",
    "time",
    "unit",
    "keep",
    "aux",
    "aux_columns",
    "truth",
    "targets",
)
_OF_RECORDS += ("phi", "facts", "time_error", "value_error", "false_matches", "pairs")
_OF_TABLES: tuple[str, ...] = ("ks", "suppress", "most", "distance", "population", "people")
_OF_TABLES += ("epsilon", "delta", "schema", "bins")
_OF_SYNTHETIC = ("attacks", "linked")


@dataclass(frozen=True)
class Subject:
    """One audit that is ready to run.

    Attributes:
        name: what the run is bound to: content of the files, columns and seed.
        audit: runs it; told `say` and `folder`.
        notes: what was changed on reading.
    """

    name: str
    audit: Callable[..., Findings]
    notes: tuple[str, ...] = ()


def subject_of(file: Path, options: Mapping[str, Any], wanted: Mapping[str, Any]) -> Subject:
    """Read what is to be audited.

    Args:
        file: the rows.
        options: of the command, merged.
        wanted: the same under the names of the settings.

    Raises:
        InputError: neither quasi-identifiers nor people and items, options of another kind, or
            files that cannot be read.
    """
    quasi = split_names(options["quasi"])
    if options["person"] is not None or (file.suffix.lower() == ".npz" and not quasi):
        _refuse(
            options, ("quasi", "sensitive", "synthetic", "control", *_OF_SYNTHETIC, *_OF_TABLES)
        )
        return _records(file, options, wanted)
    if not quasi:
        raise InputError(
            "lethe audit table needs --quasi COLUMNS (one row a person), or --person COLUMN and "
            "--item COLUMN (one row a fact)."
        )
    _refuse(options, _OF_RECORDS)
    if (options["synthetic"] is None) != (options["control"] is None):
        raise InputError("--synthetic and --control go together: name both files.")
    if options["synthetic"] is not None:
        _refuse(options, _OF_TABLES)
        return _synthetic(file, options, wanted, quasi)
    _refuse(options, _OF_SYNTHETIC)
    return _table(file, options, wanted, quasi)


def split_names(given: Sequence[str] | str | None) -> tuple[str, ...]:
    """Names that are separated by commas, by blanks, or given one by one.

    >>> split_names(["age,sex", "zip"])
    ('age', 'sex', 'zip')
    """
    listed = [given] if isinstance(given, str) else list(given or ())
    return tuple(name.strip() for text in listed for name in text.split(",") if name.strip())


def _refuse(options: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in names:
        if options[name] is not None:
            option = name.replace("_", "-")
            raise InputError(f"--{option} is for another kind of audit. See lethe audit table -h.")


def _table(
    file: Path, options: Mapping[str, Any], wanted: Mapping[str, Any], quasi: tuple[str, ...]
) -> Subject:
    declared = None if options["schema"] is None else Schema.load(options["schema"])
    settings = settings_of(TableSettings, {**wanted, "schema": declared}, _LISTS)
    if not settings.epsilon and (declared is not None or options["bins"] is not None):
        raise InputError("--schema and --bins are for synthetic rows; --epsilon says how private.")
    secret = options["sensitive"]
    # Queries and models may use any column; without them, only those that are named are read.
    named = (
        None
        if settings.queries or settings.predict or settings.utility_model
        else list(dict.fromkeys([*quasi, *([] if secret is None else [secret]), *(declared or ())]))
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
        whole = "epsilon" if settings.epsilon else "keep-records" if settings.keep_records else None
        columns, notes = read_table(file, named, options["inside"], memory=memory, whole=whole)
    if options["population"] is not None:
        everybody, more = read_table(Path(options["population"]), list(quasi), memory=memory)
        notes += more
        if settings.schema is not None and not isinstance(everybody, Grouped):
            everybody = as_declared(settings.schema, everybody)
    files = [file, *([] if everybody is None else [Path(options["population"])])]

    audit = partial(
        audit_table, columns, quasi, secret, population=everybody, name=file.stem, settings=settings
    )
    return Subject(_name(files, [*quasi, str(secret), str(settings.seed)]), audit, notes)


def _inferred(file: Path, inside: str | None, named: Sequence[str] | None) -> Schema:
    """What the file looks like; the guarantee says that it was read off the rows."""
    found = infer_schema(file, inside)
    return found if named is None else Schema(tuple(found[name] for name in named))


def _synthetic(
    file: Path, options: Mapping[str, Any], wanted: Mapping[str, Any], quasi: tuple[str, ...]
) -> Subject:
    given = {**wanted, "linked": split_names(options["linked"]) or None}
    settings = settings_of(SyntheticSettings, given, _LISTS)
    files = [file, Path(options["synthetic"]), Path(options["control"])]
    original, made, control = (read_rows(path) for path in files)
    secret, name = options["sensitive"], files[1].stem

    audit = partial(
        audit_synthetic, original, made, control, quasi, secret, name=name, settings=settings
    )
    return Subject(_name(files, [*quasi, str(secret), str(settings.seed)]), audit)


def _records(file: Path, options: Mapping[str, Any], wanted: Mapping[str, Any]) -> Subject:
    settings = settings_of(RecordSettings, wanted, _LISTS)
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
        found, more = _read(files[-1], others, options, None)
        aux, said = replace(found, name=files[-1].stem), (*said, *more)
    elif options["truth"] is not None or options["aux_columns"] or options["pairs"]:
        raise InputError("--truth, --aux-columns and --pairs need --aux FILE, which is missing.")
    if options["truth"] is not None:
        files.append(Path(options["truth"]))
        pairs = read_columns(files[-1])
        for name in ("aux", "release"):
            check_column("truth", name, pairs, files[-1])
        truth = (as_text(pairs["aux"]), as_text(pairs["release"]))

    audit = partial(audit_records, ratings, aux=aux, truth=truth, settings=settings)
    told = [*map(str, names), str(options["unit"]), str(options["keep"]), str(settings.seed)]
    notes = tuple(f"{one.name}: {note}" for one in (ratings, aux) if one for note in one.notes)
    return Subject(_name(files, told), audit, (*said, *notes))


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
        keep=options["keep"] or "first",
        table=inside,
        memory=options["memory"],
    )


def _name(files: Sequence[Path], told: Sequence[str]) -> str:
    """Content of the files, columns and seed; settings may change between runs of a folder."""
    hashes = []
    for path in files:
        with path.open("rb") as file:  # it may be larger than the memory
            hashes.append(hashlib.file_digest(file, "sha256").hexdigest())
    return digest(*hashes, *told)
