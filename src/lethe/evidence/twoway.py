"""Intervals for scores that share models and records: two-way clustered, vectorised.

Scores form a table (targets x records): a target's share its training run, a record's its
peculiarities. Two-way cluster variance V = V_targets + V_records - V_cells (Cameron, Gelbach and
Miller 2011); each part is a bootstrap that redraws whole clusters. Complementary models are one
target cluster.

The bootstrap works on counts of scores above a fixed grid of thresholds, one row a cluster: a
thousand draws are one small matrix product.

What a model does as a reference is measured by leaving it out and scoring the others anew (the
jackknife: Efron and Stein, Annals of Statistics 1981); what models have in common over the records
is added, see `Influence`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clustered_share

Float = NDArray[np.float64]

DRAWS = 1000
_GRID = 400
_MAX_GROUPS = 1500
_CELLS = 1 << 20
_BLOCK = 64
_EXACT = 1 << 24  # whole numbers below it add up exactly in single precision
_FEW = 5
_NOISE = 1.5  # standard errors, of alike models, that a part of the records must exceed
Part = TypeVar("Part", float, NDArray[np.float64])


@dataclass(frozen=True)
class Spread:
    """A variance and the degrees of freedom behind it (Satterthwaite)."""

    variance: float
    degrees: float

    @property
    def deviation(self) -> float:
        """Standard deviation of the estimate."""
        return float(np.sqrt(self.variance))

    def quantile(self, confidence: float) -> float:
        """Student-t quantile for a two-sided interval."""
        return float(stdtrit(max(self.degrees, 1.0), (1 + confidence) / 2))


def interaction_of(parts: Sequence[Part], clusters: Sequence[int]) -> Part:
    """The part of V_targets and of V_records that both hold; of numbers, or of covariances.

    The spread of whole cells also holds 1/R and 1/T of the effects of their target and record,
    which are taken out of V_cells first (the interaction of a two-way analysis of variance).
    """
    targets, records, cells = parts
    rows, columns = clusters[:2]
    return (
        cells * (1 - 1 / (rows * columns))
        - targets * (1 - 1 / rows) / columns
        - records * (1 - 1 / columns) / rows
    ) / ((1 - 1 / rows) * (1 - 1 / columns))


def combine(parts: Sequence[float], clusters: Sequence[int]) -> Spread:
    """V_targets + V_records - V_cells, never below its largest part.

    Of a single target nothing is said but about itself: records alone vary.
    """
    targets, records, _ = parts
    if clusters[0] == 1:
        return Spread(records, float(max(clusters[1] - 1, 1)))
    interaction = max(interaction_of(parts, clusters), 0.0)
    return combined(targets, records, interaction, clusters)


def combined(targets: float, records: float, interaction: float, clusters: Sequence[int]) -> Spread:
    """The two-way variance of parts of which `interaction` is counted twice, and its degrees."""
    variance = max(targets + records - interaction, targets, records)
    if variance <= 0:
        return Spread(0.0, float(max(clusters[0] - 1, 1)))
    if min(clusters[:2]) < 3:
        # The variance of two clusters is small by luck too often to lend more degrees than one.
        return Spread(variance, 1.0)
    weight = sum(
        part**2 / max(count - 1, 1)
        for part, count in zip((targets, records), clusters[:2], strict=True)
    )
    return _satterthwaite(variance, weight, clusters)


def _satterthwaite(variance: float, weight: float, clusters: Sequence[int]) -> Spread:
    """A variance with the degrees of its parts, of which `weight` sums square over degrees."""
    degrees = variance**2 / weight if weight > 0 else float(clusters[1] - 1)
    if min(clusters[:2]) < _FEW:
        # Satterthwaite's sum of parts is too sure of parts that rest on so few clusters.
        degrees = min(degrees, float(min(clusters[:2]) - 1))
    return Spread(variance, degrees)


@dataclass(frozen=True)
class Clusters:
    """Which target cluster and which record cluster each cell of a (K, N) table belongs to.

    Attributes:
        cells: (T, R) labels of random groups of cells, which measure the part counted twice.
    """

    targets: NDArray[np.intp]  # (K,) integer labels 0..T-1, complementary models equal
    records: NDArray[np.intp]  # (N,) integer labels 0..R-1; equal for records of one person
    cells: NDArray[np.intp]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Number of target clusters, record clusters and groups of cells."""
        return (
            int(self.targets.max()) + 1,
            int(self.records.max()) + 1,
            int(self.cells.max()) + 1,
        )


def clusters_of(
    targets: NDArray[np.integer], records: NDArray[np.integer], seed: int = 0
) -> Clusters:
    """Number the clusters; many records are drawn together in at most 1500 random groups.

    Args:
        targets: (K,) any integer label per target model.
        records: (N,) any integer label per record (equal for one person).

    Raises:
        InputError: fewer than two target clusters (of more than one model), or two record clusters.
    """
    _, target_of = np.unique(targets, return_inverse=True)
    _, record_of = np.unique(records, return_inverse=True)
    if (target_of.max() < 1 and len(target_of) > 1) or record_of.max() < 1:
        raise InputError(
            "a two-way interval needs at least 2 independent targets and 2 records, got "
            f"{target_of.max() + 1} and {record_of.max() + 1}."
        )
    rng = np.random.default_rng([seed, 1])
    if record_of.max() + 1 > _MAX_GROUPS:
        group = rng.permutation(record_of.max() + 1) % _MAX_GROUPS
        record_of = group[record_of]
    shape = (int(target_of.max()) + 1, int(record_of.max()) + 1)
    size = shape[0] * shape[1]
    cells = (rng.permutation(size) % min(_MAX_GROUPS, size)).reshape(shape)
    return Clusters(target_of, record_of, cells)


@functools.lru_cache(maxsize=8)  # the candidates of an audit share their clusters and draws
def _drawn_times(count: int, draws: int, seed: int) -> NDArray[np.float32]:
    """(draws, count) how often each cluster is drawn; whole numbers."""
    rng = np.random.default_rng([seed, count])
    times = rng.multinomial(count, np.full(count, 1 / count), size=draws).astype(np.float32)
    times.flags.writeable = False
    return times


def _drawn_shares(times: NDArray[np.float32], above: NDArray[np.int64]) -> Iterator[Float]:
    """(draws, bins) share of a side above each threshold, a block of draws at a time.

    Deviations are widened for few clusters. Whole numbers add up exactly, in single precision too
    while they are below 2**24: what no draw moves is the same in every draw, on every processor.
    """
    count, whole = len(above), above.sum(axis=0)
    exact = np.float32 if float(times.max()) * float(whole.max()) < _EXACT else np.float64
    counts = times.astype(exact, copy=False) @ above.astype(exact)
    wider = np.sqrt(count / max(count - 1, 1))
    for start in range(0, len(counts), _BLOCK):  # a block stays in the processor's cache
        drawn = np.subtract(counts[start : start + _BLOCK], whole, dtype=np.float64)
        drawn *= wider
        drawn += whole
        np.maximum(drawn, 0.0, out=drawn)
        np.maximum.accumulate(drawn, axis=1, out=drawn)
        drawn /= np.maximum(drawn[:, -1:], 1e-300)
        yield np.pad(drawn, ((0, 0), (1, 0)))


def _read_at(fprs: Float, fpr: Float, tpr: Float) -> Float:
    """(draws, F) TPR at each FPR of (draws, bins) curves from 0 to 1: `numpy.interp` of all."""
    draws, last = np.arange(len(fpr))[:, None], fpr.shape[1] - 1
    low = np.zeros((len(fpr), len(fprs)), np.intp)
    for step in 2 ** np.arange(last.bit_length())[::-1]:  # the last bin not above each FPR
        further = np.minimum(low + step, last)
        low = np.where(fpr[draws, further] <= fprs, further, low)
    high = np.minimum(low + 1, last)
    width = np.where(high > low, fpr[draws, high] - fpr[draws, low], 1.0)
    slope = (tpr[draws, high] - tpr[draws, low]) / width
    return np.asarray(slope * (fprs - fpr[draws, low]) + tpr[draws, low])


@dataclass(frozen=True)
class Replicates:
    """Bootstrap replicates of some statistics; differences of two keep their pairing.

    Attributes:
        values: (3, draws, statistics) replicates for targets, records and cells redrawn.
        influence: of the models as references; None where these are taken as they are.
        spreads: of each statistic, where more is known of it than these replicates show.
        paired: degrees of freedom of the difference of each of these to another one: what members
            vary may cancel there, and the few false alarms that set thresholds remain.
    """

    values: NDArray[np.float64]
    clusters: tuple[int, int, int]  # number of clusters of each kind
    influence: Influence | None = None
    spreads: Sequence[Spread] = ()
    paired: Sequence[float] = ()

    def __sub__(self, other: Replicates) -> Replicates:
        influence = None
        if self.influence is not None and other.influence is not None:
            influence = self.influence.minus(other.influence)
        change = Replicates(self.values - other.values, self.clusters, influence)
        known = [
            Spread(change.spread(place).variance, min(degrees))
            for place, degrees in enumerate(zip(self.paired, other.paired, strict=False))
        ]
        return replace(change, spreads=known)

    def spread(self, at: int) -> Spread:
        """Two-way variance of one statistic, what models do as references included."""
        if self.spreads:
            return self.spreads[at]
        parts = self.parts(at)
        fixed = combine(parts, self.clusters)
        if self.influence is None:
            return fixed
        return self.influence.widened(fixed, parts, self.clusters, at)

    def parts(self, at: int) -> tuple[float, float, float]:
        """Variance of one statistic with targets, records and cells redrawn."""
        targets, records, cells = (float(np.var(self.values[kind, :, at])) for kind in range(3))
        return targets, records, cells


@dataclass(frozen=True)
class Rescored:
    """Scores of an attack with all its references, and with some models left out of these.

    Attributes:
        before: (K, n) scores with all references; NaN where a cell is not scored.
        after: for each group of left out models their target clusters (s,), which targets remain
            (K,) and the scores of these without the group as references (remaining, n).
    """

    columns: NDArray[np.intp]  # (n,) records that were scored anew, all or a random part
    before: NDArray[np.floating]
    after: Sequence[tuple[NDArray[np.intp], NDArray[np.bool_], NDArray[np.floating]]]


class Pulls(NamedTuple):
    """What clusters add to each of S statistics, to first order: (clusters, S) of each kind."""

    targets: NDArray[np.float64]
    records: NDArray[np.float64]
    cells: NDArray[np.float64]

    def parts(self, at: int) -> tuple[float, float, float]:
        """Variance of one statistic with targets, records and cells redrawn."""
        targets, records, cells = (float(np.var(kind[:, at], ddof=1)) * len(kind) for kind in self)
        return targets, records, cells

    def minus(self, other: Pulls) -> Pulls:
        """Of the differences of two sets of statistics."""
        return Pulls(*(ours - theirs for ours, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Influence:
    """Pulls of models as targets alone, and as targets and references.

    The variance over models of the latter, less what single cells add to it, is the part that
    redrawing targets must show; what it lacks is added. Where models are alike the positive half of
    chance widens an interval by a tenth or two.

    Attributes:
        whole: pulls with what leaving out each of G groups of models as references does, of the
            records that were scored anew.
    """

    fixed: Pulls  # pulls with the references as they are, of all records
    whole: Pulls
    times: float  # how many times as many records there are

    def minus(self, other: Influence) -> Influence | None:
        """Of the differences of two audits; None where they did not score the same cells anew."""
        for ours, theirs in zip(self.whole, other.whole, strict=True):
            if ours.shape != theirs.shape:
                return None
        return Influence(self.fixed.minus(other.fixed), self.whole.minus(other.whole), self.times)

    def added(self, at: int) -> float:
        """Variance of one statistic that fixed references lack, as a part of what they show."""
        parts = self.fixed.parts(at)
        shown = combine(parts, [len(kind) for kind in self.fixed]).variance
        if shown <= 0:
            return 0.0
        whole, groups = self.whole.parts(at), len(self.whole.targets)
        # What cells, of a model with a record each, add to the variance over models. A part of
        # the records shows what they have in common with more noise than all would.
        cells = max(interaction_of(whole, [len(kind) for kind in self.whole]), 0.0)
        cells *= self.times**2
        chance = _NOISE * float(np.sqrt(2 / (groups - 1))) * (1 - 1 / self.times)
        common = self.times**2 * whole[0] - cells * (1 + chance)
        return float(max(common - (shown - parts[1]), 0.0)) / shown

    def widened(
        self, fixed: Spread, parts: Sequence[float], clusters: Sequence[int], at: int
    ) -> Spread:
        """A spread with what it lacks; the degrees of what is added are those of the groups."""
        more, groups = fixed.variance * self.added(at), len(self.whole.targets)
        if more <= 0:
            return fixed
        weight = (
            parts[0] ** 2 / (clusters[0] - 1)
            + parts[1] ** 2 / (clusters[1] - 1)
            + (2 * parts[0] * more + more**2) / (groups - 1)
        )
        return _satterthwaite(fixed.variance + more, weight, clusters)


class TwoWayBootstrap:
    """Bootstraps ROC quantities of score tables that share one membership table.

    Use one instance for everything that is to be compared: draws are common to all scores,
    so the difference of two replicates is the replicate of the difference.

    Args:
        member: (K, N) true membership; only scored cells count.
        scored: (K, N) cells to use, all by default.
        draws: bootstrap draws of each kind.
    """

    def __init__(
        self,
        member: NDArray[np.bool_],
        clusters: Clusters,
        scored: NDArray[np.bool_] | None = None,
        draws: int = DRAWS,
        seed: int = 0,
    ) -> None:
        self.member = member
        self.scored = np.broadcast_to(True, member.shape) if scored is None else scored
        self.clusters = clusters
        self.draws = draws
        self._times = [_drawn_times(count, draws, seed) for count in clusters.counts]
        self._kept = self._labels(0, len(member)) if member.size <= _CELLS else None

    def replicate(
        self,
        score: NDArray[np.floating],
        fprs: NDArray[np.float64],
        non_member: NDArray[np.floating] | None = None,
        rescored: Rescored | None = None,
    ) -> Replicates:
        """Replicates of the AUC (first statistic) and of the TPR at each of `fprs`.

        Args:
            score: one score per scored cell, flat, in row-major order, higher = member.
            fprs: false positive rates, each in (0, 1).
            non_member: the scores of non-members in ascending order, for who has them already.
            rescored: what models do as references; without it these are taken as they are.
        """
        if non_member is None:
            non_member = np.sort(score[~self.member[self.scored]])
        edges = _threshold_grid(non_member)
        tables = self._tables(score, edges)
        out = np.zeros((len(tables), self.draws, 1 + len(fprs)))
        for kind, (table, times) in enumerate(zip(tables, self._times, strict=True)):
            if self.clusters.counts[0] == 1 and kind != 1:
                continue  # of one target records alone vary
            outside, inside = np.moveaxis(np.cumsum(table, axis=1), 2, 0)
            curves = zip(_drawn_shares(times, inside), _drawn_shares(times, outside), strict=True)
            for start, (tpr, fpr) in zip(range(0, self.draws, _BLOCK), curves, strict=True):
                block = out[kind, start : start + _BLOCK]
                block[:, 0] = np.trapezoid(tpr, fpr, axis=1)
                block[:, 1:] = _read_at(fprs, fpr, tpr)
        influence = None
        if rescored is not None:
            influence = self._influence(tables, rescored, edges, fprs)
        return Replicates(out, self.clusters.counts, influence)

    def _influence(
        self,
        tables: Sequence[NDArray[np.int64]],
        rescored: Rescored,
        edges: NDArray[np.float64],
        fprs: NDArray[np.float64],
    ) -> Influence:
        pull = _pulls_of_bins(tables[0].sum(axis=0), fprs)
        wide = len(pull)
        fixed = Pulls(*(table.reshape(-1, wide) @ pull for table in tables))
        columns = rescored.columns
        member = self.member[:, columns]
        _, record_of = np.unique(self.clusters.records[columns], return_inverse=True)
        shape = (len(rescored.after), int(record_of.max()) + 1)

        def place(score: NDArray[np.floating], side: NDArray[np.bool_]) -> NDArray[np.intp]:
            above = len(edges) - np.searchsorted(edges, score, side="right")
            return np.asarray(2 * above + side)

        before, known = place(rescored.before, member), ~np.isnan(rescored.before)
        # Group, column and bin of each score that comes with a group and of each that goes.
        come: list[tuple[int, NDArray[np.intp], NDArray[np.intp]]] = []
        gone: list[tuple[int, NDArray[np.intp], NDArray[np.intp]]] = []
        for group, (left, rows, score) in enumerate(rescored.after):
            mine = np.isin(self.clusters.targets, left)
            come.append((group, np.nonzero(known[mine])[1], before[mine][known[mine]]))
            old, new = before[rows], place(score, member[rows])
            moved = known[rows] & ~np.isnan(score) & (old != new)
            column = np.nonzero(moved)[1]
            come.append((group, column, old[moved]))
            gone.append((group, column, new[moved]))
        whole = [np.zeros((count, wide)) for count in (*shape, self.clusters.counts[2])]
        for scores, sign in ((come, 1), (gone, -1)):
            bins = np.concatenate([bins for _, _, bins in scores])
            column = np.concatenate([column for _, column, _ in scores])
            first = np.concatenate([np.full(len(bins), group) for group, _, bins in scores])
            left_out = np.array([left[0] for left, _, _ in rescored.after])
            cell = self.clusters.cells[left_out[first], self.clusters.records[columns[column]]]
            for table, label in zip(whole, (first, record_of[column], cell), strict=True):
                counted = np.bincount(label * wide + bins, minlength=table.size)
                table += sign * counted.reshape(table.shape)
        times = self.member.shape[1] / len(columns)
        return Influence(fixed, Pulls(*(table @ pull for table in whole)), times)

    def _tables(
        self, score: NDArray[np.floating], edges: NDArray[np.float64]
    ) -> list[NDArray[np.int64]]:
        """For each kind (clusters, bins, 2) counts: scores of non-members and of members.

        Bin 0 holds the scores above every threshold.
        """
        wide = 2 * (len(edges) + 1)
        tables: list[NDArray[np.int64]] = []
        step = max(1, _CELLS // self.member.shape[1])
        done = 0
        for start in range(0, len(self.member), step):
            labels, member = self._kept or self._labels(start, start + step)
            part = score[done : done + len(member)]
            done += len(member)
            place = 2 * (len(edges) - np.searchsorted(edges, part, side="right")) + member
            counted = [
                np.bincount(label * wide + place, minlength=count * wide)
                for label, count in zip(labels, self.clusters.counts, strict=True)
            ]
            pairs = zip(tables, counted, strict=True) if tables else ()
            tables = [table + more for table, more in pairs] or counted
        return [table.reshape(-1, wide // 2, 2) for table in tables]

    def _labels(
        self, start: int, stop: int
    ) -> tuple[tuple[NDArray[np.intp], ...], NDArray[np.bool_]]:
        """Cluster of each kind, and membership, of the scored cells of some models."""
        rows, columns = np.nonzero(self.scored[start:stop])
        rows += start
        target, record = self.clusters.targets[rows], self.clusters.records[columns]
        cell = self.clusters.cells[target, record]
        return (target, record, cell), self.member[rows, columns]


def _pulls_of_bins(counts: NDArray[np.int64], fprs: NDArray[np.float64]) -> NDArray[np.float64]:
    """(2 bins, S) what a further score adds to the AUC and to the TPR at each FPR, to first order.

    A move of the threshold at an FPR f gains members at the mean slope of the curve between f/2
    and 2f. The pulls of all scores of a side sum to 0.

    Args:
        counts: (bins, 2) scores of non-members and of members, from the highest bin down.
        fprs: each in (0, 1).
    """
    sizes = np.maximum(counts.sum(axis=0), 1)
    outside, inside = (counts / sizes).T
    pull = np.empty((len(counts), 2, 1 + len(fprs)))
    # P(a member lies higher) for each non-member's bin and the reverse, half of a tie.
    pull[:, 1, 0] = 1 - np.cumsum(outside) + outside / 2
    pull[:, 0, 0] = np.cumsum(inside) - inside / 2
    fpr, tpr = (np.append(0.0, np.cumsum(side)) for side in (outside, inside))
    accused = (fprs - fpr[:-1, None]) / np.maximum(outside, 1e-300)[:, None]
    accused = np.clip(accused, 0.0, 1.0)
    low, high = fprs / 2, np.minimum(2 * fprs, 1.0)
    slope = (np.interp(high, fpr, tpr) - np.interp(low, fpr, tpr)) / (high - low)
    pull[:, 1, 1:], pull[:, 0, 1:] = accused, -slope * accused
    pull -= (np.stack([outside, inside], axis=1)[:, :, None] * pull).sum(axis=0)
    pull /= sizes[:, None]
    return pull.reshape(2 * len(counts), -1)


def _threshold_grid(non_member: NDArray[np.floating]) -> NDArray[np.float64]:
    """Ascending thresholds, dense where few of the ascending scores lie above them."""
    rising = np.asarray(non_member, np.float64)
    ordered = rising[::-1]
    last = len(ordered) - 1
    tail = np.geomspace(1, last + 1, _GRID // 2).astype(int) - 1
    bulk = np.linspace(0, last, _GRID // 2).astype(int)
    edges = np.unique(ordered[np.unique(np.concatenate([tail, bulk]))])
    # A member strictly above a tie of non-members must not share its bin: the tie counts half.
    behind = np.searchsorted(rising, edges, "right") - np.searchsorted(rising, edges, "left")
    tied = (behind > 1) | (edges == rising[-1]) | (len(ordered) <= _GRID // 2)
    return np.unique(np.concatenate([edges, np.nextafter(edges[tied], np.inf)]))


def share_estimate(
    value: float,
    spread: Spread,
    trials: int,
    records: int,
    confidence: float,
    name: str = "two-way bootstrap (targets x records)",
) -> Estimate:
    """Interval for a TPR: two-way variance, Korn-Graubard limits (conservative)."""
    method = f"{name}, Korn-Graubard; n = member scores"
    limits = trials, records, confidence, method
    return clustered_share(value, spread.variance, spread.degrees, *limits)


def symmetric_estimate(
    value: float,
    spread: Spread,
    n: int,
    confidence: float,
    method: str,
    low: float = -np.inf,
    high: float = np.inf,
) -> Estimate:
    """value ± t·sd, cut at the natural limits of the quantity."""
    half = spread.quantile(confidence) * spread.deviation
    return Estimate(value, max(low, value - half), min(high, value + half), confidence, method, n)


def mean_spread(
    table: NDArray[np.floating], targets: NDArray[np.integer], records: NDArray[np.integer]
) -> Spread:
    """Two-way variance of the mean of a (K, N) table, in closed form.

    Args:
        table: the values, such as 1 for a right answer of model k on record j.
        targets: (K,) cluster labels of the models.
        records: (N,) cluster labels of the records.
    """
    size = table.size
    residual = np.asarray(table, np.float64) - float(np.mean(table))
    _, target_of = np.unique(targets, return_inverse=True)
    _, record_of = np.unique(records, return_inverse=True)
    cells = _summed(_summed(residual, target_of).T, record_of).T

    def part(sums: NDArray[np.float64]) -> float:
        count = sums.size
        return float(np.sum(sums**2)) / size**2 * count / max(count - 1, 1)

    counts = (cells.shape[0], cells.shape[1], cells.size)
    return combine((part(cells.sum(1)), part(cells.sum(0)), part(cells)), counts)


def _summed(table: NDArray[np.float64], labels: NDArray[np.intp]) -> NDArray[np.float64]:
    """Rows of equal label added up; the table itself where each row has a label of its own."""
    if np.array_equal(labels, np.arange(len(labels))):
        return table
    sums = np.zeros((int(labels.max()) + 1, table.shape[1]))
    np.add.at(sums, labels, table)
    return sums


def mean_estimate(
    table: NDArray[np.floating],
    targets: NDArray[np.integer],
    records: NDArray[np.integer],
    confidence: float = 0.95,
    low: float = -np.inf,
    high: float = np.inf,
) -> Estimate:
    """Mean of a (models x records) table with its two-way clustered interval."""
    method = "two-way clustered (models x records), Student t; n = answers"
    mean, spread = float(np.mean(table)), mean_spread(table, targets, records)
    return symmetric_estimate(mean, spread, table.size, confidence, method, low, high)
