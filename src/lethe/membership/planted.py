"""Twins of an audit: one without any leak, and ones with leaks of known size.

Models of the first know nothing of membership and must show nothing (`exchanged`, the null audit).
The others must show what was planted (`plants`): members answer with a higher one of the release's
own values than they would have, so that constant outputs, labels alone or an attack that reads
something else show their lack of power.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.risk import family_confidence
from lethe.evidence.roc import auc_of, rate_at, roc
from lethe.evidence.rules import Rule
from lethe.evidence.sight import Plant
from lethe.membership.attacks.lira import shared_part
from lethe.membership.exposure import expose
from lethe.membership.measure import AttackRates, Meter
from lethe.membership.scoring import cells_to_score, score
from lethe.training.shadows import Shadows

Float = NDArray[np.float64]

MANY, FEW = "many members a little", "few members fully"
ODDS = (1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 35.0, 75.0, 200.0)
"""Draws of which a member has the largest: TPR 1 - (1 - f)^k at FPR f, AUC k / (k + 1)."""
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Shares of the records whose members have the largest of `_FULLY` draws."""
_FULLY = 500.0
_CELLS = 1 << 16  # of the part of a large audit that is planted
_PART = 32  # so many times as many cells as are used, where there are more than `_CELLS`
_FEWEST_RECORDS = 200
_FEWEST_FRAMED = 100  # records, from which on what sets whole models apart can be told


def exchanged(shadows: Shadows, seed: int) -> Shadows:
    """Exchange membership at random, so that answers do not depend on it.

    Within each complementary pair a coin for every record decides which model is said to have
    trained on it, where the two differ; without pairs a record's membership is shuffled over the
    models, of one model over the records. Models answer as they did, so that a record, its
    neighbours and the population stay as one training left them: exchanged answers would not, and
    an attack that compares a record with the population would be below chance.
    """
    rng = np.random.default_rng([seed, 7])
    members = shadows.members
    if shadows.alone:
        return replace(shadows, members=members[:, rng.permutation(shadows.records)])
    partner = shadows.partner
    if (partner >= 0).all():
        members = members.copy()
        for model in np.flatnonzero(partner > np.arange(len(partner))):
            other = partner[model]
            swap = (rng.random(shadows.records) < 0.5) & (members[model] != members[other])
            members[model] ^= swap
            members[other] ^= swap
    else:
        members = rng.permuted(members, axis=0)
    return replace(shadows, members=members)


def part_of(shadows: Shadows, seed: int, most: int) -> Shadows:
    """A sample of records, of whole persons, that is quick to score repeatedly.

    Args:
        most: cells to keep of small audits; of large ones 1/32, and never below 200 records.
    """
    cells = max(most, shadows.signals.size // _PART)
    wanted = max(_FEWEST_RECORDS, cells // shadows.models)
    if shadows.records <= wanted:
        return shadows
    _, person, sizes = np.unique(shadows.people, return_inverse=True, return_counts=True)
    order = np.random.default_rng([seed, 29]).permutation(len(sizes))
    kept = order[: max(2, int(np.searchsorted(np.cumsum(sizes[order]), wanted)))]
    return shadows.of_records(np.flatnonzero(np.isin(person, kept)))


class Values:
    """Draws values that models give to records outside their training set.

    A record keeps its own level and spread (of one model alone: those of its class); each model
    keeps its level, its scale and whatever moves many records together, so that an attack which
    these blind is blind here too. The shape of the residuals is that of all records, and every draw
    is moved to the nearest value that the models emit.

    Args:
        shadows: reference models, or one model alone.
    """

    def __init__(self, shadows: Shadows) -> None:
        level, scale = _frame(shadows.signals)
        signals, outside = (shadows.signals - level) / scale, ~shadows.members
        signals -= _shared(signals)
        alike = np.arange(shadows.records)  # whose values are a record's own
        if shadows.alone:
            labels = np.zeros(shadows.records) if shadows.labels is None else shadows.labels
            alike = np.unique(labels, return_inverse=True)[1]
        count = np.bincount(alike, outside.sum(axis=0))[alike]
        with np.errstate(invalid="ignore", divide="ignore"):
            total = np.where(outside, signals, 0.0).sum(axis=0)
            self.mean = np.bincount(alike, total)[alike] / count
            residual = np.where(outside, signals - self.mean, 0.0)
            squares = np.bincount(alike, (residual**2).sum(axis=0))[alike]
            # Of a record with two values or more; the others have the usual spread.
            self.sd = np.sqrt(squares / (count - 1))
        usual = float(np.nanmean(self.sd)) if np.isfinite(self.sd).any() else 0.0
        self.sd = np.where(count > 1, self.sd, usual)
        self.mean = np.where(count > 0, self.mean, signals.mean(axis=0))
        spread = outside & (self.sd > 0)
        cells = (residual / np.where(self.sd > 0, self.sd, 1.0))[spread]
        self._residuals = np.sort(cells) if len(cells) else np.zeros(1)
        self._emitted = np.sort(shadows.signals, axis=None).astype(np.float64)
        self._order = None if shadows.correct is None else np.argsort(shadows.signals, axis=None)
        self._correct = shadows.correct
        self._framed: tuple[NDArray[np.floating], Float, Float, Float] | None = None

    def at(
        self, rank: Float, signals: NDArray[np.floating]
    ) -> tuple[Float, NDArray[np.bool_] | None]:
        """Values of each record at ranks in [0, 1), and whether they belong to right answers.

        Args:
            rank: (T, N), 0 = the record's lowest value, towards 1 = its highest.
            signals: (T, N) of the models that answer, which keep what sets them apart.
        """
        # Between two neighbours in order; `interp` would search for each place, ten times as long.
        last = len(self._residuals) - 1
        lower = np.minimum((rank * last).astype(np.intp), last - 1)
        below, above = self._residuals[lower], self._residuals[lower + 1]
        residual = (above - below) * (rank * last - lower) + below
        if self._framed is None or self._framed[0] is not signals:  # a twin a size, of the same
            level, scale = _frame(signals)
            self._framed = signals, level, scale, _shared((signals - level) / scale)
        _, level, scale, shared = self._framed
        wanted = level + scale * (shared + self.mean + self.sd * residual)
        # Values in order are found in half the time of values as they come.
        order, place = np.argsort(wanted, axis=None), np.empty(wanted.size, np.intp)
        place[order] = np.searchsorted(self._emitted, wanted.ravel()[order])
        place = place.reshape(wanted.shape).clip(0, len(self._emitted) - 1)
        lower = np.maximum(place - 1, 0)
        nearer = wanted - self._emitted[lower] < self._emitted[place] - wanted
        place = np.where(nearer, lower, place)
        if self._correct is None or self._order is None:
            return self._emitted[place], None
        return self._emitted[place], self._correct.ravel()[self._order[place]]


def _frame(signals: NDArray[np.floating]) -> tuple[Float, Float]:
    """(K, 1) level and scale of each model: median, and deviation without the outer 1 % of a side.

    Where most answers are tied the median is their value, so that ties stay ties. 0 and 1 of few
    records, whose own membership would move them.
    """
    if signals.shape[1] < _FEWEST_FRAMED:
        return np.zeros((len(signals), 1)), np.ones((len(signals), 1))
    ends = np.quantile(signals, (0.01, 0.99), axis=1, keepdims=True)
    kept = signals.clip(*ends).astype(np.float64)
    scale = kept.std(axis=1, keepdims=True)
    return np.median(kept, axis=1, keepdims=True), np.where(scale > 0, scale, 1.0)


def _shared(table: Float) -> Float:
    """`shared_part`, of records that vary: the others stay as they are; 0 of few records."""
    if table.shape[1] < _FEWEST_FRAMED:
        return np.zeros(table.shape)
    return np.where(np.ptp(table, axis=0) > 0, shared_part(table), 0.0)


def twin(shadows: Shadows, values: Values, chosen: Float, seed: int) -> tuple[Shadows, Float]:
    """Plant a leak; returns the models, and how surely each answer reveals membership.

    Args:
        shadows: the models that carry the leak, references or targets.
        values: of the reference models.
        chosen: (N,) draws of which a member's answer is the largest, 1 = no leak.
        seed: of the draws.

    Returns:
        The twin, and (T, N) the rank of each answer among what the record would get without a
        leak, the mean over equal answers of a record: the score of an attacker who knows these.
    """
    rng = np.random.default_rng([seed, 23])
    rank = rng.random(shadows.signals.shape)
    rank = np.where(shadows.members, rank ** (1 / chosen), rank)
    signal, correct = values.at(rank, shadows.signals)
    moved = signal.astype(np.float32)
    queries = None
    if shadows.queries is not None:
        queries = shadows.queries + (moved - shadows.signals)[:, :, None]
    copy = replace(shadows, signals=moved, queries=queries)
    if correct is not None:
        copy = replace(copy, correct=correct)
    if shadows.alone:  # equal answers of the model, whatever the record
        return copy, _mean_over_ties(rank.T, moved.T).T
    return copy, _mean_over_ties(rank, moved)


def _mean_over_ties(rank: Float, value: NDArray[np.float32]) -> Float:
    """(T, N) mean rank of all answers equal to each answer, by record."""
    means = np.empty(rank.shape)
    order = np.argsort(value, axis=0, kind="stable")
    ordered = np.take_along_axis(value, order, 0)
    fresh = np.ones(value.shape, bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    group = (np.cumsum(fresh.T.ravel()) - 1).reshape(value.T.shape).T
    ranks = np.take_along_axis(rank, order, 0)
    size = np.bincount(group.ravel())
    mean = np.bincount(group.ravel(), ranks.ravel()) / size
    np.put_along_axis(means, order, mean[group], 0)
    return means


def leaks(
    size: int, order: NDArray[np.intp], odds: Sequence[float], shares: Sequence[float]
) -> list[tuple[str, Float]]:
    """Kinds and sizes of leaks: (size,) draws of which a member has the largest, 1 = no leak.

    Args:
        order: in which they are chosen where few leak fully.
        shares: of these.
    """
    listed = [(MANY, np.full(size, draws)) for draws in odds]
    for share in shares:
        chosen = np.ones(size)
        chosen[order[: max(1, round(share * len(order)))]] = _FULLY
        listed.append((FEW, chosen))
    return listed


def plants(
    shadows: Shadows,
    targets: Shadows | None,
    names: Sequence[str],
    fprs: Sequence[float],
    confidence: float,
    family: int,
    variance: str = "auto",
    seed: int = 0,
) -> list[Plant]:
    """Plant leaks of known sizes into the audit's own values, and measure its attacks on them.

    Args:
        shadows: the reference models.
        targets: models that are attacked, where these are not the reference models in turn.
        names: of the attacks to run; the strongest result counts.
        fprs: rates to read.
        confidence: of the audit.
        family: results whose limits hold at once, as of the audit.

    Returns: One entry a size and kind; none where nothing can be scored.
    """
    whole = len(np.unique(shadows.people))
    part = part_of(shadows, seed, _CELLS)
    part = replace(part, copied=part.people)  # of the twins they are the same
    share = len(np.unique(part.people)) / whole
    attacked = part
    if targets is not None:
        attacked = targets.of_records(np.flatnonzero(np.isin(targets.ids, part.ids)))
    values, level = Values(part), family_confidence(confidence, family)
    order = np.random.default_rng([seed, 37]).permutation(part.records)
    listed, meter = [], None
    for place, (kind, chosen) in enumerate(leaks(part.records, order, ODDS, SHARES)):
        models, oracle = twin(part, values, chosen, seed)
        victims = models
        if targets is not None:
            victims, oracle = twin(attacked, values, chosen, seed + 1)
        scores = score(models, names, variance, seed, targets=targets and victims)
        scored = cells_to_score(models, targets and victims, seed)
        if meter is None:
            meter = Meter(victims.members, victims.pairs, victims.people, scored)
        best: dict[str, Estimate] = {}
        for name in names:
            read = meter.rates(name, scores[name][scored], fprs, level, share=share)
            keep_strongest(best, read)
        known = roc(victims.members[scored], oracle[scored])
        leak = {"auc": auc_of(known)}
        for quantity in best:
            if quantity.startswith("tpr@"):
                leak[quantity] = rate_at(known, float(quantity.removeprefix("tpr@"))).tpr
        # Of t-scores half of the sizes will do.
        exposed = None if place % 2 else expose(models, confidence=confidence)
        if exposed is not None and isinstance(exposed.top_t, Estimate):
            best["top-t"] = exposed.top_t
            carriers = exposed.all_models.t[chosen > 1]
            carriers = carriers[np.isfinite(carriers)]
            leak["top-t"] = float(carriers.mean()) if len(carriers) else 0.0
        listed.append(Plant(kind, leak, best))
    return listed


def keep_strongest(best: dict[str, Estimate], read: AttackRates) -> None:
    """Put each number of an attack that was measured in the place of one with a lower limit."""
    listed = {"auc": read.auc} | {Rule("tpr", fpr, 0.0).quantity: r for fpr, r in read.tpr.items()}
    for quantity, estimate in listed.items():
        if isinstance(estimate, Refusal):
            continue
        if quantity not in best or (best[quantity].low or 0.0) < (estimate.low or 0.0):
            best[quantity] = estimate
