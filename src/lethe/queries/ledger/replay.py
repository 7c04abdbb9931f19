"""Reading every entry again: hashes, order, and every sum worked out anew."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lethe.errors import LetheError
from lethe.queries.charge import Charge, charge_of
from lethe.queries.ledger import chain
from lethe.queries.ledger.contract import Entry, Verification
from lethe.queries.ledger.rows import Rows, fits_hash


def replay(rows: Rows, heads: Sequence[str]) -> Verification:
    """What a reading of all chains finds.

    Args:
        rows: one view of the store.
        heads: hashes kept elsewhere; each must be in a chain.
    """
    problems: list[str] = []
    notes: list[str] = []
    accepted: list[str] = []
    ends: dict[str, str] = {}
    seen: set[str] = set()
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
        total += chained.number
    problems += [f"{name}: has entries and no head" for name in rows.strays()]
    problems += [
        f"the hash {given[:12]}... that was kept elsewhere is in no chain: the ledger was cut, "
        "written anew or replaced since"
        for given in heads
        if given not in seen
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
        self.hash = chain.genesis(dataset)
        self._time = ""
        self._accounts: chain.Accounts | None = None
        self._owned: dict[str, chain.Own | None] = {}
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
            due = self._due(entry, json.loads(entry.body))
            self._accounts = found = chain.Accounts.from_text(entry.state)
            self._owned[entry.analyst] = found.own
        except (LetheError, ValueError, KeyError, TypeError) as error:
            return [*wrong, f"cannot be read: {error}"]
        if due is None:
            return [*wrong, f"is a {entry.kind!r} that cannot stand there"]
        if due != found:
            wrong.append("has sums that its entries do not give")
        if not chain.fits(found.spent, found.budget):
            wrong.append("spends more than the budget")
        if entry.kind == "spend" and found.own is not None and found.own.limit is not None:
            if not chain.fits(found.own.spent, found.own.limit):
                wrong.append("spends more than the analyst's budget")
        return wrong

    def _due(self, entry: Entry, body: Mapping[str, Any]) -> chain.Accounts | None:
        """The accounts that should follow; None where such an entry cannot stand here."""
        before, own = self._accounts, self._owned.get(entry.analyst)
        if entry.kind == "create" and before is None:
            if not isinstance(body["schema"], str) or entry.body != chain.first_body(
                body["schema"]
            ):
                return None
            first = chain.Accounts.from_text(entry.state)
            zero = Charge(first.rule, 0)
            return replace(first, spent=zero, queries=0, answers=0, pure_rho=0, own=None)
        if before is None:
            return None
        if entry.kind == "grant":
            limit = Charge(before.rule, *body["limit"])
            return chain.after_grant(before, own, limit, body["queries"])
        if entry.kind == "raise" and body["reason"]:
            budget = Charge(before.rule, *body["budget"])
            return chain.after_raise(before, budget) if chain.fits(before.budget, budget) else None
        if entry.kind == "accept" and body["reason"] and body["found"]:
            self.accepted.append(
                f"{self.dataset}: entry {entry.number} goes on although {body['found']}; reason: "
                f"{body['reason']}"
            )
            return chain.after_accept(before)
        if entry.kind == "spend" and entry.key == chain.key_of(body["query"]):
            guarantee = chain.guarantee_of(body["guarantee"])
            charge = charge_of(guarantee, before.rule)
            self._open[entry.number] = (entry.analyst, entry.key)
            own = own or chain.own_of(before)
            refused = (own.limit is None and not before.open) or (
                own.most is not None and own.queries >= own.most
            )
            if refused or chain.pair(charge) != body["charge"]:
                return None
            return chain.after_spend(before, own, charge, chain.pure_rho(guarantee, before.rule))
        if entry.kind == "answer" and entry.answers is not None:
            if self._open.pop(entry.answers, None) != (entry.analyst, entry.key):
                return None
            return chain.after_answer(before, own or chain.own_of(before))
        return None
