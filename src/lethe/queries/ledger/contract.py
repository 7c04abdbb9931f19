"""Results and errors of a ledger of privacy spending."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lethe.errors import InputError, LetheError, RunFailed
from lethe.evidence.of_answers import Charge

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
