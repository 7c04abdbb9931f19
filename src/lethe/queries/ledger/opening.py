"""Opening a ledger by its place."""

from __future__ import annotations

from pathlib import Path

from lethe.errors import InputError
from lethe.queries.ledger.anchor import Anchor
from lethe.queries.ledger.contract import Ledger
from lethe.queries.ledger.sqlite_store import SqliteStore
from lethe.queries.ledger.stored import StoredLedger

URLS = ("postgresql://", "postgres://")


def open_ledger(where: str | Path, anchor: str | Path | None = None) -> Ledger:
    """A ledger; it need not exist yet, `Ledger.create` makes it.

    Args:
        where: path of an SQLite file on a local disk, or ``postgresql://...``.
        anchor: file that `Ledger.write_anchor` (`lethe budget anchor --to`) made: a ledger that is
            older is refused, and each entry moves the anchor forward.

    Raises:
        MissingExtra: a URL without the extra ``postgres``.
        InputError: another kind of URL.
    """
    kept = None if anchor is None else Anchor(Path(anchor))
    if isinstance(where, str) and where.startswith(URLS):
        from lethe.queries.ledger.postgres_store import PostgresStore

        return StoredLedger(PostgresStore(where), kept)
    if isinstance(where, str) and "://" in where:
        kind = where.split("://")[0]
        raise InputError(f"a ledger cannot be at {kind}://; give a path, or postgresql://...")
    return StoredLedger(SqliteStore(Path(where)), kept)


def rollback_assumption(ledger: Ledger) -> tuple[str, ...]:
    """What a guarantee about answers paid from this ledger must assume about old copies of it."""
    if ledger.anchored:
        return ()
    return ("the ledger was not rolled back (not checked: it has no anchor kept elsewhere)",)
