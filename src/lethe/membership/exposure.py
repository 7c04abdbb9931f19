"""The few who are exposed: population averages hide them.

"The highest t" over many records is biased upward by chance, so records are selected on one
half of the shadow models (whole pairs) and reported on the other. A t-score from few models
is too high on average even then, because its variances are estimated (14 % with 4 models a
side); means of t carry the factor 1 - 3/(4 df - 1) against it (Hedges 1981).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.twoway import Spread, symmetric_estimate
from lethe.membership.leave_one_out import Moments, moments, without_groups
from lethe.membership.vulnerability import Vulnerability, most_exposed, vulnerability
from lethe.training.shadows import Shadows

TOP_SHARE = 0.01
MINIMUM_MODELS = 16
_EDGES = np.round(np.arange(-2.0, 8.01, 0.25), 2)

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Exposure:
    """Exposure of the records under one candidate.

    Attributes:
        all_models: t-scores from all shadow models.
        selected: rows of the 1 % most exposed, chosen on the first half of the models;
            None with fewer than 16 models.
        top_t: mean t of those rows on the second half.
        max_t: t on the second half of the record that was highest on the first.
    """

    all_models: Vulnerability
    selected: NDArray[np.intp] | None
    top_t: Measured
    max_t: Measured

    def top_auc(self) -> Measured:
        """Phi of `top_t` with its limits: AUC of an attack on a record of that exposure."""
        if isinstance(self.top_t, Refusal):
            return self.top_t
        value, low, high = (
            None if limit is None else float(ndtr(limit))
            for limit in (self.top_t.value, self.top_t.low, self.top_t.high)
        )
        return Estimate(
            value,
            low,
            high,
            self.top_t.confidence,
            "Phi of the mean t and of its limits",
            self.top_t.n,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values for `findings.json`."""
        t = self.all_models.t
        counts, _ = np.histogram(np.clip(t[np.isfinite(t)], _EDGES[0], _EDGES[-1]), _EDGES)
        return {
            "top_t": self.top_t.to_json(),
            "max_t": self.max_t.to_json(),
            "top_auc": self.top_auc().to_json(),
            "selection": "records chosen on one half of the shadow models, reported on the other",
            "histogram": {"edges": _EDGES.tolist(), "counts": counts.tolist()},
        }


def expose(
    shadows: Shadows, selected: NDArray[np.intp] | None = None, confidence: float = 0.95
) -> Exposure:
    """t-scores of all records, and of the most exposed 1 % without selection bias.

    Args:
        shadows: of one candidate.
        selected: rows to report on; by default the top 1 % of this candidate's first half.
        confidence: of the intervals.
    """
    overall = vulnerability(shadows.signals, shadows.members)
    if shadows.models < MINIMUM_MODELS:
        needed = Refusal(
            f"models={shadows.models}: selecting and reporting records needs at least "
            f"{MINIMUM_MODELS} shadow models"
        )
        return Exposure(overall, None, needed, needed)
    choose, report = shadows.halves()
    try:
        first = vulnerability(choose.signals, choose.members)
        rows = most_exposed(first.t, TOP_SHARE) if selected is None else selected
        highest = most_exposed(first.t, 1e-12)
    except InputError as error:
        return Exposure(overall, None, Refusal(str(error)), Refusal(str(error)))
    second = vulnerability(report.signals, report.members)
    bad = int((~_steady(report, rows)).sum()) + int((~_steady(report, highest)).sum())
    if bad:
        why = Refusal(
            f"{bad} of the selected records lack three models IN or OUT in the reporting half, or "
            "their signals have no spread there, so that their t has no bound"
        )
        return Exposure(overall, rows, why, why)
    left_out = _left_out(report, rows)
    inside, outside = _both(report, rows)
    degrees = _degrees(inside, outside)
    factor = _small_sample_factor(degrees)
    noise = Spread(float(factor * second.se[highest[0]]) ** 2, degrees)
    return Exposure(
        overall,
        rows,
        symmetric_estimate(
            _mean_t(inside, outside),
            _jackknife(left_out),
            len(rows),
            confidence,
            "jackknife over pairs of shadow models, Student t; n = records",
        ),
        symmetric_estimate(
            factor * float(second.t[highest[0]]),
            noise,
            1,
            confidence,
            "large-sample error of t, Student t; record chosen on other models",
        ),
    )


def mean_change(
    after: Shadows, before: Shadows, rows: NDArray[np.intp], confidence: float
) -> Measured:
    """Mean change of t over some records, paired over the same splits; positive = more exposed.

    Records whose signals have no spread when a pair of models is left out have no t to compare
    and are not counted in n.
    """
    rows = rows[_steady(after, rows) & _steady(before, rows)]
    if len(rows) == 0:
        return Refusal("no record has a t-score whichever pair of models is left out")
    new, old = _left_out(after, rows), _left_out(before, rows)
    value = _mean_t(*_both(after, rows)) - _mean_t(*_both(before, rows))
    return symmetric_estimate(
        value,
        _jackknife(new - old),
        len(rows),
        confidence,
        "paired jackknife over pairs of shadow models, Student t; n = records",
    )


def newly_exposed(
    after: Vulnerability, before: Vulnerability, rows: NDArray[np.intp], rate: float = 0.05
) -> int:
    """How many of some records became more exposed, false discoveries held at `rate`.

    One-sided tests of the change of t, standard errors taken as independent (cautious, for
    the two share their splits), Benjamini and Hochberg 1995.
    """
    change = after.t[rows] - before.t[rows]
    z = change / np.sqrt(after.se[rows] ** 2 + before.se[rows] ** 2)
    p = np.sort(ndtr(-z[np.isfinite(z)]))
    passed = np.flatnonzero(p <= rate * np.arange(1, len(p) + 1) / max(len(p), 1))
    return int(passed[-1]) + 1 if len(passed) else 0


def _both(shadows: Shadows, rows: NDArray[np.intp]) -> tuple[Moments, Moments]:
    signals, members = shadows.signals[:, rows], shadows.members[:, rows]
    return moments(signals, members), moments(signals, ~members)


def _degrees(inside: Moments, outside: Moments) -> float:
    """Degrees of freedom behind V_in + V_out of these records (Satterthwaite, pooled)."""
    v_in, v_out = float(inside.variance().mean()), float(outside.variance().mean())
    d_in, d_out = float(inside.count.mean()) - 1, float(outside.count.mean()) - 1
    parts = v_in**2 / d_in + v_out**2 / d_out
    return (v_in + v_out) ** 2 / parts if parts > 0 else d_in + d_out


def _small_sample_factor(degrees: float) -> float:
    """Expected true t over expected estimate."""
    return 1 - 3 / (4 * degrees - 1)


def _mean_t(inside: Moments, outside: Moments) -> float:
    """Mean t of the records; NaN where one lacks two models on a side."""
    if min(inside.count.min(), outside.count.min()) < 2:
        return float("nan")
    with np.errstate(invalid="ignore", divide="ignore"):
        t = (inside.mean - outside.mean) / np.sqrt(inside.variance() + outside.variance())
    return _small_sample_factor(_degrees(inside, outside)) * float(t.mean())


def _steady(shadows: Shadows, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which of `rows` have a t-score whichever pair of models is left out."""
    steady = np.ones(len(rows), dtype=bool)
    left = without_groups(shadows.signals[:, rows], shadows.members[:, rows], shadows.pairs)
    for inside, outside in left:
        steady &= (inside.count >= 2) & (outside.count >= 2)
        # Equal signals leave a rest of rounding errors, not an exact 0.
        rounding = 1e-9 * (1 + inside.mean**2 + outside.mean**2)
        steady &= inside.squares + outside.squares > rounding
    return steady


def _left_out(shadows: Shadows, rows: NDArray[np.intp]) -> Float:
    """(pairs,) mean t over `rows` with each pair of models left out in turn."""
    left = without_groups(shadows.signals[:, rows], shadows.members[:, rows], shadows.pairs)
    return np.array([_mean_t(inside, outside) for inside, outside in left])


def _jackknife(left_out: Float) -> Spread:
    count = len(left_out)
    variance = (count - 1) / count * float(np.sum((left_out - left_out.mean()) ** 2))
    return Spread(variance, float(count - 1))
