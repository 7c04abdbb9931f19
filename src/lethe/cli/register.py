"""`lethe schema` and `lethe register`: declare what a table's columns are, once and in public."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lethe.cli.options import Delimiter, Encoding, TableName

if TYPE_CHECKING:
    from lethe.data.source import File
    from lethe.queries.registration import Registered

HEAD = """Schema of {name}: what each column is. It becomes public: answers and synthetic rows are
shaped by it, and by nothing that stands in the rows.
Look every line over. What was read off the rows is named in read_off, also where they decided that
there are no values or bounds: put what is known without the rows in its place (an age lies between
0 and 120), or decide for none, then delete read_off. Delete the columns that nobody needs. A cell
that does not fit is missing; outside = "clamp" moves numbers to the nearest bound instead; missing
= false refuses a file with a missing cell."""


def schema(
    data: Path,
    /,
    *,
    out: Path | None = None,
    table: TableName = None,
    delimiter: Delimiter = ",",
    encoding: Encoding = "utf-8",
) -> int:
    """Draft the schema of a table, to be looked over before it is registered.

    It reads the rows: keep the draft to yourself until what was read off them is replaced.

    Args:
        data: .parquet, .csv or .duckdb.
        out: Where to write it. [DATA.schema.toml]
    """
    from lethe.data.source import File, drafted, infer_schema, left_out
    from lethe.errors import InputError
    from lethe.files import write_for_owner

    file = File(data, table, delimiter, encoding)
    place = schema_of(data) if out is None else out
    if place.exists():
        raise InputError(f"{place} exists already: look it over, delete it, or name another --out.")
    draft, unused = infer_schema(file), left_out(file)
    head = HEAD.format(name=data.name).splitlines()
    head += [f"Left out, because no question reads it: {n} ({kind})." for n, kind in unused.items()]
    write_for_owner(place, drafted(draft, head).encode())
    for name in draft:
        column = draft[name]
        read = f"  (read off the rows: {', '.join(column.read_off)})" if column.read_off else ""
        print(f"{name}: {column.type}{read}")
    for name, kind in unused.items():
        print(f"{name}: left out ({kind.lower()})")
    print(
        f"Written to {place}. Look it over, then: lethe register {data}, or "
        f"lethe budget create LEDGER --data {data} --epsilon 1"
    )
    return 0


def register(
    data: Path,
    /,
    *,
    schema: Path | None = None,
    prepared: Path | None = None,
    keeper: Path | None = None,
    table: TableName = None,
    delimiter: Delimiter = ",",
    encoding: Encoding = "utf-8",
) -> int:
    """Settle the schema of a table, so that questions can be asked about it.

    Args:
        data: .parquet, .csv or .duckdb. Of a .csv file a typed copy is made, which questions read.
        schema: What the columns are. [DATA.schema.toml, which `lethe schema` writes]
        prepared: Place of the typed copy: personal data, for its owner alone. [DATA.rows]
        keeper: Place of the keeper's file, which holds the key of the data's hash. [DATA.keeper]
    """
    from lethe.data.source import File

    registration = registered(File(data, table, delimiter, encoding), schema, prepared, keeper)
    columns = f"{len(registration.schema)} columns"
    print(f"{registration.name}: {columns}, registered in {registration.keeper}.")
    return 0


def registered(
    file: File, schema: Path | None, prepared: Path | None = None, keeper: Path | None = None
) -> Registered:
    """Register data, saying beforehand what a typed copy takes."""
    from lethe.data.schema import Schema
    from lethe.data.source import in_place
    from lethe.errors import InputError
    from lethe.queries.registration import register as settle

    data = file.path
    place = schema_of(data) if schema is None else schema
    if schema is None and not place.exists():
        raise InputError(
            f"{data} has no schema yet: run `lethe schema {data}`, look {place.name} over, and "
            "try again; or name one by --schema."
        )
    settled = Schema.load(place)
    if not in_place(file):
        size = data.stat().st_size / 2**20
        print(f"A typed copy of {data.name} is made: personal data, at most about {size:.0f} MB.")
    registration = settle(file, settled, prepared=prepared, keeper=keeper)
    for assumption in registration.schema.assumptions():
        print(f"Note: {assumption}.")
    return registration


def schema_of(data: Path) -> Path:
    """Return the default path of the schema of some data."""
    return data.with_name(f"{data.name}.schema.toml")


def forget_data(data: Path, /, *, table: TableName = None) -> int:
    """Delete the typed copy of registered data and their key: nobody can ask about them any more.

    The data themselves stay, and so do the ledger's entries: what was spent stays spent.

    Args:
        data: The data, or their keeper's file.
    """
    from lethe.queries.registration import find, forget

    for path in forget(find(data, table)):
        print(f"deleted {path}")
    return 0
