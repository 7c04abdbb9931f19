"""Who is behind the texts of an audit, and what varies where membership means nothing."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.roc import NON_MEMBERS_PER_FPR, auc_of, rate_at, roc
from lethe.membership.measure import Meter

Float = NDArray[np.float64]
_DRAWS = 400


class People:
    """Who is behind the texts of one model: their persons and who was trained on.

    Args:
        member: (N,) whether the text was trained on.
        people: (N,) codes of persons.
        seed: of the draws.
    """

    def __init__(self, member: NDArray[np.bool_], people: NDArray[np.intp], seed: int = 0) -> None:
        self.member, self.people, self.seed = member, people, seed
        _, self.codes = np.unique(people, return_inverse=True)

    @functools.cached_property
    def meter(self) -> Meter:
        """Measures scores of the texts; all that it measures can be compared in pairs."""
        return self.drawn(_DRAWS)

    def drawn(self, draws: int) -> Meter:
        """The same with so many draws of the bootstrap."""
        member, model = self.member[None], np.zeros(1, np.intp)
        return Meter(member, model, self.people, np.ones(member.shape, bool), self.seed, draws)

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
        fits = [curve.non_members * fpr >= NON_MEMBERS_PER_FPR - 1e-9 for fpr in fprs]
        rates = [
            rate_at(curve, fpr).tpr if fit else 0.0 for fpr, fit in zip(fprs, fits, strict=True)
        ]
        rows.append([auc_of(curve), *rates])
    # About the value of chance: a cross-fitted AUC without memory lies below one half.
    return np.asarray(np.mean((np.array(rows) - [0.5, *fprs]) ** 2, axis=0))
