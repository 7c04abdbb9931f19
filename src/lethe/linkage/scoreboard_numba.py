"""Scoreboard-RH over the people who share an item with the target only (extra `fast`).

Everybody else has the score 0, so their number is all that the deviation and the entropy need.
Scores are the same to the last bit as those of NumPy: similarities come from tables that NumPy
made, and are added in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.linkage.facts import Facts, Float, Int, Known
from lethe.training.jit import INSTALLED, compiled

_LONGEST = 2**22  # steps in a table of decays


def _query_python(
    item: Any,
    start: Any,
    person: Any,
    values: Any,
    near_value: Any,
    times: Any,
    when: Any,
    decay: Any,
    total: Any,
    touched: Any,
    true: int,
    entropy: bool,
    found: Any,
) -> None:
    """One target: fills found (5,) with best, eccentricity, deviation, entropy, surprise.

    `item` holds the released items that are known, `near_value` (facts, V) similarities, `when`
    (facts,) whole steps after the origin, a negative `decay` length meaning none; `total` is 0
    everywhere, before and after.
    """
    people, count = len(total), 0
    for fact in range(len(item)):
        first, last = start[item[fact]], start[item[fact] + 1]
        weight = np.log1p(last - first)
        for at in range(first, last):
            near = 0.0
            if len(values):
                near += near_value[fact, values[at]]
            if len(times):
                near += decay[abs(np.int64(times[at]) - when[fact])]
            if near > 0:
                who = person[at]
                if total[who] == 0:
                    touched[count] = who
                    count += 1
                total[who] += near / weight
    best, top, second, added = -1, -1.0, -1.0, 0.0
    for at in range(count):
        score = total[touched[at]]
        added += score
        if score > top:
            best, top, second = touched[at], score, top
        elif score > second:
            second = score
    if count < people:
        top, second = max(top, 0.0), max(second, 0.0)
    mean, squares = added / people, 0.0
    for at in range(count):
        squares += (total[touched[at]] - mean) ** 2
    deviation = np.sqrt((squares + (people - count) * mean * mean) / people)
    found[2] = deviation
    found[0], found[1] = -1.0, 0.0
    if top - second > 64 * 2.220446049250313e-16 * top:
        found[0], found[1] = best, (top - second) / deviation
    if entropy and deviation <= 64 * 2.220446049250313e-16 * top:
        found[3] = np.log2(people)
        if true >= 0:
            found[4] = found[3]
    elif entropy:
        low = -top / deviation
        rest = (people - count) * np.exp(low)
        whole, tilted = rest, rest * low
        for at in range(count):
            off = (total[touched[at]] - top) / deviation
            part = np.exp(off)
            whole += part
            tilted += part * off
        found[3] = max(0.0, np.log2(whole) - tilted / whole / np.log(2.0))
        if true >= 0:
            found[4] = np.log2(whole) - (total[true] - top) / deviation / np.log(2.0)
    for at in range(count):
        total[touched[at]] = 0.0


def fits(facts: Facts, known: Known) -> bool:
    """Whether the fast way can be taken: numba is there, what is known is whole, and so are times.

    A fact whose value or time alone is not known is left to NumPy.
    """
    if not INSTALLED:
        return False
    for kept, column in ((facts.value, known.value), (facts.time, known.time)):
        if kept is not None and column is not None and np.isnan(column).any():
            return False
    dated, timed = facts.time is not None, known.time is not None
    if dated and known.time is not None and len(known.time):
        away = np.abs(known.time - facts.origin).max() + (1 << (8 * facts.time.itemsize))  # type: ignore[union-attr]
        return bool((known.time == np.floor(known.time)).all() and away < _LONGEST)
    return (facts.value is not None and known.value is not None) or (dated and timed)


def judge_all(
    facts: Facts,
    known: Known,
    near_value: Float,
    decay: Float,
    true: Int,
    entropy: bool,
) -> NDArray[np.float64]:
    """(5, Q) best, eccentricity, deviation, entropy and surprise of every target.

    Args:
        facts: the release.
        known: what is known, see `fits`.
        near_value: (F, V) similarity of each known value to each released one; V = 0: not used.
        decay: similarity of times by their difference in steps; empty: not used.
        true: (Q,) record of each target, -1 = none.
        entropy: whether entropy and surprise are wanted; else NaN.
    """
    none = np.zeros(0, np.uint8)
    values = facts.value if facts.value is not None and near_value.shape[1] else none
    times = facts.time if facts.time is not None and len(decay) else none
    steps = np.zeros(len(known.item), np.int64)
    if len(times) and known.time is not None:
        steps = known.time.astype(np.int64) - facts.origin
    query = compiled(_query_python)
    total, touched = np.zeros(facts.people), np.empty(facts.people, np.int64)
    table = np.full((len(known), 5), np.nan)
    for target in range(len(known)):
        span = np.arange(known.start[target], known.start[target + 1])
        span = span[known.item[span] >= 0]
        query(
            known.item[span],
            facts.start,
            facts.person,
            values,
            near_value[span],
            times,
            steps[span],
            decay,
            total,
            touched,
            int(true[target]),
            entropy,
            table[target],
        )
    return table.T
