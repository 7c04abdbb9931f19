"""The likelihood-ratio attack (Carlini et al., IEEE S&P 2022, algorithm 1 and section VI).

Pure functions of what reference models say about a record. The hierarchical form draws each
record's shift (mean IN less mean OUT) and variances towards what is usual at its level, as far as
its own models are too few to tell: empirical Bayes with the variance prior of Smyth (Statistical
Applications in Genetics and Molecular Biology 3, 2004, section 6.2). With many models it is LiRA
with per-record variances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, log_ndtr, ndtri, polygamma

from lethe.errors import InputError, check_choice
from lethe.membership.attacks.attack import WITH, WITHOUT, Attack, Scorer, Trial, check_varies
from lethe.membership.leave_one_out import Moments, References

PER_RECORD_FROM = 64
"""Designed number of models from which each record gets its own variance."""

_CELLS = 1 << 20  # ranked at once
_FEWEST_SHARED = 6
VARIANCES = ("auto", "pooled", "pooled-total", "per-record", "shrunken")

Float = NDArray[np.float64]


def variance_rule(variance: str, models: int) -> str:
    """The rule that ``auto`` stands for: pooled while the designed K < 64, else per record."""
    check_choice("variance", variance, VARIANCES)
    if variance != "auto":
        return variance
    return "per-record" if models >= PER_RECORD_FROM else "pooled"


def side_variance(side: Moments, rule: str) -> Float:
    """(N,) variance of one side under a rule.

    ``pooled``: within records, over all of them; ``pooled-total``: of all signals of the side (the
    original code), also where a side has one model; ``shrunken``: each record's own, pulled towards
    the typical one (`variance_prior`). A floor of 1e-8 of the pooled variance keeps tied signals
    from dividing by zero.
    """
    pooled = side.within() if rule != "pooled-total" else side.total()
    if np.isnan(pooled):
        pooled = side.total()
    if rule == "shrunken":
        variance = variance_prior(side).shrink(side)
    elif rule == "per-record":
        variance = side.variance()
        if (side.count == 1).any():
            raise InputError(
                "variance='per-record' needs at least 2 reference models on each side of every "
                "record; use more models or variance='pooled'."
            )
    else:
        variance = np.full(len(side.count), pooled)
    return np.maximum(variance, max(1e-8 * pooled, 1e-12), out=variance)


def lira_online(phi: Float, references: References, rule: str) -> Float:
    """log N(phi; mu_in, V_in) - log N(phi; mu_out, V_out).

    Args:
        rule: a variance rule, not ``auto``.

    Returns: (N,) higher = member.
    """
    v_in = side_variance(references.inside, rule)
    v_out = side_variance(references.outside, rule)
    score = _distance(phi, references.outside.mean, v_out)
    score -= _distance(phi, references.inside.mean, v_in)
    v_out /= v_in
    score += np.log(v_out, out=v_out)
    score *= 0.5
    return score


def _distance(phi: Float, mean: Float, variance: Float) -> Float:
    """(phi - mean)^2/variance, without tables of intermediate results."""
    distance = phi - mean
    distance *= distance
    distance /= variance
    return distance


def lira_offline(phi: Float, references: References, rule: str) -> Float:
    """log Phi((phi - mu_out)/sd_out), from models that did not train on the record.

    Args and returns as `lira_online`.
    """
    out = references.outside
    return np.asarray(log_ndtr((phi - out.mean) / np.sqrt(side_variance(out, rule))))


_BIN = 50
"""Records behind each point of a relation."""
_MOST_BINS = 40


@dataclass(frozen=True)
class _Levels:
    """Records sorted into bins by their level, for relations that are smooth in it."""

    level: Float  # (n,) of each record
    bin: NDArray[np.intp]  # (n,) number of its bin
    count: Float  # (B,) records a bin
    centre: Float  # (B,) mean level of each bin, ascending

    @staticmethod
    def of(level: Float) -> _Levels:
        bins = int(np.clip(len(level) // _BIN, 1, _MOST_BINS))
        edges = np.unique(np.quantile(level, np.linspace(0, 1, bins + 1)[1:-1]))
        place = np.searchsorted(edges, level, side="right")
        count = np.bincount(place, minlength=len(edges) + 1)
        centre = np.bincount(place, level, len(count)) / np.maximum(count, 1)
        kept = count > 0
        renumber = np.cumsum(kept) - 1
        return _Levels(level, renumber[place], count[kept].astype(float), centre[kept])

    def means(self, value: Float) -> Float:
        """(B,) mean of a value in each bin."""
        return np.asarray(np.bincount(self.bin, value, len(self.count)) / self.count)

    def curve(self, points: Float) -> Float:
        """(n,) a value given at the bins, by straight lines between their centres."""
        return np.interp(self.level, self.centre, points)


def lira_hierarchical(phi: Float, references: References) -> Float:
    """Log-ratio of the predictive densities of a member and of a non-member.

    Variances of both sides have the prior of `variance_prior` around what is typical at the
    record's level (the mean of both sides); the shift has a Gaussian prior around the mean shift
    there, with the spread of the observed shifts less what sampling explains. Both densities are
    Student t.

    Returns: (N,) higher = member; NaN where a side has no model.
    """
    score = np.full(len(phi), np.nan)
    known = (references.inside.count > 0) & (references.outside.count > 0)
    if known.any():
        inside, outside = (
            Moments(side.count[known], side.mean[known], side.squares[known])
            for side in (references.inside, references.outside)
        )
        score[known] = _score(phi[known], inside, outside)
    return score


def _score(phi: Float, inside: Moments, outside: Moments) -> Float:
    levels = _Levels.of((inside.mean + outside.mean) / 2)
    shift = inside.mean - outside.mean
    usual = levels.curve(levels.means(shift))
    rest = levels.means((shift - usual) ** 2)
    v_in, free_in = _variances(inside, levels, rest)
    v_out, free_out = _variances(outside, levels, rest)

    error_in, error_out = v_in / inside.count, v_out / outside.count
    error = error_in + error_out
    own = levels.curve(np.maximum(rest - levels.means(error), 0.0))
    pull = (shift - usual) / (error + own)
    at_in = inside.mean - pull * error_in
    at_out = outside.mean + pull * error_out
    left_in = error_in - error_in**2 / (error + own)
    left_out = error_out - error_out**2 / (error + own)
    return _student(phi, at_in, v_in + left_in, free_in) - _student(
        phi, at_out, v_out + left_out, free_out
    )


def _variances(side: Moments, levels: _Levels, rest: Float) -> tuple[Float, Float]:
    """(n,) posterior variances of one side, and their degrees of freedom."""
    degrees = np.maximum(side.count - 1, 0)
    behind = levels.means(degrees)
    within = levels.means(side.squares)
    # Where no record of a bin has two models, half the spread of the shifts is the best guess.
    pooled = np.where(behind > 0, within / np.maximum(behind, 1e-300), rest / 2)
    typical = levels.curve(np.maximum(pooled, max(1e-8 * float(pooled.mean()), 1e-12)))
    prior = variance_prior(side, typical)
    return prior.shrink(side), prior.degrees + degrees


def _student(phi: Float, location: Float, variance: Float, freedom: Float) -> Float:
    """Log density of Student's t, up to the constant that all records share."""
    half = freedom / 2
    return np.asarray(
        gammaln(half + 0.5)
        - gammaln(half)
        - 0.5 * np.log(half * variance)
        - (half + 0.5) * np.log1p((phi - location) ** 2 / (2 * half * variance))
    )


_MOST = 1e6
"""Prior degrees of freedom that stand for "all variances are equal"."""


@dataclass(frozen=True)
class VariancePrior:
    """A scaled inverse chi-square prior of the variances of all records.

    Attributes:
        degrees: how many degrees of freedom it is worth; 0 = records have nothing in common,
            at most 1e6 = all variances are equal.
    """

    degrees: float
    variance: Float | float  # the typical variance

    def shrink(self, side: Moments) -> Float:
        """(N,) posterior variances of one side, all > 0."""
        own = np.maximum(side.count - 1, 0)
        return np.asarray(
            (self.degrees * self.variance + side.squares) / np.maximum(self.degrees + own, 1e-300)
        )


def variance_prior(side: Moments, typical: Float | None = None) -> VariancePrior:
    """Fit the prior to the variances of all records.

    The logarithms of sample variances with d degrees of freedom spread by trigamma(d/2) +
    trigamma(d0/2); d0 is solved for.

    Args:
        side: moments of one side.
        typical: (N,) expected variance of each record where it is known to depend on something;
            by default one for all.
    """
    own = side.count - 1
    base = np.ones_like(own) if typical is None else typical
    pooled = side.within()
    floor = max(1e-8 * pooled, 1e-300) if math.isfinite(pooled) else 1e-300
    known = (own > 0) & (side.squares > floor * own)
    if known.sum() < 3:
        variance = pooled if math.isfinite(pooled) else side.total()
        return VariancePrior(_MOST, max(variance, 1e-12) * base / float(np.mean(base)))
    # Records have few different numbers of models: functions of these are read off a table.
    place = own[known].astype(np.intp) - 1
    halves = np.arange(1, place.max() + 2) / 2
    logs = np.log(side.squares[known] / own[known] / base[known])
    logs += (np.log(halves) - digamma(halves))[place]
    extra = float(np.var(logs, ddof=1) - polygamma(1, halves)[place].mean())
    degrees = min(2 * inverse_trigamma(extra), _MOST) if extra > 0 else _MOST
    level = math.exp(float(logs.mean()) + float(digamma(degrees / 2)) - math.log(degrees / 2))
    return VariancePrior(degrees, level if typical is None else level * base)


def inverse_trigamma(value: float) -> float:
    """x > 0 with trigamma(x) = value, for value > 0 (Newton's method on 1/trigamma).

    >>> round(inverse_trigamma(float(polygamma(1, 3.5))), 9)
    3.5
    """
    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    x = 0.5 + 1 / value
    for _ in range(50):
        here = float(polygamma(1, x))
        step = here * (1 - here / value) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-10:
            break
    return x


def _by_moments(attack: Callable[[Float, References, str], Float]) -> Callable[[Trial], Scorer]:
    return lambda trial: lambda known: attack(known.phi, known, trial.rule)


def _of_both(attack: Callable[[Float, References], Float]) -> Callable[[Trial], Scorer]:
    return lambda trial: lambda known: attack(known.phi, known)


def ranked(signals: NDArray[np.floating]) -> NDArray[np.float32]:
    """(K, N) normal scores of each model's signals among its own: ndtri((rank - 1/2) / N).

    Whatever rises within a model leaves them as they are: a level or a scale of its own, or an
    exponential. Equal signals share their mean rank.
    """
    from scipy.stats import rankdata

    models, records = signals.shape
    ranks = np.empty(signals.shape, np.float32)
    step = max(1, _CELLS // records)
    for start in range(0, models, step):
        block = slice(start, start + step)
        ranks[block] = ndtri((rankdata(signals[block], axis=1) - 0.5) / records)
    return ranks


def shared_part(table: NDArray[np.floating]) -> Float:
    """(K, N) what few directions of the models explain of a table beyond levels: to be taken off.

    Models that differ by groups of records move many records together. A leak does not: with half
    of the models IN it takes as many directions as there are pairs. So principal components of
    more than four times the median variance, at most a third of them, are no leak. 0 of fewer than
    twice as many records as models, which span too little to tell.
    """
    rest = table - table.mean(axis=0, dtype=np.float64)
    rest -= rest.mean(axis=1, keepdims=True)
    variance, directions = np.linalg.eigh(rest @ rest.T)
    large = np.flatnonzero(variance > 4 * np.median(variance))[-(len(table) // 3) :]
    if len(table) < _FEWEST_SHARED or len(table) > table.shape[1] / 2 or not len(large):
        return np.zeros(table.shape)
    kept = directions[:, large]
    return np.asarray(kept @ (kept.T @ rest))


def calibrated(signals: NDArray[np.floating]) -> NDArray[np.float32]:
    """(K, N) normal scores of each model, less what moves many records together."""
    ranks = ranked(signals)
    return np.asarray(ranks - shared_part(ranks), np.float32)


def _calibrated(trial: Trial) -> Float:
    """LiRA without what sets whole models apart, which blurs moments and the one threshold."""
    references, given = trial.references, trial.given
    tables = [references.signals] if given is None else [references.signals, given.signals]
    table = calibrated(np.concatenate(tables))
    ranks = replace(trial, references=replace(references, signals=table[: references.models]))
    if given is not None:
        ranks = replace(ranks, given=replace(given, signals=table[references.models :]))
    score = np.full(trial.targets.signals.shape, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        for known in ranks.knowledge(probabilities=False):
            score[known.target] = lira_online(known.phi, known, trial.rule)
    return score


_CARLINI = "Carlini et al., Membership Inference Attacks From First Principles, IEEE S&P 2022"

ATTACKS = (
    Attack(
        "lira-online",
        "Likelihood-ratio attack, online",
        f"{_CARLINI}, algorithm 1",
        WITH,
        _by_moments(lira_online),
        variance=True,
    ),
    Attack(
        "lira-offline",
        "Likelihood-ratio attack, offline",
        f"{_CARLINI}, section VI",
        WITHOUT,
        _by_moments(lira_offline),
        variance=True,
    ),
    Attack(
        "lira-ranked",
        "Likelihood-ratio attack on ranks within each model",
        f"{_CARLINI}, algorithm 1; calibrated by model",
        WITH,
        _calibrated,
        variance=True,
    ),
    Attack(
        "lira-hierarchical",
        "Likelihood-ratio attack with priors over records",
        f"{_CARLINI}; priors as in Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004",
        WITH,
        _of_both(lira_hierarchical),
    ),
)


# BaVarIA: LiRA with the variance of each record shrunk by a conjugate prior.
#
# Brännvall, "Exponential-Family Membership Inference: From LiRA and RMIA to BaVarIA" (2026). Each
# side has a normal-inverse-gamma prior made from all records: it speaks where models are few.

_KAPPA = 1.0
"""The prior mean counts like this many models."""


@dataclass(frozen=True)
class _Posterior:
    """Normal-inverse-gamma posterior of one side: arrays of (N,)."""

    kappa: Float
    alpha: Float
    beta: Float
    location: Float


def _posterior(side: Moments, alpha: float) -> _Posterior:
    """Update of the prior by the models of one side.

    The prior has the mean of all signals of the side, and their variance as its mean variance
    (for alpha <= 1, where that mean does not exist, as its scale).
    """
    mean, spread = _centre(side), max(side.total(), 1e-12)
    n = side.count
    centre = np.where(n > 0, side.mean, mean)
    kappa = _KAPPA + n
    beta = (
        spread * (alpha - 1 if alpha > 1 else 1.0)
        + side.squares / 2
        + _KAPPA * n * (centre - mean) ** 2 / (2 * kappa)
    )
    return _Posterior(kappa, alpha + n / 2, beta, (_KAPPA * mean + n * centre) / kappa)


def _centre(side: Moments) -> float:
    known = side.count > 0
    return float((side.count[known] * side.mean[known]).sum() / side.count[known].sum())


def _predictive(phi: Float, of: _Posterior) -> Float:
    """Of the posterior predictive, a Student t with 2 alpha degrees of freedom, see `_student`."""
    scale = of.beta * (of.kappa + 1) / (of.alpha * of.kappa)
    return _student(phi, of.location, scale, 2 * of.alpha)


def bavaria_n(phi: Float, references: References) -> Float:
    """Gaussian log-ratio at the sample means, variances shrunk (the "-n" form, alpha0 = 1).

    Returns: (N,) higher = member.
    """
    terms = []
    for side in (references.inside, references.outside):
        after = _posterior(side, 1.0)
        variance = after.beta / (after.alpha - 1)
        terms.append((phi - side.mean) ** 2 / variance + np.log(variance))
    return np.asarray(0.5 * (terms[1] - terms[0]))


def bavaria_t(phi: Float, references: References) -> Float:
    """Log-ratio of the Student-t predictive densities (the "-t" form, alpha0 = 2).

    Args and returns as `bavaria_n`.
    """
    inside, outside = (_posterior(side, 2.0) for side in (references.inside, references.outside))
    return _predictive(phi, inside) - _predictive(phi, outside)


def bavaria_offline(phi: Float, references: References) -> Float:
    """As `bavaria_t` where no model has trained on the record: the IN side is the prior alone.

    Args and returns as `bavaria_n`.
    """
    inside, outside = references.inside, references.outside
    none = np.zeros_like(inside.count)
    spread = max(inside.total(), 1e-12)
    prior = _Posterior(none + _KAPPA, none + 2.0, none + spread, none + _centre(inside))
    return _predictive(phi, prior) - _predictive(phi, _posterior(outside, 2.0))


_PAPER = "Brännvall, Exponential-Family Membership Inference: From LiRA and RMIA to BaVarIA, 2026"

BAVARIA = tuple(
    Attack(f"bavaria-{form}", f"BaVarIA, {title}", _PAPER, threat, _of_both(attack))
    for form, title, threat, attack in (
        ("n", "Gaussian", WITH, bavaria_n),
        ("t", "Student t", WITH, bavaria_t),
        ("offline", "Student t, offline", WITHOUT, bavaria_offline),
    )
)


def _over_queries(trial: Trial) -> Float:
    """Mean of `lira_online` over several queries: the record itself and changed copies of it.

    A model that was trained on changed copies knows these too (section VI, "multiple queries"). The
    signals of the queries are taken for independent, each with a Gaussian a side. The mean is
    nearer to a log-likelihood ratio than the sum, because the queries are alike.
    """
    targets = trial.targets
    count = targets.every_query.shape[2]
    score = np.zeros(targets.members.shape)
    for query in range(count):
        pair = replace(
            trial,
            references=trial.references.with_query(query),
            given=None if trial.given is None else trial.given.with_query(query),
        )
        check_varies(f"signals of query {query}", pair.references.signals)
        with np.errstate(invalid="ignore", divide="ignore"):
            for known in pair.knowledge(probabilities=False):
                score[known.target] += lira_online(known.phi, known, trial.rule) / count
    return score


QUERIES = (
    Attack(
        "lira-queries",
        "Likelihood-ratio attack, several queries a record",
        f"{_CARLINI}, section VI",
        WITH,
        _over_queries,
        variance=True,
        needs=("queries",),
        by_formula=False,
    ),
)
