"""Count an attacker's right answers over draws of noise, and decide when to stop drawing."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from lethe.evidence.estimate import Estimate
from lethe.reidentification.by_user import Linear, scaled, share_of_users
from lethe.reidentification.family import Attacker
from lethe.reidentification.vectors import Float

_PRECISE = 0.01
"""Half-width of an interval as a share of its value, below which drawing stops."""
_NARROWED = 0.9  # drawing stops if infinitely many draws would leave more of the interval
SURELY = 0.998  # confidence of the limits that decide when an attacker stops drawing
TRIALS = 2000  # least trials before an attacker stops
ENOUGH_HITS = 20  # least hits that show how much people differ


@dataclass(frozen=True, eq=False)
class Tally:
    """Hits of an attacker on a view of a release.

    Attributes:
        agreement: share of probes for which two draws name the same person; 0 where it was not
            measured, because there are many probes.
    """

    attacker: Attacker
    view: str  # ``release``, or the function of the release that is attacked
    hits: Float  # (G,) by person, over all draws; ties count by expectation
    tries: Float  # (G,) probes by person, over all draws
    draws: int  # number of noise draws
    agreement: float = 0.0

    def lift(self, confidence: float) -> Estimate:
        """Top-1 over chance, 1 / G; interval by people."""
        # Where the noise changes little, another draw of a probe is not an independent trial.
        alone = float(self.tries.sum()) / (1 + (self.draws - 1) * self.agreement)
        # Rounding may push averages over ties out of their range.
        tried = self.tries > 0
        hits, tries = np.minimum(self.hits, self.tries)[tried], self.tries[tried]
        share = share_of_users(hits, tries, confidence, alone)
        return scaled(share, len(self.hits))

    @property
    def share(self) -> float:
        """Top-1."""
        return float(self.hits.sum()) / max(float(self.tries.sum()), 1.0)

    @property
    def precise(self) -> bool:
        """Whether further draws would hardly change the interval.

        It is narrow, or infinitely many draws would narrow it by less than a tenth, because people
        differ more than draws of a person do (components of variance, by trials of each person).
        """
        if not self.draws:
            return False
        lift = self.lift(0.95)
        if lift.width is not None and lift.width / 2 <= _PRECISE * (lift.value or 0.0):
            return True
        if self.draws < 2 or self.tries.sum() < TRIALS or self.hits.sum() < ENOUGH_HITS:
            return False
        hits, tries = np.minimum(self.hits, self.tries), np.maximum(self.tries, 2)
        within = float((hits * (1 - hits / tries) * tries / (tries - 1)).sum())
        return within <= (1 - _NARROWED**2) * float(((hits - self.share * self.tries) ** 2).sum())

    @functools.cached_property
    def limits(self) -> tuple[float, float]:
        """Limits of Top-1 at the confidence `SURELY`."""
        if not self.draws:
            return 0.0, 1.0
        lift, users = self.lift(SURELY), len(self.hits)
        return (lift.low or 0.0) / users, 1.0 if lift.high is None else lift.high / users

    @property
    def named(self) -> Float:
        """(G,) share of each person's trials in which that person is named; NaN without any."""
        share = np.minimum(self.hits, self.tries) / np.maximum(self.tries, 1)
        return np.where(self.tries > 0, share, np.nan)

    def linear(self) -> Linear:
        """Top-1 with each person's contribution to its error, for paired comparisons."""
        total = float(self.tries.sum())
        share, tried = float(self.hits.sum()) / total, self.tries > 0
        error = (self.hits - share * self.tries)[tried] / total
        return Linear(share, error, 0.0, "t by users")
