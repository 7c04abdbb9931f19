"""The optimal attacker of the stated threat model: how likely each record makes what is known.

The adversary knows c facts of a target. R of them are right: drawn without replacement from the
target's N facts, with the adversary's errors of value and time. The others are drawn like the
population. A record r with n facts holds a share s of its person's, so N = n / s. If h known facts
fit it, then up to a constant

    L(r) = prod over fitting facts [k(fact) / p(fact)] * P(h, R | n) / (1 - mass(r)) ** (c - R)
    P(h, R | n) = C(c - h, R - h) / C(c, R) * (N - n)_(R - h) / (N)_R

with (x)_j the falling factorial, k the error kernel, p(fact) the share of released facts that fit
it, and mass(r) the share of all facts that are about items of r, none of which can be wrong. Of
several facts of r about an item k is the sum: visits count by how often they were made. So a
fact that fits a person of 20 films says more than one that fits a person of 2,000.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln, logsumexp

from lethe.linkage.records.facts import Float, Index, Int, Known
from lethe.linkage.records.mitigations import Coarsened, Sheet
from lethe.linkage.records.scoreboard import NO_MATCH, Links, Pairs, pairs_of, parts_of

_IMPOSSIBLE = 30.0  # nats against what the stated sampling rules out: other adversaries exist
_ROUNDING = 1e-9
_MATRIX = 2**22  # cells of a table of original by released values; beyond, a window


@dataclass(frozen=True, eq=False)
class Blur:
    """What a mitigation did to the facts, as an adversary knows who has read how it works.

    Attributes:
        time: days by which released times may be off, drawn alike.
        value: by which released values may be off, at most.
        original: (V,) the original values, ascending; empty where values are as they were.
        chance: (V, W) share of the original values among the facts of each released one.
        shares: parts of a person's facts that are in a record, equally frequent ones.
    """

    time: float = 0.0
    value: float = 0.0
    original: Float = field(default_factory=lambda: np.zeros(0))
    chance: Float = field(default_factory=lambda: np.zeros((0, 0)))
    shares: tuple[float, ...] = (1.0,)


def blur_of(sheet: Sheet, release: Coarsened) -> Blur:
    """Measure how far a release differs from the original."""
    new, everything = release.sheet, slice(None)
    rows = everything if new.rows is None else new.rows
    held = np.bincount(new.person, minlength=len(release.out))
    share = held / np.maximum(np.bincount(sheet.person, minlength=sheet.people), 1)[release.owners]
    share = share[held > 0]
    shares = (1.0,)
    if (share < 1).any():
        shares = tuple(np.quantile(share, (0.125, 0.375, 0.625, 0.875)).tolist())
        shares = shares if shares[-1] > 2 * shares[0] else (float(share.mean()),)
    blur = Blur(shares=shares)
    if sheet.time is not None and new.time is not None and new.time is not sheet.time:
        moved = np.abs(new.time - sheet.time[rows])
        blur = replace(blur, time=float(moved.max(initial=0)))
    if sheet.value is None or new.value is None or new.value is sheet.value:
        return blur
    before = sheet.value[rows]
    if np.array_equal(before, new.value):
        return blur
    original, code = np.unique(before, return_inverse=True)
    table, written = np.unique(new.value, return_inverse=True)
    blur = replace(blur, value=float(np.abs(new.value - before).max()) * (1 + 1e-12))
    if len(original) * len(table) > _MATRIX:
        return blur
    count = np.bincount(code * len(table) + written, minlength=len(original) * len(table))
    chance = count.reshape(len(original), len(table))
    return replace(blur, original=original, chance=chance / chance.sum(axis=0))


@dataclass(frozen=True, eq=False)
class Sampling:
    """How the adversary's facts were drawn, and what was done to the release.

    Attributes:
        right: share of the known facts that are right.
        total: exactly ``right * total`` of so many facts are right, and what is known of a target
            is all or the first of them; None = each fact is right with chance `right`.
        errors: by which right values and times may be off, each drawn alike.
        apart: whether no wrong fact is about an item that the target has.
        countable: (M,) items that right facts may be about; None = all.
        closed: whether those looked for are so many of those released that the attacker also gives
            each record to one of them (``assigned``).
    """

    right: float = 0.75
    total: int | None = None
    errors: tuple[float, float] = (0.0, 0.0)
    apart: bool = False
    countable: NDArray[np.bool_] | None = None
    blur: Blur = Blur()
    closed: bool = False

    def wrong(self, known: Int) -> Float:
        """Wrong facts to expect among so many."""
        return np.asarray(known * (1 - self.right), dtype=np.float64)

    def near(self, facts: Index, known: Known, at: Int, place: Int) -> Float:
        """(pairs,) error kernel of known facts `at` and released facts `place`; 0 = do not fit."""
        near = np.ones(len(at))
        if facts.value is not None and known.value is not None:
            table, code = np.unique(known.value, return_inverse=True)  # NaN last
            near = self._near_values(table, facts.values)[code[at], facts.value[place]]
        when = facts.times_at(place)
        if when is not None and known.time is not None:
            # Two errors, each drawn alike, add up to a trapezoid.
            error, blur = self.errors[1], self.blur.time
            height = error + blur + 1 - np.abs(when - known.time[at])
            step = np.clip(height, 0.0, 2 * min(error, blur) + 1)
            near *= np.where(np.isnan(step), 1.0, step)
        return near

    def _near_values(self, known: Float, released: Float) -> Float:
        """(known, released) chance of a known value where another is released."""
        error, blur = self.errors[0], self.blur
        scale = blur.original if len(blur.original) else released
        window = error if len(blur.original) else error + blur.value
        near = (np.abs(known[:, None] - scale) <= window).astype(np.float64)
        spread = np.searchsorted(scale, scale + window, side="right")
        near /= spread - np.searchsorted(scale, scale - window, side="left")
        if len(blur.original):
            near = near @ blur.chance
        near[np.isnan(known)] = 1.0
        return near


@lru_cache(maxsize=16)
def _length_table(
    right: float, total: int | None, shares: tuple[float, ...], known: int, held: bytes
) -> Float:
    """(records, known + 1) log P(h | n): how well h fitting facts go with a record's length.

    Args:
        right: of `Sampling`, as is `total`; shares: of its blur.
        known: c, facts that are known of the target.
        held: (records,) n, facts that a right fact may be, as bytes: few are asked for again.
    """
    fits, n = np.arange(known + 1.0), np.frombuffer(held, np.int64)[:, None].astype(np.float64)
    share = float(np.mean(shares))
    none = np.log(max(1 - right * share, 1e-3))  # a fact is wrong, or elsewhere
    loose = fits * np.log(right) + (known - fits) * none
    loose = loose - _falling(np.maximum(n / share, fits), fits)
    if total is None:
        return np.asarray(loose, dtype=np.float64)
    whole = round(right * total)
    parts = [loose - _IMPOSSIBLE]
    for count in range(max(known - total + whole, 0), min(known, whole) + 1):
        # Of the first c of all facts so many are right (hypergeometric), these fit or are missing.
        missing = np.maximum(count - fits, 0.0)
        law = _choose(whole, count) + _choose(total - whole, known - count) - _choose(total, known)
        chosen = law + _choose(known - fits, missing) - _choose(known, count)
        chosen = np.where(fits > count, -np.inf, chosen - np.log(len(shares)))
        for share in shares:
            # At least as many facts are elsewhere as are right and missing.
            rest = np.zeros_like(n) if share == 1 else np.maximum(n / share - n, missing)
            able = (rest >= missing) & (n + rest >= count)
            drawn = _falling(rest, missing) - _falling(n + rest, count)
            parts.append(np.where(able, chosen + drawn, -np.inf))
    return np.asarray(np.logaddexp.reduce(parts), dtype=np.float64)


def _falling(x: Float | float, j: Float | float) -> Float:
    """Log of x (x - 1) ... (x - j + 1); x at least j."""
    x = np.asarray(x)
    return np.asarray(gammaln(x + 1) - gammaln(np.maximum(x - j, 0.0) + 1), dtype=np.float64)


def _choose(x: Float | float, j: Float | float) -> Float:
    return np.asarray(_falling(x, j) - gammaln(np.asarray(j) + 1.0), dtype=np.float64)


def read(
    facts: Index, known: Known, sampling: Sampling, *, hidden: tuple[Int, Int] | None = None
) -> dict[str, Links]:
    """Look for each target among all released records, by likelihood and by length alone.

    Args:
        known: what the adversary knows of each target.
        hidden: see `link`.

    Returns: By attacker, see `Links`; of records that are equally good one is drawn by lot, and
        stands out by 0. ``likelihood``: eccentricity is -log of the posterior chance of every
        other answer, that the target is not in the release included, in nats. ``fitting``: the
        shortest record that as many facts fit as are right, or most if none does; eccentricity is
        how much longer the next is, and 0 where more facts do not fit than may be wrong.
        ``assigned``, if closed: the records that are most likely for all targets at once, one each.
    """
    counted = facts.lengths(sampling.countable)
    names = ("likelihood", "fitting")
    best = {name: np.full(len(known), NO_MATCH) for name in names}
    ahead = {name: np.zeros(len(known)) for name in names}
    lot = np.random.default_rng(len(known)).random(len(known))
    length, code = np.unique(counted, return_inverse=True)
    free = np.log1p(-facts.mass)
    habits = _habits(facts, sampling) is not None
    if habits:
        # What a record has once stands for what it has not yet (Good, Biometrika 1953).
        single = facts.lead & np.append(facts.lead[1:], True)
        once = np.bincount(facts.person[single], minlength=facts.people)
        stated = sampling.right * (1 - (once + 0.5) / (facts.lengths() + 1.0))
        loss = np.log1p(-stated)
        gain = np.log(stated) - np.log(np.maximum(counted, 1)) - loss
    tables: dict[int, tuple[Float, Float]] = {}
    joint = np.full((len(known), facts.people) if sampling.closed else (0, 0), -np.inf)
    for part in parts_of(facts, known):
        pairs = pairs_of(facts, known, part, hidden)
        cell, fits, weight = _cells(facts, known, pairs, sampling)
        count = np.diff(pairs.held)
        # Cells ascend, so their targets are found without a division.
        edges = np.searchsorted(cell, np.arange(len(count) + 1) * facts.people)
        target = np.repeat(np.arange(len(count)), np.diff(edges))
        most = np.maximum(count - np.round(sampling.wrong(count)), 1)
        if sampling.total is not None and sampling.blur.shares == (1.0,):
            # Where a whole record holds all that is right, one that lacks some is impossible.
            full = (fits >= most[target]) & (count >= sampling.total)[target]
            kept = full | (np.bincount(target[full], minlength=len(count)) == 0)[target]
            target, cell, fits, weight = target[kept], cell[kept], fits[kept], weight[kept]
        record = cell - target * facts.people
        length_term, rest = np.empty(len(cell)), np.empty(len(count))
        if habits:
            length_term = fits * gain[record] + count[target] * loss[record]
            rest = np.logaddexp(logsumexp(count[:, None] * loss, axis=1), np.log(facts.people))
        for size in () if habits else np.unique(count).tolist():
            if size not in tables:
                table = _length_table(
                    sampling.right, sampling.total, sampling.blur.shares, size, length.tobytes()
                )
                tables[size] = table, logsumexp(table[code, 0])
            table, none = tables[size]
            mine = count[target] == size
            length_term[mine] = table[code[record[mine]], fits[mine]]
            rest[count == size] = np.logaddexp(none, np.log(facts.people))
        wrong = sampling.wrong(count)[target] if sampling.apart else 0.0
        score = weight + length_term - wrong * free[record]
        _stand(target, record, score, lot, part, best["likelihood"], ahead["likelihood"], rest)
        if sampling.closed:
            joint[part.start + target, record] = score
        # So many facts can be right that more of them fitting say nothing.
        scale = np.log1p(float(length.max(initial=0)))
        score = np.minimum(fits, most[target]) * (scale + 1) - np.log1p(counted[record])
        _stand(target, record, score, lot, part, best["fitting"], ahead["fitting"])
        enough = np.bincount(target, fits >= most[target], len(count)) > 0
        ahead["fitting"][part] *= enough
    if sampling.closed:
        best["assigned"], ahead["assigned"] = _assigned(joint), np.zeros(len(known))
    return {name: Links(best[name], ahead[name]) for name in best}


def _assigned(score: Float) -> Int:
    """(Q,) the record of each target, none twice, by the largest sum of (Q, N) scores."""
    there = np.isfinite(score)
    low = float(score[there].min(initial=0.0)) - 1e3
    ties = np.random.default_rng(len(score)).random(score.shape) * _ROUNDING
    target, record = linear_sum_assignment(np.where(there, score, low) + ties, maximize=True)
    best = np.full(len(score), NO_MATCH)
    best[target] = np.where(there[target, record], record, NO_MATCH)
    return best


def _habits(facts: Index, sampling: Sampling) -> float | None:
    """Share of the right facts that a record holds itself; None = habits say no more of the others.

    Where people have several facts about an item, known facts that a record does not hold, for it
    is a part or of another time (of an auxiliary table half are taken to be), are like its own.
    """
    if not facts.repeats or (sampling.total is not None and sampling.blur.shares == (1.0,)):
        return None
    return float(np.mean(sampling.blur.shares)) * (1.0 if sampling.total is not None else 0.5)


def _cells(facts: Index, known: Known, pairs: Pairs, sampling: Sampling) -> tuple[Int, Int, Float]:
    """Cells (target, record) that facts fit, how many, and their log likelihood ratio."""
    near = sampling.near(facts, known, pairs.fact, pairs.place)
    if sampling.countable is not None:
        near *= sampling.countable[known.item[pairs.fact]]
    near = pairs.over_repeats(near, np.add)
    whole = np.bincount(pairs.of, near)
    part = _habits(facts, sampling)
    if part is not None:
        # A fact that is elsewhere is about the items of the record, as often as the record has it.
        often = pairs.over_repeats(np.ones(len(pairs.place)), np.add)
        seen = np.bincount(pairs.of, often)
        when = np.divide(whole, seen, out=np.ones(len(seen)), where=whole > 0)
        near = part * near + (1 - part) * often * when[pairs.of]
        whole = np.bincount(pairs.of, near)
    fit = near > 0
    # What the target's item says and a fact does not fit cannot be: neither right nor wrong.
    weight = np.full(len(near), -_IMPOSSIBLE if sampling.apart else 0.0)
    share = near[fit] / whole[pairs.of[fit]]
    weight[fit] = np.log(facts.facts * share)
    fits = np.bincount(pairs.cell[fit], minlength=pairs.cells).astype(np.int64)
    cell = np.flatnonzero(fits).astype(np.int64)
    total = np.bincount(pairs.cell, weight, pairs.cells).astype(np.float64)
    return cell, fits[cell], total[cell]


def _stand(
    target: Int,
    record: Int,
    score: Float,
    lot: Float,
    part: slice,
    best: Int,
    ahead: Float,
    rest: Float | None = None,
) -> None:
    """Fill in the best record of the targets of a part and how far it stands out.

    Args:
        target: (cells,) ascending, of the part.
        rest: (targets,) log likelihood of all other answers together; None = the next counts.
    """
    if not len(target):
        return
    first = np.flatnonzero(np.diff(target, prepend=-1))
    who, size = target[first], np.diff(np.append(first, len(target)))
    top = np.repeat(np.maximum.reduceat(score, first), size)
    tied = score >= top - _ROUNDING * np.maximum(np.abs(top), 1.0)
    tie = np.add.reduceat(tied.astype(np.int64), first)
    # The k-th of those that are tied, k drawn by lot.
    rank = np.cumsum(tied)
    before = np.repeat(rank[first] - tied[first], size)
    drawn = np.repeat(np.floor(lot[part][who] * tie).astype(np.int64), size)
    winner = np.flatnonzero(tied & (rank - before == drawn + 1))
    best[part.start + who] = record[winner]
    others = score.copy()
    others[winner] = -np.inf
    high = top[first]
    if rest is None:
        gap = high - np.maximum(np.maximum.reduceat(others, first), 0.0)
    else:
        with np.errstate(divide="ignore"):
            odds = np.log(np.add.reduceat(np.exp(others - top), first))
        gap = np.logaddexp(0.0, -np.logaddexp(odds, rest[who] - high))
    ahead[part.start + who] = np.where(tie == 1, np.maximum(gap, 0.0), 0.0)
