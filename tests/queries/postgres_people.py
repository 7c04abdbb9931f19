"""A table of people with nasty cells, for a PostgreSQL server and for a file."""

from __future__ import annotations

import datetime
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from lethe.data.schema import Schema
from lethe.queries.registration import Registered, register

Row = dict[str, Any]
BIG = 2**63 - 1
DAY = datetime.date
COLUMNS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "who": ("bigint", pa.int64(), {"type": "whole"}),
    "age": ("smallint", pa.int16(), {"type": "whole", "bounds": [0, 120], "outside": "clamp"}),
    "size": ("bigint", pa.int64(), {"type": "whole"}),
    "wide": ("numeric(30)", pa.decimal128(30, 0), {"type": "whole", "bounds": [-(2**80), 2**80]}),
    "income": ("double precision", pa.float64(), {"type": "number"}),
    "share": ("real", pa.float32(), {"type": "number", "bounds": [-1, 1.5], "outside": "clamp"}),
    "price": ("numeric(9,2)", pa.decimal128(9, 2), {"type": "number"}),
    "county": ("text", pa.string(), {"type": "text"}),
    "day": ("character(9)", pa.string(), {"type": "text"}),
    "sex": ("character varying(9)", pa.string(), {"type": "text", "values": ["f", "m"]}),
    "ok": ("boolean", pa.bool_(), {"type": "bool"}),
    "born": ("date", pa.date32(), {"type": "date"}),
    "seen": ("timestamp", pa.timestamp("us"), {"type": "time"}),
}
SCHEMA = Schema.of({name: declared for name, (_, _, declared) in COLUMNS.items()})
STEP = 2.0**-6  # of sum(income) in [0, 200000]: exact halves of it lie on the edge of rounding
CELLS: dict[str, list[Any]] = {
    "who": [None, 1, 2, 3, -BIG - 1, BIG],
    "age": [None, 0, 17, 18, 19, 55, 100, 101, 120, 121, -32768, 32767],
    "size": [None, 0, 1, -1, 17, 2**53, 2**53 + 1, BIG, -BIG - 1],
    "wide": [None, Decimal(0), Decimal(2**64), Decimal(-(2**70)), Decimal(2**80), Decimal(10**29)],
    "income": [
        *(None, 0.0, -0.0, 5e-324, -5e-324, 1e-310, 1e-200, -1e-160, 1e308, -1e308, 1e200, -1e170),
        *(math.nan, math.inf, -math.inf, 1.7976931348623157e308, 200000.0, 199999.999999, 0.1),
        *(STEP / 2, 3 * STEP / 2, 5 * STEP / 2, -STEP / 2, 100000 + STEP / 2, 7.5, 0.5, 2.5),
        *(0.49999999999999994, 1.25, 3.0, 100.0, 1e14, 12345.678, 1e30),
    ],
    "share": [None, 0.0, -0.0, 0.5, 1.4e-45, 3.4e38, -3.4e38, math.nan, math.inf, -math.inf, 0.25],
    "price": [None, *map(Decimal, ("0", "0.01", "-0.01", "1.50", "9999999.99", "-9999999.99"))],
    "county": [
        *(None, "", " ", "Kent", "kent", "Ke nt", "é", "é", "ß", "ss", "İ", "i", "100%", "%s $1"),
        *("O'Hara", "\\", "\x01", "\ufffe", "😀", "ﬁ", "x" * 5000),
    ],
    "day": [None, "mon", "tue", "sat", "MON", "é", ""],
    "sex": [None, "f", "m", "F", "f ", ""],
    "ok": [None, True, False],
    "born": [None, DAY(1, 1, 1), DAY(9999, 12, 31), DAY(1970, 1, 1), DAY(1969, 12, 31)],
    "seen": [
        None,
        datetime.datetime(1, 1, 1),
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime.datetime(2024, 2, 29, 12, 30, 0, 1),
    ],
}


def nasty_rows() -> list[Row]:
    """Every nasty cell in a row of its own, and each person with many rows."""
    seeded = random.Random(0)
    plain = {"who": 1, "age": 40, "income": 7.5, "county": "Kent", "sex": "f", "ok": True}
    rows = [
        {**dict.fromkeys(COLUMNS), **plain, name: cell}
        for name, cells in CELLS.items()
        for cell in cells
    ]
    for _ in range(600):
        drawn = {name: seeded.choice(cells) for name, cells in CELLS.items()}
        if seeded.random() < 0.7:
            drawn |= {"who": seeded.randrange(90), "income": seeded.uniform(-10, 300)}
            drawn |= {"age": seeded.randrange(130), "share": seeded.choice([0.125, -0.75, 1.0])}
        rows.append(drawn)
    return rows


def create(url: str, rows: list[Row], name: str = "public.people") -> None:
    declared = ", ".join(f'"{column}" {kind}' for column, (kind, _, _) in COLUMNS.items())
    with psycopg.connect(url, autocommit=True) as base:
        base.execute(f"DROP TABLE IF EXISTS {name}")
        base.execute(f"CREATE TABLE {name} ({declared})")
        insert(base, rows, name)


def insert(base: Any, rows: list[Row], name: str = "public.people") -> None:
    marks = ", ".join(["%s"] * len(COLUMNS))
    with base.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {name} VALUES ({marks})", [[row[c] for c in COLUMNS] for row in rows]
        )


def in_server(url: str, folder: Path, schema: Schema = SCHEMA, table: str = "public.people") -> Any:
    keeper = folder / "people.keeper"
    keeper.unlink(missing_ok=True)
    return register(url, schema, table=table, keeper=keeper)


def in_file(rows: list[Row], folder: Path) -> Registered:
    kinds = pa.schema([(name, kind) for name, (_, kind, _) in COLUMNS.items()])
    path = folder / "people.parquet"
    pq.write_table(pa.Table.from_pylist(rows, kinds), path)
    return register(path, SCHEMA)
