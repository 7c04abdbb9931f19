"""The head of a ledger, kept elsewhere: what finds an older copy that was put back.

An anchor is a file of one record a data set: number and hash of an entry that the ledger holds. It
is written after the ledger is on disk, so it may be behind the ledger and is never ahead of it. A
ledger that lacks such an entry was cut, written anew or put back from an old copy.

Guarantee: a ledger that is older than its anchor, or another one, is refused.
Assumes: who can change the ledger cannot change the anchor; keep it on another disk or machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from lethe.files import write_for_owner
from lethe.queries.ledger.contract import Damaged, Entry, NoLedger, Unavailable
from lethe.queries.ledger.rows import Rows

_RECORD = 256  # bytes: a half or a quarter of a disk's sector, which is written whole
_PARTS = (20, 64, 64)  # number, hash of the entry, hash of the data set's name; then the name


class Anchor:
    """See the module.

    Args:
        path: of a file that `write` made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, tuple[int, str]]:
        """Hash of a data set's name -> number and hash of the entry that its ledger must hold.

        Raises:
            NoLedger: there is no such file.
            Damaged: it is no anchor.
        """
        with self._file(os.O_RDONLY) as file:
            return {key: (number, hashed) for key, (_, number, hashed) in _records(file, self.path)}

    def write(self, entries: Iterable[Entry]) -> None:
        """Write it anew, for its owner alone: the last entries of all data sets."""
        write_for_owner(self.path, b"".join(map(_record, entries)))

    def advance(self, entry: Entry) -> None:
        """Move the record of the entry's data set forward; never backward.

        Not synced: after a loss of power it may be behind, which is safe.

        Raises:
            NoLedger, Unavailable: it is gone, or cannot be written; the entry is in the ledger.
        """
        with self._file(os.O_RDWR) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            known = {key: (at, number) for key, (at, number, _) in _records(file, self.path)}
            at, number = known.get(key_of_name(entry.dataset), (len(known), -1))
            if entry.number > number:
                os.pwrite(file, _record(entry), at * _RECORD)

    def missing_from(self, rows: Rows) -> str:
        """What of it a ledger lacks, in words; or nothing."""
        ends = {key_of_name(name): name for name, _, _ in rows.heads()}
        for key, (number, hashed) in self.read().items():
            entry = rows.entry(ends[key], number) if key in ends else None
            if entry is None or entry.hash != hashed:
                whose = f"{ends[key]!r}" if key in ends else "a data set that is gone"
                return (
                    f"entry {number} of {whose}, which the anchor {self.path} names, is not in "
                    "it: its end was cut, or an old copy was put back"
                )
        return ""

    @contextlib.contextmanager
    def _file(self, flags: int) -> Iterator[int]:
        try:
            file = os.open(self.path, flags)
        except FileNotFoundError:
            raise NoLedger(
                f"the anchor {self.path} does not exist: `lethe budget anchor LEDGER --to "
                f"{self.path}` writes it."
            ) from None
        except OSError as error:
            raise Unavailable(f"the anchor {self.path}: {error.strerror}.") from error
        try:
            yield file
        except OSError as error:
            raise Unavailable(
                f"the anchor {self.path} cannot be used: {error.strerror}. No answer may leave; "
                "what was paid for is in the ledger."
            ) from error
        finally:
            os.close(file)


def key_of_name(dataset: str) -> str:
    """What stands for a data set in an anchor: names have any length and any sign."""
    return hashlib.sha256(dataset.encode()).hexdigest()


def _record(entry: Entry) -> bytes:
    fixed = f"{entry.number:020d} {entry.hash} {key_of_name(entry.dataset)} "
    name = ascii(entry.dataset)[1:-1][: _RECORD - len(fixed) - 1]
    return f"{fixed}{name:<{_RECORD - len(fixed) - 1}}\n".encode("ascii")


def _records(file: int, path: Path) -> Iterator[tuple[str, tuple[int, int, str]]]:
    content = os.pread(file, os.fstat(file).st_size, 0)
    for place in range(-(-len(content) // _RECORD)):
        parts = content[place * _RECORD : (place + 1) * _RECORD].split(b" ")
        if tuple(map(len, parts[:3])) != _PARTS or not parts[0].isdigit():
            raise Damaged(f"{path} is no anchor of a ledger, or is damaged.")
        yield parts[2].decode(), (place, int(parts[0]), parts[1].decode())
