"""What a database could do to a question: other rows, functions, settings and tables."""

from __future__ import annotations

import contextlib
import json
import math
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from ledger_places import postgres_server, server_programs
from neighbour_worlds import Pair, loss, outcome, pairs, questions
from postgres_people import COLUMNS, SCHEMA, create, in_server, nasty_rows
from sqlglot import exp

import lethe
from lethe.cli import run
from lethe.data.schema import Schema
from lethe.errors import InputError, MissingExtra, RunFailed
from lethe.queries.charge import Charge
from lethe.queries.dialects import as_text, to_postgres
from lethe.queries.lattice import Exact
from lethe.queries.ledger.contract import Mismatch
from lethe.queries.ledger.ledger import open_ledger
from lethe.queries.postgres_table import PostgresTable
from lethe.queries.privacy import Privacy
from lethe.queries.query import bind, parse
from lethe.queries.registration import find, load, register
from lethe.queries.table import measure, opened, statement

pytestmark = pytest.mark.skipif(server_programs() is None, reason="no programs of a server here")
PEOPLE = "public.people"


@pytest.fixture(scope="module")
def server() -> Any:
    with postgres_server() as url:
        yield url


@pytest.fixture
def base(server: str) -> Iterator[Any]:
    """A connection of the owner of `people`, in a database that is made anew."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS public CASCADE")
        connection.execute("CREATE SCHEMA public")
        create(server, nasty_rows())
        yield connection


def numbers(table: Any, query: str, person: str | None = None, rows: int = 2) -> Any:
    return measure(table, bind(parse(query), table.schema, person), person, rows, "salt")


MEAN = "mean(income) in [0, 300] by sex among ['f', 'm']"


# Neighbours: as `test_neighbours`, with the rows in a server.

KINDS = {
    **{"int8": "smallint", "int16": "smallint", "int32": "integer", "int64": "bigint"},
    **{"uint8": "smallint", "uint64": "numeric(20)", "double": "double precision"},
    **{"float": "real", "decimal128(38, 2)": "numeric(38,2)", "decimal128(20, 3)": "numeric(20,3)"},
    **{"bool": "boolean", "string": "text", "date32[day]": "date"},
    **{"dictionary<values=string, indices=int32, ordered=0>": "text"},
    **{f"timestamp[{unit}]": "timestamp" for unit in ("s", "ms", "us", "ns")},
}
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def fits(pair: Pair) -> bool:
    """Text is the only thing that is read from text."""
    stored = [(str(pair.stored[name]), pair.schema[name].type) for name in pair.schema]
    return all(
        not (kind in ("string", "dictionary") and declared != "text") and pair.form != "csv"
        for kind, declared in stored
    )


def cell_of(cell: Any, kind: Any) -> Any:
    if cell is None or pa.types.is_boolean(kind):
        return cell
    if pa.types.is_date(kind):
        return f"epoch {cell}" if abs(cell) < 3_000_000 else "infinity"
    if pa.types.is_timestamp(kind):
        seconds = cell // PER_SECOND[kind.unit]
        return f"epoch {seconds}" if abs(seconds) < 9e12 else "-infinity"
    return cell.replace("\0", "?") if isinstance(cell, str) else cell


class World:
    """One of two neighbouring tables in a server, with a ledger of its own."""

    def __init__(self, server: str, pair: Pair, rows: Any, folder: Path, name: str) -> None:
        kinds = {column: KINDS[str(pair.stored[column])] for column in pair.schema}
        with psycopg.connect(server, autocommit=True) as base:
            base.execute(f"DROP TABLE IF EXISTS {name}")
            declared = ", ".join(f"{column} {kind}" for column, kind in kinds.items())
            base.execute(f"CREATE TABLE {name} ({declared})")
            for row in rows:
                cells = [cell_of(row[column], pair.stored[column]) for column in kinds]
                marks = []
                for at, kind in enumerate(kinds.values()):
                    moment = isinstance(cells[at], str) and cells[at].startswith("epoch ")
                    marks.append("%s")
                    if moment:
                        cells[at] = int(cells[at][6:])
                        day = "DATE '1970-01-01' + %s::int"
                        time = "TIMESTAMP '1970-01-01' + %s * INTERVAL '1 second'"
                        marks[-1] = day if kind == "date" else time
                base.execute(f"INSERT INTO {name} VALUES ({', '.join(marks)})", cells)
        self.registered = in_server(server, folder, pair.schema, f"public.{name}")
        self.table: Any = PostgresTable(self.registered)
        self.ledger = open_ledger(folder / f"{name}.db")
        rule = "mu2" if "mu" in pair.privacy else "rho" if "rho" in pair.privacy else "epsilon"
        self.ledger.create(
            "t",
            Charge(rule, 10**15, 10**17 if rule == "epsilon" else 0),
            fingerprint=self.table.fingerprint(),
            relation=pair.privacy["relation"],
            unit="user" if "person" in pair.privacy else "record",
            schema=self.registered.terms(pair.privacy.get("person"), pair.privacy.get("rows")),
        )

    def close(self) -> None:
        self.table.close()
        self.ledger.close()


@pytest.mark.parametrize("cases", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_neighbours_look_alike(
    server: str, cases: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    answered = []

    @hypothesis.seed(0)
    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(st.data())
    def look_alike(data: st.DataObject) -> None:
        pair = data.draw(pairs().filter(fits))
        privacy, folder = Privacy(**pair.privacy), tmp_path_factory.mktemp("worlds")
        with contextlib.ExitStack() as stack:
            worlds = []
            for at, rows in enumerate(pair.rows):
                worlds.append(World(server, pair, rows, folder, f"world_{at}"))
                stack.callback(worlds[-1].close)
            for _ in range(15):
                question = data.draw(questions(pair.schema))
                first, second = (outcome(world, question, privacy) for world in worlds)  # type: ignore[arg-type]  # the same parts as its World
                assert first.seen == second.seen, question
                assert first.entries == second.entries, question
                assert loss(first, second, privacy) <= 1 + 1e-9, question
                answered.append(first.seen[0] == "answered")

    look_alike()
    assert sum(answered) >= 3 * cases


MOVED = [
    "count()",
    "count() by sex",
    "sum(income) in [-5, 300]",
    "mean(share) in [-1, 1] by ok among [true, false]",
    "variance(age) in [18, 100] by county",
    "regress(income in [0, 300], age in [18, 100])",
    "median(income) in [0, 300]",
    "histogram(income) in [0, 300] bins 7",
    "mode(day) among ['mon', 'tue', 'sat']",
]


def moved(table: Any, other: Any, question: str, person: str | None, rows: int) -> int:
    """How many rows a person more has moved, after a look at how far the sums went."""
    query = bind(parse(question), table.schema, person)
    layout = query.aggregate.layout(query.by, table.schema)
    widths = [grid.width for grid in layout.lattices]
    first, second = (measure(one, query, person, rows, "salt") for one in (table, other))
    none = Exact(0, (0,) * len(layout.sums), (0,) * layout.cells)
    apart = [(first.get(group, none), second.get(group, none)) for group in {*first, *second}]
    total = sum(abs(one.rows - two.rows) for one, two in apart)
    assert total <= rows, question
    for at, terms in enumerate(layout.sums):
        most = rows * math.prod(widths[int(factor[1:])] for factor in terms.split(" * "))
        assert sum(abs(one.sums[at] - two.sums[at]) for one, two in apart) <= most, question
    for at, terms in enumerate(layout.sums):
        for one, _ in apart if terms.count(" ") == 0 else ():
            assert 0 <= one.sums[at] <= one.rows * widths[int(terms[1:])]
    cells = [abs(a - b) for one, two in apart for a, b in zip(one.cells, two.cells, strict=True)]
    assert sum(cells) <= rows, question
    return total


@pytest.mark.parametrize("person, rows", [("who", 1), ("who", 3), (None, 1)])
def test_a_person_moves_no_more_than_the_noise_is_for(
    base: Any, server: str, tmp_path: Path, person: str | None, rows: int
) -> None:
    one = "who = 1" if person else "ctid = (SELECT max(ctid) FROM people WHERE ok AND sex = 'f')"
    base.execute("CREATE TABLE others AS SELECT * FROM people")
    base.execute(f"DELETE FROM others WHERE {one.replace('people', 'others')}")
    with (
        PostgresTable(in_server(server, tmp_path)) as table,
        PostgresTable(in_server(server, tmp_path, table="public.others")) as other,
    ):
        totals = [moved(table, other, question, person, rows) for question in MOVED]
    assert max(totals) == rows  # who has more rows than are used


# What leaves the server.

CANARY = "canary-6f1d"


def test_nothing_but_aggregates_leaves(
    base: Any, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base.execute("UPDATE people SET county = county || %s", (CANARY,))
    lines: list[tuple[str, list[Any]]] = []

    class Watched(psycopg.RawCursor[Any]):
        def execute(self, query: Any, params: Any = None, **other: Any) -> Any:
            lines.append((query, []))
            return super().execute(query, params, **other)

        def fetchall(self) -> Any:
            found = super().fetchall()
            lines[-1][1].extend(found)
            return found

    monkeypatch.setattr(psycopg, "RawCursor", Watched)
    data = in_server(server, tmp_path)
    with PostgresTable(data) as table:
        for question in (
            MEAN,
            "median(age) in [0, 100]",
            "count() by sex",
            "count() where ok = true",
        ):
            numbers(table, question)
            numbers(table, question, "county")
        numbers(table, f"count() where county > '{CANARY}'")
    asked = [(text, found) for text, found in lines if "people" in text and "LOCK" not in text]
    assert len(asked) >= 11
    for text, found in asked:
        assert text.startswith("WITH rows AS (SELECT ")
        outer = sqlglot.parse_one(text, read="postgres")
        if outer.is_star:  # of a list of groups
            outer = outer.args["from_"].this.this
        for column in outer.expressions:
            assert column.find(exp.AggFunc) or column.name in ("k0", "u0"), text
        assert CANARY not in repr(found)
    for text, found in lines:
        assert "people" in text or CANARY not in repr(found)


def test_values_and_names_are_never_part_of_the_text(
    server: str, tmp_path: Path, base: Any
) -> None:
    odd = 'a%s "$1" {x}; --'
    quoted = '"' + odd.replace('"', '""') + '"'
    base.execute(f"CREATE TABLE {quoted.replace('%', '%%')} ({quoted.replace('%', '%%')} text)", [])
    base.execute(
        f"INSERT INTO {quoted.replace('%', '%%')} VALUES ('x'), (%s)", ("'; DROP TABLE x",)
    )
    data = in_server(server, tmp_path, Schema.of({odd: {"type": "text"}}), f"public.{odd}")
    name = '"' + odd.replace('"', '""') + '"'
    with PostgresTable(data) as table:
        found = numbers(table, f"count() where {name} = '''; DROP TABLE x' by {name}")
    assert [(group, exact.rows) for group, exact in found.items()] == [(("'; DROP TABLE x",), 1)]


# A table that changes.


def asked_of(data: Any, budget: Path, question: str = "count()") -> Any:
    return lethe.ask(data.keeper, question, epsilon=0.1, budget=budget)


@pytest.fixture
def data(base: Any, server: str, tmp_path: Path) -> Any:
    return in_server(server, tmp_path)


@pytest.fixture
def budget(data: Any, tmp_path: Path) -> Path:
    place = str(tmp_path / "b.db")
    assert run(["budget", "create", place, "--data", str(data.keeper), "--epsilon", "3"]) == 0
    return Path(place)


CHANGES = {
    "a row more": "INSERT INTO people SELECT * FROM people LIMIT 1",
    "a row less": "DELETE FROM people WHERE ctid = (SELECT min(ctid) FROM people)",
    "a cell": "UPDATE people SET age = 41 WHERE ctid = "
    "(SELECT min(ctid) FROM people WHERE age = 40)",
    "two cells swapped": "UPDATE people SET sex = CASE sex WHEN 'f' THEN 'm' ELSE 'f' END "
    "WHERE sex IN ('f', 'm')",
    "no rows": "TRUNCATE people",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_table_is_refused(base: Any, data: Any, budget: Path, change: str) -> None:
    first = asked_of(data, budget)
    assert not first.stored and asked_of(data, budget).stored
    base.execute("BEGIN")
    base.execute(CHANGES[change])
    if change != "no rows":  # which nobody may read meanwhile
        assert data.is_unchanged() and asked_of(data, budget).stored  # not committed
    base.execute("COMMIT")
    assert not data.is_unchanged()
    with pytest.raises(Mismatch):
        asked_of(data, budget)
    with pytest.raises(Mismatch):
        lethe.ask(data.keeper, "count()", epsilon=1.0, budget=None, no_budget=True)
    with contextlib.closing(open_ledger(budget)) as ledger:
        assert ledger.status(PEOPLE).queries == 1


def test_what_does_not_change_what_is_read_is_no_change(base: Any, data: Any) -> None:
    base.execute("ALTER TABLE people ADD COLUMN other text DEFAULT 'x'")
    base.execute("UPDATE people SET other = 'y'")
    base.execute("CREATE TABLE again AS SELECT * FROM people ORDER BY random()")
    base.execute("TRUNCATE people")
    base.execute("INSERT INTO people SELECT * FROM again")
    base.execute("VACUUM FULL people")
    assert data.is_unchanged()


def test_a_question_sees_the_table_that_was_checked(base: Any, data: Any) -> None:
    """Whoever writes meanwhile, fingerprint and answer are of one snapshot."""
    with opened(data) as table:
        base.execute("UPDATE people SET income = 1e6, sex = 'f'")
        assert table.is_unchanged()
        before = numbers(table, MEAN)
        base.execute("INSERT INTO people SELECT * FROM people")
        assert numbers(table, MEAN) == before and table.version == table.opened
        with pytest.raises(psycopg.errors.LockNotAvailable):
            base.execute("SET lock_timeout = '100ms'")
            base.execute("TRUNCATE people")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            base.execute("ALTER TABLE people ALTER COLUMN age TYPE text")
    base.execute("SET lock_timeout = 0")
    with opened(data) as table:
        assert not table.is_unchanged() and numbers(table, MEAN) != before


def test_a_partition_that_comes_meanwhile_is_noticed(
    base: Any, server: str, tmp_path: Path
) -> None:
    base.execute("CREATE TABLE parts (x integer) PARTITION BY LIST (x)")
    base.execute("CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1)")
    base.execute("CREATE TABLE apart AS SELECT 2 AS x")
    base.execute("INSERT INTO parts VALUES (1), (1)")
    data = in_server(server, tmp_path, Schema.of({"x": {"type": "whole"}}), "public.parts")
    with opened(data) as table:
        assert numbers(table, "count()")[()].rows == 2 and table.version == table.opened
        base.execute("ALTER TABLE parts ATTACH PARTITION apart FOR VALUES IN (2)")
        assert table.version != table.opened
    with opened(data) as table:
        assert numbers(table, "count()")[()].rows == 3 and not table.is_unchanged()
    base.execute("ALTER TABLE parts DETACH PARTITION apart")
    assert data.is_unchanged()


# What stands in front of the rows.


def test_functions_of_others_are_never_called(base: Any, server: str, tmp_path: Path) -> None:
    """Functions, operators, types and settings of the role that would stand in front of ours."""
    settled = replace(in_server(server, tmp_path), keeper=tmp_path / "settled.keeper")
    with PostgresTable(settled) as table:
        expected = [numbers(table, MEAN, person) for person in (None, "county")]
        before = table.fingerprint()
    evil = "LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'called'; END $$"
    base.execute("CREATE TABLE rows (income double precision)")
    for shadow in (
        f"FUNCTION abs(double precision) RETURNS double precision {evil}",
        f"FUNCTION trunc(double precision) RETURNS double precision {evil}",
        f"FUNCTION md5(text) RETURNS text {evil}",
        f"FUNCTION sha256(bytea) RETURNS bytea {evil}",
        f"FUNCTION times(double precision, double precision) RETURNS double precision {evil}",
        f"FUNCTION same(text, text) RETURNS boolean {evil}",
        "OPERATOR public.* (LEFTARG=double precision, RIGHTARG=double precision, FUNCTION=times)",
        "OPERATOR public.= (LEFTARG=text, RIGHTARG=text, FUNCTION=same)",
        "DOMAIN public.text AS pg_catalog.text CHECK (false)",
        "DOMAIN public.float8 AS pg_catalog.float8 CHECK (false)",
    ):
        base.execute(f"CREATE {shadow}")
    odd = {
        **{"search_path": "public, pg_catalog", "extra_float_digits": "-15"},
        **{"DateStyle": "'SQL, DMY'", "TimeZone": "'Asia/Kathmandu'", "bytea_output": "escape"},
        **{"standard_conforming_strings": "off", "transform_null_equals": "on"},
        **{"default_transaction_isolation": "'read committed'", "statement_timeout": "0"},
        **{"array_nulls": "off", "IntervalStyle": "iso_8601", "client_encoding": "LATIN1"},
    }
    try:
        for name, value in odd.items():
            base.execute(f"ALTER ROLE lethe SET {name} = {value}")
        with PostgresTable(in_server(server, tmp_path)) as table:
            assert [numbers(table, MEAN, person) for person in (None, "county")] == expected
            assert len(numbers(table, "count() by county")) > 15
        assert settled.is_unchanged() and settled.fingerprint() == before
        assert in_server(server, tmp_path).fingerprint() != before  # another key
        for setting in ("-c search_path=public", "-c DateStyle=German"):
            spaced = setting.replace(" ", "%20").replace("=", "%3D")
            url = f"{server}&options={spaced}"
            with PostgresTable(in_server(url, tmp_path)) as table:
                assert numbers(table, MEAN) == expected[0]
    finally:
        base.execute("ALTER ROLE lethe RESET ALL")


def test_texts_that_a_collation_calls_equal_are_two(base: Any, server: str, tmp_path: Path) -> None:
    base.execute(
        "CREATE COLLATION loose (provider=icu, locale='und-u-ks-level1', deterministic=false)"
    )
    base.execute("CREATE TABLE named (name text COLLATE loose)")
    base.execute("INSERT INTO named VALUES ('Kent'), ('kent'), ('KENT'), ('Ként')")
    schema = Schema.of({"name": {"type": "text"}})
    with PostgresTable(in_server(server, tmp_path, schema, "public.named")) as table:
        assert len(numbers(table, "count() by name")) == 4
        assert numbers(table, "count() where name = 'Kent'")[()].rows == 1
        assert numbers(table, "count() where name > 'Kent'")[()].rows == 2
        assert numbers(table, "count() where name in ['kent', 'KENT']")[()].rows == 2
        assert numbers(table, "count()", "name", 1)[()].rows == 4
        assert [e.rows for e in numbers(table, "count() by name among ['kent']").values()] == [1]
    listed = Schema.of({"name": {"type": "text", "values": ["kent"]}})
    with PostgresTable(in_server(server, tmp_path, listed, "public.named")) as table:
        assert numbers(table, "count() where name is not null")[()].rows == 1


STANDS = {
    "a view": "CREATE VIEW odd AS SELECT * FROM people",
    "a materialized view": "CREATE MATERIALIZED VIEW odd AS SELECT * FROM people",
    "a sequence": "CREATE SEQUENCE odd",
    "a parent": "CREATE TABLE odd (LIKE people); CREATE TABLE child () INHERITS (odd)",
    "row security": "CREATE TABLE odd (LIKE people); ALTER TABLE odd ENABLE ROW LEVEL SECURITY",
    "a foreign table": "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; "
    "CREATE FOREIGN TABLE odd (who bigint) SERVER s",
    "a foreign partition": "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; "
    "CREATE TABLE odd (LIKE people) PARTITION BY LIST (age); "
    "CREATE FOREIGN TABLE part PARTITION OF odd FOR VALUES IN (1) SERVER s",
    "nothing": "SELECT 1",
    "another schema": "CREATE SCHEMA IF NOT EXISTS elsewhere",
    "an enum": "CREATE TYPE kind AS ENUM ('f', 'm'); CREATE TABLE odd (LIKE people); "
    "ALTER TABLE odd ALTER sex TYPE kind USING NULL",
    "a domain": "CREATE DOMAIN years AS smallint; CREATE TABLE odd (LIKE people); "
    "ALTER TABLE odd ALTER age TYPE years",
    "a composite": "CREATE TYPE pair AS (a int, b int); CREATE TABLE odd (LIKE people); "
    "ALTER TABLE odd ALTER age TYPE pair USING NULL",
    "a time zone": "CREATE TABLE odd (LIKE people); ALTER TABLE odd ALTER seen TYPE timestamptz",
    "numbers as text": "CREATE TABLE odd (LIKE people); ALTER TABLE odd ALTER income TYPE text",
    "an array": "CREATE TABLE odd (LIKE people); ALTER TABLE odd ALTER age TYPE int[] USING NULL",
    "a missing column": "CREATE TABLE odd (LIKE people); ALTER TABLE odd DROP county",
    "an upper-case column": 'CREATE TABLE odd (LIKE people); ALTER TABLE odd RENAME age TO "Age"',
}
SAID = {
    **{"a view": "no ordinary table", "a materialized view": "no ordinary table"},
    **{"a sequence": "no ordinary table", "a foreign table": "no ordinary table"},
    **{"a parent": "children that inherit", "row security": "row security"},
    **{"a foreign partition": "partition that is no ordinary", "nothing": "not in this database"},
    **{"another schema": "not in this database", "an enum": r"columns\.sex\.type.*public\.kind\."},
    **{
        "a domain": r"columns\.age\.type.*public\.years\.",
        "a composite": r"columns\.age\.type.*public\.pair\.",
    },
    **{"a time zone": "timestamp with time zone", "numbers as text": r"columns\.income\.type"},
    **{"an array": r"integer\[\]", "a missing column": "'county', which the table does not have"},
    **{"an upper-case column": "Did you mean 'Age'|Columns: who, Age"},
}


@pytest.mark.parametrize("stands", STANDS)
def test_what_is_no_plain_table_is_refused(
    base: Any, server: str, tmp_path: Path, stands: str
) -> None:
    base.execute("DROP SERVER IF EXISTS s CASCADE; DROP FOREIGN DATA WRAPPER IF EXISTS w CASCADE")
    base.execute(STANDS[stands])
    name = "elsewhere.odd" if stands == "another schema" else "public.odd"
    with pytest.raises(InputError, match=SAID[stands]) as caught:
        in_server(server, tmp_path, table=name)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    assert not (tmp_path / "people.keeper").exists()


def test_a_table_that_became_another_is_refused_in_one_sentence(
    base: Any, data: Any, budget: Path
) -> None:
    base.execute("ALTER TABLE people ALTER age TYPE text")
    with pytest.raises(RunFailed, match="no longer the columns that were registered"):
        asked_of(data, budget)
    base.execute("DROP TABLE people; CREATE VIEW people AS SELECT 1 AS who")
    with pytest.raises(RunFailed, match="no longer the columns that were registered"):
        asked_of(data, budget)


def test_a_role_needs_no_more_than_to_read(base: Any, server: str, tmp_path: Path) -> None:
    url = server.replace("lethe@", "reader@")
    base.execute("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN")
    with pytest.raises(InputError, match="may not be read by this role"):
        in_server(url, tmp_path)
    base.execute("GRANT USAGE ON SCHEMA public TO reader; GRANT SELECT ON people TO reader")
    with PostgresTable(in_server(url, tmp_path)) as table:
        assert numbers(table, "count()")[()].rows > 500
        with pytest.raises(RunFailed, match="Insufficient|ReadOnly"), table._quiet():
            table._base.execute("DELETE FROM public.people")
    base.execute("REVOKE ALL ON people FROM reader; DROP OWNED BY reader; DROP ROLE reader")


def test_a_missing_cell_that_may_not_be_is_counted(base: Any, server: str, tmp_path: Path) -> None:
    whole = {name: dict(declared) for name, (_, _, declared) in COLUMNS.items()}
    whole["ok"]["missing"] = False
    with pytest.raises(InputError, match=r"columns\.ok\.missing=false, but \d+ cells"):
        in_server(server, tmp_path, Schema.of(whole))


def test_a_generated_or_defaulted_column_is_a_column(
    base: Any, server: str, tmp_path: Path
) -> None:
    base.execute(
        "CREATE TABLE made (a integer DEFAULT 7, b bigint GENERATED ALWAYS AS (a * 2) STORED)"
    )
    base.execute("INSERT INTO made DEFAULT VALUES")
    schema = Schema.of({"a": {"type": "whole"}, "b": {"type": "whole"}})
    with PostgresTable(in_server(server, tmp_path, schema, "public.made")) as table:
        assert table.run("SELECT a, b FROM rows") == [(7, 14)]


# Who may know what.


def test_an_error_tells_nothing_of_the_rows(base: Any, data: Any) -> None:
    with PostgresTable(data) as table:
        with pytest.raises(RunFailed) as caught:
            table.run("SELECT CAST(county AS INTEGER) FROM rows")
        assert "Kent" not in str(caught.value) and "InvalidTextRepresentation" in str(caught.value)
        assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_no_password_is_written_or_shown(
    base: Any, server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = server.replace("lethe@", "lethe:hunter2@")
    settled = tmp_path / "people.toml"
    settled.write_text(SCHEMA.to_toml())
    keeper = tmp_path / "people.keeper"
    for url in (secret, f"{server}&password=hunter2", f"{server}&sslpassword=hunter2"):
        with pytest.raises(InputError, match="holds a (ssl)?password"):
            register(url, SCHEMA, table=PEOPLE, keeper=keeper)
        given = ["--table", PEOPLE, "--schema", str(settled), "--keeper", str(keeper)]
        assert run(["register", url, *given]) == 2
        assert run(["register", url]) == 2
        assert run(["schema", url]) == 2
        assert run(["query", url, "count()", "--epsilon", "1", "--no-budget"]) == 2
        assert run(["budget", "create", str(tmp_path / "b"), "--data", url, "--epsilon", "1"]) == 2
        assert run(["budget", "forget-data", url]) == 2
        with pytest.raises(InputError):
            find(url)
    shown = capsys.readouterr()
    assert "hunter2" not in shown.out + shown.err and not keeper.exists()
    bad = "postgresql://lethe:hunter2@[::1/x"
    with pytest.raises(InputError, match="cannot be read") as caught:
        register(bad, SCHEMA, table=PEOPLE, keeper=keeper)
    assert "hunter2" not in str(caught.value)
    data = in_server(server, tmp_path)
    assert stat.S_IMODE(keeper.stat().st_mode) == 0o600
    document = json.loads(keeper.read_text())
    assert document["url"] == server and document["rows"] is None and load(keeper) == data
    document["url"] = secret
    keeper.write_text(json.dumps(document))
    with pytest.raises(RunFailed), opened(load(keeper)):
        pass


def test_a_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="cannot be reached") as caught:
        in_server(f"postgresql://lethe@/none?host={tmp_path}", tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [None, "people", ".people", "public."])
def test_a_table_has_two_names(server: str, tmp_path: Path, name: str | None) -> None:
    with pytest.raises(InputError, match="--table public.people"):
        register(server, SCHEMA, table=name, keeper=tmp_path / "k.keeper")


@pytest.mark.parametrize("missing", ["psycopg", "sqlglot"])
def test_what_is_not_installed_is_named(
    base: Any, data: Any, budget: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        MissingExtra, match=rf"{missing} is not installed.*lethe-privacy\[postgres\]"
    ):
        asked_of(data, budget)


def test_a_database_of_another_encoding_is_refused(base: Any, server: str, tmp_path: Path) -> None:
    base.execute("DROP DATABASE IF EXISTS latin")
    base.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    with pytest.raises(InputError, match="encoding LATIN1"):
        in_server(server.replace("/postgres?", "/latin?"), tmp_path)


# From the command line to the answer.


def test_from_registration_to_the_answer(
    base: Any,
    server: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    settled, keeper, ledger = "people.toml", f"{PEOPLE}.keeper", "b.db"
    Path(settled).write_text(SCHEMA.to_toml())
    assert run(["register", server, "--table", PEOPLE, "--schema", settled]) == 0
    assert run(["register", server, "--table", PEOPLE, "--schema", settled]) == 0
    assert run(["budget", "create", ledger, "--data", keeper, "--epsilon", "3"]) == 0
    cost = ["--epsilon", "1", "--budget", ledger]
    assert run(["query", keeper, MEAN, *cost, "--dry-run"]) == 0
    capsys.readouterr()
    assert run(["query", keeper, MEAN, *cost, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    with PostgresTable(load(Path(keeper))) as table:
        exact = numbers(table, MEAN)
    assert [row["key"]["sex"] for row in told["rows"]] == ["f", "m"]
    for row in told["rows"]:
        found = exact[(row["key"]["sex"],)]
        assert abs(row["value"] - found.sums[0] / found.rows * 2**-15) < 40
    assert run(["budget", "show", ledger]) == 0
    shown = capsys.readouterr().out
    assert PEOPLE in shown and "33.3% spent" in shown
    again = lethe.ask(keeper, MEAN, epsilon=1.0, budget=ledger)
    assert any("database server" in one for one in again.answers.guarantee.assumptions)
    assert again.stored and again.answers.rows[0].value == told["rows"][0]["value"]
    assert run(["budget", "verify", ledger]) == 0
    with pytest.raises(InputError, match="registered with another schema or content"):
        register(server, Schema.of({"who": {"type": "whole"}}), table=PEOPLE)
    assert run(["budget", "forget-data", keeper]) == 0 and not Path(keeper).exists()


def test_the_service_reads_files(base: Any, data: Any, tmp_path: Path) -> None:
    from lethe.queries.service import query_service

    config = query_service.DatasetConfig.__new__(query_service.DatasetConfig)
    object.__setattr__(config, "path", data.keeper)
    object.__setattr__(config, "inside", None)
    with pytest.raises(InputError, match="the service reads files"):
        query_service._opened(config)


# Other words for the same statement.

GOLDEN = Schema.of({"age": {"type": "whole"}, "pay": {"type": "number"}, "who": {"type": "text"}})


def put(question: str, person: str | None = None) -> str:
    query = bind(parse(question), GOLDEN, person)
    layout = query.aggregate.layout(query.by, GOLDEN)
    return statement(layout, GOLDEN, query.where, person, 2, "salt").text


def test_other_databases_are_written_for_and_not_asked() -> None:
    count = put("count() where age >= 65")
    assert as_text(count, "spark") == (
        "SELECT COUNT(*) FROM (SELECT 1 FROM rows WHERE (`age` >= CAST(:1 AS BIGINT))) AS used"
    )
    assert as_text(count, "bigquery") == (
        "SELECT COUNT(*) FROM (SELECT 1 FROM `rows` WHERE (`age` >= CAST(@1 AS INT64))) AS used"
    )
    assert "OCTET_LENGTH(" in as_text(put("count() by age", "who"), "spark").upper()
    assert "BYTE_LENGTH(" in as_text(put("count() by age", "who"), "bigquery").upper()
    with pytest.raises(InputError, match="dialect='mysql' must be one of"):
        as_text(count, "mysql")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT pay * age FROM rows",
        "SELECT pay / age FROM rows",
        'SELECT "u0" * "u1" FROM rows',
        "SELECT pay - age FROM rows",
        "SELECT pay * '1e200'::DOUBLE FROM rows",
        "SELECT round(pay, 2) FROM rows",
        "SELECT sqrt(pay) FROM rows",
        "SELECT my_own(pay) FROM rows",
        "SELECT age % 2 FROM rows",
        "SELECT age + 1 FROM rows",
        "SELECT age FROM rows LIMIT 1",
        "DELETE FROM rows",
    ],
)
def test_what_may_mean_something_else_is_not_translated(text: str) -> None:
    with pytest.raises(InputError, match="not known to mean the same in PostgreSQL"):
        to_postgres(text, GOLDEN)


def test_what_is_not_translated_is_no_refusal_after_a_payment(base: Any, data: Any) -> None:
    with PostgresTable(data) as table, pytest.raises(RunFailed, match="not known to mean the same"):
        table.run("SELECT sqrt(income) FROM rows")


def test_parameters_keep_their_values_in_another_order() -> None:
    text = to_postgres(put("count() where who = 'x' by age among [1, 2]", "who"), GOLDEN)
    assert text.index("$3") < text.index("$1") < text.index("$2") and "?" not in text
