"""How well a number of shadow models ranks the records by exposure, foreseen from a pilot.

With K models, half IN and half OUT, and normal signals of equal variance on both sides,
d = sqrt(2) t is a standardised difference of two means of n = K/2 values. Hedges (1981) gives its
moments with v = K - 2 degrees of freedom: E d = delta / J(v) and E d^2 = v/(v-2) (2/n + delta^2).
Solved for the mean and the mean square of the true delta over records they say how much of the
spread of t is real; put in again at another K they give the correlation between two independent
sets of K models, which is the reliability of classical test theory (for many models it becomes
the formula of Spearman and Brown, 1910).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from lethe.errors import check_at_least
from lethe.membership.exposure import TOP_SHARE

MINIMUM_PILOT = 8
_DRAWS = 200
_SIMULATED = 40_000

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Ranking:
    """What a ranking of the records by t would be worth.

    Attributes:
        models: K.
        reliability: expected correlation of t between two independent sets of K models.
        low: 10 % limit of it, over records drawn anew.
        high: 90 % limit.
        overlap: expected share of the most exposed 1 % that two such sets have in common.
    """

    models: int
    reliability: float
    low: float
    high: float
    overlap: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "reliability": self.reliability,
            "low": self.low,
            "high": self.high,
            "top_overlap": self.overlap,
        }


def foresee_ranking(t: Float, pilot: int, wanted: list[int], seed: int = 0) -> list[Ranking]:
    """Reliability and overlap of the top 1 % for other numbers of models.

    Args:
        t: (N,) t-scores of the pilot; those that are not finite are left out.
        pilot: models behind them, at least 8.
        wanted: numbers of models, each at least 6.
        seed: of the bootstrap over records and of the simulated rankings.
    """
    check_at_least("pilot", pilot, MINIMUM_PILOT)
    rng = np.random.default_rng([seed, 11])
    d = np.sqrt(2.0) * t[np.isfinite(t)]
    mean, square = _true_moments(d, pilot)
    drawn = [_true_moments(d[rng.integers(len(d), size=len(d))], pilot) for _ in range(_DRAWS)]
    shrunk = _shrunk(d, pilot, mean, square)
    found = []
    for models in wanted:
        again = [_reliability(*moments, models) for moments in drawn]
        low, high = np.quantile(again, [0.1, 0.9])
        found.append(
            Ranking(
                models,
                _reliability(mean, square, models),
                float(low),
                float(high),
                _overlap(shrunk, models, rng),
            )
        )
    return found


def _j(degrees: float) -> float:
    """Hedges' J: true over expected standardised difference."""
    half = degrees / 2
    return float(np.exp(gammaln(half) - gammaln(half - 0.5)) / np.sqrt(half))


def _true_moments(d: Float, models: int) -> tuple[float, float]:
    """Mean and mean square of the true differences of the records."""
    v, n = models - 2, models / 2
    mean = _j(v) * float(d.mean())
    square = (v - 2) / v * float((d**2).mean()) - 2 / n
    # No spread beyond chance: all records are then equally exposed.
    return mean, max(square, mean**2)


def _reliability(mean: float, square: float, models: int) -> float:
    v, n = models - 2, models / 2
    seen = v / (v - 2) * (2 / n + square) - (mean / _j(v)) ** 2
    return (square - mean**2) / _j(v) ** 2 / seen


def _shrunk(d: Float, models: int, mean: float, square: float) -> Float:
    """Differences drawn in so that their spread is the true one and not that of the pilot."""
    spread = float(d.std())
    scale = np.sqrt(max(square - mean**2, 0.0)) / spread if spread > 0 else 0.0
    return np.asarray(mean + scale * (d - d.mean()))


def _overlap(true: Float, models: int, rng: np.random.Generator) -> float:
    """Share of the top 1 % in common of two simulated sets of models."""
    v, n = models - 2, models / 2
    top = max(1, round(TOP_SHARE * len(true)))
    shares = []
    for _ in range(max(2, -(-_SIMULATED // len(true)))):
        seen = [
            np.argpartition(
                -(rng.normal(size=len(true)) + true * np.sqrt(n / 2))
                / np.sqrt(rng.chisquare(v, size=len(true)) / v),
                top - 1,
            )[:top]
            for _ in range(2)
        ]
        shares.append(len(np.intersect1d(seen[0], seen[1])) / top)
    return float(np.mean(shares))
