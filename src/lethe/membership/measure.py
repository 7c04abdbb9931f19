"""From shadow models to numbers: every rate with its interval, every change paired."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from lethe.errors import NotMeasurable
from lethe.evidence import risk as risks
from lethe.evidence.bands import simultaneous_band
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.of_model import Rates
from lethe.evidence.risk import family_confidence, labelled_as_family
from lethe.evidence.roc import Roc, auc_of, check_resolvable, rate_at, roc, smallest_fpr, tau_of
from lethe.evidence.twoway import (
    Replicates,
    Rescored,
    Spread,
    TwoWayBootstrap,
    clusters_of,
    share_estimate,
    symmetric_estimate,
)
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.leave_one_out import scored_cells
from lethe.membership.scoring import able_cells, rescored, score, score_targets
from lethe.training.environment import default_workers
from lethe.training.shadows import Shadows

FPRS = (0.1, 0.01, 0.001)
FEWEST_RECORDS = 20
"""Distinct records (or persons) without which no rate is given: two of them tell nothing."""

_CURVE_POINTS = 40
_MOST_CELLS = 1 << 22
"""Scores of an attack, up to which several attacks are measured at once."""

References = Callable[[str, NDArray[np.float64]], Rescored | None]


@dataclass(frozen=True)
class AttackRates:
    """What one attack achieved.

    Attributes:
        curve: the ROC curve on a log-spaced grid, with limits for each point and a band
            that holds all of them at once.
        failed: the self-check that failed, and what it saw; then these numbers decide nothing.
        turned: whether the scores pointed the wrong way, so that these numbers are those of their
            negatives; then the AUC of the scores themselves, else None.
        alone: whether one model was attacked without any to compare it with: then the upper limits
            settle nothing, because an attacker who trains some finds more.
    """

    name: str  # of the attack
    auc: Estimate  # area under the ROC curve
    tpr: dict[float, Measured]  # true positive rate at each FPR, or why it cannot be given
    realised_fpr: dict[float, float]  # the FPR that the threshold really had, where measurable
    curve: dict[str, list[float]]
    replicates: Replicates  # bootstrap replicates of AUC and of the TPR at each of `fprs`
    fprs: tuple[float, ...]  # the rates asked for, ascending place in `replicates` from 1
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
        """Where a metric stands in `replicates`."""
        return 0 if fpr is None else 1 + self.fprs.index(fpr)

    def row(self) -> Rates:
        """Its part of the findings."""
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
    """Attack every model with the others, or given ones with all, and measure each attack.

    Args:
        confidence: of all intervals; limits of AUC and TPR hold for all attacks at once.
        targets: T models on the same records to attack, if these are not the shadow models.
        among: sets of models that this one was chosen from for its results; limits of AUC and TPR
            then hold for all attacks on all of them at once.

    Raises NotMeasurable: fewer than 20 distinct records (or persons) are attacked.
    """
    attacked, scored = _attacked(shadows, targets, seed)
    against = functools.partial(score, shadows)
    if targets is not None:
        against = functools.partial(score_targets, shadows, targets)

    def scores_of(name: str) -> NDArray[np.float64]:
        return against((name,), variance, seed)[name]

    def references(name: str, table: NDArray[np.float64]) -> Rescored | None:
        # Given targets are attacked by given models; only leave-one-out redraws both.
        if targets is not None:
            return None
        return rescored(shadows, name, table, variance, seed)

    family = len(attacks) * among
    results = measure_scores(
        attacked, attacks, scores_of, scored, fprs, confidence, seed, family, references
    )
    return {name: replace(result, alone=shadows.alone) for name, result in results.items()}


def _attacked(
    shadows: Shadows, targets: Shadows | None, seed: int = 0
) -> tuple[Shadows, NDArray[np.bool_]]:
    """The models that are attacked, and which of their cells are scored."""
    if targets is None:
        return shadows, scored_cells(shadows.members, seed)
    return targets, able_cells(shadows, targets)


def measure_scores(
    targets: Shadows,
    names: Sequence[str],
    scores_of: Callable[[str], NDArray[np.float64]],
    scored: NDArray[np.bool_],
    fprs: tuple[float, ...] = FPRS,
    confidence: float = 0.95,
    seed: int = 0,
    family: int = 1,
    references: References | None = None,
) -> dict[str, AttackRates]:
    """Measure score tables of one set of targets; all share their bootstrap draws.

    Args:
        targets: K attacked models on N records; only membership, pairs and persons are used.
        scores: names and (K, N) scores, higher = member.
        names: of the attacks.
        scores_of: from a name (K, N) scores, higher = member; called from several threads at once
            where the tables are small, else one after the other.
        scored: (K, N) cells to measure; every table must have a score there.
        family: results whose limits shall hold at once (Bonferroni).
        references: from an attack's name and its scores what models do as references; by default
            these are taken as they are.

    Raises NotMeasurable: fewer than 20 distinct records (or persons) are attacked.
    """
    # Models and records without any score are no clusters: they would only be drawn for nothing.
    rows, columns = scored.any(axis=1), scored.any(axis=0)
    people = targets.people[columns]
    records = len(np.unique(people))
    if records < FEWEST_RECORDS:
        raise NotMeasurable(
            f"records={records} is too few: a rate needs at least {FEWEST_RECORDS} distinct "
            "records (or persons) that are IN some models and OUT of others."
        )
    whole = bool(rows.all() and columns.all())
    table = np.s_[:, :] if whole else np.ix_(rows, columns)
    boot = TwoWayBootstrap(
        targets.members[table],
        clusters_of(targets.pairs[rows], people, seed),
        scored[table],
        seed=seed,
    )

    def measured(name: str) -> AttackRates:
        found = scores_of(name)
        flat = found.ravel() if scored.all() else found[scored]
        others = None if references is None else references(name, found)
        how = boot, records, tuple(fprs), confidence
        rates = _measure(name, flat, others, family, *how)
        if rates.auc.high is None or rates.auc.high >= 0.5:
            return rates
        # Which of two directions speaks is a choice: each has half of the level.
        return replace(_measure(name, -flat, _turned(others), 2 * family, *how), turned=rates.auc)

    if scored.size > _MOST_CELLS:  # all tables of scores at once may not fit
        return {name: measured(name) for name in names}
    with ThreadPoolExecutor(default_workers()) as pool:
        # Those that learn take longest, and begin first.
        first = sorted(names, key=lambda name: name in ATTACKS and not ATTACKS[name].learns)
        results = dict(zip(first, pool.map(measured, first), strict=True))
    return {name: results[name] for name in names}


def _turned(rescored: Rescored | None) -> Rescored | None:
    """The same of scores with the opposite sign."""
    if rescored is None:
        return None
    after = [(left, rows, -score) for left, rows, score in rescored.after]
    return Rescored(rescored.columns, -rescored.before, after)


def boot_name(replicates: Replicates) -> str:
    """What was redrawn, for the method of an estimate."""
    if replicates.clusters[0] == 1:
        return "bootstrap (records; of this one target)"
    if replicates.influence is not None:
        return "two-way bootstrap (targets x records), references redrawn"
    return "two-way bootstrap (targets x records)"


def _measure(
    name: str,
    score: NDArray[np.float64],
    references: Rescored | None,
    family: int,
    boot: TwoWayBootstrap,
    records: int,
    fprs: tuple[float, ...],
    confidence: float,
) -> AttackRates:
    level = family_confidence(confidence, family)
    curve = roc(boot.member[boot.scored], score)
    grid = _grid(curve.non_members, records)
    replicates = boot.replicate(score, np.array([*fprs, *grid]), curve.outside, references)

    tpr: dict[float, Measured] = {}
    realised: dict[float, float] = {}
    for place, fpr in enumerate(fprs):
        try:
            check_resolvable(fpr, curve.non_members, records)
        except NotMeasurable as error:
            tpr[fpr] = Refusal(str(error))
            continue
        point = rate_at(curve, fpr)
        rate = _share(point.tpr, curve, replicates, 1 + place, records, level)
        rate = labelled_as_family(rate, confidence, family, "results")
        # Whoever accuses at random reaches the FPR: no attacker has to do worse.
        tpr[fpr] = replace(rate, high=max(rate.high or 0.0, fpr))
        realised[fpr] = point.realised_fpr
    auc = symmetric_estimate(
        auc_of(curve),
        replicates.spread(0),
        curve.members + curve.non_members,
        level,
        f"{boot_name(replicates)}, Student t; n = scores",
        0.0,
        1.0,
    )
    return AttackRates(
        name,
        labelled_as_family(auc, confidence, family, "results"),
        tpr,
        realised,
        _curve(curve, grid, replicates, 1 + len(fprs), records, confidence),
        replicates,
        fprs,
    )


def _share(
    value: float, curve: Roc, replicates: Replicates, place: int, records: int, confidence: float
) -> Estimate:
    """A TPR with the spread of its place in the replicates."""
    spread = replicates.spread(place)
    name = boot_name(replicates)
    return share_estimate(value, spread, curve.members, records, confidence, name)


def _curve(
    curve: Roc,
    grid: list[float],
    replicates: Replicates,
    first: int,
    records: int,
    confidence: float,
) -> dict[str, list[float]]:
    """The ROC curve on a grid, whose replicates begin at place `first`, with limits and band."""
    places = first + np.arange(len(grid))
    points = [
        _share(rate_at(curve, fpr).tpr, curve, replicates, int(place), records, confidence)
        for fpr, place in zip(grid, places, strict=True)
    ]
    height = [point.value or 0.0 for point in points]
    band_low, band_high = simultaneous_band(
        np.array(height), replicates, places, curve.members, records, confidence
    )
    return {
        "fpr": list(grid),
        "tpr": height,
        "low": [point.low or 0.0 for point in points],
        "high": [1.0 if point.high is None else point.high for point in points],
        "band_low": band_low.tolist(),
        "band_high": band_high.tolist(),
    }


def _grid(non_members: int, records: int) -> list[float]:
    """Log-spaced FPRs from the smallest that the sample resolves."""
    start = smallest_fpr(non_members, records)
    if start >= 0.9:
        return []
    # Six digits are off by at most 5e-6 of the value: the first must not fall below `start`.
    return [float(f"{fpr:.6g}") for fpr in np.geomspace(start * 1.00001, 0.95, _CURVE_POINTS)]


def risk_rate(shadows: Shadows, targets: Shadows | None = None) -> float | None:
    """FPR of the frontier's risk: 1 %, or 10 % if only that is resolved, or None for the AUC."""
    attacked, scored = _attacked(shadows, targets)
    records = len(np.unique(attacked.people[scored.any(axis=0)]))
    outside = int((~attacked.members & scored).sum())
    for fpr in (0.01, 0.1):
        try:
            check_resolvable(fpr, outside, records)
            return fpr
        except NotMeasurable:
            continue
    return None


def chance_of(fpr: float | None) -> float:
    """What a random guess reaches: the FPR itself, or an AUC of one half."""
    return 0.5 if fpr is None else fpr


Results = Mapping[str, AttackRates]
"""What each attack achieved, by its name."""


def judged(
    results: Results,
    fpr: float | None,
    among: int = 1,
    views: Mapping[str, Results] = MappingProxyType({}),
    family: int = 0,
) -> list[risks.AttackResult]:
    """What `risk_of` is asked about: one metric of every attack, with what its checks found.

    Args:
        results: of one candidate.
        among: candidates that this one was chosen from for its risk: limits then hold for all of
            them at once.
        views: results on functions of what it answers; limits hold for these, too.
        family: results whose limits shall hold at once, where there are more of them: those on a
            view hold together with those on what it is a function of.
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
                # Of one model alone without an upper limit: stronger attacks were not run.
                open_above = "no upper limit, for attacks with reference models were not run"
                metric = replace(metric, high=1.0, method=f"{metric.method}; {open_above}")
            why = result.failed
            listed.append(risks.AttackResult(name, metric, view, knows, not why, why))
    return listed


def strongest(results: Mapping[str, AttackRates], fpr: float | None) -> str:
    """The attack with the highest lower limit of those whose self-checks passed.

    The highest point estimate where none is left or no rate can be given: it decides nothing.
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
    """The worst of all attacks whose self-checks passed; see `evidence.risk.risk_of`."""
    worst = risks.risk_of(judged(results, fpr, 1, views, family), chance_of(fpr))
    return worst if isinstance(worst, Refusal) else worst.estimate


def shown(
    results: Results,
    among: int = 1,
    views: Mapping[str, Results] = MappingProxyType({}),
    family: int = 0,
) -> Iterator[tuple[float | None, Estimate]]:
    """What lies above chance, with limits that hold for every attack and quantity at once.

    "Not shown above chance" may be said only where this is empty. Rates come before the AUC, which
    has no FPR; the strictest first.
    """
    rates = next(iter(results.values())).tpr
    quantities = [fpr for fpr, rate in sorted(rates.items()) if isinstance(rate, Estimate)]
    for fpr in (*quantities, None):
        listed = judged(results, fpr, among * (len(quantities) + 1), views, family)
        found = risks.risk_of(listed, chance_of(fpr))
        if isinstance(found, risks.Risk) and (found.estimate.low or 0.0) > chance_of(fpr):
            yield fpr, found.estimate


def _among(result: AttackRates, fpr: float | None, family: int) -> Measured:
    """A metric with limits that hold together with those of `family` others (Bonferroni)."""
    metric = result.metric(fpr)
    if isinstance(metric, Refusal) or metric.value is None:
        return metric
    level = family_confidence(metric.confidence, family)
    spread, records = result.replicates.spread(result.place(fpr)), result.replicates.clusters[1]
    wide = replace(limits_of(metric, fpr, spread, records, level), method=metric.method)
    return labelled_as_family(wide, metric.confidence, family, "results")


def limits_of(
    metric: Estimate, fpr: float | None, spread: Spread, records: int, confidence: float
) -> Estimate:
    """A TPR, or for None the AUC, with the limits of another spread or confidence."""
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
    """Risk after minus risk before, paired: same records, same splits, same bootstrap draws.

    Negative = safer. Each side uses its own strongest attack.
    """
    ours, theirs = after[strongest(after, fpr)], before[strongest(before, fpr)]
    if ours.failed or theirs.failed:
        return None
    new, old = ours.metric(fpr), theirs.metric(fpr)
    assert isinstance(new, Estimate) and isinstance(old, Estimate)
    if new.value is None or old.value is None:
        return None
    place = ours.place(fpr)
    if math.isclose(new.value, old.value) and ours.replicates is theirs.replicates:
        return None
    return symmetric_estimate(
        new.value - old.value,
        (ours.replicates - theirs.replicates).spread(place),
        new.n,
        confidence,
        "paired two-way bootstrap (targets x records), Student t",
        -1.0,
        1.0,
    )
