"""The most exposed records, which population averages hide.

Records are selected on one half of the shadow models (whole pairs) and reported on the other,
because the highest of many t is too high by chance. A t from few models is too high on average even
then (14 % with 4 models a side); against it spreads are drawn together (`Spreads`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from lethe.errors import InputError
from lethe.evidence.document import Histogram
from lethe.evidence.estimate import Measured, Refusal
from lethe.evidence.of_model import MostExposed
from lethe.evidence.risk import family_confidence
from lethe.evidence.twoway import Spread, symmetric_estimate
from lethe.membership.leave_one_out import Moments, moments, without_groups
from lethe.membership.measure import FEWEST_RECORDS
from lethe.training.shadows import Shadows

# How exposed a record is: the t-score, its error, and what it means as an attack.
#
# t = (mu_in - mu_out) / sqrt(V_in + V_out) (Forgotten by Design, eq. 7). Under the Gaussian
# model the AUC of thresholding phi on that record is exactly Phi(t): the AUC is
# the chance that a signal IN exceeds one OUT, and their difference is normal with mean
# mu_in - mu_out and variance V_in + V_out.


@dataclass(frozen=True)
class Vulnerability:
    """Per-record exposure."""

    t: Float  # (N,) t-score, higher = more exposed; NaN without two models on each side
    se: Float  # (N,) its standard error
    tpr: Float  # (N,) TPR at 0.1 % FPR of thresholding phi on that record, Gaussian model

    def limits(self, confidence: float = 0.95) -> tuple[Float, Float]:
        """(N,) lower and upper limits of t."""
        z = float(ndtri((1 + confidence) / 2))
        return self.t - z * self.se, self.t + z * self.se


def vulnerability(
    signals: NDArray[np.floating], members: NDArray[np.bool_], fpr: float = 0.001
) -> Vulnerability:
    """t-scores with their standard errors.

    se = sqrt((2 + t^2 (V_in^2 + V_out^2)/(V_in + V_out)^2)/K) when each side has K/2 models: the
    delta method on two means and two variances of normal signals. A variance counts as at least
    1e-6 of the side's pooled one; a record whose signals are all the same has no score.

    Args:
        signals: (K, N) phi.
        members: (K, N) membership.
        fpr: of the per-record TPR.
    """
    inside, outside = moments(signals, members), moments(signals, ~members)
    v_in, v_out = _floored(inside), _floored(outside)
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = v_in + v_out
        t = (inside.mean - outside.mean) / np.sqrt(variance)
        of_means = (v_in / inside.count + v_out / outside.count) / variance
        of_spread = t**2 / 2 * (v_in**2 / inside.count + v_out**2 / outside.count) / variance**2
        se = np.sqrt(of_means + of_spread)
        threshold = float(ndtri(1 - fpr))
        gap = inside.mean - outside.mean - threshold * np.sqrt(v_out)
        tpr = ndtr(gap / np.sqrt(v_in))
    moved = (inside.mean != outside.mean) | (inside.squares + outside.squares > 0)
    known = np.isfinite(t) & moved
    return Vulnerability(
        np.where(known, t, np.nan), np.where(known, se, np.nan), np.where(known, tpr, np.nan)
    )


def _floored(side: Moments) -> Float:
    floor = np.nan_to_num(max(1e-6 * side.within(), 1e-12), nan=1e-12)
    variance = side.variance()
    return np.where(np.isnan(variance), np.nan, np.maximum(variance, floor))


def most_exposed(t: Float, share: float = 0.01) -> NDArray[np.intp]:
    """Row numbers of the share of records with the highest t, at least one, ties by row number.

    Raises InputError: no record has a t-score.
    """
    known = np.flatnonzero(np.isfinite(t))
    if len(known) == 0:
        raise InputError("no record has a t-score: each needs two models IN and two OUT.")
    count = max(1, round(share * len(known)))
    order = known[np.argsort(-t[known], kind="stable")]
    return order[:count]


TOP_SHARE = 0.01
MINIMUM_MODELS = 16
_EDGES = np.round(np.arange(-2.0, 8.01, 0.25), 2)

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Ranked:
    """Records in order of exposure."""

    order: NDArray[np.intp]  # (n,) row numbers, the most exposed first
    t: Float  # (N,) t-scores to report, not those that decided the order
    se: Float  # (N,) their standard errors
    low: Float  # (N,) lower limits
    high: Float  # (N,) upper limits


@dataclass(frozen=True)
class Spreads:
    """Distribution over records of the spread of signals, V_in + V_out.

    What the log-variances of two halves of the models have in common is real, the rest is error.
    Each record's is drawn towards the mean by the share that is error (best linear prediction),
    around a level at which the mean variance is unbiased.

    Assumes: a record's shift in units of its own spread does not depend on that spread.
    """

    between: float  # variance of the true log-variances
    share: float  # of the variance of the measured ones, what is real, in [0, 1]

    @staticmethod
    def of(choose: Shadows, report: Shadows) -> Spreads | None:
        """Fit on two halves of the models; None with fewer than 20 records measured by both."""
        first, second = (_variance(*_both(half, slice(None))) for half in (choose, report))
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(first), np.log(second)
        known = np.isfinite(logs[0]) & np.isfinite(logs[1])
        if known.sum() < FEWEST_RECORDS:
            return None
        covariance = np.cov(logs[0][known], logs[1][known])
        between, whole = max(float(covariance[0, 1]), 0.0), float(covariance[1, 1])
        return Spreads(between, min(between / whole, 1.0) if whole > 0 else 1.0)

    @property
    def error(self) -> float:
        """Remaining variance of a log-variance."""
        return self.between * (1 - self.share)

    def t(self, inside: Moments, outside: Moments) -> Float:
        """(N,) t-scores; NaN where a side has fewer than two models or signals do not vary."""
        variance = _variance(inside, outside)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(variance)
            known = np.isfinite(logs)
            level = np.log(variance[known].mean()) - self.between / 2
            drawn = level + self.share * (logs - logs[known].mean())
            t = (inside.mean - outside.mean) * np.exp(-drawn / 2 - self.error / 8)
        return np.where(known, t, np.nan)


def _variance(inside: Moments, outside: Moments) -> Float:
    return inside.variance() + outside.variance()


@dataclass(frozen=True)
class Exposure:
    """Exposure of the records under one candidate.

    Attributes:
        selected: rows of the 1 % most exposed, chosen on the first half of the models;
            None with fewer than 16 models.
        first: t-scores from the first half alone, to rank by; None with fewer than 16 models.
        second: t from the second half alone and its standard error, to report; likewise.
    """

    all_models: Vulnerability  # t-scores from all shadow models
    selected: NDArray[np.intp] | None
    top_t: Measured  # mean t of those rows on the second half
    max_t: Measured  # t on the second half of the record that was highest on the first
    first: Vulnerability | None = None
    second: tuple[Float, Float] | None = None

    def ranked(self, confidence: float) -> Ranked:
        """Rank the records, the most exposed first, with limits that allow for the ranking.

        From 16 models on records are ranked on one half of the models and t is that of the other;
        with fewer the limits hold for all records at once (Bonferroni), and so for any choice of
        them.
        """
        if self.first is None or self.second is None:
            known = np.flatnonzero(np.isfinite(self.all_models.t))
            level = family_confidence(confidence, max(len(known), 1))
            low, high = self.all_models.limits(level)
            order = known[np.argsort(-self.all_models.t[known], kind="stable")]
            t, se = self.all_models.t, self.all_models.se
            return Ranked(order, t, se, low, high)
        t, se = self.second
        z = float(ndtri((1 + confidence) / 2))
        known = np.flatnonzero(np.isfinite(self.first.t) & np.isfinite(t))
        order = known[np.argsort(-self.first.t[known], kind="stable")]
        return Ranked(order, t, se, t - z * se, t + z * se)

    def top_auc(self) -> Measured:
        """Phi of `top_t` with its limits: AUC of an attack on a record of that exposure."""
        if isinstance(self.top_t, Refusal):
            return self.top_t
        method = "Phi of the mean t and of its limits"
        return self.top_t.mapped(lambda t: float(ndtr(t)), method)

    def row(self, tracked: Measured | None = None) -> MostExposed:
        """The row of the findings; `tracked`: t of the records most exposed at baseline."""
        t = self.all_models.t
        counts, _ = np.histogram(np.clip(t[np.isfinite(t)], _EDGES[0], _EDGES[-1]), _EDGES)
        how = "records chosen on one half of the shadow models, reported on the other"
        shape = Histogram(_EDGES.tolist(), counts.tolist())
        return MostExposed(self.top_t, self.max_t, self.top_auc(), how, shape, tracked)


def expose(
    shadows: Shadows, selected: NDArray[np.intp] | None = None, confidence: float = 0.95
) -> Exposure:
    """t-scores of all records, and of the most exposed 1 % without selection bias.

    Args:
        selected: rows to report on; by default the top 1 % of this candidate's first half.
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
    spreads, shown = Spreads.of(choose, report), (second.t, second.se)
    if spreads is not None:
        inside, outside = _both(report, slice(None))
        t = spreads.t(inside, outside)
        with np.errstate(divide="ignore", invalid="ignore"):  # of the means, and of the spread
            of_means = (1 / inside.count + 1 / outside.count) / 2
            shown = t, np.sqrt(of_means + t**2 * spreads.error / 4)
    bad = int((~_steady(report, rows)).sum()) + int((~_steady(report, highest)).sum())
    if bad:
        why = Refusal(
            f"{bad} of the selected records lack three models IN or OUT in the reporting half, or "
            "their signals have no spread there, so that their t has no bound"
        )
        return Exposure(overall, rows, why, why, first, shown)
    degrees = _degrees(*_both(report, rows))
    if spreads is None:
        shown = second.t * small_sample_factor(degrees), second.se
    noise = Spread(float(shown[1][highest[0]]) ** 2, degrees)
    return Exposure(
        overall,
        rows,
        symmetric_estimate(
            _mean_t(report, rows, spreads),
            jackknife(_left_out(report, rows, spreads)),
            len(rows),
            confidence,
            "jackknife over pairs of shadow models, Student t; n = records",
        ),
        symmetric_estimate(
            float(shown[0][highest[0]]),
            noise,
            1,
            confidence,
            "large-sample error of t, Student t; record chosen on other models",
        ),
        first,
        shown,
    )


def mean_change(
    after: Shadows, before: Shadows, rows: NDArray[np.intp], confidence: float
) -> Measured:
    """Paired mean change of t over some records on the same splits; positive = more exposed."""
    rows = rows[_steady(after, rows) & _steady(before, rows)]
    if len(rows) == 0:
        return Refusal("no record has a t-score whichever pair of models is left out")
    spreads = [Spreads.of(*shadows.halves()) for shadows in (after, before)]
    if None in spreads:
        spreads = [None, None]
    new, old = _left_out(after, rows, spreads[0]), _left_out(before, rows, spreads[1])
    value = _mean_t(after, rows, spreads[0]) - _mean_t(before, rows, spreads[1])
    return symmetric_estimate(
        value,
        jackknife(new - old),
        len(rows),
        confidence,
        "paired jackknife over pairs of shadow models, Student t; n = records",
    )


def _both(shadows: Shadows, rows: NDArray[np.intp] | slice) -> tuple[Moments, Moments]:
    signals, members = shadows.signals[:, rows], shadows.members[:, rows]
    return moments(signals, members), moments(signals, ~members)


def _degrees(inside: Moments, outside: Moments) -> float:
    """Degrees of freedom behind V_in + V_out of these records (Satterthwaite, pooled)."""
    v_in, v_out = float(inside.variance().mean()), float(outside.variance().mean())
    d_in, d_out = float(inside.count.mean()) - 1, float(outside.count.mean()) - 1
    parts = v_in**2 / d_in + v_out**2 / d_out
    return (v_in + v_out) ** 2 / parts if parts > 0 else d_in + d_out


def small_sample_factor(degrees: float) -> float:
    """Expected true t over expected estimate."""
    return 1 - 3 / (4 * degrees - 1)


def _mean_t(shadows: Shadows, rows: NDArray[np.intp], spreads: Spreads | None) -> float:
    """Mean t of the records; NaN where one lacks two models on a side."""
    if spreads is None:
        return _plain_mean(*_both(shadows, rows))
    return float(spreads.t(*_both(shadows, slice(None)))[rows].mean())


def _plain_mean(inside: Moments, outside: Moments) -> float:
    """Mean t from the variances of each record, corrected for bias (Hedges 1981)."""
    if min(inside.count.min(), outside.count.min()) < 2:
        return float("nan")
    with np.errstate(invalid="ignore", divide="ignore"):
        t = (inside.mean - outside.mean) / np.sqrt(_variance(inside, outside))
    return small_sample_factor(_degrees(inside, outside)) * float(t.mean())


def _steady(shadows: Shadows, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Those of `rows` that have a t-score when any pair of models is left out."""
    steady = np.ones(len(rows), dtype=bool)
    left = without_groups(shadows.signals[:, rows], shadows.members[:, rows], shadows.pairs)
    for inside, outside in left:
        steady &= (inside.count >= 2) & (outside.count >= 2)
        # Equal signals leave a rest of rounding errors, not an exact 0.
        rounding = 1e-9 * (1 + inside.mean**2 + outside.mean**2)
        steady &= inside.squares + outside.squares > rounding
    return steady


def _left_out(shadows: Shadows, rows: NDArray[np.intp], spreads: Spreads | None) -> Float:
    """(pairs,) mean t over `rows` with each pair of models left out in turn."""
    if spreads is None:
        left = without_groups(shadows.signals[:, rows], shadows.members[:, rows], shadows.pairs)
        return np.array([_plain_mean(inside, outside) for inside, outside in left])
    whole = without_groups(shadows.signals, shadows.members, shadows.pairs)
    return np.array([float(spreads.t(inside, outside)[rows].mean()) for inside, outside in whole])


def jackknife(left_out: Float) -> Spread:
    """The spread of a mean from its values with each pair of models left out."""
    count = len(left_out)
    variance = (count - 1) / count * float(np.sum((left_out - left_out.mean()) ** 2))
    return Spread(variance, float(count - 1))
