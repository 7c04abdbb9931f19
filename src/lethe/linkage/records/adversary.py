"""Simulated adversaries: a few facts of a released person, some of them wrong, none of them exact.

The settings of Narayanan and Shmatikov, IEEE S&P 2008, section 5: m of m' known facts are right,
values and times within an error, the most popular items may be unknown to the adversary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import InputError, check_at_least, check_choice
from lethe.linkage.records.facts import Facts, Float, Int, Known, facts_of

WRONG = ("fact", "details")


@dataclass(frozen=True)
class Adversary:
    """What an adversary knows of each target.

    Attributes:
        total: m', facts known, at least 1.
        right: m of them are the target's, within the errors; the others are wrong. By default all.
        value_error: right values are drawn alike from the released values within this distance;
            None = the adversary knows no values.
        time_error: right times are shifted by a whole step drawn alike from -e to e;
            None = the adversary knows no times.
        outside_top: right facts are about items outside this many most popular ones.
        wrong: "fact" = a wrong fact is one of another person, about an item that the target does
            not have; "details" = the item is right, its value and time are another person's.
    """

    total: int
    right: int | None = None
    value_error: float | None = 0.0
    time_error: int | None = 14
    outside_top: int = 0
    wrong: str = "fact"

    def __post_init__(self) -> None:
        check_at_least("total", self.total, 1)
        check_at_least("outside_top", self.outside_top, 0)
        check_choice("wrong", self.wrong, WRONG)
        for name in ("value_error", "time_error"):
            if getattr(self, name) is not None:
                check_at_least(name, getattr(self, name), 0)
        if self.right is not None and not 0 <= self.right <= self.total:
            raise InputError(f"right={self.right} must be in 0..{self.total}, the facts known.")
        if self.wrong == "details" and self.value_error is None and self.time_error is None:
            raise InputError("wrong='details' needs values or times; take wrong='fact'.")

    @property
    def wrong_facts(self) -> int:
        """m' - m."""
        return 0 if self.right is None else self.total - self.right


def popular(facts: Facts, most: int) -> NDArray[np.bool_]:
    """(M,) whether an item is one of the `most` most popular; of equal ones the first."""
    chosen = np.zeros(facts.items, bool)
    chosen[np.argsort(-facts.support, kind="stable")[:most]] = True
    return chosen


def eligible(facts: Facts, adversary: Adversary) -> Int:
    """People with enough facts for this adversary to know.

    Right facts, and under "details" the wrong ones too, must be about items outside the top.
    """
    needed = adversary.total - (adversary.wrong_facts if adversary.wrong == "fact" else 0)
    counted = ~popular(facts, adversary.outside_top)[facts.item]
    held = np.bincount(facts.person[counted], minlength=facts.people)
    return np.flatnonzero(held >= max(needed, 1))


def draw_targets(facts: Facts, adversary: Adversary, count: int, seed: int = 0) -> Int:
    """(count,) different people, drawn alike from those with enough facts; all, if fewer."""
    check_at_least("count", count, 1)
    able = eligible(facts, adversary)
    rng = np.random.default_rng([seed, 71])
    return np.sort(rng.permutation(able)[:count])


def simulate(facts: Facts, targets: ArrayLike, adversary: Adversary, seed: int = 0) -> Known:
    """Draw what the adversary knows of each target.

    Args:
        facts: the release that holds the targets. For people who are not to be in the attacked
            release, simulate first and take them out with `without` after.
        targets: (Q,) different persons with enough facts, see `eligible`.
        adversary: how much is known, and how well.
        seed: target q draws from [seed, 72, person], so the others do not change its facts.

    Returns:
        `adversary.total` facts of each target, in random order.

    Raises:
        InputError: a target has too few facts, or values or times are asked for that the release
            does not have.
    """
    who = np.asarray(targets, dtype=np.int64)
    _check_columns(facts, adversary)
    lacking = np.setdiff1d(who, eligible(facts, adversary))
    if len(lacking):
        raise InputError(
            f"{len(lacking)} targets have too few facts for total={adversary.total}, person "
            f"{lacking[0]} for instance. Take them from eligible()."
        )
    own = facts_of(facts, who)
    top = popular(facts, adversary.outside_top)
    drawn = [
        _one(facts, own, at, top, adversary, np.random.default_rng([seed, 72, int(person)]))
        for at, person in enumerate(who)
    ]
    item, value, time = (np.concatenate(part) for part in zip(*drawn, strict=True))
    return Known(
        np.arange(len(who) + 1) * adversary.total,
        item.astype(np.int64),
        None if adversary.value_error is None else value,
        None if adversary.time_error is None else time,
    )


def _one(
    facts: Facts,
    own: Known,
    at: int,
    top: NDArray[np.bool_],
    adversary: Adversary,
    rng: np.random.Generator,
) -> tuple[Int, Float, Float]:
    held = np.arange(own.start[at], own.start[at + 1])
    items = own.item[held]
    wrong, total = adversary.wrong_facts, adversary.total
    taken = total - (wrong if adversary.wrong == "fact" else 0)
    known = rng.permutation(held[~top[items]])[:taken]
    item = own.item[known]
    value = _near_values(facts, own, known, adversary, rng)
    time = _near_times(own, known, adversary, rng)
    if wrong:
        others = _others(facts, items, wrong, rng)
        other_values, other_times = facts.values_at(others), facts.times_at(others)
        none = np.full(wrong, np.nan)
        other_value = none if other_values is None else other_values
        other_time = none if other_times is None else other_times.astype(np.float64)
        if adversary.wrong == "fact":
            strange = np.searchsorted(facts.start, others, side="right") - 1
            item = np.concatenate([item, strange])
            value = np.concatenate([value, other_value])
            time = np.concatenate([time, other_time])
        else:
            value[:wrong], time[:wrong] = other_value, other_time
    mixed = rng.permutation(total)
    return item[mixed], value[mixed], time[mixed]


def _others(facts: Facts, items: Int, count: int, rng: np.random.Generator) -> Int:
    """Places of released facts about items that the target does not have."""
    mine = np.zeros(facts.items, bool)
    mine[items] = True
    free = facts.facts - int(facts.support[items].sum())
    if free < 1:
        raise InputError(
            "a target has every item that is released, so no fact about another item can be "
            "wrong. Take wrong='details', or right=total."
        )
    # The k-th fact about another item, without a list of them all.
    ends = np.cumsum(np.where(mine, 0, facts.support))
    rank = rng.integers(0, free, count)
    item = np.searchsorted(ends, rank, side="right")
    return np.asarray(facts.start[item + 1] - (ends[item] - rank), dtype=np.int64)


def _near_values(
    facts: Facts, own: Known, at: Int, adversary: Adversary, rng: np.random.Generator
) -> Float:
    if adversary.value_error is None or own.value is None:
        return np.full(len(at), np.nan)
    given = own.value[at]
    low = np.searchsorted(facts.values, given - adversary.value_error, side="left")
    high = np.searchsorted(facts.values, given + adversary.value_error, side="right")
    return facts.values[rng.integers(low, high)]


def _near_times(own: Known, at: Int, adversary: Adversary, rng: np.random.Generator) -> Float:
    if adversary.time_error is None or own.time is None:
        return np.full(len(at), np.nan)
    error = adversary.time_error
    return np.asarray(own.time[at] + rng.integers(-error, error + 1, len(at)), dtype=np.float64)


def _check_columns(facts: Facts, adversary: Adversary) -> None:
    for name, error, column in (
        ("value", adversary.value_error, facts.value),
        ("time", adversary.time_error, facts.time),
    ):
        if error is not None and column is None:
            raise InputError(f"{name}_error={error} needs {name}s in the release; take None.")
