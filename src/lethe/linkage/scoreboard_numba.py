"""Scoreboard-RH over the people who share an item with the target only (extra `fast`).

Everybody else has the score 0, so their number is all that the deviation and the entropy need.
Similarities come from tables, so no exponential is taken of a fact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lethe.linkage.facts import Facts, Float, Int, Known
from lethe.training.jit import INSTALLED, compiled

Near = Callable[[Float], Float]
_LONGEST = 2**22  # steps in a table of decays
_ROUNDING = 64 * np.finfo(np.float64).eps
NO_ONE = -1


def _gather_python(
    item: Any,
    start: Any,
    person: Any,
    values: Any,
    near_value: Any,
    times: Any,
    when: Any,
    decay: Any,
    share: Any,
    total: Any,
    touched: Any,
    scores: Any,
) -> int:
    """Scores of all people who share an item with one target; returns how many there are.

    `item` are the released items that are known, `near_value` (facts, V) their similarities times
    the item's weight, `when` (facts,) whole steps after the origin, `decay` the similarity by
    their difference, `share` (facts,) the item's weight for it; without `values` or `times` these
    are not looked at. `total` (people,) is 0 everywhere, before and after. `touched` and `scores`
    (people + 1,) are filled from the front.
    """
    count, with_values, with_times = 0, len(values) > 0, len(times) > 0
    for fact in range(len(item)):
        first, last = np.uint64(start[item[fact]]), np.uint64(start[item[fact] + 1])
        weight, then, near_of = share[fact], when[fact], near_value[fact]
        for at in range(first, last):
            near = 0.0
            if with_values:
                near += near_of[values[at]]
            if with_times:
                near += weight * decay[np.uint64(abs(np.int64(times[at]) - then))]
            who = np.uint32(person[at])  # unsigned: no index counts from the end
            before = total[who]
            touched[count] = who
            # Without a branch, which could not be foreseen; a similarity of 0 adds nobody.
            count += (before == 0.0) & (near > 0.0)
            total[who] = before + near
    for at in range(count):
        scores[at] = total[touched[at]]
        total[touched[at]] = 0.0
    return count


def _judge(scores: Float, touched: Any, people: int, own: float | None, entropy: bool) -> Float:
    """(5,) best, eccentricity, deviation, entropy, surprise; who is not in `scores` has 0."""
    rest = people - len(scores)
    found = np.full(5, np.nan)
    at = int(np.argmax(scores)) if len(scores) else -1
    top = float(scores[at]) if len(scores) else 0.0
    second = 0.0 if rest else -np.inf
    if len(scores):
        second = max(second, scores[:at].max(initial=second), scores[at + 1 :].max(initial=second))
    mean = float(scores.sum()) / people
    off = scores - mean
    deviation = float(np.sqrt((np.dot(off, off) + rest * mean * mean) / people))
    found[:3] = NO_ONE, 0.0, deviation
    if top - second > _ROUNDING * abs(top):
        found[:2] = touched[at], (top - second) / deviation
    if not entropy:
        return found
    if deviation <= _ROUNDING * abs(top):
        found[3:] = np.log2(people), np.nan if own is None else np.log2(people)
        return found
    away = (scores - top) / deviation
    low = -top / deviation
    parts, none = np.exp(away), rest * np.exp(low)
    whole = float(parts.sum()) + none
    tilted = float(np.dot(parts, away)) + none * low
    found[3] = max(0.0, np.log2(whole) - tilted / whole / np.log(2.0))
    if own is not None:
        found[4] = np.log2(whole) - (own - top) / deviation / np.log(2.0)
    return found


def fits(facts: Facts, known: Known) -> bool:
    """Whether the fast way can be taken: numba is there, and every value and time is known.

    Times must be whole steps not too far away; facts of which only the item is known, or the
    value or the time of some, are left to NumPy.
    """
    if not INSTALLED or not len(known.item):
        return False
    used = [
        column
        for kept, column in ((facts.value, known.value), (facts.time, known.time))
        if kept is not None and column is not None
    ]
    if not used or any(np.isnan(column).any() for column in used):
        return False
    if facts.time is None or known.time is None:
        return True
    whole = bool((known.time == np.floor(known.time)).all())
    return whole and _reach(facts, known.time) < _LONGEST


def judge_all(
    facts: Facts, known: Known, near_value: Near, near_time: Near, true: Int, entropy: bool
) -> Float:
    """(5, Q) best, eccentricity, deviation, entropy and surprise of every target.

    Args:
        facts: the release.
        known: what is known, see `fits`.
        near_value: similarity by difference of values.
        near_time: similarity by difference of times.
        true: (Q,) record of each target, -1 = none.
        entropy: whether entropy and surprise are wanted; else NaN.
    """
    values = times = np.zeros(0, np.uint8)
    steps, decay = np.zeros(len(known.item), np.int64), np.zeros(0)
    if facts.value is not None and known.value is not None:
        values = facts.value
    if facts.time is not None and known.time is not None:
        times, steps = facts.time, known.time.astype(np.int64) - facts.origin
        decay = near_time(np.arange(_reach(facts, known.time) + 1, dtype=np.float64))
    gather = compiled(_gather_python)
    total, scores = np.zeros(facts.people), np.empty(facts.people + 1)
    touched = np.empty(facts.people + 1, np.int32)
    table = np.empty((len(known), 5))
    support = facts.support
    for target in range(len(known)):
        span = np.arange(known.start[target], known.start[target + 1])
        span = span[known.item[span] >= 0]
        span = span[support[known.item[span]] > 0]  # an item that nobody has adds nothing
        item = known.item[span]
        share = 1 / np.log1p(support[item])
        near = np.zeros((len(span), 0))
        if len(values) and known.value is not None:
            near = near_value(facts.values[None, :] - known.value[span, None]) * share[:, None]
        count = gather(
            item,
            facts.start,
            facts.person,
            values,
            near,
            times,
            steps[span],
            decay,
            share,
            total,
            touched,
            scores,
        )
        own = None
        if true[target] >= 0:
            mine = np.flatnonzero(touched[:count] == true[target])
            own = float(scores[mine[0]]) if len(mine) else 0.0
        table[target] = _judge(scores[:count], touched, facts.people, own, entropy)
    return np.asarray(table.T, dtype=np.float64)


def _reach(facts: Facts, when: Float) -> int:
    """Largest difference of a known and a released time, in steps, or a little more."""
    assert facts.time is not None
    latest = int(facts.time.max()) if len(facts.time) else 0
    away = when - facts.origin
    return int(max(abs(float(away.min()) - latest), abs(float(away.max())), latest)) + 1
