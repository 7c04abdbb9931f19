"""Attackers on sparse records, in one registry, and the thresholds from which they answer.

Each scores every record for what is known of a person, see `lethe.linkage.records.likelihood` and
`Scoreboard`, and answers from a threshold on. The 1.5 of the paper was found on 480,189 people;
elsewhere the limit is measured: people are taken out of the release, and how far the records stand
out that are then named, wrongly all of them, sets it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.of_rows import Calibrated
from lethe.linkage.records.facts import Float, Index, Int, Known, facts_of
from lethe.linkage.records.likelihood import Sampling, read
from lethe.linkage.records.scoreboard import NO_MATCH, Links, Scoreboard, link

# Simulated adversaries: a few facts of a released person, some of them wrong, none of them exact.
#
# The settings of Narayanan and Shmatikov, IEEE S&P 2008, section 5: m of m' known facts are right,
# values and times within an error, the most popular items may be unknown to the adversary.


@dataclass(frozen=True)
class Adversary:
    """What an adversary knows of each target.

    Attributes:
        right: m of them are the target's, within the errors; the others are facts of other people,
            about items that the target does not have. By default all.
        value_error: right values are drawn alike from the released values within this distance;
            None = the adversary knows no values.
        time_error: right times are shifted by a whole step drawn alike from -e to e;
            None = the adversary knows no times.
    """

    total: int  # m', facts known, at least 1
    right: int | None = None
    value_error: float | None = 0.0
    time_error: int | None = 14
    outside_top: int = 0  # right facts are about items outside this many most popular ones

    @property
    def wrong_facts(self) -> int:
        """m' - m."""
        return 0 if self.right is None else self.total - self.right

    def sampling(self, facts: Index) -> Sampling:
        """Describe how `simulate` draws, as the likelihood needs it."""
        return Sampling(
            1 - self.wrong_facts / self.total,
            self.total,
            (self.value_error or 0.0, float(self.time_error or 0)),
            True,
            ~popular(facts, self.outside_top) if self.outside_top else None,
        )


def popular(facts: Index, most: int) -> NDArray[np.bool_]:
    """(M,) whether an item is one of the `most` most popular; of equal ones the first."""
    chosen = np.zeros(facts.items, bool)
    chosen[np.argsort(-facts.support, kind="stable")[:most]] = True
    return chosen


def eligible(facts: Index, adversary: Adversary) -> Int:
    """People with enough facts, about items outside the top, for this adversary to know."""
    needed = adversary.total - adversary.wrong_facts
    counted = ~popular(facts, adversary.outside_top)[facts.item]
    held = np.bincount(facts.person[counted], minlength=facts.people)
    able = held >= max(needed, 1)
    if adversary.wrong_facts:
        able &= ~has_all_items(facts)
    return np.flatnonzero(able)


def has_all_items(facts: Index) -> NDArray[np.bool_]:
    """(N,) of whom no fact can be about an item that they do not have."""
    held = np.bincount(facts.person[facts.lead], minlength=facts.people)
    return np.asarray(held == (facts.support > 0).sum())


def draw_targets(facts: Index, adversary: Adversary, count: int, seed: int = 0) -> Int:
    """(count,) different people, drawn alike from those with enough facts; all, if fewer."""
    able = eligible(facts, adversary)
    rng = np.random.default_rng([seed, 71])
    return np.sort(rng.permutation(able)[:count])


def simulate(facts: Index, targets: ArrayLike, adversary: Adversary, seed: int = 0) -> Known:
    """Draw what the adversary knows of each target.

    Args:
        facts: the release that holds the targets. For people who are not to be in the attacked
            release, simulate first and take them out with `without` after.
        targets: (Q,) different persons with enough facts, see `eligible`.
        adversary: how much is known, and how well.
        seed: target q draws from [seed, 72, person], so the others do not change its facts.

    Returns: `adversary.total` facts of each target, in random order.
    """
    who = np.asarray(targets, dtype=np.int64)
    seeds = [np.random.default_rng([seed, 72, int(person)]) for person in who]
    return draw_facts(facts, facts_of(facts, who), adversary, seeds)


def draw_facts(
    facts: Index, known: Known, adversary: Adversary, seeds: Sequence[np.random.Generator]
) -> Known:
    """Draw what the adversary knows of each of some people.

    Args:
        facts: where wrong facts are drawn from.
        known: all facts of each target, at least as many as are right.
        seeds: of each target.
    """
    top = popular(facts, adversary.outside_top)
    drawn = [_one(facts, known, index, top, adversary, rng) for index, rng in enumerate(seeds)]
    item, value, time = (np.concatenate(part) for part in zip(*drawn, strict=True))
    return Known(
        np.arange(len(seeds) + 1) * adversary.total,
        item.astype(np.int64),
        None if adversary.value_error is None else value,
        None if adversary.time_error is None else time,
    )


def _one(
    facts: Index,
    person: Known,
    at: int,
    top: NDArray[np.bool_],
    adversary: Adversary,
    rng: np.random.Generator,
) -> tuple[Int, Float, Float]:
    held = np.arange(person.start[at], person.start[at + 1])
    items = person.item[held]
    wrong, total = adversary.wrong_facts, adversary.total
    known = rng.permutation(held[~top[items]])[: total - wrong]
    item = person.item[known]
    value, time = np.full((2, len(known)), np.nan)
    if adversary.value_error is not None and person.value is not None:
        stated = person.value[known]
        low = np.searchsorted(facts.values, stated - adversary.value_error, side="left")
        high = np.searchsorted(facts.values, stated + adversary.value_error, side="right")
        value = facts.values[rng.integers(low, high)]
    if adversary.time_error is not None and person.time is not None:
        error = adversary.time_error
        time = person.time[known] + rng.integers(-error, error + 1, len(known))
    if wrong:
        others = _others(facts, items, wrong, rng)
        none = np.full(wrong, np.nan)
        values, times = facts.values_at(others), facts.times_at(others)
        item = np.append(item, np.searchsorted(facts.start, others, side="right") - 1)
        value = np.append(value, none if values is None else values)
        time = np.append(time, none if times is None else times)
    mixed = rng.permutation(total)
    return item[mixed], value[mixed], time[mixed]


def _others(facts: Index, items: Int, count: int, rng: np.random.Generator) -> Int:
    """Places of released facts about items that the target does not have."""
    mine = np.zeros(facts.items, bool)
    mine[items] = True
    free = facts.facts - int(facts.support[mine].sum())
    # The k-th fact about another item, without a list of them all.
    ends = np.cumsum(np.where(mine, 0, facts.support))
    rank = rng.integers(0, free, count)
    item = np.searchsorted(ends, rank, side="right")
    return np.asarray(facts.start[item + 1] - (ends[item] - rank), dtype=np.int64)


Board = Scoreboard | Sampling
"""How an attacker scores records: by a published similarity, or by likelihood."""
COMPARED = 1.5
"""Threshold of the paper, shown beside the calibrated one."""


@dataclass(frozen=True)
class Attacker:
    """A way to look for a person."""

    name: str  # in documents
    title: str  # in words
    paper: str  # where it is from
    knows: str  # beside the facts of the person: what it must know or rely on
    few: bool = False  # whether, of whole records, it is given a few facts only, drawn at random


ASSIGNED = "assigned"
_MATCHED = 1_000_000  # targets times records that are assigned, at most


def closed_world(targets: int, people: int) -> bool:
    """Whether records are also given to all targets at once: half of the people are looked for."""
    return people <= 2 * targets and people * targets <= _MATCHED


_PAPER = "Narayanan and Shmatikov, IEEE S&P 2008"
ATTACKERS: Mapping[str, Attacker] = {
    attacker.name: attacker
    for attacker in (
        Attacker(
            "likelihood",
            "The record under which the known facts are most likely, its length included",
            "maximum likelihood under the stated sampling; of one person at a time no other "
            "attacker can do better in it",
            "how facts were drawn, how far they may be off, how many may be wrong, and the "
            "mitigation",
        ),
        Attacker(
            "fitting",
            "The shortest record that as many of a few known facts fit as are right",
            f"{_PAPER}, the plain Scoreboard with a threshold; ties go by length",
            "how far values and times may be off, and how many facts may be wrong",
            few=True,
        ),
        Attacker(
            "scoreboard-rh",
            "Scoreboard-RH: the sum of similarities, rare items counting more",
            _PAPER,
            "nothing of the errors: a wrong fact costs, and does not exclude",
        ),
        Attacker(
            ASSIGNED,
            "The records that are most likely for all who are looked for at once, one each",
            "likelihood, with a linear assignment; where half or more of the people are looked for",
            "as likelihood, and that each record is another person's",
        ),
    )
}
"""By name, in the order in which their answers are taken."""


def boards_of(scales: tuple[float, float], sampling: Sampling) -> dict[str, Board]:
    """Return the scoreboard of each attacker of the registry.

    Args:
        scales: of values and times: rho0 and d0 of the paper.
        sampling: how what is known was drawn, and what was done to the release.
    """
    rh = Scoreboard(*scales)
    return {"likelihood": sampling, "fitting": sampling, "scoreboard-rh": rh}


def look(
    facts: Index,
    known: Mapping[str, Known],
    boards: Mapping[str, Board],
    *,
    hidden: tuple[Int, Int] | None = None,
) -> dict[str, Links]:
    """Look for targets with each attacker.

    Args:
        known: by attacker, what is known of each target.
        boards: by attacker, how records are scored.
        hidden: see `link`.
    """
    links_of: dict[str, Links] = {}
    for name, board in boards.items():
        if isinstance(board, Scoreboard):
            links_of[name] = link(facts, known[name], board, hidden=hidden)
        elif name not in links_of:
            links = read(facts, known[name], board, hidden=hidden)
            # Both readings of the same facts are made at once.
            links_of |= {
                key: links[key]
                for key, other in boards.items()
                if other is board and known[key] is known[name]
            }
    return {name: links_of[name] for name in boards}


def share_out(
    absent: Mapping[str, Links], rate: float = 0.01, confidence: float = 0.95
) -> dict[str, Calibrated | Refusal]:
    """A threshold for each attacker, so that all of them together name few people outside.

    The false matches that are allowed, `rate`, are shared out evenly, what is left over to the
    first attackers.

    Args:
        absent: by attacker, people looked for in a release without them, see `outside`.
        rate: share of people outside for whom some attacker may name a record, in (0, 1).

    Returns: The threshold of each, or why there is none.
    Guarantee: The chance that any attacker names a record for a person who is not released is at
        most `rate`, over the people looked for and one more (union bound over `calibrate`).
    Assumes: Whoever is looked for without being in the release is drawn as those people were.
    """
    calibrated: dict[str, Calibrated | Refusal] = {}
    for at, (name, links) in enumerate(absent.items()):
        count = len(links.best)
        allowed = math.floor(rate * (count + 1) + 1e-9)
        part = allowed // len(absent) + (at < allowed % len(absent))
        if part:
            calibrated[name] = calibrate(links.eccentricity, part / (count + 1), confidence)
        else:
            calibrated[name] = Refusal(
                _too_few(f"{rate:g} false matches in all", at + 1, rate, count)
            )
    return calibrated


@dataclass(frozen=True, eq=False)
class Naming:
    """Answers of all attackers together.

    Attributes:
        record: (Q,) the record that is named: by the first attacker that answers; NO_MATCH = none.
    """

    record: Int
    attacker: Int  # (Q,) its place among the attackers; -1 = none


def together(links: Mapping[str, Links], phi: Mapping[str, float | None]) -> Naming:
    """Combine the attackers' answers, each from its own threshold on; None = it stays silent."""
    count = len(next(iter(links.values())).best)
    record, attacker = np.full(count, NO_MATCH), np.full(count, -1)
    for at, (name, found) in enumerate(links.items()):
        least = phi[name]
        if least is None:
            continue
        named = np.where(attacker < 0, found.matched(least), NO_MATCH)
        new = named >= 0
        record[new], attacker[new] = named[new], at
    return Naming(record, attacker)


def calibrate(eccentricity: Float, rate: float = 0.01, confidence: float = 0.95) -> Calibrated:
    """The lowest threshold at which at most `rate` of other people outside are expected a record.

    Just above the k-th largest of n eccentricities; the chance that the next one is larger is
    Beta(k, n + 1 - k), or less with ties (Wilks, Annals of Mathematical Statistics 1941), with mean
    k / (n + 1).

    Args:
        eccentricity: (n,) of people outside the release; 0 where no record was named.
        rate: share of false matches, in (0, 1).

    Guarantee: The chance of a false match, over the n people and one more, is at most `rate`.
    Assumes: Whoever is looked for without being in the release is drawn as the n people were.

    Raises NotMeasurable: fewer than 1 / rate - 1 people.

    >>> made = calibrate(np.arange(199.0))
    >>> 197 < made.phi < 198 and made.false_match.value == 0.01
    True
    """
    ascending = np.sort(eccentricity)[::-1]
    count, k = len(ascending), math.floor(rate * (len(ascending) + 1) + 1e-9)
    if k < 1:
        raise NotMeasurable(_too_few(f"{rate:g} false matches", 1, rate, count))
    eps = float(np.finfo(np.float64).eps)
    tail = (1 - confidence) / 2
    low, high = (float(betaincinv(k, count + 1 - k, at)) for at in (tail, 1 - tail))
    chance = Estimate(k / (count + 1), low, high, confidence, "order statistic (Beta)", count)
    return Calibrated(float(ascending[k - 1]) * (1 + 64 * eps) + eps, chance)


def _too_few(wanted: str, attackers: int, rate: float, count: int) -> str:
    return (
        f"a threshold with {wanted} needs at least {math.ceil(attackers / rate) - 1} people "
        f"outside the release, got {count}. Look for more people, or allow more."
    )


def phi_of(
    calibrated: Mapping[str, Calibrated | Refusal], phi: float | None
) -> dict[str, float | None]:
    """Return the threshold of each attacker: `phi`, or the calibrated one; None = never answers."""
    return {
        name: phi if phi is not None else getattr(setting, "phi", None)
        for name, setting in calibrated.items()
    }


def outside(
    facts: Index,
    known: Mapping[str, Known],
    people: Int,
    boards: Mapping[str, Board],
    owner: Int | None = None,
) -> dict[str, Links]:
    """Look for people in a release without their own records, by attacker.

    An empty record stands for each of theirs: how far a record stands out depends on how many there
    are.

    Args:
        known: by attacker, what is known of each.
        boards: by attacker, how records are scored.
        owner: (N,) person behind each record; None = record i is person i.
    """
    owner = np.arange(facts.people) if owner is None else owner
    return look(facts, known, boards, hidden=(people, owner))


def records_like(facts: Index, people: Int, counts: Int, seed: int = 0) -> Known:
    """Facts of released people as an auxiliary table would have them.

    Args:
        counts: facts that each person of the auxiliary table has, at least one above 0. Each of
            `people` keeps as many as one of them has, or all where there are fewer.
        seed: of who keeps how many, and which.
    """
    records, rng = facts_of(facts, people), np.random.default_rng([seed, 85])
    kept = rng.choice(counts[counts > 0], len(people))
    return some_facts_of(records, kept, rng)


def some_facts_of(known: Known, counts: Int, rng: np.random.Generator) -> Known:
    """Draw at most as many facts of each target as `counts` says."""
    spans = zip(known.spans(), counts, strict=True)
    return known.take([rng.permutation(span)[:most] for span, most in spans])
