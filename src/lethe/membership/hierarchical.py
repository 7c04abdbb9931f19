"""LiRA with a prior learnt over records: what training does to a signal depends on its level.

A record that models find hard is moved far by training on it, an easy one hardly at all. Over
thousands of records that relation can be seen even when each of them has been IN two or three
models only. So the shift of a record (mean IN less mean OUT) is drawn towards what is usual at
its level, as far as its own models are too few to tell, and so are both variances: an empirical
Bayes form of the likelihood-ratio attack (Carlini et al., IEEE S&P 2022) with the variance prior
of Smyth (2004). With many models it is LiRA with per-record variances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from lethe.membership.leave_one_out import Moments, References
from lethe.membership.shrinkage import variance_prior

Float = NDArray[np.float64]

_BIN = 50
"""Records behind each point of a relation."""
_MOST_BINS = 40


@dataclass(frozen=True)
class _Levels:
    """Records sorted into bins by their level, for relations that are smooth in it.

    Attributes:
        level: (n,) of each record.
        bin: (n,) number of its bin.
        count: (B,) records a bin.
        centre: (B,) mean level of each bin, ascending.
    """

    level: Float
    bin: NDArray[np.intp]
    count: Float
    centre: Float

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


def lira_hierarchical(phi: Float, references: References, rule: str = "") -> Float:
    """Log-ratio of the predictive densities of a member and of a non-member.

    For each record, with n_in and n_out reference models: the variances of both sides get the
    prior of `variance_prior` around the typical variance at the record's level (the mean of both
    sides, whose error says nothing on the shift); the shift has a Gaussian prior around the mean
    shift at that level, its variance being the spread of the observed shifts less what sampling
    explains; both predictive densities are Student t.

    Args:
        phi: (N,) the target's signals.
        references: moments of the reference models.
        rule: not used; the prior takes the place of a variance rule.

    Returns:
        (N,) higher = member; NaN where a side has no model.
    """
    score = np.full(len(phi), np.nan)
    known = (references.inside.count > 0) & (references.outside.count > 0)
    if known.any():
        inside, outside = (_only(side, known) for side in (references.inside, references.outside))
        score[known] = _score(phi[known], inside, outside)
    return score


def _only(side: Moments, rows: NDArray[np.bool_]) -> Moments:
    return Moments(side.count[rows], side.mean[rows], side.squares[rows])


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
