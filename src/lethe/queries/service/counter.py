"""How many rows an analyst has had a model answer: durable, and never above the limit."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from lethe.errors import InputError, RunFailed

_TABLE = (
    "CREATE TABLE IF NOT EXISTS counts (model TEXT, analyst TEXT, rows INTEGER NOT NULL, "
    "PRIMARY KEY (model, analyst))"
)
_TAKE = (
    "INSERT INTO counts VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET rows = rows + ?3 "
    "WHERE rows + ?3 <= ?4"
)
_READ = "SELECT rows FROM counts WHERE model = ? AND analyst = ?"


class Counter:
    """Counts in an SQLite file; several processes may share it.

    Args:
        path: of the file; made when it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self.path = path
        try:
            # Every statement commits by itself.
            self._base = sqlite3.connect(
                path, timeout=30, check_same_thread=False, isolation_level=None
            )
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute("PRAGMA synchronous = FULL")
            self._base.execute(_TABLE)
        except sqlite3.Error as error:
            raise InputError(f"{path} cannot be used to count queries: {error}.") from error

    def take(self, model: str, analyst: str, rows: int, most: int) -> int | None:
        """Count rows before they are answered.

        Returns:
            How many are left afterwards; None if these do not fit, and then none was counted.

        Raises:
            RunFailed: the file cannot be written; nothing may be answered.
        """
        if rows > most:
            return None
        with self._lock, self._told():
            taken = self._base.execute(_TAKE, (model, analyst, rows, most)).rowcount
            had = self._base.execute(_READ, (model, analyst)).fetchone()[0]
        return most - had if taken else None

    def had(self, model: str, analyst: str) -> int:
        """Rows answered so far."""
        with self._lock, self._told():
            found = self._base.execute(_READ, (model, analyst)).fetchone()
        return int(found[0]) if found else 0

    def close(self) -> None:
        """Let go of the file."""
        self._base.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise RunFailed(f"{self.path} cannot be written: {error}.") from error
