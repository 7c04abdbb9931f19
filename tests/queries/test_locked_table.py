"""The door is locked: one file, no other file, no network, no extension, no setting."""

from __future__ import annotations

import datetime
import math
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lethe.queries.schema import check

from lethe.errors import InputError, RunFailed
from lethe.queries.evaluate import measure
from lethe.queries.parse import parse
from lethe.queries.table import Table, quoted


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / 'it\'s "a" table.parquet'
    pq.write_table(pa.table({"x": [1, 2, 3], "name": ["a", "b", None]}), path)
    (tmp_path / "other.csv").write_text("secret\n1\n")
    return path


def test_only_the_one_file_can_be_read(parquet: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    with Table(parquet) as table:
        assert table.run("SELECT sum(x) FROM rows") == [(6,)]
        for attempt in (
            f"SELECT * FROM read_csv('{other}')",
            f"SELECT * FROM '{other}'",
            "SELECT * FROM read_text('/etc/hostname')",
            f"COPY rows TO '{tmp_path / 'out.csv'}'",
            f"ATTACH '{tmp_path / 'new.duckdb'}'",
            f"EXPORT DATABASE '{tmp_path / 'out'}'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET enable_external_access = true",
            "SET lock_configuration = false",
            "SELECT * FROM other",  # a Python variable of this frame
        ):
            with pytest.raises(RunFailed) as caught:
                table.run(attempt)
            assert "secret" not in str(caught.value) and caught.value.__cause__ is None
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([parquet.name, other.name])


def test_an_error_tells_nothing_of_the_rows(parquet: Path) -> None:
    with Table(parquet) as table, pytest.raises(RunFailed) as caught:
        table.run("SELECT CAST(name AS INTEGER) FROM rows")
    assert "ConversionException" in str(caught.value)
    assert "'a'" not in str(caught.value) and caught.value.__suppress_context__


def test_values_travel_beside_the_statement(parquet: Path) -> None:
    attack = "x'; DROP TABLE rows; --"
    with Table(parquet) as table:
        assert table.run("SELECT count(*) FROM rows WHERE name = ?", [attack]) == [(0,)]
        assert table.run("SELECT count(*) FROM rows") == [(3,)]


def test_names_with_quotes_are_names(tmp_path: Path) -> None:
    name = 'x" FROM rows; DROP TABLE rows; --'
    pq.write_table(pa.table({name: [1, 2]}), tmp_path / "odd.parquet")
    with Table(tmp_path / "odd.parquet") as table:
        query = parse(f"count() where {quoted(name)} >= 2 by {quoted(name)}")
        check(query, table.schema)
        assert [one.rows for one in measure(table, query, None, 1, "").values()] == [1]


def test_cells_of_a_csv_are_what_the_question_needs(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(
        '\ufeffname,age,born,"the ""x"""\n"Smith, J",30,2024-01-31,true\n'
        "Doe,not known,2024-02-01,FALSE\n,45.5,,\nRoe,NaN,x,t\nPoe,1e999,2024-01-31,yes\n",
        encoding="utf-8",
    )
    with Table(path) as table:
        assert {column.kind for column in table.schema.values()} == {"cell"}
        assert list(table.schema) == ["name", "age", "born", 'the "x"']

        def count(words: str) -> int:
            query = parse(f"count() {words}")
            check(query, table.schema)
            return sum(one.rows for one in measure(table, query, None, 1, "").values())

        assert count("") == 5
        assert count("where age > 30") == 2  # 45.5 and what is beyond all numbers
        assert count("where age is null") == 0 and count("where name is null") == 1
        assert count('where "the ""x""" = true') >= 2
        assert count("where born = '2024-01-31'") == 2
        assert count("by name among ['Smith, J', 'Roe']") == 2
        (ages,) = measure(table, parse("mean(age) in [0, 100]"), None, 1, "").values()
        assert ages.rows == 3


def test_a_duckdb_file_is_read_only_and_has_tables_not_views(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute("CREATE TABLE people AS SELECT 1 AS x, DATE '2024-01-31' AS born")
        base.execute("CREATE VIEW joined AS SELECT p.x FROM people p, people q")
    with Table(path) as table:
        assert table.name == "a.duckdb"
        assert table.run("SELECT born FROM rows") == [(datetime.date(2024, 1, 31),)]
        with pytest.raises(RunFailed):
            table.run("CREATE TABLE given.main.more AS SELECT 1")
    with pytest.raises(InputError, match="joined"):
        Table(path, table="joined")
    with duckdb.connect(str(path)) as base:
        base.execute("CREATE TABLE more AS SELECT 2 AS x")
    with pytest.raises(InputError, match="2 tables: more, people"):
        Table(path)
    with Table(path, table="more") as table:
        assert table.run("SELECT x FROM rows") == [(2,)] and table.name == "a.duckdb:more"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("gone.parquet", None, "does not exist"),
        ("a.npz", b"x", r"must be one of \.parquet"),
        ("a.parquet", b"no parquet at all", r"cannot be read as \.parquet \(InvalidInput"),
        ("a.duckdb", b"no database", r"cannot be read as \.duckdb"),
        ("a.csv", b"\xff\xfe", "no .csv in UTF-8"),
        ("a.csv", b"", "needs a header line"),
        ("a.csv", b"x,X\n1,2\n", "each once"),
        ("a*.parquet", b"x", "would name many files"),
    ],
)
def test_what_is_no_table_is_refused(
    tmp_path: Path, name: str, content: bytes | None, why: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=why):
        Table(tmp_path / name)


def test_a_table_name_is_for_duckdb_only(parquet: Path) -> None:
    with pytest.raises(InputError, match="for .duckdb files"):
        Table(parquet, table="people")


def test_missing_numbers_are_found_whatever_the_file_says_of_its_range(tmp_path: Path) -> None:
    """Statistics of a Parquet file leave out NaN, and DuckDB would drop tests that they decide."""
    path = tmp_path / "nan.parquet"
    pq.write_table(pa.table({"x": [0.0, math.nan, 1.0]}), path)
    with Table(path) as table:
        for words, rows in (("x is null", 1), ("x >= 0", 2), ("x != 1", 1), ("x in [0, 1]", 2)):
            query = parse(f"count() where {words}")
            assert [one.rows for one in measure(table, query, None, 1, "").values()] == [rows]
        (mean,) = measure(table, parse("mean(x) in [0, 2]"), None, 1, "").values()
        assert mean.rows == 2


def test_more_rows_than_memory_holds(tmp_path: Path) -> None:
    """One person a row: the bound on rows sorts all of them, which spills to disk."""
    path = tmp_path / "long.parquet"
    with duckdb.connect() as base:
        base.execute(
            "COPY (SELECT range AS person, md5(range::VARCHAR) AS word FROM range(600000)) "
            f"TO '{path}' (FORMAT parquet)"
        )
    with Table(path, threads=1, memory="40MB") as table:
        found = measure(table, parse("count() where word >= ''"), "person", 1, "")
    assert [one.rows for one in found.values()] == [600_000]
