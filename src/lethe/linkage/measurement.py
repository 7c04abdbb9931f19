"""A release of rows, measured, and what changed against the release as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.frontier import Candidate
from lethe.evidence.guarantee import Guarantee, empirical_only
from lethe.evidence.risk import AttackResult, risk_of
from lethe.linkage.utility import Utility, utility_loss

BASELINE = "baseline"
FEWEST = 30
"""Power floor: of fewer attempts not even a clean result limits a share below a tenth."""
Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Measurement:
    """A release, measured: what attacks find in it, and what utility is left.

    Attributes:
        attacks: every attack on it in the audit's primary metric, higher = worse, with limits that
            hold at once; the worst of them is the risk.
        proof: what the release proves; None = nothing: a recoded release is not proven to be
            private, and k-anonymity is no proof either.
    """

    name: str  # unique in the audit
    mitigation: str  # in words
    settings: Mapping[str, Any]  # its numbers
    attacks: Sequence[AttackResult]
    utility: Utility  # higher = better
    measures: Mapping[str, Measured]  # what rules judge, by quantity
    details: Json  # everything else, plain values
    assumptions: tuple[str, ...] = ()  # under which the measured numbers are what they say
    proof: Guarantee | None = None

    @property
    def risk(self) -> Measured:
        """The worst over the attacks, see `risk_of`."""
        risk = risk_of(self.attacks)
        return risk if isinstance(risk, Refusal) else risk.estimate

    def candidate(
        self,
        confidence: float,
        *,
        baseline: Measurement | None,
        risk_change: Estimate | None = None,
    ) -> Candidate:
        """As it stands on the frontier.

        Args:
            baseline: the release as it is; None where this is it.
            risk_change: this risk minus the baseline's, negative = safer; None = not compared.
        """
        loss = None
        if baseline is not None:
            loss = utility_loss(
                baseline=baseline.utility, released=self.utility, confidence=confidence
            )
        guarantee = self.proof or empirical_only(
            *self.assumptions,
            voided_by=("a stronger attack, more knowledge, or another release of the same people",),
        )
        return Candidate(
            self.name,
            self.mitigation,
            self.settings,
            self.utility.estimate,
            self.attacks,
            guarantee,
            loss,
            risk_change,
            self.details,
            {**self.measures, "utility-loss": loss},
        )


def strongest(results: Sequence[AttackResult]) -> AttackResult:
    """The result that `risk_of` names; the first where none was measured."""
    found = risk_of(results)
    if isinstance(found, Refusal):
        return results[0]
    named = (found.attack, found.view)
    return next(result for result in results if (result.attack, result.view) == named)
