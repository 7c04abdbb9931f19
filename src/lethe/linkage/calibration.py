"""A threshold for this release: from how far records stand out for people who are not in it.

The 1.5 of the paper was found on 480,189 people. Where there are fewer, or where whole records are
known, somebody nearly always stands out by that much, so the limit is measured: people are taken
out of the release, looked for all the same, and the eccentricities of the records that are then
named, wrongly all of them, set it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from lethe.errors import InputError, NotMeasurable, check_at_least, check_between
from lethe.evidence.estimate import Estimate
from lethe.linkage.facts import Facts, Float, Int, Known, facts_of, without
from lethe.linkage.record_way import pick
from lethe.linkage.scoreboard import RH, Scoreboard, link


@dataclass(frozen=True)
class Calibrated:
    """A threshold of eccentricity, and what it lets through.

    Attributes:
        phi: an answer is given from here on.
        false_match: chance that a record is named for a person who is not in the release.
    """

    phi: float
    false_match: Estimate


def calibrate(eccentricity: Float, rate: float = 0.01, confidence: float = 0.95) -> Calibrated:
    """The lowest threshold at which at most `rate` of other people outside are expected a record.

    Just above the k-th largest of n eccentricities; the chance that the next one is larger has the
    distribution Beta(k, n + 1 - k) of an order statistic, or less where several are equal (Wilks,
    Annals of Mathematical Statistics 1941). So its mean k / (n + 1) is at most `rate`.

    Args:
        eccentricity: (n,) of people outside the release; 0 where no record was named.
        rate: share of false matches, in (0, 1).
        confidence: of the interval, in (0, 1).

    Guarantee:
        The chance of a false match, over the n people and one more, is at most `rate`.

    Assumes:
        Whoever is looked for without being in the release is drawn as the n people were.

    Raises:
        InputError: no eccentricities.
        NotMeasurable: fewer than 1 / rate - 1 people.

    >>> made = calibrate(np.arange(199.0))
    >>> 197 < made.phi < 198 and made.false_match.value == 0.01
    True
    """
    check_between("rate", rate, 0, 1, open_low=True, open_high=True)
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    found = np.sort(np.asarray(eccentricity, np.float64))[::-1]
    if found.ndim != 1 or not (found >= 0).all():
        raise InputError("eccentricity must be one column of numbers of at least 0.")
    count, k = len(found), math.floor(rate * (len(found) + 1) + 1e-9)
    if k < 1:
        raise NotMeasurable(
            f"a threshold with {rate:g} false matches needs at least {math.ceil(1 / rate - 1)} "
            f"people outside the release, got {count}. Look for more people, or allow more."
        )
    eps = float(np.finfo(np.float64).eps)
    tail = (1 - confidence) / 2
    low, high = (float(betaincinv(k, count + 1 - k, at)) for at in (tail, 1 - tail))
    chance = Estimate(k / (count + 1), low, high, confidence, "order statistic (Beta)", count)
    return Calibrated(float(found[k - 1]) * (1 + 4 * eps) + eps, chance)


def outside(
    facts: Facts, known: Known, people: Int, scoring: Scoreboard = RH, seed: int = 0
) -> Float:
    """(Q,) how far the named record stands out for people whose own record is not released.

    A tenth of the release is taken out at a time, so that it stays what it is for the others.

    Args:
        facts: the release with them.
        known: what is known of each.
        people: (Q,) different persons.
        scoring: how records are scored.
        seed: of who is taken out together.

    Raises:
        NotMeasurable: fewer than 3 people in the release.
    """
    size = min(max(facts.people // 10, 1), facts.people - 2)
    if size < 1:
        raise NotMeasurable(f"to take somebody out needs 3 released people, got {facts.people}.")
    order = np.random.default_rng([seed, 84]).permutation(len(people))
    found = np.zeros(len(people))
    for first in range(0, len(people), size):
        rows = np.sort(order[first : first + size])
        rest, _ = without(facts, people[rows])
        found[rows] = link(rest, pick(known, rows), scoring, entropy=False).eccentricity
    return found


def records_like(facts: Facts, people: Int, counts: Int, seed: int = 0) -> Known:
    """Facts of released people as an auxiliary table would have them.

    Args:
        facts: the release.
        people: (Q,) different persons.
        counts: facts that each person of the auxiliary table has, at least one above 0. Each of
            `people` keeps as many as one of them has, or all where there are fewer.
        seed: of who keeps how many, and which.
    """
    check_at_least("counts", int(counts.max(initial=0)), 1)
    own, rng = facts_of(facts, people), np.random.default_rng([seed, 85])
    kept = rng.choice(counts[counts > 0], len(people))
    return some_facts_of(own, kept, rng)


def some_facts_of(known: Known, counts: Int, rng: np.random.Generator) -> Known:
    """At most as many facts of each target as `counts` says, drawn at random."""
    spans = [
        rng.permutation(np.arange(first, last))[:most]
        for first, last, most in zip(known.start[:-1], known.start[1:], counts, strict=True)
    ]
    held = np.concatenate([*spans, np.zeros(0, np.int64)]).astype(np.int64)
    return Known(
        np.concatenate([[0], np.cumsum([len(span) for span in spans])]).astype(np.int64),
        known.item[held],
        None if known.value is None else known.value[held],
        None if known.time is None else known.time[held],
    )
