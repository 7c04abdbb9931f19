"""Intervals for scores that share models and records: two-way clustered, vectorised.

Scores form a table (targets x records): a target's share its training run, a record's its
peculiarities. Two-way cluster variance V = V_targets + V_records - V_cells (Cameron, Gelbach and
Miller 2011); each part sums, over clusters, the squared change that a cluster makes to the
statistic. Targets are few and may differ much, so each is left out in turn (jackknife); of records
and cells the change is taken to first order (infinitesimal jackknife: Efron 1982, section 6.3).
Complementary models are one target cluster.

Changes are read off counts of scores above a fixed grid of thresholds: a curve of thousands of
scores needs one sum for each bin and cluster.

What a model does as a reference is measured by leaving it out and scoring the others anew (the
jackknife: Efron and Stein, Annals of Statistics 1981); what models have in common over the records
is added, see `References`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clustered_share

Float = NDArray[np.float64]

_GRID = 400
_MAX_GROUPS = 1500
_CELLS = 1 << 20
_ROUNDING = 1e-24  # variance of a rate that is nothing but rounding errors
_FEW = 5
_REACHES = np.array([[1.0], [2.0]])  # standard errors of an FPR within which a curve's slope counts
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
            f"{target_of.max() + 1} and {record_of.max() + 1}; complementary models count as one "
            "target, so mark a further model, or one alone."
        )
    rng = np.random.default_rng([seed, 1])
    if record_of.max() + 1 > _MAX_GROUPS:
        group = rng.permutation(record_of.max() + 1) % _MAX_GROUPS
        record_of = group[record_of]
    shape = (int(target_of.max()) + 1, int(record_of.max()) + 1)
    size = shape[0] * shape[1]
    cells = (rng.permutation(size) % min(_MAX_GROUPS, size)).reshape(shape)
    return Clusters(target_of, record_of, cells)


@dataclass(frozen=True, eq=False)
class Pulls:
    """First-order effect of each cluster on each of S statistics: (clusters, S) for each kind."""

    targets: Float
    records: Float
    cells: Float

    @property
    def kinds(self) -> tuple[Float, Float, Float]:
        """Targets, records and cells."""
        return self.targets, self.records, self.cells

    @property
    def clusters(self) -> tuple[int, int, int]:
        """Number of clusters of each kind."""
        return len(self.targets), len(self.records), len(self.cells)

    @functools.cached_property
    def variances(self) -> Float:
        """(3, S) variance of each statistic from targets, records and cells."""
        parts = [np.square(_centred(kind)).sum(axis=0) for kind in self.kinds]
        return np.where(np.array(parts) > _ROUNDING, parts, 0.0)

    def covariances(self, places: NDArray[np.intp]) -> list[Float]:
        """(G, G) covariances of some statistics from targets, records and cells."""
        parts = [_centred(kind[:, places]) for kind in self.kinds]
        return [part.T @ part for part in parts]

    def __sub__(self, other: Pulls) -> Pulls:
        pairs = zip(self.kinds, other.kinds, strict=True)
        return Pulls(*(ours - theirs for ours, theirs in pairs))


def _centred(pulls: Float) -> Float:
    """Pulls less their mean, widened for few clusters; a single cluster shows no variance."""
    count = len(pulls)
    return np.asarray((pulls - pulls.mean(axis=0)) * np.sqrt(count / max(count - 1, 1)))


@dataclass(frozen=True)
class References:
    """Effect of models as references, beside their effect as targets.

    The variance over models of their pulls in both roles, less what single cells add to it, is the
    part that targets must show; what it lacks is added. Where models are alike the positive half
    of chance widens an interval by a tenth or two.

    Attributes:
        whole: pulls of models as targets, with what leaving out each of G groups of models as
            references does, of the records that were scored anew.
    """

    whole: Pulls
    times: float  # how many times as many records there are

    def widened(self, parts: Sequence[float], clusters: Sequence[int], at: int) -> Spread:
        """The spread of a statistic with fixed references, of these `parts`, and what it lacks."""
        fixed, groups = combine(parts, clusters), len(self.whole.targets)
        whole = self.whole.variances[:, at].tolist()
        # What cells, of a model with a record each, add to the variance over models. A part of
        # the records shows what they have in common with more noise than all would.
        cells = max(interaction_of(whole, self.whole.clusters), 0.0)
        cells *= self.times**2
        chance = _NOISE * float(np.sqrt(2 / (groups - 1))) * (1 - 1 / self.times)
        common = self.times**2 * whole[0] - cells * (1 + chance)
        more = float(max(common - (fixed.variance - parts[1]), 0.0))
        if more <= 0 or fixed.variance <= 0:
            return fixed
        weight = (
            parts[0] ** 2 / (clusters[0] - 1)
            + parts[1] ** 2 / (clusters[1] - 1)
            + (2 * parts[0] * more + more**2) / (groups - 1)
        )
        return _satterthwaite(fixed.variance + more, weight, clusters)


@dataclass(frozen=True)
class Influence:
    """Effect of clusters on statistics; the difference of two is the effect on the difference.

    Attributes:
        references: effect of models as references; None where references count as fixed.
        spreads: of each statistic, where more is known of it than the pulls show.
        paired: degrees of freedom of the difference of each of these to another one: what members
            vary may cancel there, and the few false alarms that set thresholds remain.
    """

    pulls: Pulls  # with the references as they are
    references: References | None = None
    spreads: Sequence[Spread] = ()
    paired: Sequence[float] = ()

    @property
    def clusters(self) -> tuple[int, int, int]:
        """Number of target clusters, record clusters and groups of cells."""
        return self.pulls.clusters

    def __sub__(self, other: Influence) -> Influence:
        mine, theirs, references = self.references, other.references, None
        if mine and theirs and mine.whole.clusters == theirs.whole.clusters:
            references = replace(mine, whole=mine.whole - theirs.whole)
        change = Influence(self.pulls - other.pulls, references)
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
        if self.references is None:
            return combine(parts, self.clusters)
        return self.references.widened(parts, self.clusters, at)

    def parts(self, at: int) -> tuple[float, float, float]:
        """Variance of one statistic from targets, records and cells."""
        targets, records, cells = self.pulls.variances[:, at].tolist()
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


class ClusteredTable:
    """Members and clusters of a table of scores, to see what clusters do to ROC quantities.

    Scores of one table are compared pairwise: subtract their `influence`.

    Args:
        member: (K, N) true membership; only scored cells count.
        scored: (K, N) cells to use, all by default.
    """

    def __init__(
        self,
        member: NDArray[np.bool_],
        clusters: Clusters,
        scored: NDArray[np.bool_] | None = None,
    ) -> None:
        self.member = member
        self.scored = np.broadcast_to(True, member.shape) if scored is None else scored
        self.clusters = clusters
        self._kept = self._labels(0, len(member)) if member.size <= _CELLS else None

    def influence(
        self,
        score: NDArray[np.floating],
        fprs: Float,
        non_member: NDArray[np.floating] | None = None,
        rescored: Rescored | None = None,
    ) -> Influence:
        """Compute the influence on the AUC (first statistic) and on the TPR at each of `fprs`.

        Args:
            score: one score per scored cell, flat, in row-major order, higher = member.
            fprs: false positive rates, each in (0, 1).
            non_member: the scores of non-members in ascending order, for who has them already.
            rescored: what models do as references; without it these are taken as they are.
        """
        if non_member is None:
            non_member = np.sort(score[~self.member[self.scored]])
        edges = _threshold_grid(non_member)
        place, tables = self._placed(score, edges)
        counts = tables.sum(axis=0).reshape(-1, 2)
        alarms = self._added_up(place, tables, _alarms_of_bins(counts, fprs)).variances
        errors = [combine(parts, self.clusters.counts).deviation for parts in alarms.T.tolist()]
        pull = _pulls_of_bins(counts, fprs, np.array(errors))
        references = None if rescored is None else self._references(rescored, edges, pull)
        pulls = self._added_up(place, tables, pull)
        return Influence(replace(pulls, targets=_left_out(tables, fprs)), references)

    def _placed(
        self, score: NDArray[np.floating], edges: Float
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Bin of each score, and (targets, bins) number of scores.

        Bin 2 above + side: 0 holds non-members above every threshold.
        """
        place, done = np.empty(len(score), np.int32), 0
        tables = np.zeros((self.clusters.counts[0], 2 * len(edges) + 2), np.int64)
        for (target, _, _), member in self._blocks():
            block = slice(done, done + len(member))
            place[block] = 2 * _thresholds_above(score[block], edges) + member
            label = target * tables.shape[1] + place[block]
            tables += np.bincount(label, minlength=tables.size).reshape(tables.shape)
            done += len(member)
        return place, tables

    def _added_up(self, place: NDArray[np.int32], tables: NDArray[np.int64], pull: Float) -> Pulls:
        """Add up the pulls (bins, S) of the bins of all scores, by cluster."""
        sums = [np.zeros((count, pull.shape[1])) for count in self.clusters.counts[1:]]
        done = 0
        for (_, *labels), member in self._blocks():
            bins = place[done : done + len(member)]
            done += len(member)
            for total, label in zip(sums, labels, strict=True):
                total += _sum_by_label(label, len(total), bins, pull)
        return Pulls(tables @ pull, *sums)

    def _references(self, rescored: Rescored, edges: Float, pull: Float) -> References:
        columns = rescored.columns
        member = self.member[:, columns]
        _, record_of = np.unique(self.clusters.records[columns], return_inverse=True)

        def placed(score: NDArray[np.floating], side: NDArray[np.bool_]) -> NDArray[np.intp]:
            return 2 * _thresholds_above(score, edges) + side

        before, known = placed(rescored.before, member), ~np.isnan(rescored.before)
        # Group, column, bin and sign of each score that comes with a group and of each that goes.
        moves: list[tuple[int, NDArray[np.intp], NDArray[np.intp], int]] = []
        for group, (left, rows, score) in enumerate(rescored.after):
            mine = np.isin(self.clusters.targets, left)
            moves.append((group, np.nonzero(known[mine])[1], before[mine][known[mine]], 1))
            old, new = before[rows], placed(score, member[rows])
            moved = known[rows] & ~np.isnan(score) & (old != new)
            column = np.nonzero(moved)[1]
            moves += [(group, column, old[moved], 1), (group, column, new[moved], -1)]
        sizes = [len(column) for _, column, _, _ in moves]
        groups, signs = (np.repeat([move[at] for move in moves], sizes) for at in (0, 3))
        column, bins = (np.concatenate([move[at] for move in moves]) for at in (1, 2))
        first = np.array([left[0] for left, _, _ in rescored.after])
        cell = self.clusters.cells[first[groups], self.clusters.records[columns[column]]]
        counts = len(rescored.after), int(record_of.max()) + 1, self.clusters.counts[2]
        labels = zip((groups, record_of[column], cell), counts, strict=True)
        whole = [_sum_by_label(label, count, bins, pull, signs) for label, count in labels]
        return References(Pulls(*whole), self.member.shape[1] / len(columns))

    def _blocks(self) -> Iterator[tuple[tuple[NDArray[np.intp], ...], NDArray[np.bool_]]]:
        """Labels and membership of the scored cells, some models at a time."""
        step = max(1, _CELLS // self.member.shape[1])
        for start in range(0, len(self.member), step):
            yield self._kept or self._labels(start, start + step)

    def _labels(
        self, start: int, stop: int
    ) -> tuple[tuple[NDArray[np.intp], ...], NDArray[np.bool_]]:
        """Cluster of each kind, and membership, of the scored cells of some models."""
        rows, columns = np.nonzero(self.scored[start:stop])
        rows += start
        target, record = self.clusters.targets[rows], self.clusters.records[columns]
        cell = self.clusters.cells[target, record]
        return (target, record, cell), self.member[rows, columns]


def _thresholds_above(score: NDArray[np.floating], edges: Float) -> NDArray[np.intp]:
    """Number of the ascending thresholds above each score, of the shape of `score`."""
    flat = np.ravel(score)
    order, above = np.argsort(flat), np.empty(len(flat), np.intp)
    ends = np.searchsorted(flat[order], edges, "left")
    numbers = np.arange(len(edges), -1, -1)
    above[order] = np.repeat(numbers, np.diff(ends, prepend=0, append=len(flat)))
    return above.reshape(score.shape)


def _sum_by_label(
    label: NDArray[np.integer],
    count: int,
    bins: NDArray[np.integer],
    pull: Float,
    weight: NDArray[np.integer] | None = None,
) -> Float:
    """(count, S) sums by label of the rows `bins` of `pull` (bins, S), without copying them."""
    from scipy.sparse import coo_array  # late: a command that measures nothing does not need it

    values = np.ones(len(bins)) if weight is None else weight.astype(np.float64)
    table = coo_array((values, (label, bins)), shape=(count, len(pull)))
    return np.asarray(table @ pull)


def _left_out(tables: NDArray[np.int64], fprs: Float) -> Float:
    """(targets, S) effect of each target on the AUC and the TPR at each FPR; 0 for a single one.

    Args:
        tables: (targets, 2 bins) scores of non-members and of members, from the highest bin down.
    """
    count, whole = len(tables), tables.sum(axis=0)
    above = np.cumsum((whole - tables).reshape(count, -1, 2), axis=1)
    shares = above / np.maximum(above[:, -1:], 1)
    fpr, tpr = np.moveaxis(np.pad(shares, ((0, 0), (1, 0), (0, 0))), 2, 0)
    without = [[np.trapezoid(y, x), *np.interp(fprs, x, y)] for x, y in zip(fpr, tpr, strict=True)]
    return np.asarray((np.mean(without, axis=0) - without) * (count - 1) / count)


def _accused(outside: Float, fprs: Float) -> Float:
    """(bins, F) share of each bin's scores that the threshold at each FPR accuses."""
    behind = (fprs - (np.cumsum(outside) - outside)[:, None]) / np.maximum(outside, 1e-300)[:, None]
    return np.clip(behind, 0.0, 1.0)


def _alarms_of_bins(counts: NDArray[np.int64], fprs: Float) -> Float:
    """(2 bins, F) contribution of a score to the false positive rate at each FPR's threshold."""
    size = max(int(counts[:, 0].sum()), 1)
    pull = np.zeros((len(counts), 2, len(fprs)))
    pull[:, 0] = (_accused(counts[:, 0] / size, fprs) - fprs) / size
    return pull.reshape(2 * len(counts), -1)


def _pulls_of_bins(counts: NDArray[np.int64], fprs: Float, errors: Float) -> Float:
    """(2 bins, S) what a further score adds to the AUC and to the TPR at each FPR, to first order.

    A move of the threshold at an FPR gains members at the mean slope of the curve within one
    standard error of that FPR, as far as the threshold moves from sample to sample, or within two
    where that is steeper: a jump of the curve as near as that may lie on the other side of the
    threshold. The pulls of all scores of a side sum to 0.

    Args:
        counts: (bins, 2) scores of non-members and of members, from the highest bin down.
        fprs: each in (0, 1).
        errors: (F,) standard error of the FPR of each threshold.
    """
    sizes = np.maximum(counts.sum(axis=0), 1)
    outside, inside = (counts / sizes).T
    pull = np.empty((len(counts), 2, 1 + len(fprs)))
    # P(a member lies higher) for each non-member's bin and the reverse, half of a tie.
    pull[:, 1, 0] = 1 - np.cumsum(outside) + outside / 2
    pull[:, 0, 0] = np.cumsum(inside) - inside / 2
    fpr, tpr = (np.append(0.0, np.cumsum(side)) for side in (outside, inside))
    reach = errors * _REACHES
    low, high = np.maximum(fprs - reach, 0.0), np.minimum(fprs + reach, 1.0)
    gain = np.interp(high, fpr, tpr) - np.interp(low, fpr, tpr)
    slope = (gain / np.maximum(high - low, 1e-300)).max(axis=0)
    pull[:, 1, 1:] = _accused(outside, fprs)
    pull[:, 0, 1:] = -slope * pull[:, 1, 1:]
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
    name: str = "two-way clustered (targets x records)",
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
