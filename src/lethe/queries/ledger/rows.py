"""SQL statements and connections that the SQLite and PostgreSQL ledgers share."""

from __future__ import annotations

import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from lethe.errors import InputError, LetheError, did_you_mean
from lethe.queries.ledger.chain import Account, Accounts, fields_of, genesis, trusted
from lethe.queries.ledger.contract import Damaged, Entry, NoLedger

FIELDS = "dataset, number, kind, time, analyst, key, answers, body, state, previous, hash"
TABLES = (
    "CREATE TABLE lethe_heads (dataset TEXT PRIMARY KEY, entries INTEGER NOT NULL, "
    "hash TEXT NOT NULL)",
    "CREATE TABLE lethe_entries (dataset TEXT NOT NULL, number INTEGER NOT NULL, "
    "kind TEXT NOT NULL, time TEXT NOT NULL, analyst TEXT NOT NULL, key TEXT NOT NULL, "
    "answers INTEGER, body TEXT NOT NULL, state TEXT NOT NULL, previous TEXT NOT NULL, "
    "hash TEXT NOT NULL, PRIMARY KEY (dataset, number))",
    "CREATE INDEX lethe_by_analyst ON lethe_entries (dataset, analyst, number)",
    "CREATE INDEX lethe_by_key ON lethe_entries (dataset, analyst, key) WHERE kind = 'answer'",
    "CREATE UNIQUE INDEX lethe_once ON lethe_entries (dataset, answers) WHERE answers IS NOT NULL",
)
_BATCH = 500


class Rows:
    """What a transaction can do.

    Args:
        execute: runs a statement with ``?`` for values and returns its rows.
        total: entries of all data sets before, where the store counts them.

    Attributes:
        total: as given.
        appended: entries added so far.
        newest: the last one of them.
    """

    def __init__(
        self, execute: Callable[[str, tuple[Any, ...]], Iterable[Any]], total: int = 0
    ) -> None:
        self._execute, self.total = execute, total
        self.appended = 0
        self.newest: Entry | None = None

    def head(self, dataset: str) -> tuple[int, str] | None:
        """Return the number of entries and the last hash of a data set; None if it is absent."""
        statement = "SELECT entries, hash FROM lethe_heads WHERE dataset = ?"
        heads = list(self._execute(statement, (dataset,)))
        return None if not heads else (heads[0][0], heads[0][1])

    def heads(self) -> list[tuple[str, int, str]]:
        """Return the heads of all data sets, by name."""
        heads = self._execute("SELECT dataset, entries, hash FROM lethe_heads", ())
        return sorted(((row[0], row[1], row[2]) for row in heads), key=str)

    def entry(self, dataset: str, number: int) -> Entry | None:
        """One entry."""
        return self._one("dataset = ? AND number = ?", (dataset, number))

    def last(self, dataset: str) -> tuple[Entry, Accounts]:
        """The last entry of a data set, and where its accounts stand.

        Raises:
            NoLedger: no such data set.
            Damaged: it is not the entry that the head names.
        """
        head = self.head(dataset)
        if head is None:
            known = [name for name, _, _ in self.heads()]
            raise NoLedger(
                f"dataset={dataset!r} is not in this ledger.{did_you_mean(dataset, known)} "
                "`lethe budget create` enters it."
            )
        entries, expected = head
        if not isinstance(entries, int):
            raise Damaged(
                f"the head of {dataset!r} is no number; `lethe budget verify` tells more."
            )
        last = trusted(self.entry(dataset, entries - 1), f"the last entry of {dataset!r}")
        if last.hash != expected:
            raise Damaged(
                f"the last entry of {dataset!r} is not the one the head names. Nothing was spent; "
                "`lethe budget verify` tells more."
            )
        return last, Accounts.from_text(last.state)

    def account(self, dataset: str, analyst: str) -> Account | None:
        """Return an analyst's account; None for one without a grant or a question."""
        condition = "dataset = ? AND analyst = ? ORDER BY number DESC LIMIT 1"
        latest = self._one(condition, (dataset, analyst))
        if latest is None:
            return None
        return Accounts.from_text(trusted(latest, f"the account of {analyst!r}").state).own

    def answer(self, dataset: str, analyst: str, key: str) -> Entry | None:
        """The last stored answer to a query."""
        condition = "dataset = ? AND analyst = ? AND key = ? AND kind = 'answer'"
        return self._one(f"{condition} ORDER BY number DESC LIMIT 1", (dataset, analyst, key))

    def answer_to(self, dataset: str, number: int) -> Entry | None:
        """The answer that belongs to the "spend" of this number."""
        return self._one("dataset = ? AND answers = ?", (dataset, number))

    def paid(self, dataset: str, analyst: str, key: str, since: int = 0) -> bool:
        """Whether there is a "spend" of this query, from an entry on."""
        where = "dataset = ? AND analyst = ? AND number >= ? AND key = ? AND kind = 'spend' LIMIT 1"
        return self._one(where, (dataset, analyst, since, key)) is not None

    def size(self, dataset: str, analyst: str) -> int:
        """Characters of an analyst's stored questions and answers; reads all of them."""
        statement = "SELECT COALESCE(SUM(LENGTH(body)), 0) FROM lethe_entries "
        statement += "WHERE dataset = ? AND analyst = ?"
        return int(next(iter(self._execute(statement, (dataset, analyst))))[0])

    def about(self, dataset: str, analyst: str) -> list[Entry]:
        """Yield all entries about an analyst; about the data set as a whole for an empty name."""
        return list(self._many("dataset = ? AND analyst = ? ORDER BY number", (dataset, analyst)))

    def analysts(self, dataset: str) -> list[str]:
        """Names of all who were granted something or asked."""
        statement = "SELECT DISTINCT analyst FROM lethe_entries WHERE dataset = ? AND analyst <> ''"
        return sorted(row[0] for row in self._execute(statement, (dataset,)))

    def entries(self, dataset: str) -> Iterator[Entry]:
        """Yield all entries in their order, read in batches."""
        where, start = f"dataset = ? AND number > ? ORDER BY number LIMIT {_BATCH}", -1
        while True:
            entries = list(self._many(where, (dataset, start)))
            yield from entries
            if len(entries) < _BATCH:
                return
            start = entries[-1].number

    def strays(self) -> list[str]:
        """Data sets that have entries but no head."""
        statement = "SELECT DISTINCT dataset FROM lethe_entries"
        known = {name for name, _, _ in self.heads()}
        return sorted(str(row[0]) for row in self._execute(statement, ()) if row[0] not in known)

    def begin(self, dataset: str) -> None:
        """Enter a data set without entries yet."""
        statement = "INSERT INTO lethe_heads (dataset, entries, hash) VALUES (?, 0, ?)"
        self._execute(statement, (dataset, genesis(dataset)))

    def append(self, entry: Entry) -> None:
        """Add an entry and move the head; the store refuses any number but the next."""
        self._execute(
            f"INSERT INTO lethe_entries ({FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            fields_of(entry),
        )
        self._execute(
            "UPDATE lethe_heads SET entries = ?, hash = ? WHERE dataset = ?",
            (entry.number + 1, entry.hash, entry.dataset),
        )
        self.appended += 1
        self.newest = entry

    def _one(self, where: str, values: tuple[Any, ...]) -> Entry | None:
        return next(iter(self._many(where, values)), None)

    def _many(self, where: str, values: tuple[Any, ...]) -> Iterator[Entry]:
        for row in self._execute(f"SELECT {FIELDS} FROM lethe_entries WHERE {where}", values):
            yield Entry(*row)


class Store(ABC):
    """Where the rows are kept: one connection, one thread at a time, never that of a parent."""

    def __init__(self) -> None:
        self._connection: Any = None
        self._inherited: list[Any] = []
        self._start()

    def _start(self) -> None:
        self._owner, self._mutex = os.getpid(), threading.RLock()

    @abstractmethod
    def prepare(self) -> None:
        """Make the tables if there is no ledger yet.

        Raises InputError: something else is there.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[Rows]:
        """One view that stays the same."""

    @abstractmethod
    def writing(self, dataset: str) -> AbstractContextManager[Rows]:
        """Alone with a data set; on leaving everything is on disk, after an error nothing is.

        Raises Damaged: the ledger was put back or cut, as far as the store itself can tell.
        """

    @abstractmethod
    def accepting(self) -> AbstractContextManager[Rows]:
        """Alone with all data sets, also where `writing` would refuse; repairs what it asks for."""

    @abstractmethod
    def rollback(self) -> str:
        """Say whether the ledger was put back or cut, or that this is not known; or nothing."""

    @abstractmethod
    def problems(self) -> list[str]:
        """List faults of the file or the tables themselves."""

    @abstractmethod
    def _said(self, error: Exception) -> LetheError | None:
        """An error of the driver in Lethe's voice; None for any other."""

    def close(self) -> None:
        """Let go."""
        if self._owner == os.getpid():
            with self._mutex:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None

    @contextlib.contextmanager
    def _speaking(self) -> Iterator[None]:
        """One thread at a time, and every error of the driver in Lethe's voice."""
        if self._owner != os.getpid():
            # Forked: two processes cannot share one conversation, and SQLite forbids to close the
            # parent's, so it is kept as it is.
            self._inherited.append(self._connection)
            self._connection = None
            self._start()
        with self._mutex:
            try:
                yield
            except UnicodeEncodeError:
                raise InputError(
                    "a name is not valid Unicode: give plain text. Nothing was spent."
                ) from None
            except Exception as error:
                refusal = self._said(error)
                if refusal is None:
                    raise
                raise refusal from error
