"""Sizes of memory; equal rows grouped on disk: codes, values and audit as of rows in memory."""

from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from lethe.data import large
from lethe.data.columns import Columns, Grouped, encode, read_columns
from lethe.data.large import available, bytes_of, read_grouped, too_large
from lethe.errors import InputError
from lethe.linkage.audit import audit_table
from lethe.linkage.settings import TableSettings

MEMORY = 2**27
CELLS = {
    "age": st.sampled_from(["30", "31", " 31", "+30", "47"]),
    "pay": st.sampled_from(["1", "1.0", "", "2.5", "nan"]),
    "zip": st.sampled_from(["01", "1", "22", ""]),
    "town": st.sampled_from(["Ä", "b", "", "漢", 'say "a, b"']),
    "sick": st.sampled_from(["true", "False"]),
}


def table_of(rows: list[tuple[str, ...]]) -> str:
    """CSV text of rows."""
    quoted = (",".join(f'"{c.replace(chr(34), chr(34) * 2)}"' for c in row) for row in rows)
    return "\n".join([",".join(CELLS), *quoted]) + "\n"


def same(grouped: Grouped, columns: Columns) -> None:
    """Rows in memory, grouped by hand."""
    plain = {name: encode(column) for name, column in columns.items()}
    assert list(grouped.columns) == list(plain)
    joint = np.stack([one.codes for one in plain.values()])
    different, times = np.unique(joint, axis=1, return_counts=True)
    assert grouped.times.tolist() == times.tolist()
    for at, (name, one) in enumerate(plain.items()):
        found = grouped.columns[name]
        assert found.codes.tolist() == different[at].tolist(), name
        assert found.values.dtype == one.values.dtype
        assert repr(found.values.tolist()) == repr(one.values.tolist())


@settings(max_examples=10)
@given(st.lists(st.tuples(*CELLS.values()), min_size=2, max_size=25), st.booleans())
def test_groups_are_those_of_the_rows_in_memory(rows: list[tuple[str, ...]], windows: bool) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "people.csv"
        text = table_of(rows)
        path.write_bytes((text.replace("\n", "\r\n") if windows else text).encode())
        columns = read_columns(path)
        grouped = read_grouped(path, list(CELLS), memory=MEMORY)
        same(grouped, columns)
        options = {"settings": TableSettings(ks=(2,), suppress=0.4), "name": "people"}
        quasi = ["age", "pay", "zip", "town"]
        one = audit_table(columns, quasi, "sick", population=columns, **options)
        other = audit_table(grouped, quasi, "sick", population=grouped, **options)
        assert one.to_bytes() == other.to_bytes()


def test_types_of_parquet_and_duckdb_are_kept(tmp_path: Path) -> None:
    sql = """
        SELECT i % 3 AS whole, CASE WHEN i > 7 THEN NULL ELSE i % 4 END AS gaps,
            9007199254740993 + i % 2 AS huge, CASE WHEN i = 1 THEN NULL ELSE huge END AS torn,
            i % 2 = 0 AS flag, CASE WHEN i = 2 THEN NULL ELSE flag END AS half,
            DATE '2020-01-01' + (i % 5)::INTEGER AS day, TIMESTAMP '2020-01-01 10:00:00' AS at,
            (i / 4)::DECIMAL(5, 2) AS price, ['a', '', NULL][1 + i % 3] AS name,
            i / 3.0::DOUBLE AS number, NULL::INTEGER AS nothing, TIME '10:00:00' AS hour
        FROM range(12) t(i)
    """
    duckdb.sql(f"COPY ({sql}) TO '{tmp_path / 'a.parquet'}'")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as base:
        base.execute(f"CREATE TABLE facts AS {sql}")
    for name in ("a.parquet", "a.duckdb"):
        columns = read_columns(tmp_path / name)
        same(read_grouped(tmp_path / name, list(columns), memory=MEMORY), columns)
    with pytest.raises(InputError, match="Did you mean 'facts'"):
        read_grouped(tmp_path / "a.duckdb", ["whole"], "fact", memory=MEMORY)


def test_a_column_is_of_one_kind_though_it_comes_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One gap makes large integers text, in every piece."""
    monkeypatch.setattr(large, "_BATCH", 2048)
    path = tmp_path / "a.parquet"
    sql = "SELECT CASE WHEN i = 4999 THEN NULL ELSE 9007199254740993 + i END AS id"
    duckdb.sql(f"COPY ({sql} FROM range(9000) t(i)) TO '{path}'")
    same(read_grouped(path, ["id"], memory=MEMORY), read_columns(path, ["id"]))


@pytest.mark.parametrize(
    "raw",
    [
        b"a,b\n1,2\n\xff,3\n",
        b"a,b\n1,2\n1\n",
        b"a,b\n1,2,3\n",
        b'a,b\n1,"x\n',
        b'a,b\n1,"x"y\n',
        b"a,a\n1,2\n",
        b"a,\n1,2\n",
        b"a;b\n1;2\n",
        b"a,b\n1,\x002\n",
        b"a,c\n1,2\n",
        b"a,b\n",
    ],
)
def test_every_refusal_is_that_of_the_rows_in_memory(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_bytes(raw)
    with pytest.raises(InputError) as small:
        read_columns(path, ["a", "b"])
    with pytest.raises(InputError) as big:
        read_grouped(path, ["a", "b"], memory=MEMORY)
    assert str(big.value) == str(small.value)


@pytest.mark.parametrize(
    "raw",
    [
        b"\n\na,b\n1,2\n",
        b"a,b\n1,2\r\n3,4\n5,6\r\n",
        b"\xef\xbb\xbfa,b\n1,2\n\n3,4",
        b'b,a\n"x\ny",1\n',
    ],
)
def test_odd_files_are_read_all_the_same(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_bytes(raw)
    same(read_grouped(path, ["a", "b"], memory=MEMORY), read_columns(path, ["a", "b"]))


def test_what_cannot_fit_is_refused_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f"{at},{at % 7}\n" for at in range(2000))
    path = tmp_path / "ids.csv"
    path.write_text("id,group\n" + rows)
    assert len(read_grouped(path, ["id", "group"], memory=MEMORY).times) == 2000
    monkeypatch.setattr(large, "_AUDIT", 10**6)
    with pytest.raises(InputError, match=r"2,000 different rows need about 2 GB .* --memory"):
        read_grouped(path, ["id", "group"], memory=MEMORY)
    monkeypatch.setattr(large, "_TEXT", 10**6)
    path.write_text("id,group\n" + "".join(f"x{row}" for row in rows.splitlines(keepends=True)))
    with pytest.raises(InputError, match="'id' has too many different values"):
        read_grouped(path, ["id"], memory=MEMORY)
    path.write_text("id,group\n1,2\n1,3\n")
    grouped = read_grouped(path, ["id"], memory=MEMORY)
    with pytest.raises(InputError, match="queries needs every row in memory"):
        audit_table(grouped, ["id"], settings=TableSettings(queries=("SELECT 1",)))


def test_the_way_is_chosen_by_size_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.csv"
    small = "age\n" + "30\n31\n" * 10
    path.write_text(small)
    columns, notes = large.read_table(path, ["age"], memory="128MiB")
    assert isinstance(columns, dict) and notes == ()
    monkeypatch.setattr(large, "_GROWTH", 2**22)
    grouped, notes = large.read_table(path, ["age"], memory="128MiB")
    assert isinstance(grouped, Grouped) and grouped.times.tolist() == [10] * 2
    assert "read by DuckDB within 0.134 GB of memory: 20 rows, 2 of them" in notes[0]
    columns, notes = large.read_table(path, ["age"], memory="128MiB", whole="epsilon")
    assert isinstance(columns, dict) and "because --epsilon needs every row" in notes[0]


def test_large_files_are_grouped_though_they_would_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,Age\n" + "30,1\n31,1\n" * 10)
    monkeypatch.setattr(large, "_GROUPED", 0)
    columns, notes = large.read_table(path, ["age", "Age"])
    assert isinstance(columns, Grouped) and columns.times.tolist() == [10] * 2 and notes == ()
    columns, _ = large.read_table(path, ["age"], whole="epsilon")
    assert isinstance(columns, dict)
    other = tmp_path / "people.parquet"
    parquet.write_table(pa.table({"age": [30, 31], "Age": [1, 2]}), other)
    columns, _ = large.read_table(other, ["age"])  # DuckDB does not tell them apart
    assert isinstance(columns, dict)
    with pytest.raises(InputError, match="'size' is not a column"):
        large.read_table(path, ["size"])


def test_parquet_is_grouped_by_its_rows_however_tightly_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.parquet"
    parquet.write_table(pa.table({"age": [30, 31] * 10}), path)
    for most, grouped in ((20, True), (21, False)):
        monkeypatch.setattr(large, "_MANY_ROWS", most)
        columns, _ = large.read_table(path, ["age"])
        assert isinstance(columns, Grouped) is grouped
    path.write_bytes(b"no parquet")
    with pytest.raises(InputError, match=r"people\.parquet"):
        large.read_table(path, ["age"])


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GB", 4 * 10**9), ("1.5 gb", 15 * 10**8), ("512MiB", 2**29), ("1TiB", 2**40)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["4", "GB", "-1GB", "4 apples", "", "127MiB", "0GB"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="memory="):
        bytes_of(text)


def test_a_file_outgrows_a_twentieth_of_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * 100)
    assert too_large(path, 1999) and not too_large(path, 2000)
    assert not too_large(tmp_path, 1) and not too_large(tmp_path / "b.csv", 1)
    assert available() >= 2**27
