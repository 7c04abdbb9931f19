"""Candidates on the plane of utility against risk, and the one to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lethe.errors import InputError, check_at_least
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.guarantee import Guarantee


@dataclass(frozen=True)
class Candidate:
    """One way to make the release.

    Attributes:
        name: unique in the audit; the release as it is now is called ``baseline``.
        mitigation: what is done, in words.
        settings: its numbers.
        utility: higher = better.
        risk: higher = worse.
        guarantee: what it proves.
        utility_loss: baseline utility minus this one, paired; None for the baseline itself.
        risk_change: this risk minus the baseline's, paired; negative = safer.
        details: everything else that was measured, plain values for `findings.json`.
    """

    name: str
    mitigation: str
    settings: Mapping[str, Any]
    utility: Estimate
    risk: Measured
    guarantee: Guarantee
    utility_loss: Estimate | None = None
    risk_change: Estimate | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values for `findings.json`."""
        return {
            "name": self.name,
            "mitigation": self.mitigation,
            "settings": dict(self.settings),
            "utility": self.utility.to_json(),
            "risk": self.risk.to_json(),
            "utility_loss": None if self.utility_loss is None else self.utility_loss.to_json(),
            "risk_change": None if self.risk_change is None else self.risk_change.to_json(),
            "guarantee": self.guarantee.to_json(),
            **self.details,
        }


def equivalence(loss: Estimate, margin: float) -> str:
    """Is a utility loss within the margin? ``yes`` and ``no`` are proven, else ``unclear``.

    "Not significantly different" is no equivalence: the *upper* limit of the loss must stay
    within the margin (protocols 5.2, 11).
    """
    if loss.high is not None and loss.high <= margin:
        return "yes"
    if loss.low is not None and loss.low > margin:
        return "no"
    return "unclear"


@dataclass(frozen=True)
class Frontier:
    """Which candidates are worth a look, and which one a rule fixed before the run takes.

    Attributes:
        candidates: all of them, the baseline first.
        margin: largest utility loss that counts as none.
    """

    candidates: Sequence[Candidate]
    margin: float = 0.01

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
        """Lowest risk among the candidates whose *upper* utility loss is within the margin.

        The baseline loses nothing by definition; equal risks go to the earlier candidate.
        """
        allowed = [
            (risk, at, candidate.name)
            for at, (candidate, _, risk) in enumerate(self._points())
            if candidate is self.candidates[0]
            or (
                candidate.utility_loss is not None
                and equivalence(candidate.utility_loss, self.margin) == "yes"
            )
        ]
        return min(allowed)[2] if allowed else None
