"""Opening a ledger by its place."""

from __future__ import annotations

from pathlib import Path

from lethe.errors import InputError
from lethe.queries.ledger.book import Book
from lethe.queries.ledger.contract import Ledger
from lethe.queries.ledger.sqlite_store import SqliteStore

URLS = ("postgresql://", "postgres://")


def open_ledger(where: str | Path) -> Ledger:
    """A ledger; it need not exist yet, `Ledger.create` makes it.

    Args:
        where: path of an SQLite file on a local disk, or ``postgresql://...``.

    Raises:
        MissingExtra: a URL without the extra ``postgres``.
        InputError: another kind of URL.
    """
    if isinstance(where, str) and where.startswith(URLS):
        from lethe.queries.ledger.postgres_store import PostgresStore

        return Book(PostgresStore(where))
    if isinstance(where, str) and "://" in where:
        kind = where.split("://")[0]
        raise InputError(f"a ledger cannot be at {kind}://; give a path, or postgresql://...")
    return Book(SqliteStore(Path(where)))
