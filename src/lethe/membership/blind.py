"""A blind classifier: do features alone, without the model, tell who was trained on?

Where they do, an attack on the model may read nothing else, and its success is no memory of the
model; so this is measured first. Das, Zhang and Tramer 2024 ("Blind Baselines Beat Membership
Inference Attacks for Foundation Models"); Meeus et al. 2024 ("SoK: Membership Inference Attacks on
LLMs are Rushing Nowhere").
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.evidence.roc import NON_MEMBERS_PER_FPR, auc_of, rate_at, roc
from lethe.membership.measure import AttackRates, Meter

Float = NDArray[np.float64]
PERMUTATIONS = 199
LEVEL = 0.01
"""At which the blind classifier is taken to tell members; a random hold-out is so once in 100."""
_TOLD = 0.52
FOLDS = 5


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
        member, model = self.member[None], np.zeros(1, np.intp)
        return Meter(member, model, self.people, np.ones(member.shape, bool), self.seed)

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


@dataclass(frozen=True)
class BlindCheck:
    """What a classifier finds that never asks the fine-tuned model.

    Attributes:
        tells: whether it tells members from non-members: no membership result stands then.
        p_value: of its AUC among permutations of who is a member.
        score: (N,) cross-fitted, higher = member.
        rates: of the view that tells more, by its name: ``words`` or all else.
    """

    tells: bool
    p_value: float
    score: Float
    rates: AttackRates


def told_by(
    views: Mapping[str, Float],
    people: People,
    *,
    fprs: Sequence[float] = (),
    confidence: float = 0.95,
    seed: int = 0,
) -> BlindCheck:
    """Try to tell members from others by features alone, without the model.

    A cross-fitted linear classifier a view, with folds that share no person. The larger of their
    AUCs is compared with what it is when membership is permuted among people; a difference too
    small to matter (a lower limit of the AUC of at most 0.52) does not count.

    Args:
        views: (N, D) features by name.

    Guarantee: On a random hold-out it tells with probability at most `LEVEL`: true and permuted
        labels are equally likely given the folds.
    Assumes: People are exchangeable, each with records of one kind.
    """
    member = people.member
    fold = folds_of(member, people.codes, seed)
    true = member[:, None].astype(np.float64)
    labels = np.hstack([true, people.permuted(PERMUTATIONS, seed, fold)])
    scores = {name: crossfit(table, labels, fold, 0.3) for name, table in views.items()}
    areas = {
        name: np.array([_auc(score[:, at], labels[:, at] > 0) for at in range(labels.shape[1])])
        for name, score in scores.items()
    }
    # Each view on a scale of its own, so that a wide one drowns no narrow one; the true labels
    # count in it as the permuted ones do, or they would be an exception by themselves.
    scaled = {name: (area - area.mean()) / max(area.std(), 1e-12) for name, area in areas.items()}
    best = np.max(list(scaled.values()), axis=0)
    p = float((best[1:] >= best[0]).sum() + 1) / len(best)
    by = max(areas, key=lambda name: (areas[name][0] - 0.5) / max(areas[name][1:].std(), 1e-12))
    score = scores[by][:, 0]
    floor = (float(((areas[by][1:] - 0.5) ** 2).mean()),)
    rates = people.meter.rates(by, score, fprs, confidence, least=floor)
    tells = p <= LEVEL and (rates.auc.low or 0.0) > _TOLD
    return BlindCheck(tells, p, score, rates)


def by_column(numbers: Sequence[Float]) -> Float:
    """(N, D) the place of each column's values, and tenths of them: members may lie anywhere."""
    columns = []
    for one in numbers:
        columns.append(midranks(one))
        edges = np.quantile(one, np.arange(1, 10) / 10)
        group = np.searchsorted(np.unique(edges), one, "right")
        columns += [(group == at).astype(np.float64) for at in range(int(group.max()) + 1)]
    return np.stack(columns, 1)


def _auc(score: Float, member: NDArray[np.bool_]) -> float:
    rank = midranks(score) * len(score) + 0.5
    inside = int(member.sum())
    outside = len(score) - inside
    if not inside or not outside:
        return 0.5
    return float((rank[member].sum() - inside * (inside + 1) / 2) / (inside * outside))


def folds_of(member: NDArray[np.bool_], people: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    """(N,) one of five folds a text; a person is in one fold, members spread evenly.

    Raises InputError: fewer than 5 members or non-members.
    """
    names, first = np.unique(people, return_index=True)
    inside = member[first]
    if min(int(inside.sum()), int((~inside).sum())) < FOLDS:
        raise InputError(
            f"{int(inside.sum())} people with trained and {int((~inside).sum())} with other texts "
            f"are too few; give at least {FOLDS} of each."
        )
    rng = np.random.default_rng([seed, 11])
    fold = np.empty(len(names), np.intp)
    for side in (inside, ~inside):
        fold[side] = rng.permutation(int(side.sum())) % FOLDS
    return fold[np.searchsorted(names, people)]


def crossfit(features: Float, labels: Float, fold: NDArray[np.intp], shrink: float = 0.05) -> Float:
    """(N, P) scores of each text by weights that its own fold had no part in.

    Least squares on labels of mean 0 in each training part (Fisher's discriminant, with a ridge of
    `shrink` times the variance), without an intercept: folds share one scale. All columns of labels
    are fitted at once, so that hundreds of permutations cost what one does.

    Args:
        features: (N, D).
        labels: (N, P) 0 or 1, one column a labelling.
        fold: (N,) as of `folds_of`.
    """
    centre, spread = features.mean(0), features.std(0)
    x = (features - centre) / np.where(spread > 1e-12, spread, 1.0)
    out = np.empty(labels.shape)
    for at in np.unique(fold):
        train, test = fold != at, fold == at
        own, marks = x[train], labels[train]
        size = marks.sum(0)
        rest = len(marks) - size
        # Balanced: each side weighs one half, whatever its size.
        scaled = marks / np.maximum(size, 1) - (1 - marks) / np.maximum(rest, 1)
        gram = own.T @ own / len(own) + shrink * np.eye(x.shape[1])
        out[test] = x[test] @ np.linalg.solve(gram, own.T @ scaled)
    return out


def null_variances(score: Float, labels: Float, fprs: Sequence[float]) -> Float:
    """(1 + fprs) variances of AUC and TPRs of cross-fitted scores where membership means nothing.

    The clusters of finished scores take their weights as given. Cross-fitted ones vary with the
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


def midranks(values: Float) -> Float:
    """(N,) place of each value among all in (0, 1); equal values have equal places.

    >>> midranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist()
    [0.75, 0.125, 0.75, 0.375]
    """
    rising = np.sort(values)
    low, high = (np.searchsorted(rising, values, side) for side in ("left", "right"))
    return np.asarray((low + high) / (2 * len(values)))
