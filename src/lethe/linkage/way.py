"""One way to release rows, measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.frontier import Candidate
from lethe.evidence.guarantee import Guarantee, empirical_only
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.risk import AttackResult, risk_of
from lethe.linkage.codes import counted

BASELINE = "baseline"
FEWEST = 30
"""Power floor: of fewer attempts not even a clean result limits a share below a tenth."""
Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Way:
    """A release, what it tells and what it keeps.

    Attributes:
        name: unique in the audit.
        mitigation: in words.
        settings: its numbers.
        attacks: every attack on it in the audit's primary metric, higher = worse, with limits that
            hold at once; the worst of them is the risk.
        utility: higher = better.
        loss: of utility against the baseline; None for the baseline.
        change: of risk against the baseline; None for the baseline.
        evidence: by metric of the rules, what they judge.
        details: everything else, plain values.
        assumptions: under which the measured numbers are what they say.
        proof: what the release proves; None = nothing.
    """

    name: str
    mitigation: str
    settings: Mapping[str, Any]
    attacks: Sequence[AttackResult]
    utility: Estimate
    loss: Estimate | None
    change: Estimate | None
    evidence: Mapping[str, Measured]
    details: Json = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    proof: Guarantee | None = None

    @property
    def risk(self) -> Measured:
        """The worst over the attacks, see `risk_of`."""
        found = risk_of(self.attacks)
        return found if isinstance(found, Refusal) else found.estimate

    @property
    def guarantee(self) -> Guarantee:
        """A recoded release is not proven to be private; k-anonymity is no proof either."""
        if self.proof is not None:
            return self.proof
        return empirical_only(
            *self.assumptions,
            voided_by=("a stronger attack, more knowledge, or another release of the same people",),
        )

    def candidate(self) -> Candidate:
        """As it stands on the frontier."""
        return Candidate(
            self.name,
            self.mitigation,
            self.settings,
            self.utility,
            self.attacks,
            self.guarantee,
            self.loss,
            self.change,
            self.details,
            {**self.evidence, "utility-loss": self.loss},
        )


def strongest(results: Sequence[AttackResult]) -> AttackResult:
    """The result that `risk_of` names; the first where none was measured."""
    found = risk_of(results)
    if isinstance(found, Refusal):
        return results[0]
    named = (found.attack, found.view)
    return next(result for result in results if (result.attack, result.view) == named)


def less(before: float, now: float, rows: int, confidence: float) -> Estimate:
    """before - now, where both were counted in the same rows."""
    return counted(before - now, rows, confidence)


def paired_change(
    now: NDArray[np.bool_], before: NDArray[np.bool_], confidence: float = 0.95
) -> Estimate:
    """Share now minus share before, of the same targets.

    Exact limits of the share gained and of the share lost, each with half of the error
    (Bonferroni); so the interval has a width even where no target changed.

    >>> print(paired_change(np.array([False] * 100), np.array([True] * 100)))
    -1 [-1, -0.9143]
    """
    trials, halved = len(now), 1 - (1 - confidence) / 2
    gained, lost = int((now & ~before).sum()), int((before & ~now).sum())
    up, down = (clopper_pearson(count, trials, halved) for count in (gained, lost))
    assert up.low is not None and up.high is not None
    assert down.low is not None and down.high is not None
    low, high = max(up.low - down.high, -1.0), min(up.high - down.low, 1.0)
    return Estimate((gained - lost) / trials, low, high, confidence, "paired, exact", trials)
