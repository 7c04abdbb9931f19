"""A registered table in PostgreSQL: questions go to the rows, and only aggregates come back.

What a statement sees is the table `rows`: the columns of the schema and no others, each cell cast
to its declared type. The casts are total: no cell makes them fail. All statements about one
question, and the fingerprint that binds the table to a budget, read one snapshot.

Needs the extra ``postgres``.
"""

from __future__ import annotations

import contextlib
import hmac
import types
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lethe.data.casts import quoted, text_sql
from lethe.data.schema import DAY, Column, Value
from lethe.errors import InputError, RunFailed, did_you_mean, require
from lethe.queries.dialects import to_postgres

if TYPE_CHECKING:
    from lethe.queries.registration import Registered

LONGEST_TEXT = 2**19
"""Bytes of a cell of text; longer ones are missing, so that no row is more than a server holds."""
OLDEST_SERVER = 140_000
PATIENCE = "30s"
_SETTINGS = {
    "search_path": "pg_catalog, pg_temp",  # nobody's functions or operators in place of ours
    "row_security": "off",  # rows that are hidden by a policy are an error, never left out
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "extra_float_digits": "1",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "statement_timeout": "0",  # when it strikes depends on the rows
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": PATIENCE,
    "client_min_messages": "error",
}
_KIND = (
    "SELECT CAST(c.oid AS bigint), CAST(c.relkind AS text), c.relrowsecurity, "
    "EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhparent = c.oid), "
    "EXISTS (SELECT FROM pg_partition_tree(c.oid) AS p JOIN pg_class AS d ON d.oid = p.relid "
    "WHERE d.relkind NOT IN ('r', 'p')) "
    "FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE n.nspname = $1 AND c.relname = $2"
)
_COLUMNS = (
    "SELECT CAST(attname AS text), CAST(atttypid AS bigint), format_type(atttypid, atttypmod), "
    "CAST(attgenerated AS text) FROM pg_attribute "
    "WHERE attrelid = CAST($1 AS oid) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
)
_PARTS = (
    "SELECT coalesce(string_agg(CAST(CAST(relid AS oid) AS text), ' ' ORDER BY CAST(relid AS oid)),"
    " '') FROM pg_partition_tree(CAST(CAST($1 AS oid) AS regclass))"
)


class PostgresTable:
    """An open table, as `lethe.queries.table.Table`; use it in a `with` block, or call `close`."""

    def __init__(self, registered: Registered) -> None:
        """Open registered data.

        Raises:
            InputError: the table is not there, is none whose rows can be trusted to stay what they
                are, or does not fit the schema; or the URL holds a password.
            RunFailed: the server cannot be used.
            MissingExtra: psycopg or sqlglot is not installed.
        """
        self.registered, self.schema = registered, registered.schema
        self._driver: Any = require("psycopg", "postgres")
        require("sqlglot", "postgres")
        space, _, self._name = (registered.table or "").partition(".")
        if not (space and self._name):
            raise InputError(
                f"--table={registered.table} must be the name of a table with that of its schema, "
                "such as --table public.people."
            )
        self._at = f"{quoted(space)}.{quoted(self._name)}"
        self._base = self._connected(registered.url or "")
        try:
            with self._quiet():
                self._begin()
                self._id = self._checked(space)
                self._rows = self._cast()
                self.opened = self.version
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> PostgresTable:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the server."""
        self._base.close()

    @property
    def version(self) -> str:
        """A mark that changes when another partition is attached: one snapshot holds all else.

        Raises RunFailed: the server cannot be used.
        """
        with self._quiet():
            return str(self._asked(_PARTS, (self._id,))[0][0])

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """As `lethe.queries.table.Table.run`; the statement is in DuckDB's words."""
        try:
            text = to_postgres(sql, self.schema)
        except InputError as error:  # which may be after a payment
            raise RunFailed(str(error)) from None
        with self._quiet():
            return self._asked(f"WITH rows AS ({self._rows}) {text}", values)

    def fingerprint(self) -> str:
        """The keyed hash of rows and schema, as `Registered.fingerprint`.

        The server adds up hashes of the rows, in any order, under a key that is made of the
        keeper's; what a ledger keeps is a hash of these sums under the keeper's own key.
        """
        texts = [f"CAST({quoted(name)} AS text)" for name in self.schema]
        parts = [f"coalesce(octet_length({text}) || ':' || {text}, '-')" for text in texts]
        hashed = f"sha256(convert_to(CAST($1 AS text) || {' || '.join(parts)}, 'UTF8'))"
        halves = [
            f"coalesce(sum(CAST(CAST('x' || {half} AS bit(64)) AS bigint)), 0)"
            for half in ("left(hash, 16)", "substr(hash, 17, 16)")
        ]
        text = (
            f"WITH rows AS ({self._rows}) SELECT count(*), {', '.join(halves)} "
            f"FROM (SELECT encode({hashed}, 'hex') AS hash FROM rows OFFSET 0) AS hashed"
        )
        key = self.registered.key
        with self._quiet():
            sums = self._asked(text, (hmac.new(key, b"rows", "sha256").hexdigest(),))[0]
        facts = f"{sums} {self.schema.canonical()} {self.registered.table}"
        return hmac.new(key, facts.encode(), "sha256").hexdigest()

    def is_unchanged(self) -> bool:
        """Whether rows and schema are those that were registered."""
        return hmac.compare_digest(self.registered.settled, self.fingerprint())

    def misfits(self) -> dict[str, int]:
        """By column that may not be missing, how many cells are missing or do not fit."""
        counts = ", ".join(f"count(*) - count({quoted(name)})" for name in self.schema)
        with self._quiet():
            numbers = self._asked(f"WITH rows AS ({self._rows}) SELECT {counts} FROM rows", ())[0]
        found = dict(zip(self.schema, map(int, numbers), strict=True))
        return {name: n for name, n in found.items() if n and not self.schema[name].missing}

    def _connected(self, url: str) -> Any:
        try:
            given = self._driver.conninfo.conninfo_to_dict(url)
        except self._driver.ProgrammingError:
            raise InputError(
                "the URL of the database cannot be read. Write postgresql://user@host/database."
            ) from None
        if secret := [name for name in ("password", "sslpassword") if given.get(name)]:
            raise InputError(
                f"the URL of the database holds a {secret[0]}, which would be written to a file. "
                "Leave it out, and give it by PGPASSWORD, ~/.pgpass or a service file."
            )
        try:
            base = self._driver.connect(
                url,
                autocommit=True,
                application_name="lethe",
                prepare_threshold=None,
                cursor_factory=self._driver.RawCursor,
            )
        except self._driver.Error as error:
            raise RunFailed(
                f"the server of {self.registered.name} cannot be reached "
                f"({type(error).__name__}). Check the URL, the role and the network."
            ) from None
        encoding = base.info.parameter_status("server_encoding")
        version = base.info.server_version
        if version < OLDEST_SERVER or encoding != "UTF8":
            base.close()
            raise InputError(
                f"this database is of version {version // 10_000} with encoding {encoding}; "
                f"questions need PostgreSQL {OLDEST_SERVER // 10_000} or newer and UTF8. Copy the "
                "table into such a database."
            )
        return base

    def _begin(self) -> None:
        self._base.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        newer = {"transaction_timeout": "0"} if self._base.info.server_version >= 170_000 else {}
        for name, value in (_SETTINGS | newer).items():
            self._base.execute(f"SET LOCAL {name} = {_setting(name, value)}")
        errors = self._driver.errors
        try:
            # Before the snapshot, so that the table stays as the snapshot has it.
            self._base.execute(f"LOCK TABLE {self._at} IN ACCESS SHARE MODE")
        except (errors.UndefinedTable, errors.InvalidSchemaName):
            raise self._refused("is not in this database. Names are as in the catalogue") from None
        except errors.WrongObjectType:
            raise self._refused("is no ordinary table") from None
        except errors.InsufficientPrivilege:
            raise self._refused("may not be read by this role: GRANT SELECT") from None

    def _checked(self, space: str) -> int:
        """The table's number, if what it holds are rows and nothing that runs when it is read."""
        found = self._asked(_KIND, (space, self._name))
        if not found:
            raise self._refused("is not in this database")
        number, kind, secured, inherited, strange = found[0]
        if kind not in ("r", "p"):
            raise self._refused("is no ordinary table, and could run functions when it is read")
        if secured:
            raise self._refused(
                "has row security, by which rows depend on who asks. Switch it off for it"
            )
        if kind == "r" and inherited:
            raise self._refused("has children that inherit from it. Make it a partitioned table")
        if strange:
            raise self._refused("has a partition that is no ordinary table")
        self._from = f"{'ONLY ' if kind == 'r' else ''}{self._at}"
        return int(number)

    def _cast(self) -> str:
        """The SELECT that is `rows`."""
        columns = {name: rest for name, *rest in self._asked(_COLUMNS, (self._id,))}
        cast = []
        for name in self.schema:
            if name not in columns:
                raise InputError(
                    f"the schema declares column {name!r}, which the table does not have."
                    f"{did_you_mean(name, columns)} Columns: {', '.join(list(columns)[:40])}."
                )
            kind, shown, generated = columns[name]
            if generated == "v":
                raise InputError(
                    f"column {name!r} is computed when it is read. Declare a stored column."
                )
            cast.append(f"{cast_sql(self.schema[name], kind, shown)} AS {quoted(name)}")
        return f"SELECT {', '.join(cast)} FROM {self._from}"

    def _asked(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        lines = self._base.execute(sql, list(values)).fetchall()
        return [tuple(int(c) if isinstance(c, Decimal) else c for c in line) for line in lines]

    def _refused(self, why: str) -> InputError:
        return InputError(
            f"table {self.registered.table} {why}. Questions are asked about ordinary and "
            "partitioned tables: name another by --table."
        )

    @contextlib.contextmanager
    def _quiet(self) -> Iterator[None]:
        """What the server says can hold cells of the table."""
        try:
            yield
        except (self._driver.Error, UnicodeError) as error:
            raise RunFailed(
                f"the rows of {self.registered.name} could not be read to their end "
                f"({type(error).__name__}). What the server said is not shown: it could hold "
                "values of the table. Check the server, the role and the network."
            ) from None


def _setting(name: str, value: str) -> str:
    return value if name == "search_path" else text_sql(value)


# Casts in the words of PostgreSQL: a cell of any type as what its schema declares, or missing. Each
# is total and looks at one cell alone; a CASE is decided before its branches are computed.

_SOURCES = {
    **dict.fromkeys((20, 21, 23), "integer"),
    1700: "numeric",
    **dict.fromkeys((700, 701), "float"),
    16: "boolean",
    **dict.fromkeys((25, 1042, 1043), "text"),
    1082: "date",
    1114: "timestamp",
    2950: "uuid",
}
"""By number in `pg_type`, the same on every server: types whose casts nobody can change."""
_DAYS = "{x} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
_TIMES = "{x} BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999'"
_IS_ONE = "CASE WHEN {x} = 1 THEN true WHEN {x} = 0 THEN false END"
_LARGEST = "1.7976931348623157e308"
_CASTS = {
    ("integer", "whole"): "CAST({x} AS {kind})",
    ("integer", "number"): "CAST({x} AS double precision)",
    ("integer", "bool"): _IS_ONE,
    ("integer", "text"): "CAST({x} AS text)",
    ("numeric", "whole"): "CASE WHEN {x} BETWEEN {low} AND {high} AND {x} = trunc({x}) "
    "THEN CAST(trunc({x}) AS {kind}) END",
    ("numeric", "number"): "CASE WHEN abs({x}) < 1e-320 THEN CAST(0 AS double precision) "
    f"WHEN abs({{x}}) <= {_LARGEST} THEN CAST({{x}} AS double precision) END",
    ("numeric", "bool"): _IS_ONE,
    ("float", "whole"): "CASE WHEN {real} >= CAST('-9223372036854775808' AS double precision) "
    "AND {real} < CAST('9223372036854775808' AS double precision) AND {real} = trunc({real}) "
    "THEN CAST({real} AS bigint) END",
    ("float", "number"): "CASE WHEN {real} <> CAST('NaN' AS double precision) THEN {real} END",
    ("float", "bool"): _IS_ONE,
    ("boolean", "whole"): "CAST(CAST({x} AS integer) AS {kind})",
    ("boolean", "number"): "CAST(CAST({x} AS integer) AS double precision)",
    ("boolean", "bool"): "{x}",
    ("boolean", "text"): "CAST({x} AS text)",
    ("text", "text"): "CASE WHEN octet_length(CAST({x} AS text)) <= {longest} "
    "THEN CAST({x} AS text) END",
    ("uuid", "text"): "CAST({x} AS text)",
    ("date", "date"): f"CASE WHEN {_DAYS} THEN CAST({{x}} - DATE '1970-01-01' AS bigint) END",
    ("date", "time"): f"CASE WHEN {_DAYS} THEN ({{x}} - DATE '1970-01-01') "
    f"* CAST('{DAY}' AS bigint) END",
    ("timestamp", "time"): f"CASE WHEN {_TIMES} "
    "THEN CAST(extract(epoch FROM {x}) * 1000000 AS bigint) END",
    ("timestamp", "date"): f"CASE WHEN {_TIMES} "
    "THEN CAST(CAST({x} AS date) - DATE '1970-01-01' AS bigint) END",
}


def cast_sql(column: Column, kind: int, shown: str) -> str:
    """The total cast of a column, with what is outside its domain missing or clamped.

    Args:
        kind: number of its type in `pg_type`.
        shown: the type in words.

    Raises InputError: a type whose cells are no values of the declared one, or cannot be cast
        without failing.
    """
    cell = quoted(column.name)
    cast = _CASTS.get((_SOURCES.get(kind, ""), column.type))
    if cast is None or (column.wide and _SOURCES[kind] == "float"):
        raise InputError(
            f"columns.{column.name}.type={column.type!r} does not fit the table, where it is "
            f"{shown}. Declare another type, leave the column out of the schema, or keep it in "
            "the table as a column of a plain type."
        )
    low, high = (f"CAST('{end}' AS numeric)" for end in column.range)
    found = cast.format(
        x=cell,
        real=f"CAST({cell} AS double precision)",
        kind="numeric" if column.wide else "bigint",
        low=low,
        high=high,
        longest=LONGEST_TEXT,
    )
    if column.type == "text":
        found = f'({found}) COLLATE "C"'
    found = f"({found})"
    if column.values is not None:
        listed = ", ".join(_value_sql(column, value) for value in column.values)
        return f"CASE WHEN {found} IN ({listed}) THEN {found} END"
    if column.bounds is None:
        return found
    low, high = (_value_sql(column, bound) for bound in column.bounds)
    if column.outside == "missing":
        return f"CASE WHEN {found} BETWEEN {low} AND {high} THEN {found} END"
    return (
        f"CASE WHEN {found} < {low} THEN {low} WHEN {found} <= {high} THEN {found} "
        f"WHEN {found} IS NOT NULL THEN {high} END"
    )


def _value_sql(column: Column, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return text_sql(value)
    if column.type == "number":
        return f"CAST('{float(value)!r}' AS double precision)"
    return f"CAST('{value}' AS {'numeric' if column.wide else 'bigint'})"
