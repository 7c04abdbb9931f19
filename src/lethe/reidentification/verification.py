"""The verification view: are two vectors of one person? Metrics of mated and non-mated scores.

Equal error rate and DET curve; Cllr and its minimum by pool-adjacent-violators (Brümmer and du
Preez 2006); system linkability D_sys (Gomez-Barrero et al. 2018); ZEBRA's expected and worst-case
disclosure (Nautsch et al. 2020). Higher score = more likely one person.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from lethe.errors import InputError, NotMeasurable, check_at_least
from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clustered_share
from lethe.evidence.of_vectors import Verification
from lethe.reidentification.gallery import Index
from lethe.reidentification.vectors import Float

FULL = 1 / math.log(4)
"""Expected disclosure of scores that give everything away, in bits."""
TAGS = (("A", 1.0), ("B", 2.0), ("C", 4.0), ("D", 5.0), ("E", 6.0))
"""ZEBRA's categories by the most that log10 of the worst likelihood ratio may be; F above."""
FPRS = tuple(float(f"{10 ** (at / 8):.4g}") for at in range(-32, 1))
"""False match rates at which a DET curve is given."""
_BINS = 100


def _checked(mated: ArrayLike, non_mated: ArrayLike) -> tuple[Float, Float]:
    sides = [np.asarray(scores, np.float64).ravel() for scores in (mated, non_mated)]
    for name, scores in zip(("mated", "non_mated"), sides, strict=True):
        if not len(scores) or not np.isfinite(scores).all():
            raise InputError(
                f"{name} has {len(scores)} scores, {int((~np.isfinite(scores)).sum())} of them not "
                "finite; give one or more finite scores of each kind."
            )
    return sides[0], sides[1]


@dataclass(frozen=True, eq=False)
class _Runs:
    """Scores in ascending order, as runs of one kind between which nothing has to be known.

    Neither the ROC nor a monotone calibration tells scores of one run apart: the optimal
    calibration pools violators, and a run of one kind has none.
    """

    mated: Index  # (M,) run of each mated score
    non_mated: Index  # (N,) of each other one
    number: int

    def summed(self, mated: Float, non_mated: Float) -> tuple[Float, Float]:
        """Weights (runs,) of both kinds, as shares of their kind."""
        a = np.bincount(self.mated, mated, self.number)
        b = np.bincount(self.non_mated, non_mated, self.number)
        return a / a.sum(), b / b.sum()


def _runs(mated: Float, non_mated: Float) -> _Runs:
    values, place = np.unique(np.concatenate([mated, non_mated]), return_inverse=True)
    kind = np.zeros(len(values), np.int64)
    kind[place[: len(mated)]] |= 1
    kind[place[len(mated) :]] |= 2
    begins = np.ones(len(values), bool)
    begins[1:] = (kind[1:] != kind[:-1]) | (kind[1:] == 3)
    run = np.cumsum(begins) - 1
    return _Runs(run[place[: len(mated)]], run[place[len(mated) :]], int(begins.sum()))


def profile(mated: ArrayLike, non_mated: ArrayLike) -> dict[str, float]:
    """Metrics of scores by name, without intervals.

    ``eer`` and ``rocch_eer``: equal error rate of the ROC joined linearly between its points (0.5
    is chance), and on its convex hull; ``cllr``: of the scores as natural log-likelihood ratios,
    in bits (Brümmer and du Preez 2006, equation 4; 1 says nothing), and ``min_cllr``: the least of
    any increasing map of them (PAV); ``linkability``: D_sys in [0, 1] by bins of equal numbers of
    scores; ``expected``: ZEBRA's disclosure over all priors, in bits up to 0.7213, and ``worst``:
    its largest |log10 likelihood ratio|.

    Raises InputError: no score of a kind, or one that is not finite.

    >>> found = profile([2.0, 3.0, 4.0, 5.0], [0.0, 1.0, 2.5, -1.0])
    >>> found["eer"], found["linkability"]
    (0.25, 0.0)
    """
    left, right = _checked(mated, non_mated)
    ones = np.ones(len(left)), np.ones(len(right))
    runs, costs = _runs(left, right), _costs((left, right))
    values, _ = _Metrics(runs, _binned(left, right), costs, False).of(*ones)
    names = ("eer", "min_cllr", "linkability", "expected", "worst", "cllr")
    hull = _eer(*_pooled(*runs.summed(*ones)))
    metrics = dict(zip(names, values, strict=True))
    return {**metrics, "rocch_eer": hull, "expected": FULL * metrics["expected"]}


def _errors(a: Float, b: Float) -> tuple[Float, Float]:
    """False non-match and false match rates (runs + 1,) of thresholds from low to high."""
    return np.append(0.0, np.cumsum(a)), np.append(1.0, 1 - np.cumsum(b))


def _eer(a: Float, b: Float) -> float:
    missed, accepted = _errors(a, b)
    above = int(np.argmax(missed >= accepted))
    low, high = (float(missed[place] - accepted[place]) for place in (above - 1, above))
    step = -low / (high - low)
    return float(missed[above - 1] + step * (missed[above] - missed[above - 1]))


def _pooled(a: Float, b: Float) -> tuple[Float, Float]:
    """The same shares, added up over the blocks of the isotonic fit."""
    from scipy.optimize import isotonic_regression

    kept = (a + b) > 0
    a, b = a[kept], b[kept]
    blocks = isotonic_regression(a / (a + b), weights=a + b).blocks[:-1]
    return np.add.reduceat(a, blocks), np.add.reduceat(b, blocks)


def _min_cllr(a: Float, b: Float) -> float:
    """a log(1 + b / a) + b log(1 + a / b), summed and halved."""
    from scipy.special import xlogy

    cost = xlogy(a + b, a + b) - xlogy(a, a) - xlogy(b, b)
    return float(np.clip(cost.sum() / (2 * math.log(2)), 0, 1))


def _binned(mated: Float, non_mated: Float) -> tuple[Index, Index, int]:
    """Bin of each score of both kinds, and how many bins there are.

    Bins hold equal numbers of scores, both kinds of equal weight: no increasing map changes them.
    """
    number = max(1, min(len(mated) // 10, _BINS))
    weight = np.repeat([0.5 / len(mated), 0.5 / len(non_mated)], [len(mated), len(non_mated)])
    values, place = np.unique(np.concatenate([mated, non_mated]), return_inverse=True)
    below = np.cumsum(np.bincount(place, weight)) - np.bincount(place, weight)
    bins = np.minimum((below * number * (1 + 1e-12)).astype(np.intp), number - 1)[place]
    return bins[: len(mated)], bins[len(mated) :], number


def _linked(a: Float, b: Float) -> float:
    """Sum of a (a - b) / (a + b) where a > b: 2 LR / (1 + LR) - 1 over mated scores."""
    more = a > b
    return min(1.0, float((a[more] * (a[more] - b[more]) / (a[more] + b[more])).sum()))


def tag_of(worst: float) -> str:
    """ZEBRA's category of a worst |log10 likelihood ratio|.

    >>> tag_of(3.979), tag_of(0.0)
    ('C', '0')
    """
    if worst <= np.finfo(float).eps:
        return "0"
    return next((tag for tag, most in TAGS if worst <= most), "F")


def _expected(a: Float, b: Float) -> float:
    """Integral over the prior of the entropy that calibrated ratios a / b take off, in bits."""
    with np.errstate(divide="ignore"):
        ratio = np.log(a) - np.log(b)
    bits = (a[a > 0] * _saved(ratio[a > 0])).sum() + (b[b > 0] * _saved(-ratio[b > 0])).sum()
    return float(np.clip(bits / math.log(2), 0, FULL))


def _saved(ratio: Float) -> Float:
    """[(x - 3)(x - 1) + 2 ln x] / [4 (x - 1)^2] of x = e^ratio: 0 at 1, 1/4 at infinity."""
    bounded = np.clip(ratio, -700, 300)
    small = np.abs(bounded) < 1e-4
    apart = np.expm1(np.where(small, 1.0, bounded))
    exact = 0.25 + 0.5 * (bounded - apart) / apart**2
    return np.asarray(np.where(small, bounded / 6 - bounded**2 / 24, exact))


def _worst(a: Float, b: Float, mated: int, non_mated: int) -> float:
    """Largest |log10 ratio| with one imagined score of each kind below and above all others.

    Args:
        a: shares of blocks that are pooled already, as is `b`: what is pooled stays so.
    """
    from scipy.optimize import isotonic_regression

    left = np.concatenate([[1.0], a * mated, [1.0]])
    right = np.concatenate([[1.0], b * non_mated, [1.0]])
    fit = isotonic_regression(left / (left + right), weights=left + right).x[1:-1]
    ratio = np.log(fit) - np.log1p(-fit) - math.log(mated / non_mated)
    ratio_10 = float(np.abs(ratio).max() / math.log(10))
    return 0.0 if ratio_10 < 1e-12 else ratio_10


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Scores of pairs, and whose they are.

    Attributes:
        ratios: both kinds as natural log-likelihood ratios, calibrated on other people; or None.
    """

    mated: Float  # (M,) of a probe with its owner's enrolment
    owner: Index  # (M,) person of each
    non_mated: Float  # (N,) of a probe with the enrolment of another person
    first: Index  # (N,) person of the probe
    second: Index  # (N,) the enrolled person
    ratios: tuple[Float, Float] | None = None


_METHOD = "bootstrap of {people} people in both roles; n counts mated pairs"


def verify(
    pairs: ScoredPairs,
    *,
    confidence: float = 0.95,
    replicates: int = 100,
    seed: int = 0,
    curve: bool = False,
) -> Verification:
    """All metrics of some scores, with intervals that take people as what was sampled.

    A person is in pairs as the owner of probes and as an enrolled other. Each replicate draws
    people with return; a mated pair of i counts w_i times, a pair of i and j w_i w_j times
    (Snijders and Borgatti 1999). The spread gives a variance; limits of what lies in [0, 1] are of
    exact type (Korn and Graubard 1998), so a metric of 0 is not certain. Calibration is not
    repeated.

    Minimum Cllr, D_sys and expected disclosure fit the scores that they judge, and so show more
    than there is. What is fitted on one half of the people and judged on the other shows less: the
    limit on that side is of the latter, the value is the usual one.

    Args:
        replicates: bootstrap samples, at least 20.
        curve: also the DET curve.

    Raises:
        InputError: no score of a kind.
        NotMeasurable: fewer than 5 people.
    """
    check_at_least("replicates", replicates, 20)
    mated, non_mated = _checked(pairs.mated, pairs.non_mated)
    every = np.concatenate([pairs.owner, pairs.first, pairs.second])
    names, place = np.unique(every, return_inverse=True)
    people = len(np.unique(pairs.owner))
    if people < 5:
        raise NotMeasurable(f"an interval of verification needs 5 people or more, got {people}.")
    roles = np.split(place, np.cumsum([len(pairs.owner), len(pairs.first)]))
    costs = None if pairs.ratios is None else _costs(pairs.ratios)
    metrics = _Metrics(_runs(mated, non_mated), _binned(mated, non_mated), costs, curve)
    value, line = metrics.of(np.ones(len(mated)), np.ones(len(non_mated)))
    drawn, lines = _replicated(metrics, roles, len(names), replicates, seed)
    spread = np.std(drawn, axis=0, ddof=1)
    degrees = min(people, replicates) - 1
    method = _METHOD.format(people=people)

    def share(at: int, apart: float | None = None) -> Estimate:
        rest = float(spread[at]) ** 2, degrees, len(mated), people, confidence, method
        estimate = clustered_share(value[at], *rest)
        if apart is None:
            return estimate
        other = clustered_share(float(np.clip(apart, 0, 1)), *rest)
        ends = [end for one in (estimate, other) for end in (one.low, one.high) if end is not None]
        return replace(estimate, low=min(ends), high=max(ends))

    def number(at: int) -> Estimate:
        half = float(stdtrit(degrees, (1 + confidence) / 2)) * float(spread[at])
        low, high = max(0.0, value[at] - half), value[at] + half
        return Estimate(value[at], low, high, confidence, method, len(mated))

    side = np.random.default_rng([seed, 99]).permutation(len(names)) % 2
    sides = [
        (side[roles[0]] == one, (side[roles[1]] == one) & (side[roles[2]] == one)) for one in (0, 1)
    ]
    least, linked, expected = _crossed(metrics.runs, metrics.bins, sides)
    tails = (1 - confidence) / 2, (1 + confidence) / 2
    limits = np.quantile(lines, tails, axis=0) if curve else np.empty((2, 0))
    return Verification(
        eer=share(0),
        cllr=None if costs is None else number(5),
        min_cllr=share(1, least),
        linkability=share(2, linked),
        expected=share(3, expected).mapped(lambda part: FULL * part),
        worst=number(4),
        tag=tag_of(value[4]),
        missed=tuple(
            (float(v), float(min(low, v)), float(max(high, v)))
            for v, low, high in zip(line, *limits, strict=True)
        ),
    )


@dataclass(frozen=True, eq=False)
class _Metrics:
    """All metrics of some scores, whatever their weights."""

    runs: _Runs
    bins: tuple[Index, Index, int]
    costs: tuple[Float, Float] | None
    curve: bool

    def of(self, wm: Float, wn: Float) -> tuple[list[float], Float]:
        """EER, minimum Cllr, D_sys, disclosure (a share), worst ratio, Cllr; and the DET curve."""
        a, b = self.runs.summed(wm, wn)
        pooled = _pooled(a, b)
        left, right, number = self.bins
        costs = self.costs
        values = [
            _eer(a, b),
            _min_cllr(*pooled),
            _linked(
                np.bincount(left, wm, number) / wm.sum(), np.bincount(right, wn, number) / wn.sum()
            ),
            _expected(*pooled) / FULL,
            _worst(*pooled, round(wm.sum()), round(wn.sum())),
            0.0 if costs is None else (_mean(costs[0], wm) + _mean(costs[1], wn)) / 2,
        ]
        missed, accepted = _errors(a, b)
        return values, np.interp(FPRS, accepted[::-1], missed[::-1]) if self.curve else np.empty(0)


def _replicated(
    metrics: _Metrics, roles: Sequence[Index], people: int, replicates: int, seed: int
) -> tuple[list[list[float]], list[Float]]:
    """Metrics and curves where people are drawn with return, owners and others alike."""
    owner, first, second = roles
    rng = np.random.default_rng([seed, 90])
    drawn: list[list[float]] = []
    lines: list[Float] = []
    while len(drawn) < replicates:
        weight = np.bincount(rng.integers(0, people, people), minlength=people).astype(float)
        wm, wn = weight[owner], weight[first] * weight[second]
        if wm.any() and wn.any():
            numbers, line = metrics.of(wm, wn)
            drawn.append(numbers)
            lines.append(line)
    return drawn, lines


def _crossed(
    runs: _Runs, bins: tuple[Index, Index, int], sides: Sequence[tuple[NDArray[np.bool_], ...]]
) -> tuple[float | None, float | None, float | None]:
    """Minimum Cllr, D_sys, expected disclosure (a share): fitted on one side, judged on the other.

    Both ways, averaged. Each is linear in the shares that are judged, and at its best where it was
    fitted on them: in expectation it shows no more than there is. None where a side has no pair of
    a kind.
    """
    if not all(kind.any() for side in sides for kind in side):
        return None, None, None
    results = []
    for fit, judged in (sides, sides[::-1]):
        (am, an), (bm, bn) = (tuple(k.astype(float) for k in side) for side in (fit, judged))
        ratio = _laplace_ratios(runs, am, an)
        a, b = runs.summed(bm, bn)
        cost = (a * np.logaddexp(0, -ratio) + b * np.logaddexp(0, ratio)).sum() / math.log(4)
        saved = (a * _saved(ratio) + b * _saved(-ratio)).sum() / math.log(2)
        p, r = (np.bincount(bins[0], w, bins[2]) / w.sum() for w in (am, bm))
        q, s = (np.bincount(bins[1], w, bins[2]) / w.sum() for w in (an, bn))
        total = np.where(p > q, p + q, 1.0)
        slope = (p * p + 2 * p * q - q * q) / total**2 * r - 2 * p * p / total**2 * s
        results.append((float(cost), float(slope[p > q].sum()), float(saved) / FULL))
    least, linked, expected = (float(np.mean(column)) for column in zip(*results, strict=True))
    return least, linked, expected


def _laplace_ratios(runs: _Runs, mated: Float, non_mated: Float) -> Float:
    """(runs,) natural log ratios of PAV with Laplace's rule; runs without a score have the last."""
    from scipy.optimize import isotonic_regression

    a = np.bincount(runs.mated, mated, runs.number)
    b = np.bincount(runs.non_mated, non_mated, runs.number)
    kept = (a + b) > 0
    left = np.concatenate([[1.0], a[kept], [1.0]])
    right = np.concatenate([[1.0], b[kept], [1.0]])
    fit = isotonic_regression(left / (left + right), weights=left + right).x
    place = np.cumsum(kept)  # 0: below all scores, the imagined ones
    chance = fit[place]
    return np.asarray(np.log(chance) - np.log1p(-chance) - math.log(a.sum() / b.sum()))


def _mean(values: Float, weight: Float) -> float:
    """Weighted mean, without the threads of a product of matrices."""
    return float((values * weight).sum() / weight.sum())


def _costs(ratios: tuple[Float, Float]) -> tuple[Float, Float]:
    bits = math.log(2)
    return np.logaddexp(0, -ratios[0]) / bits, np.logaddexp(0, ratios[1]) / bits


def calibration(mated: Float, non_mated: Float, rounds: int = 50) -> tuple[float, float]:
    """(slope, offset) of the logistic map from scores to natural log-likelihood ratios.

    Both kinds have equal weight; a ridge of 1e-3 keeps the map of separated scores finite.

    Raises InputError: as `profile`.
    """
    left, right = _checked(mated, non_mated)
    scores = np.concatenate([left, right])
    centre, scale = float(scores.mean()), float(scores.std()) or 1.0
    x = np.stack([(scores - centre) / scale, np.ones(len(scores))], axis=1)
    weight = np.repeat([0.5 / len(left), 0.5 / len(right)], [len(left), len(right)])
    truth, theta = np.repeat([1.0, 0.0], [len(left), len(right)]), np.zeros(2)
    ridge = np.array([1e-3, 0.0])
    for _ in range(rounds):
        chance = 1 / (1 + np.exp(-np.clip(x @ theta, -500, 500)))
        slope = x.T @ (weight * (chance - truth)) + ridge * theta
        curve = (x * (weight * chance * (1 - chance))[:, None]).T @ x + np.diag(ridge + 1e-12)
        step = np.linalg.solve(curve, slope)
        theta = theta - step * min(1.0, 2 / max(float(np.abs(step).max()), 1e-300))
        if float(np.abs(step).max()) < 1e-10:
            break
    return float(theta[0] / scale), float(theta[1] - theta[0] * centre / scale)


def others(owner: Index, users: int, number: int, seed: int = 0) -> NDArray[np.intp]:
    """(P, number) enrolled people other than the owner of each probe, drawn with return.

    >>> others(np.array([0, 1]), 2, 1).tolist()
    [[1], [0]]
    """
    if users < 2:
        raise NotMeasurable(f"non-mated pairs need 2 people or more, got {users}.")
    drawn = np.random.default_rng([seed, 91]).integers(1, users, (len(owner), number))
    return np.asarray((owner[:, None] + drawn) % users, np.intp)
