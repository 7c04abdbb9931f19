"""What would this audit have seen? The smallest planted effect that it finds with 80 % power.

"Not distinguishable from guessing" says something only beside this number. The effect is planted
into models whose answers know nothing of membership (`exchanged`), so its size is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from lethe.errors import InputError, check_between
from lethe.evidence.intervals import clustered_share
from lethe.evidence.roc import check_resolvable, rate_at, roc
from lethe.evidence.twoway import Rescored, Spread, TwoWayBootstrap, clusters_of, combine
from lethe.membership.leave_one_out import scorable_targets
from lethe.membership.measure import AttackRates, record_clusters
from lethe.membership.scoring import rescored, score
from lethe.training.shadows import Shadows

Float = NDArray[np.float64]
Score = Callable[[Shadows], Float]

POWER = 0.8
WARN_FROM_AUC = 0.6
"""An audit that can miss an AUC of this size is warned about."""

LARGEST_T = 8.0
_CELLS = 1 << 15
_PART = 32  # so many times as many cells as are used, where there are more than `_CELLS`
_FEWEST_RECORDS = 200
_MOST_DRAWS = 8
_APART = 1009  # from seed to seed of the draws, so that neighbouring seeds share none
_FIRST_T = 0.3
_STEPS = 6
_CLOSE = 0.02
_WIDENED = 4  # draws whose intervals are compared with those of fixed references


@dataclass(frozen=True)
class Power:
    """The smallest planted effect that an audit finds.

    Attributes:
        levels: every effect tried, as (t, AUC or TPR, the value needed to be found).
    """

    t: float | None  # t-score that each planted record has; None if none up to `LARGEST_T` is found
    value: float | None  # AUC, or TPR, of the attack at that effect; None with `t`
    share: float  # share of the records that carry it
    fpr: float | None  # the rate that the TPR was read at; None for the AUC
    levels: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class Scorer:
    """An attack of `registry.ATTACKS` as a function of shadow models; arguments as of `score`."""

    attack: str
    variance: str = "auto"
    seed: int = 0
    references: bool = True  # whether its intervals redraw models as references too

    def __call__(self, shadows: Shadows) -> Float:
        """(K, N) scores, see `score`."""
        return score(shadows, (self.attack,), self.variance, self.seed)[self.attack]

    def rescored(self, shadows: Shadows, table: Float) -> Rescored | None:
        """What models do as references; None where intervals take these as they are."""
        if not self.references:
            return None
        return rescored(shadows, self.attack, table, self.variance, self.seed)


def exchanged(shadows: Shadows, seed: int) -> Shadows:
    """The same models with a membership that their answers know nothing of.

    Within each complementary pair a coin for every record decides which model is said to have
    trained on it; without pairs a record's membership is shuffled over the models, of one model
    over the records. Models answer as they did, so that a record, its neighbours and the
    population stay as one training left them: exchanged answers would not, and an attack that
    compares a record with the population would be below chance.
    """
    rng = np.random.default_rng([seed, 7])
    members = shadows.members
    if shadows.alone:
        return replace(shadows, members=members[:, rng.permutation(shadows.records)])
    partner = shadows.partner
    if len(scorable_targets(members)) < shadows.models or (partner >= 0).all():
        members = members.copy()
        for model in np.flatnonzero(partner > np.arange(len(partner))):
            swap = rng.random(shadows.records) < 0.5
            members[model] ^= swap
            members[partner[model]] ^= swap
    else:
        members = rng.permuted(members, axis=0)
    return replace(shadows, members=members)


def planted(shadows: Shadows, t: float, share: float = 1.0, seed: int = 0) -> Shadows:
    """The same models with a known effect: the IN signals of some records are shifted.

    By t sqrt(2) of the record's spread over the models, so that a record with equal spread IN and
    OUT has exactly this t (see `exposure`). Records without spread stay as they are.

    Args:
        shadows: models that know nothing of membership, such as `exchanged` makes.
        t: of each chosen record, higher = more exposed.
        share: of the records that are chosen at random, in (0, 1].
        seed: of the choice; the same records for every `t`.
    """
    check_between("share", share, 0, 1, open_low=True)
    chosen = np.zeros(shadows.records, bool)
    order = np.random.default_rng([seed, 23]).permutation(shadows.records)
    chosen[order[: max(1, round(share * shadows.records))]] = True
    spread = shadows.signals.std(axis=0, ddof=1, dtype=np.float64)
    spread *= 1 + 1 / (4 * (shadows.models - 1))  # the mean of sd is below the true one
    shift = np.where(chosen, t * math.sqrt(2) * spread, 0.0).astype(np.float32) * shadows.members
    queries = None if shadows.queries is None else shadows.queries + shift[:, :, None]
    return replace(shadows, signals=shadows.signals + shift, queries=queries)


def minimum_detectable_auc(
    spread: Spread, confidence: float = 0.95, power: float = POWER, widening: float = 1.0
) -> float:
    """The AUC whose lower limit lies above 0.5 with a given power, in closed form.

    0.5 + (t-quantile + z-quantile of the power) standard deviations. Exact for a normal estimate
    whose spread does not depend on the AUC.

    Args:
        power: probability that the effect is found, in (0, 1).
        widening: how many times as wide as this spread says the interval is, at least 1.

    >>> round(minimum_detectable_auc(Spread(0.01**2, 1e9)), 4)
    0.528
    """
    reach = widening * spread.quantile(confidence) + float(ndtri(power))
    return min(1.0, 0.5 + reach * spread.deviation)


def smallest_effect(
    shadows: Shadows,
    attack: Score,
    *,
    fpr: float | None = None,
    share: float = 1.0,
    power: float = POWER,
    confidence: float = 0.95,
    seed: int = 0,
) -> Power:
    """The smallest effect whose interval would have kept away from guessing.

    Found means: the lower limit of the AUC is above 0.5, or that of the TPR above `fpr`. Each level
    plants an effect in the same exchanged signals and takes the two-way variance in closed form;
    what shows without an effect is subtracted as chance. The next level follows from a power law
    through the last two, until it is met to 2 %. Large audits use a random part of the records,
    with the variance scaled to all; small ones are exchanged several times. t is known to some 10
    to 20 %, by seed.

    Assumes: an estimate that is normal about its value, and models that are alike, as exchanged
        ones are. Where real models differ the audit sees less: compare
        `minimum_detectable_auc` of its own interval.

    Args:
        shadows: the audit's models; what they know of membership is exchanged away.
        attack: gives (K, N) scores, higher = member, NaN where a cell cannot be scored; of a
            `Scorer` the intervals redraw models as references.
        fpr: read the TPR at this rate; None for the AUC.
        share: of the records that carry the effect, in (0, 1].
        power: probability that the effect is found, in (0, 1).
        seed: of the coins and of the choice of records.

    Raises:
        InputError: fewer than two independent models or records can be scored.
        NotMeasurable: the records do not resolve `fpr`.
    """
    for name, value in (("power", power), ("confidence", confidence)):
        check_between(name, value, 0, 1, open_low=True, open_high=True)
    part = part_of(shadows, seed)
    scale = len(np.unique(record_clusters(part))) / len(np.unique(record_clusters(shadows)))
    draws = int(np.clip(_CELLS // part.signals.size, 1, _MOST_DRAWS))
    nulls = [_exchanged(part, seed + _APART * draw) for draw in range(draws)]
    base = 0.5 if fpr is None else fpr

    def level(t: float) -> tuple[float, float, float]:
        """What the attack shows at an effect, and what it must show to be found."""
        seen, spreads, wide = [], [], []
        for draw, null in enumerate(nulls):
            made = planted(null, t, share, seed + _APART * draw)
            scores = attack(made)
            value, spread, trials, records = _measured(made, scores, fpr)
            seen.append(value)
            spreads.append(spread)
            if isinstance(attack, Scorer) and len(tried) in (0, 2) and draw < _WIDENED:
                wide.append(_widening(attack, made, scores, fpr, confidence))
        if wide:
            widening.append(float(np.mean(wide)))
        variance = float(np.mean([spread.variance for spread in spreads])) * scale
        common = Spread(variance, float(np.mean([spread.degrees for spread in spreads])))
        times = widening[-1] if widening else 1.0
        if fpr is None:
            needed = minimum_detectable_auc(common, confidence, power, times)
        else:
            counts = round(trials / scale), round(records / scale)
            needed = _detectable_rate(fpr, common, *counts, confidence, power, times)
        return t, float(np.mean(seen)), needed

    tried: list[tuple[float, float, float]] = []
    widening: list[float] = []
    chance = level(0.0)[1] - base
    t = _FIRST_T
    for _ in range(_STEPS):
        here, seen, needed = level(t)
        tried.append((here, seen - chance, needed))
        t = _next_level(tried, base)
        if t > LARGEST_T or abs(t / here - 1) <= _CLOSE:
            break
    _, seen, needed = tried[-1]
    found = t <= LARGEST_T and seen > base and needed < 1
    return Power(t if found else None, needed if found else None, share, fpr, tuple(tried))


def weakness(result: AttackRates) -> str:
    """Why an attack's upper limits do not gate; empty where its interval resolves enough."""
    own = minimum_detectable_auc(result.replicates.spread(0), result.auc.confidence)
    if own <= WARN_FROM_AUC:
        return ""
    return f"underpowered: its interval resolves an AUC of {own:.2f} at best"


def _exchanged(shadows: Shadows, seed: int) -> Shadows:
    """`exchanged` with one coin for all records of a person, who stay alike."""
    if shadows.groups is None:
        return exchanged(shadows, seed)
    _, first, person = np.unique(shadows.groups, return_index=True, return_inverse=True)
    people = Shadows(shadows.signals[:, first], shadows.members[:, first], shadows.ids[first])
    return replace(shadows, members=exchanged(people, seed).members[:, person])


def part_of(shadows: Shadows, seed: int, most: int = _CELLS) -> Shadows:
    """So many records, of whole persons, that scoring them again and again takes little time.

    Args:
        most: cells to keep of small audits; of large ones 1/32, and never below 200 records.
    """
    cells = max(most, shadows.signals.size // _PART)
    wanted = max(_FEWEST_RECORDS, cells // shadows.models)
    if shadows.records <= wanted:
        return shadows
    _, person, sizes = np.unique(record_clusters(shadows), return_inverse=True, return_counts=True)
    order = np.random.default_rng([seed, 29]).permutation(len(sizes))
    kept = order[: max(2, int(np.searchsorted(np.cumsum(sizes[order]), wanted)))]
    return shadows.of_records(np.flatnonzero(np.isin(person, kept)))


def _next_level(tried: list[tuple[float, float, float]], base: float) -> float:
    """Where a power law of what is seen over what is needed, through the last levels, meets 1."""

    def reached(at: tuple[float, float, float]) -> float:
        return max(at[1] - base, 1e-9) / max(at[2] - base, 1e-9)

    t, gain, slope = tried[-1][0], reached(tried[-1]), 1.5
    if len(tried) > 1:
        ratio = math.log(gain / reached(tried[-2])) / math.log(t / tried[-2][0])
        slope = float(np.clip(ratio, 0.5, 4.0))
    return t * float(np.clip((1 / gain) ** (1 / slope), 1 / 6, 6.0))


def _measured(shadows: Shadows, score: Float, fpr: float | None) -> tuple[float, Spread, int, int]:
    """AUC or TPR of a table of scores, its two-way spread, member scores and records behind it.

    The spread is that of the sum of each score's pull on the value (Obuchowski 1997 for the
    AUC; the linear part of Bahadur's representation for the TPR at a random threshold).
    """
    scored = np.isfinite(score) | np.isinf(score)
    rows, columns = scored.any(axis=1), scored.any(axis=0)
    people = record_clusters(shadows)[columns]
    pairs = shadows.pairs[rows]
    if len(np.unique(pairs)) < 2 or len(np.unique(people)) < 2:
        raise InputError("power needs at least 2 independent models and 2 records with a score.")
    table = np.ix_(rows, columns)
    scored, score, member = scored[table], score[table], shadows.members[table]
    flag, value = member[scored], score[scored]
    records = len(np.unique(people))
    seen, pull = _auc_pulls(flag, value) if fpr is None else _rate_pulls(flag, value, fpr, records)
    pulls = np.zeros(scored.shape)
    pulls[scored] = pull
    return seen, _spread(pulls, pairs, people), int(flag.sum()), records


def _spread(pulls: Float, pairs: NDArray[np.integer], people: NDArray[Any]) -> Spread:
    """Two-way variance of the sum of a (K, N) table over models that are alike.

    Exchanged models have no effect of their own, so what targets vary is what cells do.
    """
    _, target = np.unique(pairs, return_inverse=True)
    _, record = np.unique(people, return_inverse=True)
    rows, columns = int(target.max()) + 1, int(record.max()) + 1
    label = target[:, None] * columns + record
    sums = np.bincount(label.ravel(), pulls.ravel(), rows * columns)
    cells = np.asarray(sums, np.float64).reshape(rows, columns)

    def part(sums: Float) -> float:
        return float(np.sum(sums**2)) * sums.size / max(sums.size - 1, 1)

    alike = part(cells)
    return combine((alike, part(cells.sum(axis=0)), alike), (rows, columns, rows * columns))


def _auc_pulls(member: NDArray[np.bool_], score: Float) -> tuple[float, Float]:
    """AUC, and each score's placement among the other side, centred and divided by its side."""
    order = np.argsort(score)
    value, inside = score[order], member[order]
    first = np.append(True, value[1:] != value[:-1])
    begin = np.flatnonzero(first)
    end = np.append(begin[1:], len(value))
    run = np.cumsum(first) - 1
    pull = np.empty(len(score))
    area = math.nan
    for side, sign in ((inside, 1), (~inside, -1)):
        others = np.append(0, np.cumsum(~side))
        placed = ((others[begin] + others[end]) / (2 * others[-1]))[run[side]]
        mean = float(placed.mean())
        area = mean if sign > 0 else area
        pull[order[side]] = sign * (placed - mean) / len(placed)
    return area, pull


def _rate_pulls(
    member: NDArray[np.bool_], score: Float, fpr: float, records: int
) -> tuple[float, Float]:
    """TPR at `fpr`, and the pull of each score, that on the threshold included."""
    curve = roc(member, score)
    check_resolvable(fpr, curve.non_members, records)
    point = rate_at(curve, fpr)
    # How many members a move of the threshold gains for each non-member, about the threshold.
    low, high = np.quantile(curve.outside, [max(1 - 2 * fpr, 0.0), 1 - fpr / 2])
    near = [
        float(np.mean((side >= low) & (side <= high))) for side in (curve.inside, curve.outside)
    ]
    slope = near[0] / max(near[1], 1e-12)
    accused = score >= point.threshold
    into = (accused - point.tpr) / curve.members
    out = -slope * (accused - point.realised_fpr) / curve.non_members
    return point.tpr, np.where(member, into, out)


def _widening(
    attack: Scorer, shadows: Shadows, score: Float, fpr: float | None, confidence: float
) -> float:
    """How many times as wide intervals are that redraw models as references."""
    references = attack.rescored(shadows, score)
    if references is None:
        return 1.0
    known = ~np.isnan(score)
    rows, columns = known.any(axis=1), known.any(axis=0)
    table = np.ix_(rows, columns)
    people = record_clusters(shadows)[columns]
    boot = TwoWayBootstrap(
        shadows.members[table], clusters_of(shadows.pairs[rows], people), known[table], draws=0
    )
    fprs = np.array([] if fpr is None else [fpr], np.float64)
    found = boot.influence(score[known], fprs, references)
    return found.widening_of_alike(0 if fpr is None else 1, confidence)


def _detectable_rate(
    fpr: float,
    spread: Spread,
    trials: int,
    records: int,
    confidence: float,
    power: float,
    widening: float = 1.0,
) -> float:
    """The TPR whose Korn-Graubard lower limit lies above `fpr` with a given power."""
    low, high = fpr, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        unlucky = middle - float(ndtri(power)) * spread.deviation
        limit = 0.0
        if unlucky > fpr:
            limit = (
                clustered_share(
                    unlucky,
                    spread.variance * widening**2,
                    spread.degrees,
                    trials,
                    records,
                    confidence,
                ).low
                or 0.0
            )
        low, high = (low, middle) if limit > fpr else (middle, high)
    return high
