"""Candidates on the plane of utility against risk, and the recommended one."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from lethe.errors import InputError, check_at_least
from lethe.evidence.document import CandidateRow, RiskFrom
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.plain import plain
from lethe.evidence.risk import AttackResult, Risk, risk_of
from lethe.evidence.sight import Plant

_LARGE = 0.5
"""A reduction that leaves at most this share of the baseline's risk is a large one."""


@dataclass(frozen=True)
class Candidate:
    """One way to make the release.

    Attributes:
        name: unique in the audit; the release as it is now is called ``baseline``.
        mitigation: what is done, in words.
        settings: its numbers.
        utility: higher = better.
        attacks: every attack on every view of it, in the room's primary metric; `risk` is their
            worst.
        guarantee: what it proves.
        utility_loss: baseline utility minus this one, paired; None for the baseline itself.
        risk_change: this risk minus the baseline's, paired; negative = safer.
        details: everything else that was measured, by key of `findings.json`, or a result whose
            fields these keys are.
        measures: what rules may judge, by quantity as a rule writes it, such as ``tpr@0.01``;
            None where it was not measured.
        further: guarantees beside the first.
        among: settings that this one was chosen from, itself included.
        short_name: the name without its model, where several were audited side by side.
        chance: what a random guess reaches in the room's primary metric.
        plants: leaks of known size and what the attacks measured on them; None where the numbers
            are counted, so that nothing can be overlooked.
    """

    name: str
    mitigation: str
    settings: Mapping[str, Any]
    utility: Estimate
    attacks: Sequence[AttackResult]
    guarantee: Guarantee
    utility_loss: Estimate | None = None
    risk_change: Estimate | None = None
    details: Any = field(default_factory=dict)
    measures: Mapping[str, Measured | None] = field(default_factory=dict)
    further: Sequence[Guarantee] = ()
    among: int = 1
    short_name: str = ""
    chance: float = 0.0
    plants: Sequence[Plant] | None = None

    @property
    def void(self) -> bool:
        """Whether no attack on it passed its self-checks, so that no verdict has support."""
        return bool(self.attacks) and not any(result.valid for result in self.attacks)

    @functools.cached_property
    def strongest(self) -> Risk | Refusal:
        """The worst over `attacks`, with the attack and the view that decide; see `risk_of`."""
        return risk_of(self.attacks, self.chance)

    @property
    def risk(self) -> Measured:
        """What it is judged on, higher = worse."""
        return self.strongest if isinstance(self.strongest, Refusal) else self.strongest.estimate

    def to_json(self) -> dict[str, Any]:
        """Plain values for `findings.json`."""
        risk, source = self.strongest, RiskFrom(results=self.attacks)
        if isinstance(risk, Risk):
            source = RiskFrom(risk.attack, risk.view, risk.doubt, self.attacks)
        names = [field.name for field in fields(CandidateRow) if hasattr(self, field.name)]
        shared = {name: getattr(self, name) for name in names}
        return {**plain(CandidateRow(**shared, risk_from=source)), **plain(self.details)}


def floor(chance: float) -> float:
    """Risk below which a mitigation may be recommended where the user set no limit.

    A fifth of the way from chance to certainty: 20 % of people, an AUC of 0.6.

    >>> floor(0.0), floor(0.5)
    (0.2, 0.6)
    """
    return chance + 0.2 * (1 - chance)


def equivalence(loss: Estimate, margin: float) -> str:
    """Is a utility loss within the margin? ``yes`` and ``no`` are proven, else ``unclear``.

    "Not significantly different" is no equivalence: the *upper* limit of the loss must stay
    within the margin (equivalence testing: Schuirmann 1987).
    """
    if loss.high is not None and loss.high <= margin:
        return "yes"
    if loss.low is not None and loss.low > margin:
        return "no"
    return "unclear"


def _lowered(candidate: Candidate) -> bool:
    """Whether the risk is shown to be lower, where its change has limits."""
    change = candidate.risk_change
    return change is None or change.high is None or change.high < 0


@dataclass(frozen=True)
class Frontier:
    """Which candidates are worth a look, and which one a rule fixed before the run takes.

    Attributes:
        candidates: all of them, the baseline first.
        margin: largest utility loss that counts as none.
        within: names of the candidates that keep the user's rules; None where there are none.
    """

    candidates: Sequence[Candidate]
    margin: float = 0.01
    within: frozenset[str] | None = None

    def __post_init__(self) -> None:
        check_at_least("margin", self.margin, 0)
        names = [candidate.name for candidate in self.candidates]
        if len(set(names)) != len(names):
            raise InputError(f"candidate names must be unique, got {names}.")

    def _points(self) -> list[tuple[Candidate, float, float]]:
        return [
            (candidate, candidate.utility.value, candidate.risk.value)
            for candidate in self.candidates
            if isinstance(candidate.risk, Estimate)
            and candidate.risk.value is not None
            and candidate.utility.value is not None
        ]

    def pareto(self) -> list[str]:
        """Names of the candidates that no other beats in both directions (point estimates)."""
        points = self._points()
        return [
            mine.name
            for mine, utility, risk in points
            if not any(
                u >= utility and r <= risk and (u > utility or r < risk) for _, u, r in points
            )
        ]

    def knee(self) -> str | None:
        """The Pareto point furthest on the good side of the line between the two ends.

        Both axes are scaled to 1 (Satopää et al. 2011, in its discrete form). None with fewer
        than three distinct Pareto points, or if none saves more risk than the line does for the
        utility it costs. Equal points and equal distances go to the earlier candidate.
        """
        names = set(self.pareto())
        first: dict[tuple[float, float], str] = {}
        for candidate, utility, risk in self._points():
            if candidate.name in names:
                first.setdefault((utility, risk), candidate.name)
        if len(first) < 3:
            return None
        (high_u, high_r), (low_u, low_r) = max(first), min(first)
        gain = {
            name: (high_r - r) / (high_r - low_r) - (high_u - u) / (high_u - low_u)
            for (u, r), name in first.items()
            if low_u < u < high_u
        }
        best = max(gain, key=gain.__getitem__)
        return best if gain[best] > 1e-9 else None

    def operating_point(self) -> str | None:
        """Lowest risk among the mitigations whose *upper* utility loss is within the margin.

        None where none of them is shown to be below the baseline (the upper limit of the paired
        change of risk, where there is one): the release as it is is never recommended for want of
        another, nor an option for what chance did to it. Nor is an option that leaves much: it must
        keep the user's rules, or without any have an upper limit below `floor`. Of equal risks the
        lower upper limit, then the earlier candidate.
        """
        before, admissible = self._baseline_risk(), set(self.admissible())
        allowed = [
            (risk, _high(candidate.risk), place, candidate.name)
            for place, (candidate, _, risk) in enumerate(self._points())
            if candidate.name in admissible and (before is None or risk < before)
            if _lowered(candidate) and self._small_enough(candidate)
        ]
        return min(allowed)[-1] if allowed else None

    def _small_enough(self, candidate: Candidate) -> bool:
        if self.within is not None:
            return candidate.name in self.within
        return _high(candidate.risk) < floor(candidate.chance)

    def admissible(self) -> list[str]:
        """Mitigations whose upper utility loss is within the margin: the choice is among these."""
        return [
            candidate.name
            for candidate, _, _ in self._points()
            if candidate is not self.candidates[0]
            and candidate.utility_loss is not None
            and equivalence(candidate.utility_loss, self.margin) == "yes"
        ]

    def cheapest_large_reduction(self) -> str | None:
        """The mitigation with the smallest utility loss of those that at least halve the risk.

        Of equal losses the lowest risk, then the lowest upper limit. What to look at where there is
        no operating point. None without such a mitigation.
        """
        before = self._baseline_risk()
        large = [
            (candidate.utility_loss.value, risk, _high(candidate.risk), place, candidate.name)
            for place, (candidate, _, risk) in enumerate(self._points())
            if candidate is not self.candidates[0]
            and before is not None
            and risk <= _LARGE * before < before
            and candidate.utility_loss is not None
            and candidate.utility_loss.value is not None
        ]
        return min(large)[-1] if large else None

    def _baseline_risk(self) -> float | None:
        risk = self.candidates[0].risk if self.candidates else None
        return risk.value if isinstance(risk, Estimate) else None


def _high(risk: Measured) -> float:
    return risk.high if isinstance(risk, Estimate) and risk.high is not None else math.inf
