"""Scoreboard-RH in one pass over the facts of the known items (extra `fast`).

People are taken a few thousand at a time: the scores of those in hand stay in the cache.
Similarities come from tables, so no exponential is taken of a fact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lethe.linkage.records.facts import Facts, Float, Int, Known
from lethe.training.environment import INSTALLED, compiled

Near = Callable[[Float], Float]
_LONGEST = 2**22  # steps in a table of decays
_ROUNDING = 64 * np.finfo(np.float64).eps
_BLOCK = 2048  # people in hand; 16 KB of scores
NO_ONE = -1


def _score_python(
    item: Any,
    start: Any,
    person: Any,
    values: Any,
    near_value: Any,
    times: Any,
    when: Any,
    decay: Any,
    share: Any,
    people: int,
    own: int,
    total: Any,
    kept: Any,
) -> tuple[int, float, float, float, float, int]:
    """Scores of all `people` for one target: best, highest, second, deviation, own, how many kept.

    `item` are the released items that are known, `near_value` (facts, V) their similarities times
    the item's weight, `when` (facts,) whole steps after the origin, `decay` the similarity by
    their difference, `share` (facts,) the item's weight for it; without `values` or `times` these
    are not looked at. `own` is the person whose score is asked for. `total` has room for a block;
    `kept` (people + 1,) is filled with the scores above 0, or has no room and stays empty.
    """
    with_values, with_times, keep = len(values) > 0, len(times) > 0, len(kept) > people
    at = start[item].astype(np.uint64)
    best, top, second, mine, count = -1, -1.0, -1.0, 0.0, 0
    mean, squares = 0.0, 0.0
    for first in range(0, people, len(total)):
        end = min(first + len(total), people)
        width = end - first
        total[:width] = 0.0
        for fact in range(len(item)):
            here, last = at[fact], np.uint64(start[item[fact] + 1])
            weight, then, near_of = share[fact], when[fact], near_value[fact]
            while here < last and person[here] < end:
                near = 0.0
                if with_values:
                    near += near_of[values[here]]
                if with_times:
                    near += weight * decay[np.uint64(abs(np.int64(times[here]) - then))]
                # Unsigned: no index counts from the end.
                total[np.uint32(person[here] - first)] += near
                here += np.uint64(1)
            at[fact] = here
        whole, high = 0.0, -1.0
        for who in range(width):
            whole += total[who]
            high = max(high, total[who])
        middle, apart = whole / width, 0.0
        for who in range(width):
            apart += (total[who] - middle) ** 2
        # Means and squared distances of two groups as one (Chan, Golub and LeVeque 1983).
        gap = middle - mean
        squares += apart + gap * gap * first * width / end
        mean += gap * width / end
        if high > second:
            for who in range(width):
                score = total[who]
                if score > top:
                    best, second, top = first + who, top, score
                elif score > second:
                    second = score
        if first <= own < end:
            mine = total[own - first]
        if keep:
            for who in range(width):
                kept[count] = total[who]
                count += total[who] > 0.0  # without a branch, which could not be foreseen
    return best, top, second, np.sqrt(squares / people), mine, count


@cache
def _score() -> Callable[..., Any]:
    """Compiled once a process: to look it up on disk takes as long as some ten queries."""
    return compiled(_score_python, fastmath={"reassoc", "nnan", "nsz"})


def _bits(kept: Float, people: int, top: float, deviation: float, own: float | None) -> Float:
    """(2,) entropy and surprise of the answer; who is not in `kept` has the score 0."""
    if deviation <= _ROUNDING * abs(top):
        return np.array([np.log2(people), np.nan if own is None else np.log2(people)])
    rest, low = people - len(kept), -top / deviation
    away = (kept - top) / deviation
    parts, none = np.exp(away), rest * np.exp(low)
    whole = float(parts.sum()) + none
    tilted = float(np.dot(parts, away)) + none * low
    entropy = max(0.0, np.log2(whole) - tilted / whole / np.log(2.0))
    if own is None:
        return np.array([entropy, np.nan])
    return np.array([entropy, np.log2(whole) - (own - top) / deviation / np.log(2.0)])


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
        known: what is known, see `fits`.
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
    score = _score()
    total = np.empty(min(_BLOCK, facts.people))
    kept = np.empty(facts.people + 1 if entropy else 0)
    table = np.full((len(known), 5), np.nan)
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
        best, top, second, deviation, own, count = score(
            item,
            facts.start,
            facts.person,
            values,
            near,
            times,
            steps[span],
            decay,
            share,
            facts.people,
            int(true[target]),
            total,
            kept,
        )
        table[target, :3] = NO_ONE, 0.0, deviation
        if top - second > _ROUNDING * abs(top):
            table[target, :2] = best, (top - second) / deviation
        if entropy:
            known_own = own if true[target] >= 0 else None
            table[target, 3:] = _bits(kept[:count], facts.people, top, deviation, known_own)
    return np.asarray(table.T, dtype=np.float64)


def _reach(facts: Facts, when: Float) -> int:
    """Largest difference of a known and a released time, in steps, or a little more."""
    away = when - facts.origin
    latest = facts.latest
    return int(max(abs(float(away.min()) - latest), abs(float(away.max())), latest)) + 1
