"""Types of `findings.json`: the parts that all kinds of release have in common.

Each kind adds its own parts: a candidate (a subclass of `CandidateRow`), its data, exposed rows and
its section. See `lethe.evidence.plain` for how a class becomes a part of the document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.plain import Loss, Utility
from lethe.evidence.risk import AttackResult
from lethe.evidence.sight import Plant

Outcome = Literal["pass", "fail", "not-enough-evidence", "not-tested"]


@dataclass(frozen=True)
class SubjectRow:
    """The release; `parameters` is the number of parameters of a model."""

    release: Literal["model", "embeddings", "table", "queries", "language-model"]
    name: str
    summary: str
    parameters: int | None = None


@dataclass(frozen=True)
class ThreatModel:
    """The attacker in words."""

    goal: str
    knowledge: str
    access: str
    budget: str
    unit: str


@dataclass(frozen=True)
class AttackRow:
    """An attack that was run."""

    always: ClassVar = ("settings",)
    name: str
    title: str
    paper: str
    threat: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NotRun:
    """An attack or a candidate that was not run, with the reason."""

    name: str
    why: str
    title: str = ""


@dataclass(frozen=True)
class RiskFrom:
    """The deciding attack, the view that it attacked, and all results."""

    always: ClassVar = ("attack", "view", "doubt", "results")
    attack: str | None = None
    view: str | None = None
    doubt: str = ""
    results: Sequence[AttackResult] = ()


@dataclass(frozen=True, kw_only=True)
class CandidateRow:
    """One way to make the release, see `lethe.evidence.frontier.Candidate`."""

    name: str
    mitigation: str
    settings: Mapping[str, Any]
    utility: Utility
    risk: Measured
    risk_from: RiskFrom = RiskFrom()
    utility_loss: Loss | None
    risk_change: Measured | None
    guarantee: Guarantee
    measures: Mapping[str, Measured | None]
    plants: Sequence[Plant] | None = None
    equivalent: str = "none"  # whether the utility lost is within the margin: yes, no, unclear
    train_utility: Utility | None = None

    def estimate(self, quantity: str) -> Estimate | None:
        """The estimate that rules judge by this quantity; None where there is none."""
        measure = self.measures.get(quantity)
        return measure if isinstance(measure, Estimate) else None


C = TypeVar("C", bound=CandidateRow)
A = TypeVar("A")
P = TypeVar("P")


@dataclass(frozen=True, kw_only=True)
class Recommended:
    """The recommended candidate, with limits that allow for the choice."""

    always: ClassVar = ("among",)
    candidate: str
    among: int = 1
    risk: Measured


@dataclass(frozen=True, kw_only=True)
class FrontierRow:
    """The axes of the comparison, and the names of the candidates that stand out."""

    always: ClassVar = ("cheapest_large_reduction", "skipped", "recommended")
    utility: str
    risk: str
    margin: Annotated[float, ("minimum", 0)]
    pareto: Sequence[str]
    knee: str | None
    operating_point: str | None
    cheapest_large_reduction: str | None = None
    rule: str
    skipped: Sequence[NotRun] = ()
    recommended: Recommended | None = None


@dataclass(frozen=True)
class Histogram:
    """Counts of records or people, and the edges of the bins."""

    edges: Sequence[float]
    counts: Sequence[float]


@dataclass(frozen=True)
class Exposed(Generic[P]):
    """The most exposed records or people; personal data, so empty unless kept."""

    kept: bool
    exposed: Annotated[Sequence[P], ("maxItems", 100)]


@dataclass(frozen=True)
class CheckRow:
    """A self-check; `effect` (stops, asks, mends or accepted) is for checks of the input only."""

    name: str
    candidate: str | None
    status: Annotated[str, ("enum", ("pass", "warn", "fail"))]
    detail: str
    attack: str = ""
    estimate: Measured | None = None
    effect: str = ""


@dataclass(frozen=True)
class RuleRow:
    """The outcome of a rule; `fixed`: whether it was set before the result was known."""

    rule: str
    candidate: str
    outcome: Outcome
    evidence: Measured | None
    reason: str = ""
    fixed: bool = True


@dataclass(frozen=True)
class VerdictRow:
    """The joint outcome, and sentences about it."""

    outcome: Outcome
    candidate: str | None
    words: Sequence[str]


@dataclass(frozen=True)
class GuaranteeRow:
    """A guarantee and the candidate that it is about."""

    candidate: str
    guarantee: Guarantee


@dataclass(frozen=True)
class Baseline:
    """The release as it is now."""

    candidate: str


@dataclass(frozen=True, kw_only=True)
class Document(Generic[C, A, P]):
    """Keys of `Findings` for every kind; C, A and P are its candidates, data and exposed rows."""

    subject: SubjectRow
    threat_model: ThreatModel
    data: A
    attacks: Sequence[AttackRow]
    attacks_not_run: Sequence[NotRun]
    baseline: Baseline | None
    candidates: Sequence[C]
    frontier: FrontierRow
    records: Exposed[P]
    checks: Sequence[CheckRow]
    rules: Sequence[RuleRow]
    verdict: VerdictRow
    guarantees: Sequence[GuaranteeRow]
    limits: Sequence[str]
    context: Mapping[str, Any]
    reproduction: Mapping[str, Any]

    @property
    def titles(self) -> Mapping[str, str]:
        """Title of each attack by its name."""
        return {attack.name: attack.title for attack in self.attacks}
