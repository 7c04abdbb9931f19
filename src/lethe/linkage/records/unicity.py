"""How few facts single a person out: drawn at random, and at worst those that give most away.

The attacks with points of De Montjoye et al. 2013, drawn (`people_fitting`) or in the worst case
over all sets of k points (`worst_case`), as in Pellungrini et al., "A Data Mining Approach to
Assess Privacy Risk in Human Mobility Data", ACM TIST 2018.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clopper_pearson
from lethe.linkage.codes import Int
from lethe.linkage.records.facts import Index, Known, facts_of

LIMIT = 50_000_000  # cells of person and item looked at for one person
_LOOK = 5_000  # what a step costs even where nobody is left, in cells


def people_fitting(facts: Index, known: Known) -> Int:
    """(Q,) released people who have all of a target's facts: 1 = the facts single it out.

    De Montjoye et al., "Unique in the Crowd", 2013, for items drawn at random.

    Args:
        known: right facts of each target, at least one each; values and times are not looked at.
    """
    facts = facts.distinct
    return np.array([_fitting(facts, known.item[span]) for span in known.spans()])


def _fitting(facts: Index, items: Int) -> int:
    """Count the people who have all items."""
    if items.min() < 0:
        return 0
    # The rarest item first: the lists that follow are searched for a few people only.
    first, *others = items[np.argsort(facts.support[items], kind="stable")]
    left = facts.person[facts.start[first] : facts.start[first + 1]]
    for item in others:
        held = facts.person[facts.start[item] : facts.start[item + 1]]
        left = left[_among(held, left)]
    return len(left)


@dataclass(frozen=True, eq=False)
class WorstCase:
    """The fewest items that only one released person has together.

    Attributes:
        needed: (Q,) the smallest number of a person's items that nobody else has all of; 0 = no
            set that was searched.
        searched: (Q,) up to how many items all sets are settled; below `most` where the limit of
            work was reached first.
        unique: by k, share of people who are alone with some k of their items, for people drawn
            at random. The lower limit takes those not settled for not unique, the upper one for
            unique.
    """

    needed: Int
    searched: Int
    unique: dict[int, Estimate]


def worst_case(
    facts: Index,
    people: ArrayLike,
    most: int = 4,
    *,
    limit: int = LIMIT,
    confidence: float = 0.95,
) -> WorstCase:
    """Search, for each person, the smallest set of their items that nobody else has.

    Values and times are not looked at: an adversary who knows them too needs fewer items still.

    Args:
        most: largest set, at least 1.
        limit: work for one person, in cells of person and item; at 0 only single items are tried.

    >>> from lethe.linkage.records.facts import index_facts
    >>> found = worst_case(index_facts([0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 0, 2]), [0, 1, 2])
    >>> found.needed.tolist()  # any two items name a person, none alone does
    [2, 2, 2]
    """
    who, facts = np.asarray(people), facts.distinct
    known = facts_of(facts, who)
    spans = zip(known.start[:-1].tolist(), known.start[1:].tolist(), strict=True)
    support = facts.support
    sizes = np.array(
        [
            _fewest(facts, support, int(person), known.item[first:last], most, limit)
            for person, (first, last) in zip(who, spans, strict=True)
        ]
    )
    needed, searched = sizes.T
    unique = {}
    for k in range(1, most + 1):
        sure = int(((needed > 0) & (needed <= k)).sum())
        open_ = int(((needed == 0) & (searched < k)).sum())
        low = clopper_pearson(sure, len(who), confidence)
        high = clopper_pearson(sure + open_, len(who), confidence).high
        unique[k] = Estimate(low.value, low.low, high, confidence, low.method, len(who))
    return WorstCase(needed, searched, unique)


def _fewest(
    facts: Index, support: Int, person: int, items: Int, most: int, limit: int
) -> tuple[int, int]:
    """Fewest items, 0 = not found, and up to how many the search is complete."""
    items = items[np.argsort(support[items], kind="stable")]  # the rarest first
    if support[items[0]] == 1:
        return 1, most
    if most == 1:
        return 0, 1
    others = []
    for item in items.tolist():
        held = facts.person[facts.start[item] : facts.start[item + 1]]
        others.append(held[held != person])
    overlap = np.bincount(np.concatenate(others), minlength=facts.people)
    if overlap.max() == len(items):
        return 0, most  # a person has them all
    left = limit
    for k in range(2, min(most, len(items)) + 1):
        subset, left = _some_set(others, overlap, k, left)
        if subset:
            return k, most
        if left < 0:
            return 0, k - 1
    return 0, most


def _some_set(others: list[NDArray[np.int32]], overlap: Int, k: int, left: int) -> tuple[bool, int]:
    """Whether k items shake off everybody else, and the work that is left; below 0 = given up.

    Who shares most is shaken off by one of the few items they lack, so only these are tried; an
    item that was tried is not taken again.
    """
    size = len(others)
    there = np.zeros(len(overlap), bool)
    holds = np.repeat(np.arange(size), [len(having) for having in others])
    holds = holds[np.concatenate(others) == np.argmax(overlap)]
    lacking = np.setdiff1d(np.arange(size), holds).tolist()
    allowed = np.ones(size, bool)
    for item in lacking:
        people = others[item]
        people = people[np.argsort(-overlap[people], kind="stable")]  # who shares most first
        left -= size * len(people) + _LOOK
        if left < 0:
            return False, left
        held = np.zeros((size, len(people)), bool)
        for at, having in enumerate(others):
            if len(people) * 32 < len(having):
                held[at] = _among(having, people)
            else:
                there[having] = True
                held[at] = there[people]
                there[having] = False
        subset, left = _shaken_off(held, allowed.copy(), k - 1, left)
        if subset or left < 0:
            return subset, left
        allowed[item] = False
    return False, left


def _shaken_off(
    held: NDArray[np.bool_], allowed: NDArray[np.bool_], k: int, left: int
) -> tuple[bool, int]:
    """Whether k allowed items have no person in common, of the people in `held` (items, people)."""
    todo = [(np.arange(held.shape[1]), allowed, k)]
    while todo:
        people, free, more = todo.pop()
        left -= held.shape[0] * len(people) + _LOOK
        if left < 0:
            return False, left
        if more == 1 or not len(people):
            if (free & ~held[:, people].any(axis=1)).any():
                return True, left
            continue
        later = []
        for item in np.flatnonzero(free & ~held[:, people[0]]):
            later.append((people[held[item, people]], free.copy(), more - 1))
            free[item] = False
        todo += later[::-1]
    return False, left


def _among(held: NDArray[Any], people: ArrayLike) -> NDArray[np.bool_]:
    """Whether each of some people is among ascending ones, of whom there is one at least."""
    place = np.minimum(np.searchsorted(held, people), len(held) - 1)
    return np.asarray(held[place] == people)
