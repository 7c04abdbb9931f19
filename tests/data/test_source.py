"""Cells of every type as every declared type, worked by hand; and files that are refused."""

import datetime
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

from lethe.data.schema import (
    FIRST_DAY,
    FIRST_MOMENT,
    LAST_DAY,
    LAST_MOMENT,
    READ_OFF,
    Column,
    Schema,
)
from lethe.data.source import File, drafted, in_place, infer_schema, left_out, raw, read_typed
from lethe.errors import InputError

DAY = 86_400_000_000
BIG = 2**62
NAN, INF = float("nan"), float("inf")


def raw_cells(kind: pa.DataType, numbers: list[int]) -> pa.Array:
    """Cells of a type by the whole numbers that stand for them, in range or not."""
    return pa.array(numbers, pa.int32() if kind == pa.date32() else pa.int64()).view(kind)


INVALID = pa.Array.from_buffers(
    pa.string(), 3, pa.array([b"a\xff", b"ok", b""], pa.binary()).buffers()
)
# Cells, then what they are as whole, number, bool, text, date, time; None: refused.
Row = tuple[str, Any, dict[str, list[Any]]]
PARQUET: list[Row] = [
    (
        "int8",
        pa.array([-128, 1, None], pa.int8()),
        {
            "whole": [-128, 1, None],
            "number": [-128.0, 1.0, None],
            "bool": [None, True, None],
            "text": ["-128", "1", None],
        },
    ),
    (
        "uint64",
        pa.array([0, 2**64 - 1, 2**63 - 1], pa.uint64()),
        {
            "whole": [0, None, 2**63 - 1],
            "number": [0.0, 2.0**64, 2.0**63],
            "bool": [False, None, None],
            "text": ["0", str(2**64 - 1), str(2**63 - 1)],
        },
    ),
    (
        "decimal",
        pa.array([Decimal("1.50"), Decimal("-7.00"), Decimal("1.00")], pa.decimal128(9, 2)),
        {"whole": [None, -7, 1], "number": [1.5, -7.0, 1.0], "bool": [None, None, True]},
    ),
    (
        "decimal of 38 digits",
        pa.array([Decimal(10**37), Decimal(2**53 + 1), None], pa.decimal128(38, 0)),
        {
            "whole": [None, 2**53 + 1, None],
            "number": [1e37, 2.0**53, None],
            "bool": [None, None, None],
        },
    ),
    (
        "float16",
        pa.array(np.array([1.5, np.nan, np.inf], np.float16)),
        {"whole": [None] * 3, "number": [1.5, None, INF], "bool": [None] * 3},
    ),
    (
        "double",
        pa.array([2.0**53, NAN, -INF, -0.0, 1e300, 2.0**63]),
        {
            "whole": [2**53, None, None, 0, None, None],
            "number": [2.0**53, None, -INF, 0.0, 1e300, 2.0**63],
            "bool": [None, None, None, False, None, None],
        },
    ),
    (
        "bool",
        pa.array([True, False, None]),
        {
            "whole": [1, 0, None],
            "number": [1.0, 0.0, None],
            "bool": [True, False, None],
            "text": ["true", "false", None],
        },
    ),
    (
        "string",
        pa.array([" 12 ", "1e3", "2024-02-29 10:00", "NO", "١", "-0", "+5", "7.0", "", None]),
        {
            "whole": [12, None, None, None, None, 0, 5, 7, None, None],
            "number": [12.0, 1000.0, None, None, None, 0.0, 5.0, 7.0, None, None],
            "bool": [None, None, None, False, None, None, None, None, None, None],
            "text": [
                *(" 12 ", "1e3", "2024-02-29 10:00", "NO", "١"),
                *("-0", "+5", "7.0", "", None),
            ],
            "date": [None] * 10,
            "time": [None, None, (19_782 * 24 + 10) * 3_600_000_000, *[None] * 7],
        },
    ),
    (
        "dates in text",
        pa.array(["0001-01-01", "9999-12-31", "0000-01-01", "2023-02-29", "20240101", "1970-1-1"]),
        {
            "date": [FIRST_DAY, LAST_DAY, None, None, None, None],
            "time": [FIRST_DAY * DAY, LAST_DAY * DAY, None, None, None, None],
        },
    ),
    (
        "dictionary",
        pa.array(["2", None, "x"]).dictionary_encode(),
        {"whole": [2, None, None], "text": ["2", None, "x"]},
    ),
    ("text that is not UTF-8", INVALID, {"text": [None, "ok", ""]}),
    (
        "date32",
        raw_cells(pa.date32(), [FIRST_DAY, LAST_DAY, LAST_DAY + 1, FIRST_DAY - 1, 2**31 - 1]),
        {
            "date": [FIRST_DAY, LAST_DAY, None, None, None],
            "time": [FIRST_DAY * DAY, LAST_DAY * DAY, None, None, None],
        },
    ),
    (
        "date64",
        raw_cells(pa.date64(), [0, -86_400_000, 86_400_000 * (LAST_DAY + 1)]),
        {"date": [0, -1, None], "time": [0, -DAY, None]},
    ),
    (
        "timestamp[s]",
        raw_cells(pa.timestamp("s"), [-1, 0, 253_402_300_800]),
        {"date": [-1, 0, None], "time": [-1_000_000, 0, None]},
    ),
    (
        "timestamp[ms]",
        raw_cells(pa.timestamp("ms"), [-1, BIG, -BIG]),
        {"date": [-1, None, None], "time": [-1000, None, None]},
    ),
    (
        "timestamp[us]",
        raw_cells(pa.timestamp("us"), [-1, LAST_MOMENT, LAST_MOMENT + 1, 2**63 - 1, -(2**63) + 1]),
        {"date": [-1, LAST_DAY, None, None, None], "time": [-1, LAST_MOMENT, None, None, None]},
    ),
    (
        "timestamp[ns]",
        raw_cells(pa.timestamp("ns"), [-1, 1, 2**63 - 1]),
        {"date": [-1, 0, None], "time": [-1, 0, None]},
    ),
    (
        "INT96",
        raw_cells(pa.timestamp("us"), [-1, LAST_MOMENT, FIRST_MOMENT, LAST_MOMENT + 1, 10**16]),
        {
            "date": [-1, LAST_DAY, FIRST_DAY, None, 115_740],
            "time": [-1, LAST_MOMENT, FIRST_MOMENT, None, 10**16],
        },
    ),
    (
        "decimal without a digit before its point",
        pa.array([Decimal(0), Decimal("0.5"), None], pa.decimal128(38, 38)),
        {"whole": [0, None, None], "number": [0.0, 0.5, None], "bool": [False, None, None]},
    ),
    (
        "text of an extension type",
        pa.ExtensionArray.from_storage(pa.opaque(pa.string(), "x", "y"), INVALID),
        {"text": [None, "ok", ""]},
    ),
    (
        "time of an extension type",
        pa.ExtensionArray.from_storage(
            pa.opaque(pa.timestamp("ms"), "x", "y"), raw_cells(pa.timestamp("ms"), [-1, BIG, 0])
        ),
        {"date": [-1, None, 0], "time": [-1000, None, 0]},
    ),
    (
        "duration",
        pa.array([1, -2], pa.int64()).view(pa.duration("us")),
        {"whole": [1, -2], "text": ["1", "-2"]},
    ),
    (
        "decimal of 50 digits",
        pa.array([Decimal(7), Decimal("7.5")], pa.decimal256(50, 2)),
        {"whole": [7, None], "number": [7.0, 7.5]},
    ),
    ("all missing", pa.nulls(2), {kind: [None, None] for kind in ("whole", "number", "bool")}),
    ("binary", pa.array([b"\xff", b""], pa.binary()), {}),
    ("list", pa.array([[1], [], None]), {}),
    ("structure", pa.array([{"a": 1}, None]), {}),
    ("time of day", pa.array([0, 1], pa.int64()).view(pa.time64("us")), {}),
    ("time with a zone", pa.array([0, 1], pa.int64()).view(pa.timestamp("us", "UTC")), {}),
]
REFUSED = {"binary", "list", "structure", "time of day", "time with a zone"}


def write_parquet(table: Any, path: Path, name: str) -> None:
    pq.write_table(table, path, use_deprecated_int96_timestamps=name == "INT96")


def rows_of(file: File, *columns: Column) -> dict[str, list[Any]]:
    return {
        name: [
            value if present else None
            for value, present in zip(found.values.tolist(), found.present.tolist(), strict=True)
        ]
        for name, found in read_typed(file, Schema(columns)).items()
    }


def cells(file: File, column: Column) -> list[Any]:
    return rows_of(file, column)[column.name]


@pytest.mark.parametrize(("name", "array", "right"), PARQUET, ids=[row[0] for row in PARQUET])
def test_cells_of_parquet(tmp_path: Path, name: str, array: Any, right: dict[str, Any]) -> None:
    path = tmp_path / "x.parquet"
    numbers = {"y": pa.array(range(len(array)))}
    write_parquet(pa.table({"x": array, **dict.fromkeys(right, array), **numbers}), path, name)
    file = File(path)
    assert set(left_out(file)) == ({"x"} if name in REFUSED else set())
    assert ("x" in infer_schema(file)) == (name not in REFUSED)
    found = rows_of(file, Column("y", "whole"), *(Column(kind, kind) for kind in right))
    assert found == {"y": list(range(len(array))), **right}
    if name in REFUSED:
        with pytest.raises(InputError, match=r"columns\.x\.type='text' does not fit the file"):
            cells(file, Column("x", "text"))
    # With a strange cell elsewhere PyArrow reads the file: types and cells stay the same.
    strange = raw_cells(pa.timestamp("ms"), [BIG] + [0] * (len(array) - 1))
    write_parquet(pa.table({"x": array, "strange": strange}), path, name)
    with raw(file) as (_, _, types):
        before = types["x"]
    file = File(path)
    with raw(file) as (_, _, types):
        assert types["x"] == before
    assert not in_place(file)
    assert set(left_out(file)) == ({"x"} if name in REFUSED else set())
    for kind, values in list(right.items())[:1]:  # what is read has that type: casts are the same
        assert cells(file, Column("x", kind)) == values, kind


@pytest.mark.parametrize(
    ("sql", "kind", "right"),
    [
        ("DATE 'infinity'", "date", None),
        ("DATE '-infinity'", "time", None),
        ("DATE '5881580-07-10'", "date", None),
        ("DATE '5877642-06-25 (BC)'", "time", None),
        ("TIMESTAMP 'infinity'", "time", None),
        ("TIMESTAMP '294247-01-10 04:00:54.775806'", "date", None),
        ("TIMESTAMP '1969-12-31 23:59:59.999999'", "date", -1),
        ("TIMESTAMP_NS '1969-12-31 23:59:59.999999999'", "time", -1),
        ("TIMESTAMP_NS '2262-04-11 23:47:16.854775806'", "time", 9_223_372_036_854_775),
        ("170141183460469231731687303715884105727::HUGEINT", "whole", None),
        ("340282366920938463463374607431768211455::UHUGEINT", "whole", None),
        ("9223372036854775807::HUGEINT", "whole", 2**63 - 1),
        ("1.5::DECIMAL(38, 37)", "whole", None),
        ("'no'::ENUM('no', 'yes')", "bool", False),
        ("'1e999'", "number", INF),
        ("'nan'", "number", None),
        ("chr(0) || 'x'", "text", "\0x"),
        ("repeat('x', 1000000)", "text", "x" * 1_000_000),
        ("repeat('9', 1000000)", "whole", None),
    ],
)
def test_cells_of_duckdb(tmp_path: Path, sql: str, kind: str, right: Any) -> None:
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute(f"CREATE TABLE t AS SELECT {sql} AS x UNION ALL SELECT NULL")
    found = cells(File(path), Column("x", kind))
    assert found in ([right, None], [None, right])


@pytest.mark.parametrize("kind", ["TIMESTAMP_S", "TIMESTAMP_MS", "UUID", "INTERVAL", "BIT"])
def test_columns_of_duckdb_that_no_question_reads(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute(f"CREATE TABLE t AS SELECT 1 AS y, NULL::{kind} AS x")
    assert list(infer_schema(path)) == ["y"] and left_out(path) == {"x": kind}


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint64()])
@pytest.mark.parametrize(
    "bounds", [(-1, 1), (0, 120), (-(2**31), 2**31), (1, 2**63 - 1), (-(10**37), 10**37)]
)
def test_bounds_are_compared_in_any_width(
    tmp_path: Path, kind: Any, bounds: tuple[int, int]
) -> None:
    width = kind.bit_width
    low, high = (
        (0, 2**64 - 1) if kind == pa.uint64() else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    )
    numbers = [low, low + 1, 0, 1, 2, 100, high - 1, high]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": pa.array([*numbers, None], kind)}), path)
    right = [number if bounds[0] <= number <= bounds[1] else None for number in numbers]
    assert cells(File(path), Column("x", "whole", bounds)) == [*right, None]


def test_what_is_outside_the_domain_is_missing_or_clamped(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": [-5.0, 0.0, 7.5, INF, NAN], "n": [1, 2, 3, 4, None]}), path)
    file = File(path)
    assert cells(file, Column("x", "number", (0.0, 10.0))) == [None, 0.0, 7.5, None, None]
    clamped = Column("x", "number", (0.0, 10.0), outside="clamp")
    assert cells(file, clamped) == [0.0, 0.0, 7.5, 10.0, None]
    assert cells(file, Column("n", "whole", values=(2, 9))) == [None, 2, None, None, None]
    assert cells(file, Column("n", "whole", (2, 3), outside="clamp")) == [2, 2, 3, 3, None]
    wide = Column("n", "whole", (-(10**30), 10**30))
    assert cells(file, wide) == [1, 2, 3, 4, None]


@pytest.mark.parametrize("kind", ["plain", "dictionary"])
def test_only_listed_texts_are_kept(tmp_path: Path, kind: str) -> None:
    listed = ("", "it's", "Zürich", "a", *(f"v{at}" for at in range(9_000)))
    hostile = ["a\0", "a\0b", "A", " a", "a ", "v9000", "ENUM", "x" * 1_000_000, None]
    array = pa.array([*listed[:4], *hostile, "v8999"])
    path = tmp_path / "x.parquet"
    pq.write_table(
        pa.table({"x": array.dictionary_encode() if kind == "dictionary" else array}), path
    )
    found = cells(File(path), Column("x", "text", values=listed))
    assert found == [*listed[:4], *[None] * len(hostile), "v8999"]


@pytest.mark.parametrize(
    ("content", "options", "right"),
    [
        (b"\xef\xbb\xbfx,y\n1,a\n", {}, (["1"], ["a"])),
        (b"\xef\xbb\xbfx,y\n1,a\n", {"encoding": "UTF8"}, (["1"], ["a"])),
        (b"x;y\r\n1;a\r\n\r\n2;b\r\n", {"delimiter": ";"}, (["1", "2"], ["a", "b"])),
        ("x,y\n1,Zürich\n".encode("latin-1"), {"encoding": "latin-1"}, (["1"], ["Zürich"])),
        (b'x,y\n1,"a ""b"", c\nd"\n', {}, (["1"], ['a "b", c\nd'])),
        (b"x,y\n,\n1,\n", {}, ([None, "1"], [None, None])),
        (b'x,y\n"",a', {}, ([None], ["a"])),
        (b"x,y\n1,a\rb\n".replace(b"a\rb", b'"a\rb"'), {}, (["1"], ["a\rb"])),
        (b"x,y\n", {}, ([], [])),
    ],
)
def test_cells_of_csv(tmp_path: Path, content: bytes, options: Any, right: Any) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    file = File(path, **options)
    assert not in_place(file)
    assert (cells(file, Column("x", "text")), cells(file, Column("y", "text"))) == right


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty: it needs a header line"),
        (b"\n\n", "is empty: it needs a header line"),
        (b"x;y\n1;2\n", "Say so: --delimiter ';'"),
        (b"x,y,x\n1,2,3\n", "two columns named 'x'"),
        (b"x,X\n1,2\n", "two columns named 'X'"),
        (b"x,\n1,2\n", "column 2 has no name"),
        (b"x,y\0\n1,2\n", "column 2 has a zero byte in its name"),
        (b"x,y\n1,2\n3\n4,5,6\n", "the header has 2 cells, line 3 has 1, line 4 has 3"),
        (b"x,y\n" + b"1\n" * 9, "line 6 has 1 and 4 more. Repair them"),
        (b'x,y\n1,"a\n2,b\n', "line 3: unexpected end of data. Repair the quotes there"),
        (b'x,y\n1,"a"b\n', "line 2: ',' expected after '\"'. Repair the quotes there"),
        (b"x,y\n1,Z\xfcrich\n", "is not utf-8: byte 0xfc in line 2. Save it as UTF-8"),
        (b"\xff\xfex\0,\0y\0", "is not utf-8: byte 0xff in line 1"),
    ],
)
def test_a_csv_that_is_malformed_is_refused_in_one_line(
    tmp_path: Path, content: bytes, why: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_typed(path, Schema((Column("x", "text"),)))
    assert why in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("gone.parquet", {}, "does not exist"),
        ("a.npz", {}, "must be one of .parquet, .csv, .duckdb"),
        ("a*.parquet", {}, "would name many files"),
        ("a.parquet", {}, "is no readable parquet file"),
        ("a.duckdb", {}, "cannot be read"),
        ("a.parquet", {"table": "t"}, "table='t' is for .duckdb files"),
        ("a.parquet", {"delimiter": ";"}, "are for .csv files"),
        ("a.csv", {"delimiter": "||"}, "must be one character"),
        ("a.csv", {"encoding": "utf-9"}, "encoding='utf-9' is not known"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, name: str, options: Any, why: str) -> None:
    if "gone" not in name:
        (tmp_path / name).write_bytes(b"no table at all, whatever its name")
    with pytest.raises(InputError) as caught:
        read_typed(File(tmp_path / name, **options), Schema((Column("x", "text"),)))
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_the_schema_must_fit_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"age": [1], "born": [b"x"]}), path)
    with pytest.raises(InputError, match=r"declares column 'agee'.*Did you mean 'age'\? Columns"):
        read_typed(path, Schema((Column("agee", "whole"),)))
    with pytest.raises(InputError, match=r"columns\.born\.type='date' does not fit.*is blob"):
        read_typed(path, Schema((Column("born", "date"),)))


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["x", "x"], "two columns named 'x'"),
        (["x", "X"], "two columns named 'X'"),
        (["x", ""], "column 2 has no name"),
        (["a\0b", "x"], "column 1 has a zero byte in its name"),
    ],
)
def test_names_of_parquet_columns_are_names(tmp_path: Path, names: list[str], why: str) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=names), path)
    with pytest.raises(InputError) as caught:
        infer_schema(path)
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_a_nested_column_is_never_read(tmp_path: Path) -> None:
    """Its text is not UTF-8, at which DuckDB fails; beside it stands a strange column."""
    nested = pa.StructArray.from_arrays([INVALID], names=["part"])
    table = {"x": [1, 2, 3], "nested": nested, "t": raw_cells(pa.timestamp("ms"), [0, BIG, 1])}
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table(table), path)
    assert list(infer_schema(path)) == ["x", "t"] and list(left_out(path)) == ["nested"]
    assert cells(File(path), Column("t", "time")) == [0, None, 1000]
    assert cells(File(path), Column("x", "whole")) == [1, 2, 3]


def test_a_strange_column_stays_beside_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    numbers = list(range(300_000))
    moments = raw_cells(pa.timestamp("ms"), [BIG, *numbers[1:]])
    pq.write_table(pa.table({"x": numbers, "t": moments}), path, row_group_size=7_000)
    typed = read_typed(path, Schema((Column("x", "whole"), Column("t", "time"))))
    assert typed["x"].values.tolist() == numbers and not typed["t"].present[0]
    assert (typed["t"].values[1:] == 1000 * typed["x"].values[1:]).all()


def test_tables_of_duckdb_are_named_and_no_views(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute("CREATE TABLE people AS SELECT 1 AS x; CREATE VIEW joined AS FROM people")
    schema = Schema((Column("x", "whole"),))
    assert cells(File(path), schema["x"]) == [1]
    with pytest.raises(InputError, match="none named 'joined'"):
        read_typed(File(path, "joined"), schema)
    with duckdb.connect(str(path)) as base:
        base.execute("CREATE TABLE more AS SELECT 2 AS x")
    with pytest.raises(InputError, match="2 tables: more, people. Name one by table"):
        read_typed(path, schema)
    assert cells(File(path, "more"), schema["x"]) == [2]


def test_a_draft_keeps_every_cell_and_says_what_it_read(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = [
        f"{at},{at / 8},{at:05},{at % 2},{'FM'[at % 2]},2024-01-{at % 28 + 1:02},n{at},"
        for at in range(40)
    ]
    path.write_text("id,share,zip,flag,sex,day,name,blank\n" + "\n".join(rows) + "\n")
    draft = infer_schema(path)
    kinds = [draft[name].type for name in draft]
    assert kinds == ["whole", "number", "text", "whole", "text", "date", "text", "number"]
    assert draft["id"].bounds == (0, 39) and draft["share"].bounds == (0.0, 4.875)
    assert draft["sex"].values == ("F", "M") and draft["name"].values is None
    assert draft["day"].shown_bounds() == ["2024-01-01", "2024-01-28"]
    assert set(draft.read_off) == set(draft)  # the types of a csv file are read off its rows
    typed = read_typed(path, draft)
    assert all(typed[name].present.all() for name in draft if name != "blank")
    assert json.loads(draft.canonical()) == draft.to_json()


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize(
    ("cells", "last"),
    [
        ([f"v{at % 10}" for at in range(99)], "v9"),  # a tenth of the rows
        ([f"v{at % 50}" for at in range(999)], "w"),  # one value more than is listed
        (["a"] * 99, "a\0b"),
        (["a"] * 9, None),
        ([None, None], "x"),
        ([None, None], 7.0),
        ([math.nan, None], math.inf),
        ([math.inf], 1.0),
        ([3, 4], 2**62),
        ([None], datetime.date(2024, 2, 29)),
        ([None], datetime.datetime(2024, 2, 29)),
    ],
)
def test_a_draft_says_all_that_one_record_decided(
    tmp_path: Path, cells: list[Any], last: Any, suffix: str
) -> None:
    drafts = []
    types = pa.table({"c": [*cells, last], "beside": [1] * (len(cells) + 1)}).schema
    for number, column in enumerate((cells, [*cells, last])):
        path = tmp_path / f"{number}{suffix}"
        table = pa.table({"c": column, "beside": [1] * len(column)}, types)
        (pq.write_table if suffix == ".parquet" else write_csv)(table, path)
        drafts.append(infer_schema(path))
    first, second = (draft["c"] for draft in drafts)
    for part in READ_OFF:
        if getattr(first, part) != getattr(second, part):
            assert part in first.read_off and part in second.read_off
    if first != second:
        assert drafts[0].assumptions() and drafts[1].assumptions()
        assert Schema.from_toml(drafted(drafts[0], [])) == drafts[0]


def test_rows_stay_in_their_order_whatever_is_listed(tmp_path: Path) -> None:
    """DuckDB joins with a long list of values, and a join has no order."""
    path, rows = tmp_path / "x.parquet", 30_000
    table = {"at": np.arange(rows), "grade": np.arange(rows) % 9, "b": ["yes", "no"] * (rows // 2)}
    pq.write_table(pa.table(table), path, row_group_size=3000)
    grades = {"type": "whole", "values": list(range(9))}
    schema = Schema.of({"at": {"type": "whole"}, "grade": grades, "b": {"type": "bool"}})
    for _ in range(3):
        assert np.array_equal(read_typed(path, schema)["at"].values, np.arange(rows))


def test_the_name_of_a_folder_is_no_column(tmp_path: Path) -> None:
    folder = tmp_path / "age=42"
    folder.mkdir()
    pq.write_table(pa.table({"age": [1, 2]}), folder / "x.parquet")
    assert cells(File(folder / "x.parquet"), Column("age", "whole")) == [1, 2]
