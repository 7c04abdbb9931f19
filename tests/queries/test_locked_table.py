"""The door is locked: one file, no other file, no network, no extension, no setting."""

import math
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from registered_data import registered

from lethe.data.casts import quoted
from lethe.data.schema import Schema
from lethe.errors import RunFailed
from lethe.queries.query import bind, parse
from lethe.queries.registration import find
from lethe.queries.table import OpenTable, measure


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / 'it\'s "a" table.parquet'
    pq.write_table(pa.table({"x": [1, 2, 3], "name": ["a", "b", None]}), path)
    (tmp_path / "other.csv").write_text("secret\n1\n")
    registered(path)
    return path


def test_only_the_one_file_can_be_read(parquet: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    with OpenTable(find(parquet)) as table:
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
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(
        [parquet.name, f"{parquet.name}.keeper", other.name]
    )


def test_no_filter_moves_into_the_file(tmp_path: Path) -> None:
    """There its statistics decide, and those of old writers order texts by signed bytes."""
    path = tmp_path / "x.parquet"
    texts = pa.array(["a"] * 60 + [None] * 40 + ["b"])
    pq.write_table(pa.table({"t": texts, "n": list(range(101))}), path, use_dictionary=False)
    registered(path)
    with OpenTable(find(path)) as table:
        assert table.run("SELECT count(*) FROM rows WHERE t IS NULL") == [(40,)]
        for condition in ("t IS NULL", "t = 'b'", "n >= 50", "t < 'b' AND n IS NOT NULL"):
            plan = str(table.run(f"EXPLAIN SELECT count(*) FROM rows WHERE {condition}"))
            scan = plan[plan.index("READ_PARQUET") :]
            assert "Filter" in plan and "Filters" not in scan, plan
        plan = str(table.run("EXPLAIN SELECT min(n) FROM rows"))
        assert "READ_PARQUET" in plan and "n" in plan  # the answer is no statistic


def test_an_error_tells_nothing_of_the_rows(parquet: Path) -> None:
    with OpenTable(find(parquet)) as table, pytest.raises(RunFailed) as caught:
        table.run("SELECT CAST(name AS INTEGER) FROM rows")
    assert "ConversionException" in str(caught.value)
    assert "'a'" not in str(caught.value) and caught.value.__suppress_context__


def test_values_travel_beside_the_statement(parquet: Path) -> None:
    attack = "x'; DROP TABLE rows; --"
    with OpenTable(find(parquet)) as table:
        assert table.run("SELECT count(*) FROM rows WHERE name = ?", [attack]) == [(0,)]
        assert table.run("SELECT count(*) FROM rows") == [(3,)]


def test_names_with_quotes_are_names(tmp_path: Path) -> None:
    name = 'x" FROM rows; DROP TABLE rows; --'
    pq.write_table(pa.table({name: [1, 2]}), tmp_path / "odd.parquet")
    with OpenTable(registered(tmp_path / "odd.parquet")) as table:
        asked = parse(f"count() where {quoted(name)} >= 2 by {quoted(name)}")
        query = bind(asked, table.schema)
        assert [one.rows for one in measure(table, query, None, 1, "").values()] == [1]


def test_cells_of_a_csv_are_what_the_schema_declares(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(
        '\ufeffname,age,born,"the ""x"""\n"Smith, J",30,2024-01-31,true\n'
        "Doe,not known,2024-02-01,FALSE\n,45.5,,\nRoe,NaN,x,t\nPoe,1e999,2024-01-31,yes\n",
        encoding="utf-8",
    )
    kinds = {"name": "text", "age": "number", "born": "date", 'the "x"': "bool"}
    schema = Schema.of({name: {"type": kind} for name, kind in kinds.items()})
    with OpenTable(registered(path, schema)) as table:

        def count(words: str) -> int:
            query = bind(parse(f"count() {words}"), table.schema)
            return sum(one.rows for one in measure(table, query, None, 1, "").values())

        assert count("") == 5
        assert count("where age > 30") == 2  # 45.5 and what is beyond all numbers
        assert count("where age is null") == 2 and count("where name is null") == 1
        assert count('where "the ""x""" = true') == 3
        assert count("where born = '2024-01-31'") == 2 and count("where born is null") == 2
        assert count("by name among ['Roe', 'Smith, J']") == 2
        (ages,) = measure(table, parse("mean(age) in [0, 100]"), None, 1, "").values()
        assert ages.rows == 3


def test_only_declared_columns_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"age": [40], "name": ["secret"]}), path)
    with OpenTable(registered(path, Schema.of({"age": {"type": "whole"}}))) as table:
        assert table.run("SELECT * FROM rows") == [(40,)]
        with pytest.raises(RunFailed) as caught:
            table.run("SELECT name FROM rows")
    assert "secret" not in str(caught.value)


def test_a_duckdb_file_is_read_only(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute("CREATE TABLE people AS SELECT 1 AS x, DATE '2024-01-31' AS born")
    with OpenTable(registered(path)) as table:
        assert table.run("SELECT born FROM rows") == [(19_753,)]  # days since 1970
        with pytest.raises(RunFailed):
            table.run("CREATE TABLE given.main.more AS SELECT 1")


def test_missing_numbers_are_found_whatever_the_file_says_of_its_range(tmp_path: Path) -> None:
    """Statistics of a Parquet file leave out NaN, and DuckDB would drop tests that they decide."""
    path = tmp_path / "nan.parquet"
    pq.write_table(pa.table({"x": [0.0, math.nan, 1.0]}), path)
    with OpenTable(registered(path)) as table:
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
    with OpenTable(registered(path), threads=1, memory="40MB") as table:
        found = measure(table, parse("count() where word >= ''"), "person", 1, "")
    assert [one.rows for one in found.values()] == [600_000]
