"""Scoreboard-RH: how well every released record fits a few known facts.

Narayanan and Shmatikov, "Robust De-anonymization of Large Sparse Datasets", IEEE S&P 2008.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Refusal
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.of_rows import FactsKnown, Point
from lethe.linkage.records.facts import Float, Index, Int, Known

NO_MATCH = -1
_CELLS = 2**21  # scores and similarities held at once


@dataclass(frozen=True)
class Scoreboard:
    """How Scoreboard-RH scores records. The defaults are those of the paper's attack on ratings.

    The sum over the known items of weight x similarity, with weight 1 / log(1 + |supp(i)|), 0 for
    an item that nobody has, and similarity exp(-|value difference| / value_scale) + exp(-|time
    difference| / time_scale). What the adversary does not know is left out; of an item of which
    nothing but its presence is known the similarity is 1.

    Attributes:
        value_scale: rho0 of the paper, > 0.
        time_scale: d0 of the paper, in steps of the release, > 0.
    """

    value_scale: float = 1.5
    time_scale: float = 30.0


RH = Scoreboard()


@dataclass(frozen=True, eq=False)
class Links:
    """The best record for each target, and how far it stands out.

    Attributes:
        eccentricity: (Q,) of Scoreboard-RH (highest - second) / deviation over all N records,
            zeros included; 0 where several share the highest, and where all scores are equal.
    """

    best: Int  # (Q,) the record of the highest score; NO_MATCH (-1) where several share it
    eccentricity: Float

    def matched(self, phi: float = 1.5) -> Int:
        """(Q,) the best record where its eccentricity is at least `phi`, else NO_MATCH."""
        return np.where((self.best >= 0) & (self.eccentricity >= phi), self.best, NO_MATCH)


def joined(parts: Sequence[Links]) -> Links:
    """Several linkages as one; their releases may differ by a few people."""
    best, ahead = ([getattr(part, key) for part in parts] for key in ("best", "eccentricity"))
    return Links(np.concatenate(best), np.concatenate(ahead))


def link(
    facts: Index,
    known: Known,
    board: Scoreboard = RH,
    *,
    hidden: tuple[Int, Int] | None = None,
) -> Links:
    """Look for each target among all released records.

    Args:
        known: what the adversary knows of each target.
        hidden: (Q,) the person of each target and (N,) the person behind each record: the target's
            own records are then as empty as if they were a person's who shares no item; None =
            nothing is hidden.
    """
    return joined(
        [
            _standing(_table(facts, known, pairs_of(facts, known, part, hidden), board))
            for part in parts_of(facts, known)
        ]
    )


def _standing(table: Float) -> Links:
    """Link each row of scores to its best record, with how far that is ahead."""
    targets = np.arange(len(table))
    deviation, best = table.std(axis=1), table.argmax(axis=1)
    top = table[targets, best]
    rest = table.copy()
    rest[targets, best] = -np.inf
    second = rest.max(axis=1)
    alone = top - second > 64 * np.finfo(np.float64).eps * np.abs(top)
    ahead = np.divide(top - second, deviation, out=np.zeros(len(top)), where=alone)
    return Links(np.where(alone, best, NO_MATCH), ahead)


def parts_of(facts: Index, known: Known) -> list[slice]:
    """Targets that are scored at once, so that neither scores nor similarities outgrow memory."""
    if not len(known):
        return [slice(0, 0)]
    support = np.where(known.item >= 0, facts.support[known.item], 0)
    held = np.concatenate([[0], np.cumsum(support)])[known.start]
    cost = held + np.arange(len(known) + 1) * facts.people
    parts, first = [], 0
    while first < len(known):
        last = int(np.searchsorted(cost, cost[first] + _CELLS, side="right")) - 1
        parts.append(slice(first, max(last, first + 1)))
        first = parts[-1].stop
    return parts


@dataclass(frozen=True, eq=False)
class Pairs:
    """Known facts of some targets beside the released facts about the same items.

    Attributes:
        fact: (pairs,) place of the known fact.
        place: (pairs,) place of the released fact.
        cell: (fits,) target of the part times N, and the record: one for each known fact and
            record, whose facts about the item follow each other among the pairs.
        first: (fits,) where they begin; None = one pair each.
        cells: targets of the part times N.
        held: (facts + 1,) known facts of the part by target, where each begins.
    """

    fact: Int
    place: Int
    cell: Int
    cells: int
    held: Int
    first: Int | None = None

    @property
    def of(self) -> Int:
        """(fits,) place of the known fact among those of the part."""
        fact = self.fact if self.first is None else self.fact[self.first]
        return np.asarray(fact - self.held[0])

    def over_repeats(self, of_pairs: Float, how: np.ufunc) -> Float:
        """(fits,) the sum, or the largest, over a record's facts about one item."""
        if self.first is None or not len(self.first):
            return of_pairs
        return np.asarray(how.reduceat(of_pairs, self.first), dtype=np.float64)


def pairs_of(
    facts: Index, known: Known, part: slice, hidden: tuple[Int, Int] | None = None
) -> Pairs:
    """Pairs of some targets; see `link` for what is hidden."""
    start = known.start[part.start : part.stop + 1]
    span = np.arange(start[0], start[-1])
    targets = len(start) - 1
    owner = np.repeat(np.arange(targets), np.diff(start))
    item = known.item[span]
    support = np.where(item >= 0, facts.support[item], 0)  # an item that nobody has adds nothing
    ends = np.cumsum(support)
    of_fact = np.repeat(np.arange(len(span)), support)
    inside = np.arange(len(of_fact)) - np.repeat(ends - support, support)
    place = np.repeat(facts.start[item], support) + inside
    if hidden is not None:
        seen = hidden[1][facts.person[place]] != hidden[0][part][owner[of_fact]]
        of_fact, place = of_fact[seen], place[seen]
    cell = owner[of_fact] * facts.people + facts.person[place]
    first = None
    if facts.repeats:
        fact_changes = np.diff(of_fact, prepend=-1) != 0
        first = np.flatnonzero(fact_changes | (np.diff(cell, prepend=-1) != 0))
        cell = cell[first]
    return Pairs(span[of_fact], place, cell, targets * facts.people, start, first)


def _table(facts: Index, known: Known, pairs: Pairs, board: Scoreboard) -> Float:
    """(targets, N) scores of every record for some targets."""
    columns = (
        (facts.values_at(pairs.place), known.value, board.value_scale),
        (facts.times_at(pairs.place), known.time, board.time_scale),
    )
    both, none = np.zeros(len(pairs.fact)), np.ones(len(pairs.fact), bool)
    for released, stated, scale in columns:
        if released is None or stated is None:
            continue
        gap = released - stated[pairs.fact]
        there = ~np.isnan(gap)
        both += np.where(there, np.exp(-np.abs(gap) / scale), 0.0)
        none &= ~there
    like = pairs.over_repeats(np.where(none, 1.0, both), np.maximum)
    weight = 1 / np.log1p(np.maximum(np.bincount(pairs.of), 1))
    total = np.bincount(pairs.cell, like * weight[pairs.of], pairs.cells).astype(np.float64)
    return total.reshape(-1, facts.people)


# What a linkage comes to: recall, precision and abstention, apart, at every threshold.

PHIS = (0.0, 0.13, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)


def thresholds(phi: float | None) -> list[float]:
    """Thresholds at which a linkage is shown, the one of the audit included."""
    return sorted({*PHIS, *([] if phi is None else [phi])})


def curve(
    links: Links, true: ArrayLike, phis: Sequence[float] = PHIS, confidence: float = 0.95
) -> list[Point]:
    """Count right, wrong and missing answers at each threshold.

    Intervals are exact (Clopper-Pearson), for targets drawn at random and one threshold at a time.

    Args:
        true: (Q,) record of each target; -1 for people who are not in the release.
        phis: thresholds, each at least 0.

    Raises NotMeasurable: no target is in the release.
    """
    truth = np.asarray(true)
    inside = truth >= 0
    released, strangers = int(inside.sum()), int((~inside).sum())
    if not released:
        raise NotMeasurable("recall needs at least 1 target who is in the release, got 0.")
    points = []
    for phi in phis:
        named = links.matched(phi)
        answered = named >= 0
        right = int((named == truth)[inside].sum())
        answers, strange = int(answered.sum()), int(answered[~inside].sum())
        points.append(
            Point(
                phi,
                clopper_pearson(right, released, confidence),
                clopper_pearson(right, answers, confidence)
                if answers
                else Refusal(f"no target has an eccentricity of {phi:g}: nothing was answered."),
                clopper_pearson(released - (answers - strange), released, confidence),
                clopper_pearson(answers - strange - right, released, confidence),
                clopper_pearson(strange, strangers, confidence)
                if strangers
                else Refusal("no target was outside the release."),
            )
        )
    return points


@dataclass(frozen=True, eq=False)
class FactsNeeded(FactsKnown):
    """How many facts identify a person.

    Attributes:
        needed: (Q,) the smallest m from which on the own record is named with every further fact;
            0 = not with all facts that are known.
    """

    keys: ClassVar = {"needed": ""}
    needed: Int


def facts_needed(
    facts: Index,
    known: Known,
    true: NDArray[np.int64],
    look: Callable[[Known], Int] | None = None,
    *,
    confidence: float = 0.95,
) -> FactsNeeded:
    """Give the adversary one fact after the other, in the order of `known`.

    Args:
        known: the same number of facts, at least 1, for each target.
        true: (Q,) record of each target, all released.
        look: names a record for each target; Scoreboard-RH's best guess by default.
    """
    most = int(known.start[1])
    # One target for each number of facts: the first m of them.
    part = known.take([span[:m] for span in known.spans() for m in range(1, most + 1)])
    best = link(facts, part).best if look is None else look(part)
    named = best.reshape(-1, most) == np.asarray(true)[:, None]
    # Reversed, the run of names up to the last fact.
    lasting = np.cumprod(named[:, ::-1], axis=1).sum(axis=1)
    shares = {
        m: clopper_pearson(int(named[:, m - 1].sum()), len(known), confidence)
        for m in range(1, most + 1)
    }
    half = next(
        (m for m, share in shares.items() if share.value is not None and share.value >= 0.5), None
    )
    return FactsNeeded(shares, half, np.where(lasting > 0, most - lasting + 1, 0))
