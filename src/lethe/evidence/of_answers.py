"""Types of the findings on answers, a ledger or a mechanism, shared by their room and the report.

The ledger's own records (`Charge`, `Share`, `Status`) are parts of its document as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from lethe.evidence.estimate import Estimate, Measured

UNIT = Fraction(1, 10**9)  # of epsilon, rho or mu squared
DELTA_UNIT = Fraction(1, 10**18)


@dataclass(frozen=True)
class Charge:
    """A cost or a budget; a document states its rule once, beside it."""

    rule: str  # "epsilon", "rho" or "mu2"
    units: int  # whole billionths of epsilon, rho or mu squared
    delta_units: int = 0  # whole 10^-18 of delta; spent under the rule "epsilon" only

    @property
    def amount(self) -> float:
        """In epsilon, rho or mu squared."""
        return float(self.units * UNIT)

    @property
    def delta(self) -> float:
        """In delta."""
        return float(self.delta_units * DELTA_UNIT)

    def to_json(self) -> dict[str, float]:
        """Write it as numbers, and as exact whole units."""
        names = ("amount", "delta", "units", "delta_units")
        return {name: getattr(self, name) for name in names}


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


@dataclass(frozen=True)
class Raised:
    """An entry by which the budget was raised."""

    number: int
    reason: str


@dataclass(frozen=True)
class Accepted:
    """An entry that accepts a doubtful ledger: the fault, and the reason for accepting it."""

    number: int
    found: str
    reason: str


@dataclass(frozen=True)
class Status:
    """Where a data set's budget stands: for its keeper alone.

    Attributes:
        fingerprint: keyed hash of the data, empty where the budget is not bound to their content.
            It is compared and never shown: in no document, in no message.
        schema: declared when the data set was entered, canonical JSON; empty without one.
    """

    keys: ClassVar = {"shares": "analysts", "fingerprint": "", "schema": ""}
    dataset: str  # name
    bound: bool  # whether the budget is tied to one content of the data
    relation: str  # which data sets count as neighbours
    unit: str  # whose contribution is protected
    rule: str  # currency of the budget
    budget: Charge  # as it stands now
    first_budget: Charge  # as it was when the data set was entered
    spent: Charge  # so far
    left: Charge  # `budget` less `spent`
    open: bool  # whether analysts without a grant may ask
    shares: Sequence[Share]  # one for each analyst with a grant or a question
    queries: int  # answers that were paid for
    answers: int  # of these, how many are stored
    raises: Sequence[Raised]
    accepted: Sequence[Accepted]
    head: str  # hash of the last entry
    entries: int  # how many there are
    view: str  # a tighter reading of what was spent, for display only; empty where there is none
    fingerprint: str = field(repr=False)
    schema: str = field(repr=False)


@dataclass(frozen=True)
class AnswerRow:
    """One value of a stored answer, and the interval of its noise."""

    value: Any  # a number or a text
    low: float | None  # None for a value that was chosen
    high: float | None
    key: Mapping[str, Any] = field(default_factory=dict)  # values of the group columns, by column


@dataclass(frozen=True)
class Point:
    """The budget and what is left of it: at first, after each question, after each raise."""

    queries: int
    left: Charge
    budget: Charge
    analyst: str = ""
    question: str = ""
    cost: Charge | None = None
    answer: Sequence[AnswerRow] | None = None  # its first rows
    rows: int = 0  # of the answer, in all


@dataclass(frozen=True)
class Asked(Point):
    """The point after a question; `answer` is None where none is stored, or none can be read."""

    always: ClassVar = ("answer",)


@dataclass(frozen=True)
class LedgerSection(Status):
    """The questions, their cost, and whether the ledger is intact."""

    kinds: Mapping[str, int]  # answers by the kind of their guarantee
    burn: Sequence[Point]
    verified: bool
    problems: Sequence[str]
    notes: Sequence[str]


@dataclass(frozen=True)
class ClaimRow:
    """The claim about a mechanism, see `lethe.queries.mechanism_audit.settings.Claim`."""

    measure: str
    value: float | None
    delta: float
    words: str


@dataclass(frozen=True)
class OddAnswer:
    """An answer that is an error, NaN or infinite, and its share on both inputs."""

    answer: str
    shares: Sequence[float]


@dataclass(frozen=True)
class PairRow:
    """Two neighbouring inputs: the lower limit, and the event that shows it."""

    name: str
    limit: Estimate
    event: str
    statistic: str
    shares: Sequence[float]
    bounded_runs: int
    others: Sequence[OddAnswer]


@dataclass(frozen=True)
class Control:
    """What became of a leak of twice a limit, planted in the recorded answers.

    Attributes:
        limit: of a rule.
        seen: whether the audit contradicts the limit on the pair where the leak is hardest to see.
        planted: its size; None if no pair's answers vary enough to carry one.
        least: size that is seen with probability 0.95 wherever it can be planted.
        event: that carries it.
        pairs: whose answers can carry one.
    """

    limit: float
    seen: bool
    planted: float | None
    least: float | None
    event: str | None
    pairs: int


@dataclass(frozen=True)
class Reach:
    """What so many runs can show.

    Attributes:
        largest: largest limit that these runs could prove.
        half: the mechanism with half the noise that is meant.
        power_at_half: share of audits that would find it; None without a claim.
        too_small_by: factor by which noise must be too small for 95 of 100 audits to find it.
        runs_needed: number of runs on each input that suffices; None if these do, or if unknown.
    """

    largest: float
    half: str
    power_at_half: Estimate | None
    too_small_by: float | None
    runs_needed: int | None


@dataclass(frozen=True)
class MechanismSection:
    """Lower limits on the privacy loss of a mechanism."""

    claim: ClaimRow
    relation: str
    runs: int
    limit: Estimate
    worst: str
    pairs: Sequence[PairRow]
    reuse: Measured
    controls: Sequence[Control]
    reach: Reach


@dataclass(frozen=True)
class AnswersSection:
    """The section ``queries``: sentences, and one of the two kinds of findings."""

    always: ClassVar = ("words",)
    ledger: LedgerSection | None = None
    mechanism: MechanismSection | None = None
    words: Sequence[str] = ()
