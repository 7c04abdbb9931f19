"""What a linkage comes to: recall, precision and abstention, apart, at every threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from lethe.errors import InputError, NotMeasurable, check_at_least, check_between
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.intervals import clopper_pearson
from lethe.linkage.records.facts import Facts, Float, Int, Known
from lethe.linkage.records.scoreboard import RH, Links, Scoreboard, check_known, link

PHIS = (0.0, 0.13, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)


@dataclass(frozen=True)
class Point:
    """The linkage when it answers only from an eccentricity of `phi` on.

    Recall can only fall and abstention only rise with phi; precision usually rises.

    Attributes:
        false_match: share of people who are not released for whom a record is named all the same.
    """

    phi: float  # threshold; 0 = always the best record, unless several share the highest score
    recall: Estimate  # share of released targets whose own record is named
    precision: Measured  # share of the answers, to released targets and to others, that are right
    abstention: Estimate  # share of released targets for whom no record is named
    wrong: Estimate  # share of released targets for whom another's record is named
    false_match: Measured


def curve(
    links: Links, true: ArrayLike, phis: Sequence[float] = PHIS, confidence: float = 0.95
) -> list[Point]:
    """Count right, wrong and missing answers at each threshold.

    Intervals are exact (Clopper-Pearson), for targets drawn at random and one threshold at a time.

    Args:
        true: (Q,) record of each target; -1 for people who are not in the release.
        phis: thresholds, each at least 0.

    Raises:
        InputError: another number of targets, or a threshold below 0.
        NotMeasurable: no target is in the release.
    """
    truth = np.asarray(true)
    if truth.shape != links.best.shape:
        raise InputError(f"true has shape {truth.shape} for {len(links.best)} targets.")
    inside = truth >= 0
    released, strangers = int(inside.sum()), int((~inside).sum())
    if not released:
        raise NotMeasurable("recall needs at least 1 target who is in the release, got 0.")
    points = []
    for phi in phis:
        check_at_least("phi", phi, 0)
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


@dataclass(frozen=True)
class Bits:
    """What is left to guess, in bits; intervals are for targets drawn at random (t).

    Attributes:
        missing: mean of -log2 of the chance given to the true record, over released targets:
            high where answers are wrong.
    """

    prior: float  # log2(N), before anything is known
    left: Estimate  # mean entropy of the answer. A confident wrong answer leaves few bits too.
    missing: Measured
    gained: Estimate  # prior - left


def bits(links: Links, confidence: float = 0.95) -> Bits:
    """Bits that the linkage leaves, and those it gains, in the entropic answer.

    Args:
        links: made with the truth, for `Bits.missing`.

    Raises NotMeasurable: fewer than 2 targets, or the rule "minimum", which gives no such answer.
    """
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    if len(links.entropy) < 2 or np.isnan(links.entropy).any():
        raise NotMeasurable("mean bits need at least 2 targets, scored by rule='sum'.")
    prior = float(np.log2(links.people))
    true = links.surprise[~np.isnan(links.surprise)]
    return Bits(
        prior,
        _mean(links.entropy, prior, confidence),
        _mean(true, np.inf, confidence)
        if len(true) > 1
        else Refusal("fewer than 2 targets are known to be in the release."),
        _mean(prior - links.entropy, prior, confidence),
    )


def _mean(values: Float, most: float, confidence: float) -> Estimate:
    value, count = float(np.mean(values)), len(values)
    half = float(stdtrit(count - 1, (1 + confidence) / 2) * np.std(values, ddof=1) / np.sqrt(count))
    value = min(max(value, 0.0), most)  # a rounding may leave the range
    low, high = max(value - half, 0.0), min(value + half, most)
    return Estimate(value, low, high, confidence, "t over targets", count)


@dataclass(frozen=True, eq=False)
class FactsNeeded:
    """How many facts identify a person.

    Attributes:
        needed: (Q,) the smallest m from which on the own record is named with every further fact;
            0 = not with all facts that are known.
        identified: by m, share of targets whose own record is named from their first m facts.
    """

    needed: Int
    identified: dict[int, Estimate]
    half: int | None  # the smallest m at which at least half of the targets are named; None = never


def facts_needed(
    facts: Facts,
    known: Known,
    true: NDArray[np.int64],
    board: Scoreboard = RH,
    *,
    phi: float = 0.0,
    confidence: float = 0.95,
) -> FactsNeeded:
    """Give the adversary one fact after the other, in the order of `known`.

    Args:
        known: the same number of facts, at least 1, for each target.
        true: (Q,) record of each target, all released.

    Raises InputError: targets with different numbers of facts, or not released.
    """
    check_known(facts, known)
    counts = np.diff(known.start)
    if not len(counts) or counts.min() != counts.max() or not counts[0]:
        raise InputError("facts_needed needs the same number of known facts for every target.")
    if len(true) != len(known) or true.min() < 0 or true.max() >= facts.people:
        raise InputError(f"true needs {len(known)} released records below {facts.people}.")
    most = int(counts[0])
    # One target for each number of facts: the first m of them.
    sizes = np.tile(np.arange(1, most + 1), len(known))
    first = np.repeat(known.start[:-1], most)
    at = np.concatenate([np.arange(f, f + m) for f, m in zip(first, sizes, strict=True)])
    part = Known(
        np.concatenate([[0], np.cumsum(sizes)]),
        known.item[at],
        None if known.value is None else known.value[at],
        None if known.time is None else known.time[at],
    )
    found = link(facts, part, board, entropy=False).matched(phi).reshape(-1, most)
    named = found == np.asarray(true)[:, None]
    # Reversed, the run of names up to the last fact.
    lasting = np.cumprod(named[:, ::-1], axis=1).sum(axis=1)
    shares = {
        m: clopper_pearson(int(named[:, m - 1].sum()), len(known), confidence)
        for m in range(1, most + 1)
    }
    half = next(
        (m for m, one in shares.items() if one.value is not None and one.value >= 0.5), None
    )
    return FactsNeeded(np.where(lasting > 0, most - lasting + 1, 0), shares, half)
