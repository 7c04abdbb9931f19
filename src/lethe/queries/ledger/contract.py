"""What a ledger of privacy spending gives back, and its errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lethe.data.schema import made_public
from lethe.errors import InputError, LetheError, RunFailed
from lethe.queries.charge import Charge, charge_json

UNITS = ("record", "user")


class NotSpent(InputError):
    """The ledger refused; nothing was spent and no answer may leave."""


class BudgetExhausted(NotSpent):
    """The cost does not fit into what is left of the data set or of the analyst."""


class UnknownAnalyst(NotSpent):
    """The data set has named analysts, and this is none of them."""


class QueryLimit(NotSpent):
    """The analyst has asked as many queries as are allowed."""


class PaidUnanswered(NotSpent):
    """The question was paid for before and has no answer; nothing was spent now."""


class Mismatch(NotSpent):
    """The answer is about other neighbours, another unit or other data than the budget."""


class NoLedger(NotSpent):
    """There is no ledger here, or no such data set in it."""


class Damaged(LetheError):
    """What the ledger holds cannot be read or contradicts itself; nothing was spent."""

    exit_code = 1


class Unavailable(RunFailed):
    """The ledger is locked, full or out of reach; no answer may leave."""


@dataclass(frozen=True)
class Receipt:
    """Proof that a cost is on disk.

    Attributes:
        left: of the analyst's own budget, afterwards; None without one. What the data set has
            left is for its keeper alone: it says what others asked.
    """

    dataset: str  # whose budget was charged
    analyst: str  # who asked
    number: int  # of the entry in the data set's chain
    charge: Charge  # what was spent
    left: Charge | None
    hash: str  # of the entry, 64 hexadecimal digits


@dataclass(frozen=True)
class Share:
    """One analyst's account, as the data set's keeper sees it.

    Attributes:
        left: what a query of this analyst can still cost; never above what the data set has left.
    """

    analyst: str  # name
    limit: Charge | None  # own budget; None where only the data set's budget counts
    spent: Charge  # so far
    left: Charge
    queries: int  # asked so far
    most_queries: int | None  # allowed in all; None without a limit

    def to_json(self) -> dict[str, Any]:
        return {
            name: charge_json(value) if isinstance(value, Charge) else value
            for name, value in vars(self).items()
        }


@dataclass(frozen=True)
class Status:
    """Where a data set's budget stands: for its keeper alone.

    Attributes:
        fingerprint: keyed hash of the data, empty where the budget is not bound to their content.
            It is compared and never shown: not in `to_json`, not in a message.
        schema: declared when the data set was entered, canonical JSON; empty without one.
        raises: how often the budget was raised, with number of the entry and reason.
        accepted: how often a doubtful ledger was gone on with: number of the entry, what was
            wrong, and why it was accepted.
    """

    dataset: str  # name
    fingerprint: str = field(repr=False)
    schema: str = field(repr=False)
    relation: str  # which data sets count as neighbours
    unit: str  # whose contribution is protected
    budget: Charge  # as it stands now
    first_budget: Charge  # as it was when the data set was entered
    spent: Charge  # so far
    left: Charge  # `budget` less `spent`
    shares: tuple[Share, ...]  # one an analyst: those with a grant and those who asked
    open: bool  # whether analysts without a grant may ask
    queries: int  # answers that were paid for
    answers: int  # of these, how many are stored
    raises: tuple[tuple[int, str], ...]
    accepted: tuple[tuple[int, str, str], ...]
    head: str  # hash of the last entry
    entries: int  # how many there are
    view: str  # a tighter reading of what was spent, for display only; empty where there is none

    @property
    def bound(self) -> bool:
        """Whether the budget goes with one content of the data."""
        return bool(self.fingerprint)

    @property
    def made_public(self) -> tuple[str, ...]:
        """What every guarantee has to say of a schema that was read off the rows; else nothing."""
        columns = json.loads(self.schema or "{}").get("columns", {})
        return made_public({name: column.get("read_off", ()) for name, column in columns.items()})

    def to_json(self) -> dict[str, Any]:
        """Plain values; charges as whole units and as numbers."""
        return {
            "dataset": self.dataset,
            "bound": self.bound,
            "relation": self.relation,
            "unit": self.unit,
            "rule": self.budget.rule,
            **{
                name: charge_json(getattr(self, name))
                for name in ("budget", "first_budget", "spent", "left")
            },
            "open": self.open,
            "analysts": [share.to_json() for share in self.shares],
            "queries": self.queries,
            "answers": self.answers,
            "raises": [{"number": number, "reason": reason} for number, reason in self.raises],
            "accepted": [
                {"number": number, "found": problem, "reason": reason}
                for number, problem, reason in self.accepted
            ],
            "head": self.head,
            "entries": self.entries,
            "view": self.view,
        }


@dataclass(frozen=True)
class Entry:
    """One line of a data set's chain."""

    dataset: str  # name
    number: int  # 0, 1, 2, ... within the data set; this is the order, not the time.
    kind: str  # one of `KINDS`
    time: str  # UTC as the machine's clock gave it, for information only
    analyst: str  # whom it is about; empty for "create", "raise" and "accept"
    key: str  # SHA-256 of the query's text, for "spend" and "answer"; empty elsewhere
    answers: int | None  # number of the "spend" that an "answer" belongs to; None elsewhere
    body: str  # what happened, canonical JSON
    state: str  # the accounts after it, canonical JSON
    previous: str  # hash of the entry before; of the data set's name for number 0
    hash: str  # SHA-256 of all of the above


@dataclass(frozen=True)
class Verification:
    """What a reading of every entry found.

    Attributes:
        accepted: entries that go on with a ledger that was doubtful, with what was wrong and why.
    """

    problems: tuple[str, ...]  # what contradicts; empty means that everything fits
    notes: tuple[str, ...]  # what is odd but proves nothing, such as a clock that went back
    heads: Mapping[str, str]  # hash of the last entry of each data set, to be kept elsewhere
    entries: int  # how many were read
    accepted: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing contradicts."""
        return not self.problems
