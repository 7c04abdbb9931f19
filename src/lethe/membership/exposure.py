"""The few who are exposed: population averages hide them.

"The highest t" over many records is biased upward by chance, so records are selected on one
half of the shadow models (whole pairs) and reported on the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.twoway import Spread, symmetric_estimate
from lethe.membership.leave_one_out import leave_one_out
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
            value, low, high, self.top_t.confidence, "Phi of the mean t and of its limits",
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
    if not np.isfinite(second.t[rows]).all():
        why = Refusal("some selected records lack two models IN or OUT in the reporting half")
        return Exposure(overall, rows, why, why)
    single = float(second.t[highest[0]])
    half = float(ndtri((1 + confidence) / 2)) * float(second.se[highest[0]])
    return Exposure(
        overall,
        rows,
        symmetric_estimate(
            float(second.t[rows].mean()), _jackknife_mean(report, rows), len(rows), confidence,
            "jackknife over pairs of shadow models, Student t; n = records",
        ),
        Estimate(
            single, single - half, single + half, confidence,
            "asymptotic normal error of t; record chosen on other models", 1,
        ),
    )


def mean_change(
    after: Shadows, before: Shadows, rows: NDArray[np.intp], confidence: float
) -> Estimate:
    """Mean change of t over some records, paired over the same splits; positive = more exposed."""
    new, old = _left_out(after, rows), _left_out(before, rows)
    value = float(
        np.mean(
            vulnerability(after.signals[:, rows], after.members[:, rows]).t
            - vulnerability(before.signals[:, rows], before.members[:, rows]).t
        )
    )
    return symmetric_estimate(
        value, _jackknife(new - old), len(rows), confidence,
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


def _left_out(shadows: Shadows, rows: NDArray[np.intp]) -> Float:
    """(pairs,) mean t over `rows` with each pair of models left out in turn."""
    pairs = shadows.pairs
    means = {}
    for references in leave_one_out(shadows.signals[:, rows], shadows.members[:, rows]):
        if pairs[references.target] in means:
            continue
        inside, outside = references.inside, references.outside
        t = (inside.mean - outside.mean) / np.sqrt(inside.variance() + outside.variance())
        means[pairs[references.target]] = float(np.mean(t))
    return np.array(list(means.values()))


def _jackknife(left_out: Float) -> Spread:
    count = len(left_out)
    variance = (count - 1) / count * float(np.sum((left_out - left_out.mean()) ** 2))
    return Spread(variance, float(count - 1))


def _jackknife_mean(shadows: Shadows, rows: NDArray[np.intp]) -> Spread:
    return _jackknife(_left_out(shadows, rows))
