"""Detect changes of a ledger: read all chains again, and compare a head kept elsewhere.

`replay` works every sum of the accounts out anew.

An anchor is a file of one record a data set: number and hash of an entry that the ledger holds,
written after the ledger is on disk, so never ahead of it. A ledger without such an entry was cut,
written anew or put back.

Guarantee: a ledger that is older than its anchor, or another one, is refused.
Assumes: who can change the ledger cannot change the anchor; keep it on another disk or machine.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lethe.errors import LetheError
from lethe.evidence.of_answers import Charge
from lethe.files import write_for_owner
from lethe.queries.charge import charge_of, fits
from lethe.queries.ledger.chain import (
    Account,
    Accounts,
    after,
    canonical,
    first_body,
    fits_hash,
    genesis,
    guarantee_of,
    key_of,
    read_json,
)
from lethe.queries.ledger.contract import Damaged, Entry, NoLedger, Unavailable, Verification
from lethe.queries.ledger.rows import Rows

_RECORD = 256  # bytes: a half or a quarter of a disk's sector, which is written whole
_PARTS = (20, 64, 64)  # number, hash of the entry, hash of the data set's name; then the name


class Anchor:
    """See the module."""

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

        Raises NoLedger, Unavailable: it is gone, or cannot be written; the entry is in the ledger.
        """
        with self._file(os.O_RDWR) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            known = {key: (place, number) for key, (place, number, _) in _records(file, self.path)}
            place, number = known.get(key_of_name(entry.dataset), (len(known), -1))
            if entry.number > number:
                os.pwrite(file, _record(entry), place * _RECORD)

    def missing_from(self, rows: Rows) -> str:
        """Say what of it a ledger lacks; or nothing."""
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
    """Return the key of a data set in an anchor: names have any length and any sign."""
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


def replay(rows: Rows, heads: Sequence[str]) -> Verification:
    """Read all chains and collect what is wrong.

    Args:
        rows: one view of the store.
    """
    problems: list[str] = []
    notes: list[str] = []
    accepted: list[str] = []
    ends: dict[str, str] = {}
    seen: set[str] = set()
    bound: dict[str, str] = {}
    total = 0
    for name, entries, head in rows.heads():
        chained = _Chain(str(name))
        for entry in rows.entries(name):
            chained.take(entry)
        problems += chained.problems
        notes += chained.notes
        accepted += chained.accepted
        if (chained.number, chained.hash) != (entries, head):
            problems.append(
                f"{name}: the head says {entries} entries ending in {str(head)[:12]}..., there are "
                f"{chained.number} ending in {chained.hash[:12]}..."
            )
        if chained.number == 0:
            problems.append(f"{name}: there is no entry")
        ends[str(name)] = chained.hash
        seen |= chained.seen
        first = bound.setdefault(chained.content or chained.hash, str(name))
        if first != name:  # earlier versions took two budgets for one content
            notes.append(f"{name}: is about the same data as {first}; what was spent adds up")
        total += chained.number
    problems += [f"{name}: has entries and no head" for name in rows.strays()]
    problems += [
        f"the hash {head_hash[:12]}... that was kept elsewhere is in no chain: the ledger was cut, "
        "written anew or replaced since"
        for head_hash in heads
        if head_hash not in seen
    ]
    return Verification(tuple(problems), tuple(notes), ends, total, tuple(accepted))


class _Chain:
    """One data set's entries, taken in their order."""

    def __init__(self, dataset: str) -> None:
        self.dataset = dataset
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.accepted: list[str] = []
        self.seen: set[str] = set()
        self.number = 0
        self.hash = genesis(dataset)
        self.content = ""  # keyed hash of the data; empty where the budget is bound to none
        self._time = ""
        self._accounts: Accounts | None = None
        self._owned: dict[str, Account | None] = {}
        self._open: dict[int, tuple[str, str]] = {}

    def take(self, entry: Entry) -> None:
        """Check the next entry."""
        wrong = self._wrong(entry)
        self.problems += [f"{self.dataset}: entry {entry.number} {why}" for why in wrong]
        if not wrong and entry.time < self._time:
            self.notes.append(
                f"{self.dataset}: entry {entry.number} has a time before the one before it; the "
                "clock went back, the order is by number"
            )
        if isinstance(entry.time, str):
            self._time = entry.time
        self.number += 1
        self.hash = str(entry.hash)
        self.seen.add(self.hash)

    def _wrong(self, entry: Entry) -> list[str]:
        wrong = []
        if entry.dataset != self.dataset or entry.number != self.number:
            wrong.append(f"stands where {self.number} should")
        if entry.previous != self.hash:
            wrong.append("does not follow the one before")
        if not fits_hash(entry):
            return [*wrong, "does not fit its hash"]
        try:
            due = self._due(entry, read_json(entry.body))
            self._accounts = accounts = Accounts.from_text(entry.state)
            self.content = accounts.fingerprint
            self._owned[entry.analyst] = accounts.own
        except (LetheError, ValueError, KeyError, TypeError) as error:
            return [*wrong, f"cannot be read: {error}"]
        if due is None:
            return [*wrong, f"is a {entry.kind!r} that cannot stand there"]
        if due != accounts:
            wrong.append("has sums that its entries do not give")
        if not fits(accounts.spent, accounts.budget):
            wrong.append("spends more than the budget")
        if entry.kind == "spend" and accounts.own is not None and accounts.own.limit is not None:
            if not fits(accounts.own.spent, accounts.own.limit):
                wrong.append("spends more than the analyst's budget")
        return wrong

    def _due(self, entry: Entry, body: Mapping[str, Any]) -> Accounts | None:
        """The accounts that should follow; None where such an entry cannot stand here."""
        before, account = self._accounts, self._owned.get(entry.analyst)
        if before is None:
            schema = body.get("schema")
            if entry.kind != "create" or not isinstance(schema, str):
                return None
            first = Accounts.from_text(entry.state)
            zero = Charge(first.rule, 0)
            first = replace(first, spent=zero, queries=0, answers=0, pure_rho=0, own=None)
            return first if entry.body == canonical(first_body(schema)) else None
        stands = entry.kind == "grant"
        if entry.kind == "raise":
            stands = bool(body["reason"]) and fits(before.budget, Charge("", *body["budget"]))
        elif entry.kind == "accept" and body["reason"] and body["found"]:
            stands = True
            self.accepted.append(
                f"{self.dataset}: entry {entry.number} goes on although {body['found']}; reason: "
                f"{body['reason']}"
            )
        elif entry.kind == "spend" and entry.key == key_of(body["query"]):
            self._open[entry.number] = (entry.analyst, entry.key)
            charge = charge_of(guarantee_of(body["guarantee"]), before.rule)
            limit, most, asked = None, before.most_each, 0
            if account is not None:
                limit, most, asked = account.limit, account.most, account.queries
            stands = (limit is not None or before.open) and (most is None or asked < most)
            stands = stands and charge == Charge(before.rule, *body["charge"])
        elif entry.kind == "answer" and entry.answers is not None:
            stands = self._open.pop(entry.answers, None) == (entry.analyst, entry.key)
        return after(entry.kind, before, account, body) if stands else None
