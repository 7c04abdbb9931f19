"""What a ledger of privacy spending is: its values, its errors, and what it promises.

A ledger holds data sets; each has a budget in one currency (`lethe.queries.charge.RULES`) that
was fixed when it was entered. An answer may leave only after `Ledger.spend` has returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from lethe.errors import InputError, LetheError, RunFailed
from lethe.evidence.guarantee import Guarantee
from lethe.queries.charge import Charge

RELATIONS = ("add/remove", "replace-one")
UNITS = ("record", "user")
KINDS = ("create", "grant", "raise", "spend", "answer", "accept")


class NotSpent(InputError):
    """The ledger refused; nothing was spent and no answer may leave."""


class BudgetExhausted(NotSpent):
    """The cost does not fit into what is left of the data set or of the analyst."""


class UnknownAnalyst(NotSpent):
    """The data set has named analysts, and this is none of them."""


class QueryLimit(NotSpent):
    """The analyst has asked as many queries as are allowed."""


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
        dataset: whose budget was charged.
        analyst: who asked.
        number: of the entry in the data set's chain.
        charge: what was spent.
        left: of the analyst's own budget, afterwards; None without one. What the data set has
            left is for its keeper alone: it says what others asked.
        hash: of the entry, 64 hexadecimal digits.
    """

    dataset: str
    analyst: str
    number: int
    charge: Charge
    left: Charge | None
    hash: str


@dataclass(frozen=True)
class Balance:
    """What an analyst may know of a ledger: the own account, and what is public of the data set.

    Attributes:
        dataset: name.
        analyst: name.
        relation: which data sets count as neighbours.
        unit: whose contribution is protected.
        limit: own budget; None where only the data set's budget counts.
        spent: by this analyst so far.
        left: of `limit`; None without one.
        queries: asked so far.
        most_queries: allowed in all; None without a limit.
    """

    dataset: str
    analyst: str
    relation: str
    unit: str
    limit: Charge | None
    spent: Charge
    left: Charge | None
    queries: int
    most_queries: int | None


@dataclass(frozen=True)
class Share:
    """One analyst's account, as the data set's keeper sees it.

    Attributes:
        analyst: name.
        limit: own budget; None where only the data set's budget counts.
        spent: so far.
        left: what a query of this analyst can still cost; never above what the data set has left.
        queries: asked so far.
        most_queries: allowed in all; None without a limit.
    """

    analyst: str
    limit: Charge | None
    spent: Charge
    left: Charge
    queries: int
    most_queries: int | None


@dataclass(frozen=True)
class Status:
    """Where a data set's budget stands: for its keeper alone.

    Attributes:
        dataset: name.
        fingerprint: keyed hash of the data, empty where the budget is not bound to their content.
            It is compared and never shown: not in `to_json`, not in a message.
        schema: declared when the data set was entered, canonical JSON; empty without one.
        relation: which data sets count as neighbours.
        unit: whose contribution is protected.
        budget: as it stands now.
        first_budget: as it was when the data set was entered.
        spent: so far.
        left: `budget` less `spent`.
        shares: one an analyst: those with a grant and those who asked.
        open: whether analysts without a grant may ask.
        queries: answers that were paid for.
        answers: of these, how many are stored.
        raises: how often the budget was raised, with number of the entry and reason.
        accepted: how often a doubtful ledger was gone on with: number of the entry, what was
            wrong, and why it was accepted.
        head: hash of the last entry.
        entries: how many there are.
        view: a tighter reading of what was spent, for display only; empty where there is none.
    """

    dataset: str
    fingerprint: str = field(repr=False)
    schema: str = field(repr=False)
    relation: str
    unit: str
    budget: Charge
    first_budget: Charge
    spent: Charge
    left: Charge
    shares: tuple[Share, ...]
    open: bool
    queries: int
    answers: int
    raises: tuple[tuple[int, str], ...]
    accepted: tuple[tuple[int, str, str], ...]
    head: str
    entries: int
    view: str

    @property
    def bound(self) -> bool:
        """Whether the budget goes with one content of the data."""
        return bool(self.fingerprint)

    def to_json(self) -> dict[str, Any]:
        """Plain values; charges as whole units and as numbers."""
        return {
            "dataset": self.dataset,
            "bound": self.bound,
            "relation": self.relation,
            "unit": self.unit,
            "rule": self.budget.rule,
            "budget": charge_json(self.budget),
            "first_budget": charge_json(self.first_budget),
            "spent": charge_json(self.spent),
            "left": charge_json(self.left),
            "open": self.open,
            "analysts": [
                {
                    "analyst": share.analyst,
                    "limit": None if share.limit is None else charge_json(share.limit),
                    "spent": charge_json(share.spent),
                    "left": charge_json(share.left),
                    "queries": share.queries,
                    "most_queries": share.most_queries,
                }
                for share in self.shares
            ],
            "queries": self.queries,
            "answers": self.answers,
            "raises": [{"number": number, "reason": reason} for number, reason in self.raises],
            "accepted": [
                {"number": number, "found": found, "reason": reason}
                for number, found, reason in self.accepted
            ],
            "head": self.head,
            "entries": self.entries,
            "view": self.view,
        }


@dataclass(frozen=True)
class Entry:
    """One line of a data set's chain.

    Attributes:
        dataset: name.
        number: 0, 1, 2, ... within the data set; this is the order, not the time.
        kind: one of `KINDS`.
        time: UTC as the machine's clock gave it, for information only.
        analyst: whom it is about; empty for "create", "raise" and "accept".
        key: SHA-256 of the query's text, for "spend" and "answer"; empty elsewhere.
        answers: number of the "spend" that an "answer" belongs to; None elsewhere.
        body: what happened, canonical JSON.
        state: the accounts after it, canonical JSON.
        previous: hash of the entry before; of the data set's name for number 0.
        hash: SHA-256 of all of the above.
    """

    dataset: str
    number: int
    kind: str
    time: str
    analyst: str
    key: str
    answers: int | None
    body: str
    state: str
    previous: str
    hash: str


@dataclass(frozen=True)
class Verification:
    """What a reading of every entry found.

    Attributes:
        problems: what contradicts; empty means that everything fits.
        notes: what is odd but proves nothing, such as a clock that went back.
        accepted: entries that go on with a ledger that was doubtful, with what was wrong and why.
        heads: hash of the last entry of each data set, to be kept elsewhere.
        entries: how many were read.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    heads: Mapping[str, str]
    entries: int
    accepted: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing contradicts."""
        return not self.problems


class Ledger(Protocol):
    """A durable, append-only record of spending; safe to share between threads and processes.

    Guarantee: the sum of all charges never exceeds the budget of the data set, nor that of the
    analyst, by a unit; a charge is on disk when `spend` returns.
    Assumes: all answers about the data go through this ledger, and its disk keeps what it says
    it has written.

    Every method raises `NoLedger` where there is none, `Damaged` where it cannot be trusted, and
    `Unavailable` where it is locked, full or out of reach.
    """

    def create(
        self,
        dataset: str,
        budget: Charge,
        *,
        fingerprint: str,
        relation: str,
        unit: str,
        analysts: Mapping[str, Charge] | None = None,
        queries: int | None = None,
        schema: str = "",
    ) -> None:
        """Enter a data set; rule, neighbours, unit and schema are fixed for good.

        Args:
            dataset: name.
            budget: in all.
            fingerprint: keyed hash of the data; empty binds the budget to no content. It is kept
                and compared, and never shown.
            relation: of `RELATIONS`.
            unit: of `UNITS`.
            analysts: own budgets by name; None lets anybody ask who can open the ledger.
            queries: most queries an analyst.
            schema: as declared, JSON; empty for none.

        Raises:
            InputError: a value breaks a rule, or the data set is there already.
        """

    def grant(
        self, dataset: str, analyst: str, limit: Charge, *, queries: int | None = None
    ) -> None:
        """Give an analyst a budget, or another one than before; what was spent stays spent.

        The first grant of a data set that was open to anybody closes it to all others.

        Raises:
            InputError: a value breaks a rule.
        """

    def raise_budget(self, dataset: str, budget: Charge, *, reason: str) -> None:
        """Raise what may be spent in all: an entry of its own, shown wherever the budget is.

        Raises:
            InputError: not above the present budget, another rule, or no reason.
        """

    def spend(
        self, *, dataset: str, analyst: str, query: str, guarantee: Guarantee, fingerprint: str
    ) -> Receipt:
        """Pay for one query; it is on disk when this returns.

        Args:
            dataset: name.
            analyst: who asks.
            query: canonical text: the same question must be the same text.
            guarantee: of the answer.
            fingerprint: of the data that the answer is drawn from.

        Raises:
            BudgetExhausted: does not fit; the analyst's own budget is looked at first.
            UnknownAnalyst: no grant.
            QueryLimit: no more queries.
            Mismatch: relation, unit or fingerprint differ.
            InputError: a cost that the rule cannot add up.
        """

    def answered(self, receipt: Receipt, answer: str) -> None:
        """Store the noisy answer of a query that was paid for; once.

        Args:
            receipt: of `spend`.
            answer: JSON.

        Raises:
            InputError: no such entry, answered already, or not JSON.
        """

    def stored(self, dataset: str, analyst: str, query: str) -> str | None:
        """The stored answer if this analyst has asked this before; it costs nothing."""

    def paid(self, dataset: str, analyst: str, query: str) -> bool:
        """Whether this analyst has paid for this question, be it answered or not."""

    def balance(self, dataset: str, analyst: str) -> Balance:
        """What this analyst may know.

        Raises:
            UnknownAnalyst: no grant, and none asks without one.
        """

    def check(self) -> None:
        """Refuse a ledger that was cut or put back, as far as that can be told; cheap.

        Raises:
            Damaged: the file beside it or the anchor says so, or is missing.
        """

    def accept(self, reason: str) -> str:
        """Go on with a ledger that `check` refuses: an entry in every chain, shown wherever the
        budgets are, says what was wrong and why that is accepted. An anchor is written anew.

        Returns:
            What was wrong.

        Raises:
            InputError: nothing is wrong, or no reason.
        """

    @property
    def anchored(self) -> bool:
        """Whether a head that is kept elsewhere was compared."""

    def write_anchor(self, path: Path) -> None:
        """Keep the heads of all data sets elsewhere; see `lethe.queries.ledger.anchor`.

        Raises:
            Damaged: there is an anchor, and this ledger is not the one it was taken from.
        """

    def datasets(self) -> Sequence[str]:
        """Names of the data sets, sorted."""

    def status(self, dataset: str) -> Status:
        """Where the budget stands."""

    def entries(self, dataset: str) -> Iterator[Entry]:
        """All entries in their order."""

    def verify(self, heads: Sequence[str] = ()) -> Verification:
        """Read and check every entry.

        A chain of hashes finds what was changed, left out or added in the middle, and the kept
        head finds a cut tail. It cannot find a ledger that somebody has written anew from some
        entry on, or put back from an old copy: for that, keep a head elsewhere and give it here.

        Args:
            heads: hashes kept elsewhere; each must be in one of the chains.
        """

    def export(self, dataset: str) -> Iterator[dict[str, Any]]:
        """Entries as plain values with `body` and `state` parsed, for JSON Lines and csv.

        The fingerprint of the data is left out, so hashes are checked by `verify`, not from this.
        """

    def close(self) -> None:
        """Let go of the file or the connection."""


def charge_json(charge: Charge) -> dict[str, Any]:
    """Plain values of a charge."""
    return {
        "amount": charge.amount,
        "delta": charge.delta,
        "units": charge.units,
        "delta_units": charge.delta_units,
    }
