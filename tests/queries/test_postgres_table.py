"""Questions about a table in PostgreSQL give the numbers that DuckDB gives for the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from ledger_places import postgres_server, server_programs
from postgres_people import BIG, CELLS, COLUMNS, create, in_file, in_server, insert, nasty_rows

from lethe.data.schema import Schema
from lethe.queries.aggregates import examples
from lethe.queries.lattice import Groups
from lethe.queries.postgres_table import PostgresTable
from lethe.queries.query import bind, parse
from lethe.queries.table import Table, measure

pytestmark = pytest.mark.skipif(server_programs() is None, reason="no programs of a server here")

BOUNDED = ("[0, 200000]", "[-1.5, 99.5]", "[0, 1]", "[1e-9, 1e-8]", "[-1e30, 1e30]", "[5e-324, 1]")
ASKED = [
    *(text for text in examples().values()),
    *(
        f"{word}({column}) in {bounds}"
        for word in ("sum", "variance", "median")
        for column in ("age", "size", "income", "share", "price", "ok")
        for bounds in BOUNDED
    ),
    *(f"histogram({x}) in {b} bins 7" for x in ("age", "income", "share") for b in BOUNDED),
    "mean(wide) in [0, 100000000000000000000] by sex",
    "quantile(income, 0.9) in [0, 200000] step 700",
    "quantile(income, 0.9) in [-1e30, 1e30] step 1e28",
    "histogram(income) among [0, 0.5, 1e14, 12345.678] by sex among ['f', 'm']",
    "histogram(county) among ['Kent', 'é', '', '100%', '%s $1'] where age >= 18",
    "mode(born) among ['0001-01-01', '9999-12-31', '1970-01-01']",
    "mode(ok) among [true, false]",
    "regress(income in [0, 1000], age in [18, 100]) by county among ['Kent', 'ss', 'İ']",
    "regress(share in [-1, 1], price in [0, 100]) by ok",
    "count() by county",
    "count() by county, sex",
    "count() by born",
    "count() by size",
    "count() by wide",
    "count() by ok among [true, false], sex among ['f', 'm']",
    "mean(income) in [0, 10] by county where income < 5 or county = 'é'",
    "count() where county > 'Kent' and county not in ['ss', '😀']",
    "count() where income >= 0 and income != 100",
    "count() where income < 0.1 or share = 0.5 or price <= 1.5",
    "count() where born >= '1969-12-31' and seen < '9999-12-31 23:59:59'",
    "count() where seen is null or not (ok = true) or sex is not null",
    "count() where wide between -5 and 18446744073709551616",
    "count() where size in [9007199254740993, 9223372036854775807]",
]


@pytest.fixture(scope="module")
def server() -> Any:
    with postgres_server() as url:
        yield url


def measured(table: Any, query: str, person: str | None = None, rows: int = 1) -> Groups:
    asked = bind(parse(query), table.schema, person)
    return measure(table, asked, person, rows, "a salt, of ten")


@pytest.fixture(scope="module")
def both(server: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same nasty rows in a server and in a file."""
    folder = tmp_path_factory.mktemp("both")
    rows = nasty_rows()
    create(server, rows)
    with (
        PostgresTable(in_server(server, folder)) as there,
        Table(in_file(rows, folder), threads=1) as here,
    ):
        yield there, here


@pytest.mark.parametrize("person, rows", [(None, 1), ("who", 1), ("who", 3), ("county", 2)])
def test_numbers_are_those_of_duckdb(both: Any, person: str | None, rows: int) -> None:
    there, here = both
    for query in ASKED:
        if person == "county" and "by county" in query:
            continue  # a group of one person is refused
        given, expected = (measured(table, query, person, rows) for table in (there, here))
        assert given == expected and repr(given) == repr(expected), query


def test_questions_are_of_every_word_and_find_rows(both: Any) -> None:
    assert {text.split("(")[0] for text in ASKED} == set(examples())
    found = [any(exact.rows for exact in measured(both[1], q).values()) for q in ASKED]
    assert sum(found) >= len(ASKED) - 2


STRANGE: dict[str, tuple[str, dict[str, Any], list[tuple[str, Any]]]] = {
    "who": ("bigint", {"type": "whole"}, [("1", 1)]),
    "n": (
        "numeric",
        {"type": "number"},
        [
            *(("NaN", None), ("Infinity", None), ("-Infinity", None), ("1e-400", 0.0)),
            *(("-1e-5000", 0.0), ("1e400", None), ("1e20000", None), ("1e-310", 1e-310)),
            *(("1.7976931348623157e308", 1.7976931348623157e308), ("0.1", 0.1)),
        ],
    ),
    "w": (
        "numeric",
        {"type": "whole"},
        [
            *(("NaN", None), ("Infinity", None), ("1e20000", None), ("1.5", None), ("5.000", 5)),
            *(("9223372036854775807", BIG), ("9223372036854775808", None), ("-0.0", 0)),
            ("-9223372036854775808", -BIG - 1),
        ],
    ),
    "ww": (
        "numeric",
        {"type": "whole", "bounds": [-(10**38) + 1, 10**38 - 1]},
        [("NaN", None), ("1e38", None), ("9" * 38, 10**38 - 1), ("-7.0", -7), ("1e9000", None)],
    ),
    "nb": ("numeric", {"type": "bool"}, [("NaN", None), ("1.0", True), ("0", False), ("2", None)]),
    "fw": (
        "double precision",
        {"type": "whole"},
        [
            *(
                ("NaN", None),
                ("Infinity", None),
                ("-Infinity", None),
                ("1e308", None),
                ("0.5", None),
            ),
            *(("9223372036854775808", None), ("-9223372036854775808", -BIG - 1), ("-0", 0)),
            ("9223372036854774784", 9223372036854774784),
        ],
    ),
    "fb": ("real", {"type": "bool"}, [("NaN", None), ("1", True), ("-0", False), ("1e-45", None)]),
    "r": (
        "real",
        {"type": "number", "bounds": [-5, 0.5]},
        [("NaN", None), ("Infinity", None), ("0.1", 0.10000000149011612), ("-5", -5.0)],
    ),
    "d": (
        "date",
        {"type": "date"},
        [
            *(("infinity", None), ("-infinity", None), ("5874897-12-31", None)),
            *(("4713-01-01 BC", None), ("0001-12-31 BC", None), ("0001-01-01", -719162)),
            *(("9999-12-31", 2932896), ("10000-01-01", None)),
        ],
    ),
    "dt": (
        "date",
        {"type": "time"},
        [("infinity", None), ("9999-12-31", 2932896 * 86400 * 10**6), ("5874897-12-31", None)],
    ),
    "t": (
        "timestamp",
        {"type": "time"},
        [
            *(("infinity", None), ("-infinity", None), ("294276-12-31 23:59:59.999999", None)),
            *(("4713-01-01 BC", None), ("9999-12-31 23:59:59.999999", 253402300799999999)),
            *(("10000-01-01", None), ("0001-01-01", -62135596800000000)),
            ("1969-12-31 23:59:59.999999", -1),
        ],
    ),
    "td": (
        "timestamp",
        {"type": "date"},
        [("infinity", None), ("1969-12-31 23:59:59.999999", -1), ("9999-12-31 23:59", 2932896)],
    ),
    "bt": ("boolean", {"type": "text"}, [("t", "true"), ("f", "false")]),
    "bw": ("boolean", {"type": "whole"}, [("t", 1), ("f", 0)]),
    "bn": ("boolean", {"type": "number"}, [("t", 1.0), ("f", 0.0)]),
    "id": ("uuid", {"type": "text"}, [("0" * 32, "00000000-0000-0000-0000-000000000000")]),
    "it": ("integer", {"type": "text"}, [("-2147483648", "-2147483648"), ("07", "7")]),
    "iw": (
        "bigint",
        {"type": "whole", "bounds": [-5, 5], "outside": "clamp"},
        [("-9223372036854775808", -5), ("9", 5), ("3", 3)],
    ),
    "c": (
        "character(4)",
        {"type": "text", "values": ["a", "it's", "\\"]},
        [("a", "a"), ("A", None), ("it's", "it's"), ("\\", "\\"), ("", None)],
    ),
    "x": (
        "text",
        {"type": "text"},
        [
            *(("x" * 2**19, "x" * 2**19), ("x" * (2**19 + 1), None), ("é" * 2**18 + "x", None)),
            *((" a ", " a "), ("%s $1 {x}", "%s $1 {x}")),
        ],
    ),
}


def test_cells_are_cast_without_failing(server: str, tmp_path: Path) -> None:
    """Each strange cell alone in a table: it is what it should be, and no question fails."""
    schema = Schema.of({name: declared for name, (_, declared, _) in STRANGE.items()})
    kinds = ", ".join(f"{name} {kind}" for name, (kind, _, _) in STRANGE.items())
    with psycopg.connect(server, autocommit=True) as base:
        base.execute("DROP TABLE IF EXISTS strange")
        base.execute(f"CREATE TABLE strange ({kinds})")
        data = in_server(server, tmp_path, schema, "public.strange")
        for name, (kind, declared, cells) in STRANGE.items():
            for text, expected in cells:
                base.execute("TRUNCATE strange")
                base.execute("INSERT INTO strange (who) VALUES (1)")
                base.execute(f"UPDATE strange SET {name} = CAST(%s AS {kind})", (text,))
                with PostgresTable(data) as table:
                    ((cell,),) = table.run(f"SELECT {name} FROM rows")
                    assert cell == expected and type(cell) is type(expected), (name, text)
                    questions = ["count()", f"count() where {name} is not null"]
                    if declared["type"] in ("whole", "number", "bool"):
                        questions += [f"variance({name}) in [0, 3]", f"median({name}) in [0, 1e30]"]
                        questions += [f"histogram({name}) in [-1e30, 1e29] bins 3"]
                    if declared["type"] in ("text", "date", "whole"):
                        questions += [f"count() by {name}"]
                    for question in questions:
                        measured(table, question)
                        if name != "who":
                            measured(table, question, "who", 2)
                    assert table.misfits() == {} and len(table.fingerprint()) == 64


@pytest.mark.parametrize("name", CELLS)
def test_no_cell_alone_makes_a_question_fail(server: str, tmp_path: Path, name: str) -> None:
    plain = {"who": 1, "age": 40, "income": 7.5, "share": 0.5, "county": "Kent", "sex": "f"}
    asked = [question for question in ASKED if name in question][::4]
    create(server, [], "public.alone")
    data = in_server(server, tmp_path, table="public.alone")
    with psycopg.connect(server, autocommit=True) as base:
        for cell in CELLS[name]:
            base.execute("TRUNCATE alone")
            insert(base, [{**dict.fromkeys(COLUMNS), **plain, name: cell}], "public.alone")
            with PostgresTable(data) as table:
                for question in asked:
                    measured(table, question)
                    if name != "who" and f"by {name}" not in question:
                        measured(table, question, "who", 2)
