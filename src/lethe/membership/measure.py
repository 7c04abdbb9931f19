"""From shadow models to rates with intervals (`Meter.rates`), and to paired changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import NotMeasurable
from lethe.evidence import risk as risks
from lethe.evidence.bands import simultaneous_band
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.of_model import Rates
from lethe.evidence.risk import family_confidence
from lethe.evidence.roc import (
    RatePoint,
    Roc,
    auc_of,
    check_resolvable,
    rate_at,
    roc,
    smallest_fpr,
    tau_of,
)
from lethe.evidence.twoway import (
    ClusteredTable,
    Influence,
    Rescored,
    Spread,
    clusters_of,
    share_estimate,
    symmetric_estimate,
)
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.scoring import cells_to_score, rescored, score
from lethe.training.environment import default_workers
from lethe.training.shadows import Shadows

FPRS = (0.1, 0.01, 0.001)
FEWEST_RECORDS = 20
"""Fewest distinct records (or persons) for a rate: two of them would show nothing."""

_CURVE_POINTS = 40
_MOST_CELLS = 1 << 22
"""Largest table of scores for which several attacks are measured at once."""


def labelled_as_family(estimate: Estimate, confidence: float, size: int, what: str) -> Estimate:
    """Label an estimate at `family_confidence(confidence, size)` with `confidence`."""
    if size < 2:
        return estimate
    method = f"{estimate.method.partition('; Bonferroni')[0]}; Bonferroni over {size} {what}"
    return replace(estimate, confidence=confidence, method=method)


@dataclass(frozen=True)
class AttackRates:
    """Rates of an attack, with intervals.

    Attributes:
        curve: the ROC curve on a log-spaced grid, with limits for each point and a band
            that holds all of them at once.
        failed: the self-check that failed and its result; then these numbers decide nothing.
        turned: AUC of the original scores if they pointed the wrong way, so that these numbers
            are of their negatives; else None.
        alone: whether the model was attacked without reference models: then the upper limits
            decide nothing, because an attacker who trains some finds more.
    """

    name: str  # of the attack
    auc: Estimate  # area under the ROC curve
    tpr: dict[float, Measured]  # true positive rate at each FPR, or a refusal with the reason
    realised_fpr: dict[float, float]  # FPR of the threshold without its lottery, where measurable
    curve: dict[str, list[float]]
    influence: Influence  # of clusters on the AUC and on the TPR at each of `fprs`
    fprs: tuple[float, ...]  # the requested FPRs, in the order of `influence` from 1
    failed: str = ""
    turned: Estimate | None = None
    alone: bool = False

    def tau(self, fpr: float) -> Measured:
        """ln(TPR/FPR) with limits; at TPR = 0 the value is None beside its upper limit."""
        rate = self.tpr[fpr]
        return rate if isinstance(rate, Refusal) else tau_of(rate, fpr)

    def metric(self, fpr: float | None) -> Measured:
        """The TPR at an FPR, or the AUC for None."""
        return self.auc if fpr is None else self.tpr[fpr]

    def place(self, fpr: float | None) -> int:
        """Index of a metric in `influence`."""
        return 0 if fpr is None else 1 + self.fprs.index(fpr)

    def row(self) -> Rates:
        """The rates as a row of the findings."""
        return Rates(
            valid=not self.failed,
            why=self.failed,
            auc=self.auc,
            tpr=self.tpr,
            tau={fpr: self.tau(fpr) for fpr in self.tpr},
            realised_fpr=self.realised_fpr,
            roc=self.curve,
        )


def run_attacks(
    shadows: Shadows,
    attacks: tuple[str, ...],
    fprs: tuple[float, ...] = FPRS,
    confidence: float = 0.95,
    variance: str = "auto",
    seed: int = 0,
    targets: Shadows | None = None,
    among: int = 1,
) -> dict[str, AttackRates]:
    """Attack every shadow model with the others, or `targets` with all; measure each attack.

    Args:
        confidence: of all intervals; limits of AUC and TPR hold for all attacks at once.
        targets: T models on the same records to attack instead of the shadow models.
        among: number of sets of models that this one was chosen from by its results; limits of
            AUC and TPR then hold for all attacks on all of them at once.

    Raises NotMeasurable: fewer than 20 distinct records (or persons) are attacked.
    """
    attacked, scored = targets or shadows, cells_to_score(shadows, targets, seed)

    def scores_of(name: str) -> NDArray[np.float64]:
        return score(shadows, (name,), variance, seed, targets=targets)[name]

    # Given targets are attacked by given models; only leave-one-out redraws both.
    references = {} if targets is not None else rescored(shadows, attacks, variance, seed)
    family = len(attacks) * among
    results = measure_scores(
        attacked, attacks, scores_of, scored, fprs, confidence, seed, family, references
    )
    return {name: replace(result, alone=shadows.alone) for name, result in results.items()}


def measure_scores(
    targets: Shadows,
    names: Sequence[str],
    scores_of: Callable[[str], NDArray[np.float64]],
    scored: NDArray[np.bool_],
    fprs: tuple[float, ...] = FPRS,
    confidence: float = 0.95,
    seed: int = 0,
    family: int = 1,
    references: Mapping[str, Rescored] = MappingProxyType({}),
) -> dict[str, AttackRates]:
    """Measure score tables of one set of targets; all share their clusters.

    Args:
        targets: K attacked models on N records; only membership, pairs and persons are used.
        names: names of the attacks.
        scores_of: function of a name that returns (K, N) scores, higher = member; called from
            several threads at once where the tables are small.
        scored: (K, N) cells to measure; every table must have a score there.
        family: number of results whose limits hold at once (Bonferroni).
        references: scores with references left out, by attack; those of others count as fixed.

    Raises NotMeasurable: fewer than 20 distinct records (or persons) are attacked.
    """
    records = len(np.unique(targets.people[scored.any(axis=0)]))
    if records < FEWEST_RECORDS:
        raise NotMeasurable(
            f"records={records} is too few: a rate needs at least {FEWEST_RECORDS} distinct "
            "records (or persons) that are IN some models and OUT of others."
        )
    meter = Meter(targets.members, targets.pairs, targets.people, scored, seed)

    def measured(name: str) -> AttackRates:
        table = scores_of(name)
        flat = table.ravel() if scored.all() else table[scored]
        return meter.either_way(name, flat, fprs, confidence, family, references.get(name))

    if scored.size > _MOST_CELLS:  # all tables of scores at once may not fit
        return {name: measured(name) for name in names}
    with ThreadPoolExecutor(default_workers()) as pool:
        # Attacks that learn take longest, so they start first.
        first = sorted(names, key=lambda name: name in ATTACKS and not ATTACKS[name].learns)
        results = dict(zip(first, pool.map(measured, first), strict=True))
    return {name: results[name] for name in names}


class Meter:
    """Measures scores of a set of targets, always with the same clusters.

    Several targets: models and persons vary. One target: only persons vary.

    Args:
        members: (K, N) true membership of the attacked models.
        pairs: (K,) labels, equal for complementary models.
        people: (N,) person of each record, or the record itself.
        scored: (K, N) cells that are measured.

    Attributes:
        records: number of distinct records (or persons).
        sides: if `single`, the numbers of persons with member and with other records.
    """

    def __init__(
        self,
        members: NDArray[np.bool_],
        pairs: NDArray[np.integer],
        people: NDArray[Any],
        scored: NDArray[np.bool_],
        seed: int = 0,
    ) -> None:
        # Models and records without any score are not clusters.
        rows, columns = scored.any(axis=1), scored.any(axis=0)
        self.person = np.unique(people[columns], return_inverse=True)[1]
        self.records = int(self.person.max(initial=-1)) + 1
        whole = bool(rows.all() and columns.all())
        table = np.s_[:, :] if whole else np.ix_(rows, columns)
        clusters = clusters_of(pairs[rows], self.person, seed)
        self.table = ClusteredTable(members[table], clusters, scored[table])
        self.member = self.table.member[self.table.scored]  # of each scored cell
        self.single = clusters.counts[0] == 1
        if self.single:
            self.sides = tuple(
                len(np.unique(self.person[(self.table.member == side).any(axis=0)]))
                for side in (True, False)
            )
        else:
            self.sides = (self.records, self.records)

    def either_way(
        self,
        name: str,
        score: NDArray[np.float64],
        fprs: Sequence[float],
        confidence: float,
        family: int = 1,
        references: Rescored | None = None,
        curve: bool = True,
    ) -> AttackRates:
        """Compute `rates`, of the negatives if the scores surely point the wrong way."""
        rates = self.rates(name, score, fprs, confidence, family, references, curve=curve)
        if rates.auc.high is None or rates.auc.high >= 0.5:
            return rates
        # The direction was chosen from two, so each gets half of the level.
        if references is not None:
            after = [(left, rows, -anew) for left, rows, anew in references.after]
            references = Rescored(references.columns, -references.before, after)
        again = self.rates(name, -score, fprs, confidence, 2 * family, references, curve=curve)
        return replace(again, turned=rates.auc)

    def rates(
        self,
        name: str,
        score: NDArray[np.float64],
        fprs: Sequence[float],
        confidence: float,
        family: int = 1,
        references: Rescored | None = None,
        least: Sequence[float] | NDArray[np.float64] = (),
        share: float = 1.0,
        curve: bool = False,
    ) -> AttackRates:
        """Measure AUC, TPRs and curve of a score, each with its interval.

        Args:
            name: of the attack.
            score: of each scored cell, in row-major order, higher = member.
            family: number of results whose limits hold at once at `confidence` (Bonferroni).
            references: scores with references left out; by default references count as fixed.
            least: (1 + fprs) smallest variances of AUC and TPRs.
            share: share of the audit's records that these are; limits are as of all of them.
            curve: whether to compute the ROC curve, with limits and band.
        """
        level = family_confidence(confidence, family)
        whole = roc(self.member, score)
        grid = _grid(whole.non_members, self.records) if curve else []
        rates_read = np.array([*fprs, *grid])
        influence = self.table.influence(score, rates_read, whole.outside, references)
        if self.single or len(least) or share < 1:
            spreads = self._spreads(score, whole, rates_read, influence, least, share)
            members = float(max(1, min(self.sides) - 1))
            # Degrees of freedom of differences of the AUC and of each TPR.
            degrees = [members, *(min(self._alarms(fpr), members) for fpr in rates_read)]
            influence = replace(influence, spreads=spreads, paired=degrees if self.single else [])
        method, people = method_of(influence), math.ceil(min(self.sides) / share)

        def rate_of(place: int, point: RatePoint, level: float) -> Estimate:
            trials = math.ceil(whole.members / share)
            spread = influence.spread(place)
            return share_estimate(point.tpr, spread, trials, people, level, method)

        tpr: dict[float, Measured] = {}
        realised: dict[float, float] = {}
        for place, fpr in enumerate(fprs, 1):
            try:
                point = rate_at(whole, fpr, self.sides[1])
            except NotMeasurable as error:
                tpr[fpr] = Refusal(str(error))
                continue
            rate = labelled_as_family(rate_of(place, point, level), confidence, family, "results")
            # Accusing at random reaches the FPR, so no upper limit lies below it.
            tpr[fpr] = replace(rate, high=max(rate.high or 0.0, fpr))
            realised[fpr] = point.realised_fpr
        scores = whole.members + whole.non_members
        words = f"{method}, Student t; n = scores"
        auc = symmetric_estimate(auc_of(whole), influence.spread(0), scores, level, words, 0.0, 1.0)
        points: dict[str, list[float]] = {}
        if curve:
            places = 1 + len(fprs) + np.arange(len(grid))
            listed = [
                rate_of(int(place), rate_at(whole, fpr), confidence)
                for place, fpr in zip(places, grid, strict=True)
            ]
            height = [point.value or 0.0 for point in listed]
            low, high = simultaneous_band(
                np.array(height), influence, places, whole.members, people, confidence
            )
            points = {
                "fpr": grid,
                "tpr": height,
                "low": [point.low or 0.0 for point in listed],
                "high": [1.0 if point.high is None else point.high for point in listed],
                "band_low": low.tolist(),
                "band_high": high.tolist(),
            }
        auc = labelled_as_family(auc, confidence, family, "results")
        return AttackRates(name, auc, tpr, realised, points, influence, tuple(fprs))

    def _spreads(
        self,
        score: NDArray[np.float64],
        curve: Roc,
        fprs: NDArray[np.float64],
        influence: Influence,
        least: Sequence[float] | NDArray[np.float64],
        share: float,
    ) -> list[Spread]:
        """Spread of the AUC and of each TPR, with corrections to that of the clusters."""
        spreads = []
        for place in range(1 + len(fprs)):
            spread = influence.spread(place)
            variance = max(spread.variance, least[place] if place < len(least) else 0.0)
            spread = Spread(variance * share, spread.degrees)
            if self.single and place == 0:
                spread = replace(spread, degrees=float(max(1, min(self.sides) - 1)))
            elif self.single and smallest_fpr(curve.non_members) <= fprs[place - 1] * (1 + 1e-9):
                spread = self._at_fpr(score, float(fprs[place - 1]), curve, spread.variance, share)
            spreads.append(spread)
        return spreads

    def _alarms(self, fpr: float) -> float:
        """Degrees of freedom of the threshold at an FPR, for a single target."""
        return max(1.0, math.floor(fpr * self.sides[1] + 1e-9) - 1)

    def _at_fpr(
        self, score: NDArray[np.float64], fpr: float, curve: Roc, variance: float, share: float
    ) -> Spread:
        """Spread of a TPR of a single target, with degrees from members and false alarms.

        The variance over members has one degree a person. The rest of the variance
        belongs to the threshold, which few false alarms set (Satterthwaite).
        """
        inside = self.sides[0]
        hit = np.where(self.member, rate_at(curve, fpr).accused(score), 0.0)
        person = np.broadcast_to(self.person, self.table.member.shape)[self.table.scored]
        size = float(curve.members)
        centred = hit - np.where(self.member, hit.sum() / size, 0.0)
        sums = np.bincount(person, centred)
        members = share * float((sums**2).sum()) / size**2 * inside / max(inside - 1, 1)
        threshold = max(variance - members, 0.0)
        persons = max(inside / share - 1, 1)
        weight = members**2 / persons + threshold**2 / self._alarms(fpr / share)
        whole = members + threshold
        return Spread(whole, whole**2 / weight if weight > 0 else float(persons))


def method_of(influence: Influence) -> str:
    """Name of the variance for the method of an estimate."""
    if influence.clusters[0] == 1:
        return "clustered (people or records, of this one target)"
    words = "two-way clustered (targets x records)"
    return words if influence.references is None else f"{words}, references left out in turn"


def _grid(non_members: int, records: int) -> list[float]:
    """Log-spaced FPRs, starting at the smallest that the sample resolves."""
    start = smallest_fpr(non_members, records)
    if start >= 0.9:
        return []
    # Six digits are off by at most 5e-6 of the value: the first must not fall below `start`.
    return [float(f"{fpr:.6g}") for fpr in np.geomspace(start * 1.00001, 0.95, _CURVE_POINTS)]


def risk_rate(shadows: Shadows, targets: Shadows | None = None) -> float | None:
    """FPR of the frontier's risk: 1 %, or 10 % if only that is resolved, or None for the AUC."""
    attacked, scored = targets or shadows, cells_to_score(shadows, targets)
    cells = ~attacked.members & scored
    records, outside = len(np.unique(attacked.people[cells.any(axis=0)])), int(cells.sum())
    for fpr in (0.01, 0.1):
        try:
            check_resolvable(fpr, outside, records)
            return fpr
        except NotMeasurable:
            continue
    return None


def chance_of(fpr: float | None) -> float:
    """The value of a random guess: the FPR itself, or an AUC of one half."""
    return 0.5 if fpr is None else fpr


Results = Mapping[str, AttackRates]
"""Rates of each attack by name."""


def judged(
    results: Results,
    fpr: float | None,
    among: int = 1,
    views: Mapping[str, Results] = MappingProxyType({}),
    family: int = 0,
) -> list[risks.AttackResult]:
    """Collect the input of `risk_of`: a metric of every attack, with failed self-checks.

    Args:
        results: of one candidate.
        among: number of candidates that this one was chosen from by its risk: limits then hold
            for all of them at once.
        views: results on functions of its answers, whose limits hold at once with the others.
        family: number of results whose limits hold at once, if there are more than these: those
            on a view hold together with those on the original answers.
    """
    family = max(len(results) + sum(map(len, views.values())), family) * among
    listed = []
    for view, part in {risks.RELEASE: results, **views}.items():
        for name, result in part.items():
            metric = result.metric(fpr)
            if family > len(results):
                metric = _among(result, fpr, family)
            knows = ATTACKS[name].threat if name in ATTACKS else ""
            if result.alone and isinstance(metric, Estimate):
                # A model attacked alone has no upper limit: stronger attacks were not run.
                open_above = "no upper limit, for attacks with reference models were not run"
                metric = replace(metric, high=1.0, method=f"{metric.method}; {open_above}")
            why = result.failed
            listed.append(
                risks.AttackResult(name, metric, view=view, knows=knows, valid=not why, why=why)
            )
    return listed


def strongest(results: Mapping[str, AttackRates], fpr: float | None) -> str:
    """The attack that `evidence.risk.risk_of` takes among those whose self-checks passed.

    Where there is none, or no rate can be given, the highest point estimate, which decides nothing.
    """
    worst = risks.risk_of(judged(results, fpr), chance_of(fpr))
    if isinstance(worst, risks.Risk):
        return worst.attack

    def height(name: str) -> float:
        metric = results[name].metric(fpr)
        return -1.0 if isinstance(metric, Refusal) or metric.value is None else metric.value

    return max(results, key=height)


def strongest_metric(
    results: Results,
    fpr: float | None,
    views: Mapping[str, Results] = MappingProxyType({}),
    family: int = 0,
) -> Measured:
    """The worst result among attacks that passed their self-checks; see `evidence.risk.risk_of`."""
    worst = risks.risk_of(judged(results, fpr, 1, views, family), chance_of(fpr))
    return worst if isinstance(worst, Refusal) else worst.estimate


def shown(
    results: Results,
    among: int = 1,
    views: Mapping[str, Results] = MappingProxyType({}),
    family: int = 0,
) -> Iterator[tuple[float | None, Estimate]]:
    """Quantities shown above chance, with limits that hold for all attacks and quantities at once.

    "Not shown above chance" is true only if this is empty. Rates come first, the strictest first,
    then the AUC, which has no FPR.
    """
    rates = next(iter(results.values())).tpr
    quantities = [fpr for fpr, rate in sorted(rates.items()) if isinstance(rate, Estimate)]
    for fpr in (*quantities, None):
        listed = judged(results, fpr, among * (len(quantities) + 1), views, family)
        risk = risks.risk_of(listed, chance_of(fpr))
        if isinstance(risk, risks.Risk) and (risk.estimate.low or 0.0) > chance_of(fpr):
            yield fpr, risk.estimate


def _among(result: AttackRates, fpr: float | None, family: int) -> Measured:
    """A metric with limits that hold at once with those of `family` results (Bonferroni)."""
    metric = result.metric(fpr)
    if isinstance(metric, Refusal) or metric.value is None:
        return metric
    level = family_confidence(metric.confidence, family)
    spread, records = result.influence.spread(result.place(fpr)), result.influence.clusters[1]
    wide = replace(limits_of(metric, fpr, spread, records, level), method=metric.method)
    return labelled_as_family(wide, metric.confidence, family, "results")


def limits_of(
    metric: Estimate, fpr: float | None, spread: Spread, records: int, confidence: float
) -> Estimate:
    """Recompute the limits of a TPR (or of the AUC, if `fpr` is None) for another spread."""
    assert metric.value is not None
    if fpr is None:
        return symmetric_estimate(metric.value, spread, metric.n, confidence, "", 0.0, 1.0)
    return share_estimate(metric.value, spread, metric.n, records, confidence)


def risk_change(
    after: dict[str, AttackRates],
    before: dict[str, AttackRates],
    fpr: float | None,
    confidence: float,
) -> Estimate | None:
    """Risk after minus risk before, paired: same records, same splits, same clusters.

    Negative = safer. Each side uses its own strongest attack.
    """
    new, old = after[strongest(after, fpr)], before[strongest(before, fpr)]
    if new.failed or old.failed or new.influence is old.influence:
        return None
    change = paired(new, old, fpr, confidence)
    return change if isinstance(change, Estimate) else None


def paired(
    ours: AttackRates, theirs: AttackRates, fpr: float | None, confidence: float
) -> Measured | None:
    """A metric of one attack less that of another on the same targets and records, in [-1, 1].

    Returns: Its difference; a refusal where a rate cannot be read; None where there is no value.
    """
    new, old = ours.metric(fpr), theirs.metric(fpr)
    if isinstance(new, Refusal) or isinstance(old, Refusal):
        return new if isinstance(new, Refusal) else old
    if new.value is None or old.value is None:
        return None
    return symmetric_estimate(
        new.value - old.value,
        (ours.influence - theirs.influence).spread(ours.place(fpr)),
        new.n,
        confidence,
        f"paired {method_of(replace(ours.influence, references=None))}, Student t",
        -1.0,
        1.0,
    )
