"""How many unique rows of a sample are unique in the population: an estimate under a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, gammaln, logit, ndtri

from lethe.errors import InputError, NotMeasurable, check_at_least, check_between
from lethe.evidence.estimate import Estimate

Float = NDArray[np.float64]
_EDGE = 8.0  # logit of alpha: nearer to 0 or 1 than 0.0003


@dataclass(frozen=True)
class PopulationUniqueness:
    """A model of class sizes, fitted to a sample.

    Attributes:
        of_uniques: chance that a row which is unique in the sample is unique in the population.
        of_rows: the same for any row of the sample: `of_uniques` x share of unique rows.
        model: "Pitman", or "Ewens" where the likelihood is highest at alpha = 0; then the interval
            holds alpha there.
        alpha: discount of the model, in [0, 1): how heavy the tail of small classes is.
        theta: concentration, above -alpha.
        sample: rows, n.
        population: people, N.
    """

    of_uniques: Estimate
    of_rows: Estimate
    model: str
    alpha: float
    theta: float
    sample: int
    population: int


def population_uniqueness(
    sizes: ArrayLike, population: int, *, confidence: float = 0.95
) -> PopulationUniqueness:
    """Fit Pitman's sampling formula by maximum likelihood, and follow unique rows to size N.

    Person i + 1 joins the class of a given unique row with chance (1 - alpha) / (i + theta), so
    the row stays unique from n to N people with chance
    prod_{i = n}^{N - 1} (theta + alpha + i - 1) / (theta + i).

    Assumes:
        The sample is drawn at random from the population, and class sizes follow Pitman's model
        (Pitman 1995; Hoshino 2001). The interval is one for the share that is realised in the
        population: error of the fit (delta method on the logit) and chance of the rows
        themselves, share (1 - share) / unique rows. It does not cover a wrong model.

    Args:
        sizes: (C,) rows in each equivalence class of the sample, all at least 1.
        population: N, at least the rows of the sample.
        confidence: of the intervals, in (0, 1).

    Raises:
        InputError: no sizes, or a population smaller than the sample.
        NotMeasurable: no row is unique, all are, or there is only one class; or the likelihood
            has no clear maximum.
    """
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    counts = np.asarray(sizes)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or not len(counts) or counts.min() < 1:
        raise InputError("sizes needs the rows of each class, whole numbers from 1.")
    rows, alone = int(counts.sum()), int((counts == 1).sum())
    check_at_least("population", population, rows)
    if alone in (0, rows) or len(counts) < 2:
        raise NotMeasurable(
            f"{alone} of {rows} rows are unique: the model cannot be fitted when none or all are."
        )
    point = _fit(counts)
    z = float(ndtri((1 + confidence) / 2))
    model = "Pitman" if len(point) == 2 else "Ewens"
    where = f"{model} model, N = {population}; delta method and chance of the rows; n counts rows"
    stay = _stays(point, rows, population)
    value = float(expit(stay))
    by_chance = 1 / (alone * max(value * (1 - value), 0.25 / alone))
    spread = float(np.hypot(_spread(point, counts, rows, population), np.sqrt(by_chance)))
    low, high = float(expit(stay - z * spread)), float(expit(stay + z * spread))
    of_uniques = Estimate(value, low, high, confidence, where, rows)
    share = alone / rows
    of_rows = Estimate(value * share, low * share, high * share, confidence, where, rows)
    alpha, theta = _parameters(point)
    return PopulationUniqueness(of_uniques, of_rows, model, alpha, theta, rows, population)


def log_likelihood(alpha: float, theta: float, sizes: NDArray[np.integer]) -> float:
    """Log chance of a partition into classes of these sizes under Pitman's formula."""
    steps = np.arange(1, len(sizes))
    rows = int(sizes.sum())
    value, times = np.unique(sizes, return_counts=True)
    grown = gammaln(value - alpha) - gammaln(1 - alpha)
    opened = np.log(theta + steps * alpha).sum()
    return float(opened - gammaln(theta + rows) + gammaln(theta + 1) + (times * grown).sum())


def _parameters(point: Float) -> tuple[float, float]:
    """(alpha, theta) from free coordinates: two of Pitman's model, one of Ewens', alpha = 0."""
    alpha = float(expit(point[0])) if len(point) == 2 else 0.0
    return alpha, float(np.exp(point[-1]) - alpha)


def _fit(sizes: NDArray[np.integer]) -> Float:
    from scipy.optimize import minimize

    start = np.array([0.0, np.log(len(sizes))])
    for first in (start, start[1:]):
        found = minimize(_loss, first, (sizes,), method="Nelder-Mead", options={"xatol": 1e-6})
        point = np.asarray(found.x, dtype=np.float64)
        if found.success and (len(point) == 1 or abs(point[0]) < _EDGE):
            return point
        if len(point) == 2 and point[0] > _EDGE:
            break  # alpha = 1: next to all rows are unique
    raise NotMeasurable("the likelihood of the class sizes has no clear maximum.")


def _loss(point: Float, sizes: NDArray[np.integer]) -> float:
    if np.abs(point).max() > 60:
        return 1e300
    return -log_likelihood(*_parameters(point), sizes)


def _stays(point: Float, rows: int, population: int) -> float:
    """Logit of the chance to stay unique from n to N people."""
    alpha, theta = _parameters(point)
    log = gammaln(theta + alpha + population - 1) - gammaln(theta + alpha + rows - 1)
    log -= gammaln(theta + population) - gammaln(theta + rows)
    return float(logit(np.clip(np.exp(log), 1e-300, 1 - 1e-15)))


def _spread(point: Float, sizes: NDArray[np.integer], rows: int, population: int) -> float:
    """Standard error of the logit, from the curvature of the likelihood."""
    step = 1e-3 * np.eye(len(point))
    curve = np.array(
        [
            [
                sum(
                    a * b * _loss(point + a * one + b * other, sizes)
                    for a in (1, -1)
                    for b in (1, -1)
                )
                / 4e-6
                for other in step
            ]
            for one in step
        ]
    )
    slope = np.array(
        [
            (_stays(point + one, rows, population) - _stays(point - one, rows, population)) / 2e-3
            for one in step
        ]
    )
    if not np.isfinite(curve).all() or np.linalg.eigvalsh(curve).min() <= 0:
        raise NotMeasurable("the likelihood of the class sizes has no clear maximum.")
    return float(np.sqrt(slope @ np.linalg.solve(curve, slope)))
