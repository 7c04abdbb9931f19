"""How well models with a record are told from models without it: an AUC for each record.

Pairs of models are what is sampled: the variance is that of a U-statistic clustered by pairs
(Obuchowski, Biometrics 1997; DeLong 1988 when every model stands alone). Limits and tests take the
variance at the AUC that is tested (Newcombe, Statistics in Medicine 2006, method 5, from Hanley and
McNeil 1982), times the design effect of the clustered variance, at least 1: it is 0 where all
models with the record score highest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from lethe.errors import InputError, check_between

_BLOCK = 1 << 21
_HALVINGS = 60

Float = NDArray[np.float64]


@dataclass(frozen=True)
class PairAuc:
    """AUC of each of M columns (records or persons) over models, with what its error rests on.

    Attributes:
        auc: (M,) P(score of a model with it > score of one without) + P(tie)/2; NaN without a
            model on each side or with fewer than two pairs.
    """

    auc: Float
    effect: Float  # (M,) design effect, >= 1
    inside: Float  # (M,) models with it
    outside: Float  # (M,) models without it
    pairs: Float  # (M,) pairs of models that were scored
    influence: Float  # (G, M) share of each pair in the error of the AUC

    def columns(self, at: Sequence[int] | NDArray[np.intp]) -> PairAuc:
        """Only some of the columns."""
        return PairAuc(*(getattr(self, field.name)[..., at] for field in fields(self)))

    def deviation(self, at: float | Float) -> Float:
        """(M,) standard error of the AUC if the true one is `at`."""
        return np.sqrt(self.effect * base_variance(at, self.inside, self.outside))

    def p_above(self, at: float) -> Float:
        """(M,) one-sided p of "the AUC is at most `at`"; small = it is above."""
        return self._tail((at - self.auc) / self.deviation(at))

    def turned(self) -> PairAuc:
        """The same of the negative scores."""
        return replace(self, auc=1 - self.auc, influence=-self.influence)

    def p_below(self, at: float) -> Float:
        """(M,) one-sided p of "the AUC is at least `at`"; small = it is below."""
        return self._tail((self.auc - at) / self.deviation(at))

    def _tail(self, statistic: Float) -> Float:
        return np.asarray(stdtr(np.maximum(self.pairs - 1, 1), statistic))

    def low(self, level: float | Float) -> Float:
        """(M,) lower limit: the AUC above which the one-sided test at `level` does not reach."""
        return self._limit(level, np.zeros_like(self.auc), self.auc)

    def high(self, level: float | Float) -> Float:
        """(M,) upper limit, see `low`."""
        return self._limit(level, np.ones_like(self.auc), self.auc)

    def _limit(self, level: float | Float, outer: Float, inner: Float) -> Float:
        quantile = stdtrit(np.maximum(self.pairs - 1, 1), 1 - np.asarray(level))
        far, near = outer.copy(), inner.copy()
        for _ in range(_HALVINGS):
            middle = (far + near) / 2
            rejected = np.abs(self.auc - middle) > quantile * self.deviation(middle)
            far, near = np.where(rejected, middle, far), np.where(rejected, near, middle)
        return np.where(np.isfinite(self.auc), near, np.nan)


def base_variance(at: float | Float, inside: float | Float, outside: float | Float) -> Float:
    """Variance of an AUC of `at` over independent models (Newcombe 2006, method 5).

    >>> round(float(base_variance(0.5, 4, 4)), 4)
    0.0469
    """
    area = np.asarray(at, np.float64)
    half = (np.asarray(inside) + np.asarray(outside)) / 2 - 1
    shape = 1 + half * ((1 - area) / (2 - area) + area / (1 + area))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(area * (1 - area) * shape / (np.asarray(inside) * np.asarray(outside)))


def pair_auc(
    score: NDArray[np.floating], members: NDArray[np.bool_], pairs: NDArray[np.integer]
) -> PairAuc:
    """AUC of every column over the models, ties counted half.

    Args:
        score: (K, M) scores, higher = member; NaN where a cell is not scored.
        members: (K, M) whether the model trained on the record or person.

    Raises InputError: shapes differ.
    """
    if score.shape != members.shape or score.ndim != 2 or len(pairs) != len(score):
        raise InputError(
            f"score {score.shape} and members {members.shape} must both be (models, columns), and "
            f"pairs ({len(pairs)}) must have one label for each model."
        )
    _, pair_of = np.unique(pairs, return_inverse=True)
    step = max(1, _BLOCK // max(len(score), 1))
    parts = [
        _block(np.asarray(score[:, s], np.float64), members[:, s], pair_of)
        for s in (slice(start, start + step) for start in range(0, score.shape[1], step))
    ]
    if not parts:
        raise InputError("an AUC for each record needs at least one record, got 0.")
    return PairAuc(*(np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True)))


def _block(
    score: Float, members: NDArray[np.bool_], pair_of: NDArray[np.intp]
) -> tuple[Float, ...]:
    from scipy.stats import rankdata

    known = ~np.isnan(score)
    inside, outside = members & known, ~members & known
    m, n = inside.sum(axis=0).astype(float), outside.sum(axis=0).astype(float)
    # What does not count stands above all others, where it changes no other rank; inf is a score.
    top = np.where(known, rankdata(np.where(known, score, -np.inf), axis=0), np.inf)
    below = np.zeros_like(score)  # models of the other side that score less, ties half
    everyone = rankdata(top, axis=0)
    for side in (inside, outside):
        rank = rankdata(np.where(side, top, np.inf), axis=0)
        below = np.where(side, everyone - rank, below)
    with np.errstate(invalid="ignore", divide="ignore"):
        auc = np.where(inside, below, 0.0).sum(axis=0) / (m * n)
        share = np.where(inside, (below / n - auc) / m, 0.0)
        share = np.where(outside, (1 - below / m - auc) / n, share)
    groups = int(pair_of.max()) + 1
    influence, there = np.zeros((groups, score.shape[1])), np.zeros((groups, score.shape[1]))
    np.add.at(influence, pair_of, share)
    np.add.at(there, pair_of, known)
    count = (there > 0).sum(axis=0).astype(float)
    measurable = (m > 0) & (n > 0) & (count > 1)
    auc = np.where(measurable, auc, np.nan)
    influence = np.where(measurable, influence, 0.0)
    clustered = (influence**2).sum(axis=0) * count / np.maximum(count - 1, 1)
    base = base_variance(auc, m, n)
    with np.errstate(invalid="ignore", divide="ignore"):
        effect = np.where(base > 0, clustered / base, 1.0)
    return auc, np.fmax(effect, 1.0), m, n, count, influence


def mean_auc(one: PairAuc) -> PairAuc:
    """The mean AUC of a fixed set of columns as one column: who is in the set is not sampled.

    Its variance over pairs of models keeps the dependence of the columns, which share models.
    """
    count = len(one.auc)
    influence = one.influence.mean(axis=1)
    pairs = float(one.pairs.min())
    clustered = float((influence**2).sum()) * pairs / max(pairs - 1, 1)
    auc = float(one.auc.mean())
    inside, outside = float(one.inside.mean()), float(one.outside.mean())
    # As if independent, `count` columns have 1/count of the variance; the effect restores the rest.
    base = float(base_variance(auc, inside, outside))
    effect = max(clustered / base, 1 / count) if base > 0 else 1.0
    return PairAuc(
        np.array([auc]),
        np.array([effect]),
        np.array([inside]),
        np.array([outside]),
        np.array([pairs]),
        influence[:, None],
    )


def power(true: float, tested: float, one: PairAuc, level: float) -> Float:
    """(M,) chance that the one-sided test against `tested` rejects if the AUC is `true`.

    Normal approximation; the direction is that from `tested` to `true`.
    """
    bound = -ndtri(level) * one.deviation(tested)
    return np.asarray(ndtr((abs(true - tested) - bound) / np.maximum(one.deviation(true), 1e-12)))


def models_to_tell(true: float, tested: float, effect: float, level: float, chance: float) -> int:
    """Smallest even number of models with which a test against `tested` rejects if it should.

    Args:
        true: the AUC in truth, in (0, 1).
        tested: the AUC that is to be rejected, another one.
        level: of the one-sided test.
        chance: power, in (0, 1).

    Raises InputError: the two are alike, or a level or chance is outside (0, 1).
    """
    for name, value in (("true", true), ("tested", tested), ("level", level), ("power", chance)):
        check_between(name, value, 0, 1, open_low=True, open_high=True)
    if true == tested:
        raise InputError(f"true={true} and tested={tested} cannot be told apart by any number.")

    def enough(models: int) -> bool:
        side = models / 2
        tests, truth = (
            float(np.sqrt(effect * base_variance(area, side, side))) for area in (tested, true)
        )
        quantile = float(stdtrit(max(side - 1, 1), 1 - level))
        return quantile * tests + float(ndtri(chance)) * truth <= abs(true - tested)

    low, high = 2, 4
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 2:
        middle = (low + high) // 4 * 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def models_needed(
    margin: float, effect: float, lower_level: float, upper_level: float, chance: float
) -> int:
    """Smallest even number of models that decides on either side of the margin.

    A person with AUC 0.5 is found to lie within 1 - margin and margin, and one with AUC `margin`
    above 0.5, each with at least the chance asked for.

    Args:
        margin: AUC that counts as distinguishable, in (0.5, 1).
        lower_level: level of the test against 0.5.
        upper_level: level of the test against the margin.
        chance: power, in (0, 1).

    >>> models_needed(0.6, 1.0, 0.025, 0.025, 0.8)
    344
    """
    return max(
        models_to_tell(margin, 0.5, effect, lower_level, chance),
        # Two tests must reject, one a side: each may fail in half of the cases allowed.
        models_to_tell(0.5, margin, effect, upper_level, (1 + chance) / 2),
    )
