"""A ledger in one SQLite file: write-ahead log, synced at every commit, one writer at a time.

Writers queue at a small file beside it (``b.db-lock``), because SQLite's own waiting sleeps up to
100 ms. It also says how many entries the ledger had; if it has fewer, its end was cut or an old
copy was put back. A help against accidents, no proof: an anchor is (`lethe.queries.ledger.verify`).
All files are the owner's alone (0600).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from lethe.errors import InputError, LetheError
from lethe.files import keep_private
from lethe.queries.ledger.contract import Damaged, NoLedger, Unavailable
from lethe.queries.ledger.rows import TABLES, Rows, Store
from lethe.queries.ledger.words import refused

APPLICATION = 0x4C657468  # "Leth"
PATIENCE = 30.0  # seconds to wait for other writers
_POLL = 0.001
_NOTHING = "Nothing was spent."
_COUNT = b"%20d\n"
TRIGGERS = (
    "CREATE TRIGGER lethe_no_update BEFORE UPDATE ON lethe_entries "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    "CREATE TRIGGER lethe_no_delete BEFORE DELETE ON lethe_entries "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    "CREATE TRIGGER lethe_next_only BEFORE INSERT ON lethe_entries WHEN NEW.number IS NOT "
    "(SELECT entries FROM lethe_heads WHERE dataset = NEW.dataset) "
    "BEGIN SELECT RAISE(ABORT, 'a ledger takes the next number only'); END",
    "CREATE TRIGGER lethe_head_moves BEFORE UPDATE ON lethe_heads WHEN NEW.dataset IS NOT "
    "OLD.dataset OR NEW.entries IS NOT OLD.entries + 1 "
    "BEGIN SELECT RAISE(ABORT, 'a head moves by one entry'); END",
    "CREATE TRIGGER lethe_head_stays BEFORE DELETE ON lethe_heads "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    "CREATE TRIGGER lethe_head_once BEFORE INSERT ON lethe_heads WHEN EXISTS "
    "(SELECT 1 FROM lethe_heads WHERE dataset = NEW.dataset) "
    "BEGIN SELECT RAISE(ABORT, 'a data set is entered once'); END",
)
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_AWAY = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_NOMEM,
)


class SqliteStore(Store):
    """See `lethe.queries.ledger.rows.Store`."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._opened: tuple[int, int] | None = None  # device and inode of the file

    def prepare(self) -> None:
        """Make file and tables if there are none.

        Raises InputError: the file is something else, or a ledger was here and is gone.
        """
        with self._speaking(), self._queued(create=not self._there()) as lock:
            known = _read_count(lock)
            if self._there():
                if known is None:
                    raise Damaged(refused(self._unknown()))
            elif known:
                raise InputError(
                    f"{self.path} held {known} entries and is gone: put it back. To forget what "
                    f"was spent, on purpose, delete {self.path}-lock as well."
                )
            if known is None:  # on disk before the ledger is, so that a ledger always has a count
                os.pwrite(lock, _COUNT % 0, 0)
                os.fsync(lock)
            keep_private(self.path, create=True)
            with contextlib.closing(self._open("rwc")) as fresh:
                if _application(fresh) == APPLICATION:
                    return
                if fresh.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                    raise Unavailable(
                        f"{self.path}: this file system has no write-ahead log; use a local disk, "
                        "or PostgreSQL by URL."
                    )
                fresh.execute("BEGIN IMMEDIATE")
                for statement in (*TABLES, *TRIGGERS):
                    fresh.execute(statement)
                fresh.execute(f"PRAGMA application_id = {APPLICATION}")
                fresh.execute("COMMIT")

    @contextlib.contextmanager
    def reading(self) -> Iterator[Rows]:
        """One view that stays the same."""
        with self._speaking():
            connection = self._connected()
            connection.execute("BEGIN")
            try:
                yield Rows(connection.execute)
            finally:
                _undo(connection)

    @contextlib.contextmanager
    def writing(self, dataset: str) -> Iterator[Rows]:
        """Alone with the file."""
        with self._speaking():
            connection = self._connected()
            with self._queued() as lock, self._committing(connection, lock) as rows:
                if wrong := self._wrong(rows.total, _read_count(lock)):
                    raise Damaged(refused(wrong))
                yield rows

    @contextlib.contextmanager
    def accepting(self) -> Iterator[Rows]:
        """Alone with the file, whatever the count beside it says; it is right afterwards."""
        with self._speaking():
            connection = self._connected()
            with self._queued(create=True) as lock, self._committing(connection, lock) as rows:
                yield rows

    def rollback(self) -> str:
        """Compare the ledger with the count beside the file."""
        with self._speaking():
            connection, known = self._connected(), self._known()
            return self._wrong(_total(connection), known)

    @contextlib.contextmanager
    def _committing(self, connection: sqlite3.Connection, lock: int) -> Iterator[Rows]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            rows = Rows(connection.execute, _total(connection))
            yield rows
            connection.execute("COMMIT")
        finally:
            _undo(connection)
        # Only ever behind the ledger, as the ledger is on disk before this is written.
        os.pwrite(lock, _COUNT % (rows.total + rows.appended), 0)

    def _wrong(self, total: int, known: int | None) -> str:
        """Compare `known`, which must be read before `total`: a ledger grows in between."""
        if known is None:
            return self._unknown()
        if total >= known:
            return ""
        return (
            f"{self.path} has {total} entries and had {known}: its end was cut, or an old copy was "
            "put back"
        )

    def _unknown(self) -> str:
        return (
            f"{self.path}-lock, which counts its entries, is missing or empty: whether an old copy "
            "was put back cannot be told"
        )

    def problems(self) -> list[str]:
        """Damaged pages, and tables, indexes or triggers that are not as they were made."""
        with self._speaking():
            connection, known = self._connected(), self._known()
            faults = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
            wrong = (
                [] if faults == ["ok"] else [f"the file is damaged: {fault}" for fault in faults]
            )
            sql = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql > ''"))
            due = {text.replace("UNIQUE ", "").split()[2]: text for text in (*TABLES, *TRIGGERS)}
            wrong += [
                f"{name} is not as Lethe made it"
                for name in sorted({*sql, *due})
                if sql.get(name) != due.get(name)
            ]
            return [*wrong, *filter(None, [self._wrong(_total(connection), known)])]

    def _there(self) -> bool:
        """Whether the file is a ledger already; refuses a database of something else."""
        if not self.path.exists():
            return False
        with contextlib.closing(self._open("rw")) as connection:
            if _application(connection) == APPLICATION:
                return True
            if connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
                raise self._foreign()
        return False

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._place() != self._opened:
            self._connection.close()  # what lies there is another file, or nothing
            self._connection = None
        if self._connection is None:
            if not self.path.is_file():
                raise NoLedger(
                    f"{self.path} is no ledger: there is no such file. Make one with: "
                    f"lethe budget create {self.path} --data FILE --epsilon 1"
                )
            connection = self._open("rw")
            try:
                if _application(connection) != APPLICATION:
                    raise self._foreign()
                for end in ("", "-wal", "-shm", "-lock"):
                    keep_private(Path(f"{self.path}{end}"))
            except BaseException:
                connection.close()
                raise
            self._connection, self._opened = connection, self._place()
        connected: sqlite3.Connection = self._connection
        return connected

    def _place(self) -> tuple[int, int] | None:
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(self.path)
            return status.st_dev, status.st_ino
        return None

    def _open(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=PATIENCE,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            # "full" syncs the log at every commit; fullfsync does so on Apple's disks as well.
            for setting in (
                "synchronous = FULL",
                "fullfsync = ON",
                "checkpoint_fullfsync = ON",
                "trusted_schema = OFF",
                "cell_size_check = ON",
            ):
                connection.execute(f"PRAGMA {setting}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _said(self, error: Exception) -> LetheError | None:
        if isinstance(error, UnicodeDecodeError):  # of a damaged text, in a message of SQLite
            return self._damaged("is damaged", error)
        if isinstance(error, OSError):
            return Unavailable(f"{self.path} cannot be used: {error.strerror or error}. {_NOTHING}")
        if not isinstance(error, sqlite3.Error):
            return None
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            return Unavailable(
                f"{self.path} cannot be written: the disk is full. {_NOTHING} Free some space "
                "and ask again."
            )
        if code in _AWAY:
            return Unavailable(f"{self.path} cannot be used: {error}. {_NOTHING}")
        what = "is no ledger or is damaged" if code in _CORRUPT else "contradicts itself"
        return self._damaged(what, error)

    def _damaged(self, what: str, error: Exception) -> Damaged:
        return Damaged(
            f"{self.path} {what}: {error}. {_NOTHING} Put back a copy only if nothing was spent "
            "since."
        )

    @contextlib.contextmanager
    def _queued(self, *, create: bool = False) -> Iterator[int]:
        beside = f"{self.path}-lock"
        if create:
            keep_private(Path(beside), create=True)
        # Opened each time: a process forked from this one must not keep the lock alive.
        try:
            lock, until = os.open(beside, os.O_RDWR), time.monotonic() + PATIENCE
        except FileNotFoundError:
            raise Damaged(refused(self._unknown())) from None
        try:
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if time.monotonic() > until:
                    raise Unavailable(
                        f"{self.path} was busy for {PATIENCE:g} seconds. {_NOTHING} Ask again."
                    )
                time.sleep(_POLL)
            yield lock
        finally:
            os.close(lock)

    def _known(self) -> int | None:
        with contextlib.suppress(FileNotFoundError), open(f"{self.path}-lock", "rb") as file:
            return _read_count(file.fileno())
        return None

    def _foreign(self) -> InputError:
        return InputError(
            f"{self.path} is a database of something else and no ledger; name another file."
        )


def _application(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA application_id").fetchone()[0])


def _total(connection: sqlite3.Connection) -> int:
    statement = "SELECT COALESCE(SUM(entries), 0) FROM lethe_heads"
    return int(connection.execute(statement).fetchone()[0])


def _read_count(lock: int) -> int | None:
    text = os.pread(lock, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _undo(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
