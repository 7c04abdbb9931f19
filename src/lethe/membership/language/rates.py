"""Rates of a membership score on one model: AUC, TPR at an FPR, and the excess over another score.

One model, so texts (or people, with all their texts) are what varies: a bootstrap over people gives
the variance of a rate, that of its threshold included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.roc import NON_MEMBERS_PER_FPR, RatePoint, Roc, auc_of, rate_at, roc
from lethe.evidence.twoway import Spread, share_estimate, symmetric_estimate

Float = NDArray[np.float64]
DRAWS = 400
_BLOCK = 1 << 21  # weights held at once
_NAME = "bootstrap over people"


@dataclass(frozen=True)
class TextRates:
    """What one attack achieves.

    Attributes:
        tpr: by FPR; refused where there are too few non-members.
        realised: FPR without the coin that decides about scores tied with the threshold.
        turned: AUC of the scores themselves where they pointed the wrong way, so that all else is
            of their negatives; else None.
    """

    auc: Estimate
    tpr: dict[float, Measured]
    realised: dict[float, float]
    turned: Estimate | None = None


class People:
    """Who is behind the texts, resampled alike for every score that is compared.

    Args:
        member: (N,) whether the text was trained on.
        people: (N,) codes of persons.
        seed: of the draws.
    """

    def __init__(self, member: NDArray[np.bool_], people: NDArray[np.intp], seed: int = 0) -> None:
        self.member, self.people = member, people
        _, self.codes = np.unique(people, return_inverse=True)
        self.count = int(self.codes.max()) + 1
        rng = np.random.default_rng([seed, 5])
        # Members and others are drawn apart where nobody is both, so that sizes stay as they are.
        self.weights = np.zeros((DRAWS, self.count), np.float32)
        inside = np.bincount(self.codes, member) > 0
        for side in (inside, ~inside):
            size = int(side.sum())
            if size:
                drawn = rng.multinomial(size, np.full(size, 1 / size), DRAWS)
                self.weights[:, side] = drawn

    @property
    def sides(self) -> tuple[int, int]:
        """People with trained texts, and people with others."""
        inside, outside = (np.unique(self.codes[side]) for side in (self.member, ~self.member))
        return len(inside), len(outside)

    def permuted(self, times: int, seed: int, fold: NDArray[np.intp] | None = None) -> Float:
        """(N, times) labels with membership permuted among people, 0 or 1.

        Who has both kinds of text counts as two, so that a permuted person stays of one kind.

        Args:
            fold: (N,) of each text; membership then moves within folds alone. Folds that hold
                members evenly were drawn knowing them: only such labels are as likely as the true.
        """
        unit = np.unique(self.codes * 2 + self.member, return_inverse=True)[1]
        inside = np.zeros(int(unit.max()) + 1, bool)
        inside[unit] = self.member
        rng = np.random.default_rng([seed, 7])
        part = np.zeros(len(inside), np.intp)
        if fold is not None:
            part[unit] = fold
        drawn = np.repeat(inside[None], times, 0)
        for one in np.unique(part):
            drawn[:, part == one] = rng.permuted(drawn[:, part == one], axis=1)
        return drawn[:, unit].T.astype(np.float64)

    def replicate(self, score: Float, fprs: Sequence[float], draws: int = DRAWS) -> Float:
        """(draws, 1 + fprs) AUC and TPRs of resampled people."""
        order = np.argsort(-score, kind="stable")
        falling = score[order]
        ends = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
        who, inside = self.codes[order], self.member[order]
        out = np.empty((draws, 1 + len(fprs)))
        step = max(1, _BLOCK // len(score))
        for start in range(0, draws, step):
            weight = self.weights[start : min(start + step, draws)][:, who].astype(np.float64)
            sides = []
            for side in (inside, ~inside):
                total = np.cumsum(weight * side, axis=1)[:, ends]
                whole = np.maximum(total[:, -1:], 1e-300)
                sides.append(np.pad(total / whole, ((0, 0), (1, 0))))
            tpr, fpr = sides
            out[start : start + step, 0] = np.trapezoid(tpr, fpr, axis=1)
            for draw in range(len(weight)):
                # Between two steps of the sample's own curve: its expectation at that budget.
                out[start + draw, 1:] = np.interp(fprs, fpr[draw], tpr[draw])
        return out

    def rates(
        self,
        score: Float,
        fprs: Sequence[float],
        confidence: float,
        floor: Sequence[float] | Float = (),
        draws: int = DRAWS,
    ) -> TextRates:
        """AUC and TPRs of a score, higher = member, each at `confidence`.

        Args:
            floor: (1 + fprs) variances that AUC and TPRs have at least: of a learned score, those
                without memory, which its training part adds to (see `null_variances`).
        """
        least = np.zeros(1 + len(fprs))
        least[: len(floor)] = floor
        curve = roc(self.member, score)
        drawn = self.replicate(score, fprs, draws)
        inside, outside = self.sides
        degrees = float(max(1, min(inside, outside) - 1))
        area = symmetric_estimate(
            auc_of(curve),
            Spread(max(float(drawn[:, 0].var(ddof=1)), least[0]), degrees),
            len(score),
            confidence,
            f"{_NAME}, Student t; n = texts",
            0.0,
            1.0,
        )
        tpr: dict[float, Measured] = {}
        realised: dict[float, float] = {}
        for at, fpr in enumerate(fprs):
            try:
                point = rate_at(curve, fpr, outside)
            except NotMeasurable as error:
                tpr[fpr] = Refusal(str(error).rstrip("."))
                continue
            variance = max(float(drawn[:, 1 + at].var(ddof=1)), least[1 + at])
            spread = self._spread(score, point, fpr, variance)
            rate = share_estimate(
                point.tpr, spread, point.members, min(inside, outside), confidence, _NAME
            )
            # Whoever accuses at random reaches the FPR: no attacker has to do worse.
            tpr[fpr] = replace(rate, high=max(rate.high or 0.0, fpr))
            realised[fpr] = point.realised_fpr
        return TextRates(area, tpr, realised)

    def _spread(self, score: Float, point: RatePoint, fpr: float, variance: float) -> Spread:
        """The bootstrap's variance, its degrees from members and from what sets the threshold."""
        hit = np.where(self.member, point.accused(score), 0.0)
        size = float(self.member.sum())
        rate = hit.sum() / size
        sums = np.bincount(self.codes, hit - np.where(self.member, rate, 0.0))
        inside, outside = self.sides
        own = float((sums**2).sum()) / size**2 * inside / max(inside - 1, 1)
        rest = max(variance - own, 0.0)
        alarms = max(1.0, math.floor(fpr * outside + 1e-9) - 1)
        weight = own**2 / max(inside - 1, 1) + rest**2 / alarms
        total = max(variance, own)
        return Spread(total, (own + rest) ** 2 / weight if weight > 0 else float(inside - 1))

    def excess(self, score: Float, blind: Float, fpr: float, confidence: float) -> Measured:
        """TPR of a score less that of a blind one, at one FPR, people resampled for both at once.

        Returns:
            the difference in [-1, 1]; a refusal where the FPR cannot be resolved.
        """
        try:
            mine, theirs = (
                rate_at(roc(self.member, one), fpr, self.sides[1]) for one in (score, blind)
            )
        except NotMeasurable as error:
            return Refusal(str(error).rstrip("."))
        drawn = self.replicate(score, [fpr])[:, 1] - self.replicate(blind, [fpr])[:, 1]
        alarms = max(1.0, math.floor(fpr * self.sides[1] + 1e-9) - 1)
        return symmetric_estimate(
            mine.tpr - theirs.tpr,
            Spread(float(drawn.var(ddof=1)), min(alarms, float(self.sides[0] - 1))),
            len(score),
            confidence,
            f"{_NAME}, of both at once, Student t; n = texts",
            -1.0,
            1.0,
        )


def null_variances(score: Float, labels: Float, fprs: Sequence[float]) -> Float:
    """(1 + fprs) variances of AUC and TPRs of cross-fitted scores where membership means nothing.

    A bootstrap of finished scores takes their weights as given. Cross-fitted ones vary with the
    labels that they were fitted on, and without memory that is most of their spread.

    Args:
        score: (units, P) one column a permutation, each fitted on its own labels.
        labels: (units, P) 0 or 1, those permutations.
    """
    rows = []
    for own, marks in zip(score.T, labels.T, strict=True):
        curve = roc(marks > 0, own)
        rates = [rate_at(curve, fpr).tpr if _fits(curve, fpr) else 0.0 for fpr in fprs]
        rows.append([auc_of(curve), *rates])
    # About the value of chance: a cross-fitted AUC without memory lies below one half.
    return np.asarray(np.mean((np.array(rows) - [0.5, *fprs]) ** 2, axis=0))


def _fits(curve: Roc, fpr: float) -> bool:
    return curve.non_members * fpr >= NON_MEMBERS_PER_FPR - 1e-9
