"""Registered data: settled by a keeper before the first question, and bound to a budget.

`register` is the only place where rows are read without a budget. It checks a file against its
schema once, makes a typed copy where cells have no types, and writes the *keeper's file*: the
schema, where the rows are, and a key of 256 random bits. A budget is bound to the data by a hash
under that key, which no message shows.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path

from lethe.data.columns import DUCKDB
from lethe.data.schema import Schema
from lethe.data.source import File, as_file, check_is_path, in_place, misfits, write_typed
from lethe.errors import InputError, RunFailed
from lethe.files import write_for_owner
from lethe.queries.ledger.chain import read_json

FORMAT = "lethe-keeper/1"
SUFFIX = ".keeper"


@dataclass(frozen=True)
class Registered:
    """Data that questions may be asked about.

    Attributes:
        name: of the data, in ledgers and messages.
        schema: of the rows, as it was settled.
        rows: the file that is read: the data themselves, or their typed copy.
        table: in a .duckdb file.
        copied: whether `rows` is a typed copy.
        key: 32 random bytes; secret.
        keeper: the keeper's file.
        settled: `fingerprint` as it was when the data were registered.
        source: file that a typed copy was made of; None where the data themselves are read.
        digest: keyed hash of `source` as it was then.
    """

    name: str
    schema: Schema
    rows: Path
    table: str | None
    copied: bool
    key: bytes = field(repr=False)
    keeper: Path
    settled: str = ""
    source: Path | None = None
    digest: str = field(default="", repr=False)

    @property
    def version(self) -> str:
        """A mark that changes when the rows, or the file they were copied from, are written anew.

        Raises:
            RunFailed: the file is gone, or rows of it lie in DuckDB's log beside it, which the
                fingerprint does not cover.
        """
        log = self.rows.with_name(f"{self.rows.name}.wal")
        if self.rows.suffix.lower() in DUCKDB and log.exists() and log.stat().st_size:
            raise RunFailed(
                f"{self.rows} has changes that still lie in {log.name}. Close whatever has it "
                "open, or run CHECKPOINT there."
            )
        try:
            seen = [self.rows.stat()]
        except OSError:
            raise RunFailed(
                f"{self.rows}, which holds the rows of {self.name}, cannot be read. Put it back, "
                "or register the data anew."
            ) from None
        if self.source is not None:
            with contextlib.suppress(OSError):  # the copy alone may be kept
                seen.append(self.source.stat())
        return " ".join(f"{s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for s in seen)

    def fingerprint(self) -> str:
        """The keyed hash of rows and schema that a ledger keeps; for comparison, never shown.

        It is another one once the file that a typed copy was made of has another content.

        Raises:
            RunFailed: the rows cannot be read.
        """
        facts = json.dumps([self.schema.canonical(), self.table, self.copied])
        files = (self.rows, self.source, self.digest)
        return _fingerprint(self.key, *files, self.version, facts)

    def terms(self, person: str | None = None, rows: int | None = None) -> str:
        """Word what a budget for these data settles: schema, whose rows they are, how many of each.

        Args:
            person: column that names the person of a row; for a budget of the unit "user".
            rows: most rows of a person that are used; with `person`.

        Returns:
            Canonical JSON, for `Ledger.create(schema=...)`.

        Raises:
            InputError: no such column, or one without the other.
        """
        if (person is None) != (rows is None):
            raise InputError("person and rows go together: whose rows, and how many of each.")
        document = self.schema.to_json()
        if person is not None:
            _ = self.schema[person]
            document |= {"person": person, "rows": rows}
        return json.dumps(document, separators=(",", ":"))

    def is_unchanged(self) -> bool:
        """Whether rows, schema and the file a copy was made of are those that were registered."""
        return hmac.compare_digest(self.settled, self.fingerprint())


def register(
    data: str | Path | File,
    schema: Schema | str | Path,
    *,
    prepared: Path | None = None,
    keeper: Path | None = None,
) -> Registered:
    """Read data once, check them against their schema, and write the keeper's file.

    A .parquet or .duckdb file is read in place; of a .csv file, and of a Parquet file whose cells
    DuckDB cannot read without failing, a typed copy is made. Both are personal data.

    Args:
        data: .parquet, .csv or .duckdb; as a `File` with its table, delimiter or encoding.
        schema: of its columns, or a file that holds it.
        prepared: place of the typed copy; beside the data by default.
        keeper: place of the keeper's file; beside the data by default.

    Returns:
        What was registered; what is already registered with the same content and schema as it is.

    Raises:
        InputError: the file is malformed or does not fit the schema, or other data or another
            schema are registered there. Nothing was written.
    """
    file = as_file(data)
    schema = schema if isinstance(schema, Schema) else Schema.load(schema)
    place = keeper_of(file.path, file.table) if keeper is None else keeper
    direct = in_place(file)
    if prepared is not None and direct:
        raise InputError(
            f"--prepared={prepared}: {file.path} is read in place and needs no typed copy."
        )
    for name, count in misfits(file, schema).items():
        raise InputError(
            f"columns.{name}.missing=false, but {count} cell{'s' if count > 1 else ''} of the file "
            "are missing or do not fit. Repair the file, or declare missing = true."
        )
    rows = file.path if direct else prepared or file.path.with_name(f"{file.path.name}.rows")
    if place.exists():
        before = load(place, file.path)
        is_here = before.rows == rows.resolve() and rows.exists()
        if before.schema == schema and is_here and before.is_unchanged():
            return before
        raise InputError(
            f"{before.keeper} says that {before.name} is registered with another schema or "
            f"content. `lethe budget forget-data {file.path}` forgets it, or name another --keeper."
        )
    key = secrets.token_bytes(32)
    digest = "" if direct else _content(file.path, key)
    if not direct:
        write_typed(file, schema, rows)
    registered = Registered(
        file.path.name if file.table is None else f"{file.path.name}:{file.table}",
        schema,
        rows.resolve(),
        file.table,
        not direct,
        key,
        place,
        source=None if direct else file.path.resolve(),
        digest=digest,
    )
    registered = replace(registered, settled=registered.fingerprint())
    folder = place.resolve().parent
    document = {
        "format": FORMAT,
        "name": registered.name,
        "rows": os.path.relpath(registered.rows, folder),
        "table": registered.table,
        "copied": registered.copied,
        "raw": None if direct else os.path.relpath(file.path.resolve(), folder),
        "source": registered.digest or None,
        "settled": registered.settled,
        "key": registered.key.hex(),
        "schema": registered.schema.to_json(),
    }
    try:
        write_for_owner(place, (json.dumps(document, indent=1) + "\n").encode())
    except RunFailed:
        if registered.copied:
            registered.rows.unlink()
        raise
    return registered


def load(path: Path, source: Path | None = None) -> Registered:
    """Read a keeper's file.

    Args:
        source: file that a typed copy was made of, where it is known; else as registered.

    Raises:
        InputError: it cannot be read, or is none.
    """
    try:
        document = read_json(path.read_bytes())
        if document["format"] != FORMAT:
            raise KeyError("format")
        folder, copied = path.resolve().parent, bool(document["copied"])
        beside = folder / path.stem  # both may have been renamed since
        raw = folder / (source or (beside if beside.is_file() else document["raw"] or ""))
        registered = Registered(
            str(document["name"]),
            Schema.of(document["schema"]["columns"], str(path)),
            (folder / document["rows"]).resolve(),
            document["table"],
            copied,
            bytes.fromhex(document["key"]),
            path,
            str(document["settled"]),
            raw.resolve() if copied else None,
            str(document["source"] or ""),
        )
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is no keeper's file. `lethe register` writes one.") from error
    return registered


def find(path: str | Path, table: str | None = None) -> Registered:
    """The registration of a data file.

    Args:
        path: the data, or a keeper's file.
        table: in a .duckdb file; None where only one is registered.

    Raises InputError: these data are not registered.
    """
    check_is_path(path)
    source = Path(path)
    if source.suffix == SUFFIX and table is None:
        return load(source)
    place = keeper_of(source, table)
    if not place.exists():
        missing = "" if source.exists() else f"{source} does not exist, and "
        raise InputError(
            f"{missing}{source.name} is not registered: run `lethe schema {source.name}`, look the "
            "schema over, then `lethe register` or `lethe budget create --data` it."
        )
    return load(place, source.absolute())


def forget(registered: Registered) -> list[Path]:
    """Delete the typed copy, if there is one, and the keeper's file: nobody can ask any more.

    Returns: What was deleted; the raw data and the ledger's entries stay.
    """
    gone = [registered.rows] if registered.copied else []
    for path in (*gone, registered.keeper):
        path.unlink(missing_ok=True)
    return [*gone, registered.keeper]


def keeper_of(path: Path, table: str | None = None) -> Path:
    """Return the default path of the keeper's file of some data.

    >>> keeper_of(Path("people.csv")).name, keeper_of(Path("a.duckdb"), "visits").name
    ('people.csv.keeper', 'a.duckdb.visits.keeper')
    """
    part = "" if table is None else f".{table}"
    return path.with_name(f"{path.name}{part}{SUFFIX}")


def _content(path: Path, key: bytes) -> str:
    """Keyed hash of a file's bytes."""
    with path.open("rb") as stream:
        content = hashlib.file_digest(stream, "sha256").digest()
    return hmac.new(key, content, "sha256").hexdigest()


@functools.lru_cache(maxsize=64)
def _fingerprint(
    key: bytes, path: Path, source: Path | None, digest: str, version: str, facts: str
) -> str:
    """Read once a process for each version of the files."""
    try:
        content = _content(path, key)
        if source is not None and source.exists():
            path = source
            if not hmac.compare_digest(digest, _content(path, key)):
                content = f"{content}, copied from another file"
    except OSError:
        raise RunFailed(f"{path} cannot be read. Put it back and ask again.") from None
    return hmac.new(key, f"{content} {facts}".encode(), "sha256").hexdigest()
