"""A ledger in PostgreSQL, for many machines: the row of a data set's head is the lock.

Needs the extra ``postgres``. A commit returns when the server has it on disk: the session asks
for ``synchronous_commit`` and a server with ``fsync`` switched off is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError, LetheError, require
from lethe.queries.ledger.contract import Damaged, NoLedger, Unavailable
from lethe.queries.ledger.rows import TABLES, Rows, Store

if TYPE_CHECKING:
    import psycopg

PATIENCE = "30s"
_LETHE = 0x4C657468
_REFUSE = (
    "CREATE FUNCTION lethe_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'a ledger is append-only'; END $$"
)
_NEXT = (
    "CREATE FUNCTION lethe_next_only() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN IF NEW.number IS DISTINCT FROM "
    "(SELECT entries FROM lethe_heads WHERE dataset = NEW.dataset) "
    "THEN RAISE EXCEPTION 'a ledger takes the next number only'; END IF; RETURN NEW; END $$"
)
_MOVE = (
    "CREATE FUNCTION lethe_head_moves() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN IF NEW.dataset <> OLD.dataset OR NEW.entries <> OLD.entries + 1 "
    "THEN RAISE EXCEPTION 'a head moves by one entry'; END IF; RETURN NEW; END $$"
)
TRIGGERS = {
    "lethe_no_change": "BEFORE UPDATE OR DELETE ON lethe_entries FOR EACH ROW "
    "EXECUTE FUNCTION lethe_append_only()",
    "lethe_no_truncate": "BEFORE TRUNCATE ON lethe_entries FOR EACH STATEMENT "
    "EXECUTE FUNCTION lethe_append_only()",
    "lethe_next": "BEFORE INSERT ON lethe_entries FOR EACH ROW EXECUTE FUNCTION lethe_next_only()",
    "lethe_head_stays": "BEFORE DELETE ON lethe_heads FOR EACH ROW "
    "EXECUTE FUNCTION lethe_append_only()",
    "lethe_heads_no_truncate": "BEFORE TRUNCATE ON lethe_heads FOR EACH STATEMENT "
    "EXECUTE FUNCTION lethe_append_only()",
    "lethe_head": "BEFORE UPDATE ON lethe_heads FOR EACH ROW EXECUTE FUNCTION lethe_head_moves()",
}


class PostgresStore(Store):
    """See `lethe.queries.ledger.rows.Store`.

    Args:
        url: ``postgresql://user@host/database``.

    Raises MissingExtra: psycopg is not installed.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._driver = require("psycopg", "postgres")
        self._url = url

    def prepare(self) -> None:
        """Make the tables if there are none."""
        with self._speaking():
            connection = self._connected()
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LETHE,))
                if not _is_ledger(connection):
                    for statement in (*TABLES, _REFUSE, _NEXT, _MOVE):
                        connection.execute(statement.encode())
                    for name, rest in TRIGGERS.items():
                        connection.execute(f"CREATE TRIGGER {name} {rest}".encode())

    @contextlib.contextmanager
    def reading(self) -> Iterator[Rows]:
        """One view that stays the same."""
        with self._speaking():
            connection = self._ledger()
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                yield _rows(connection)

    @contextlib.contextmanager
    def writing(self, dataset: str) -> Iterator[Rows]:
        """Alone with the data set: others wait for the row of its head."""
        with self._speaking():
            connection = self._ledger()
            with connection.transaction():
                # What follows must see what the one before committed: no older snapshot.
                connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                statement = "SELECT 1 FROM lethe_heads WHERE dataset = %s FOR UPDATE"
                entered = connection.execute(statement, (dataset,)).fetchone()
                if entered is None:  # it is being entered
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LETHE,))
                yield _rows(connection)

    @contextlib.contextmanager
    def accepting(self) -> Iterator[Rows]:
        """Alone with all heads."""
        with self._speaking():
            connection = self._ledger()
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                connection.execute("LOCK TABLE lethe_heads IN EXCLUSIVE MODE")
                yield _rows(connection)

    def rollback(self) -> str:
        """A server keeps no count beside its tables: only an anchor can tell."""
        return ""

    def problems(self) -> list[str]:
        """Triggers that are missing or switched off."""
        with self._speaking():
            statement = (
                "SELECT tgname FROM pg_trigger WHERE tgenabled = 'O' AND tgrelid IN "
                "('lethe_entries'::regclass, 'lethe_heads'::regclass)"
            )
            names = {row[0] for row in self._ledger().execute(statement)}
        return [f"the trigger {name} is missing or off" for name in TRIGGERS if name not in names]

    def _ledger(self) -> psycopg.Connection[Any]:
        connection = self._connected()
        if not _is_ledger(connection):
            raise NoLedger(
                "this database holds no ledger. Make one with: "
                "lethe budget create URL --data FILE --epsilon 1"
            )
        return connection

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            fresh: psycopg.Connection[Any] = self._driver.connect(
                self._url, autocommit=True, application_name="lethe"
            )
            try:
                fresh.execute("SET synchronous_commit TO on")
                fresh.execute(f"SET lock_timeout TO '{PATIENCE}'".encode())
                if fresh.execute("SELECT current_setting('fsync')").fetchone() != ("on",):
                    raise InputError(
                        "this server runs with fsync=off and may forget what was spent; "
                        "switch it on, or use another server."
                    )
            except BaseException:
                fresh.close()
                raise
            self._connection = fresh
        connected: psycopg.Connection[Any] = self._connection
        return connected

    def _said(self, error: Exception) -> LetheError | None:
        errors = self._driver.errors
        if isinstance(error, (errors.RaiseException, errors.IntegrityError, errors.DataError)):
            return Damaged(f"the ledger contradicts itself: {_first(error)} Nothing was spent.")
        if isinstance(error, self._driver.Error):
            return Unavailable(
                f"the ledger's server cannot be used: {_first(error)} No answer may leave; "
                "if the connection broke at the very end, the cost may have been recorded."
            )
        return None


def _rows(connection: psycopg.Connection[Any]) -> Rows:
    def execute(statement: str, values: tuple[Any, ...]) -> Iterable[Any]:
        done = connection.execute(statement.replace("?", "%s").encode(), values)
        return done.fetchall() if done.description else []

    return Rows(execute)


def _is_ledger(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute("SELECT to_regclass('lethe_heads') IS NOT NULL").fetchone()
    return bool(row and row[0])


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".") + "."
