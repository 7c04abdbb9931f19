"""A real auxiliary table, or a second release: who of it is in the release?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Measured, Refusal
from lethe.evidence.intervals import clopper_pearson
from lethe.linkage.calibration import Calibrated, calibrate, outside, records_like, some_facts_of
from lethe.linkage.facts import NOT_RELEASED, Facts, Int, Known, facts_of, index_of
from lethe.linkage.matching import PHIS, Point, curve
from lethe.linkage.scoreboard import NO_MATCH, RH, Links, Scoreboard, link
from lethe.loaders.sorted_ratings import Release

_OUTSIDE = 1000  # released people looked for without their own record, at most


@dataclass(frozen=True, eq=False)
class Answers:
    """What a way of answering comes to.

    Attributes:
        answered: share of people for whom a record is named, right or wrong.
        right: share of the known pairs that are named rightly.
        strange: share of the others for whom a record is named.
    """

    answered: Measured
    right: Measured
    strange: Measured


@dataclass(frozen=True, eq=False)
class Auxiliary:
    """A real linkage.

    Attributes:
        name: of the auxiliary table.
        people: who was looked for, by name.
        shared_items: items that both tables have.
        useful: people with a fact about such an item.
        links: of `people`.
        true: (Q,) record of each; -1 = not in the release. None = nobody knows.
        answered: by threshold, share of people for whom a record is named, right or wrong.
        points: by threshold, right and wrong; None without the truth.
        clear: largest eccentricity of a wrong answer, and how many known pairs are named beyond
            it. Found afterwards, so no threshold that anybody would have set. None without the
            truth.
        calibrated: threshold from released people who were looked for without their own record,
            with as many facts as the people of the auxiliary table have.
        sure: answers from that threshold on.
        fitting: answers of the plain Scoreboard, a record that fits each of a few facts drawn of
            a person; at the threshold of the audit.
    """

    name: str
    people: NDArray[np.str_]
    shared_items: int
    useful: int
    links: Links
    true: Int | None
    answered: dict[float, Measured]
    points: list[Point] | None
    clear: tuple[float, int] | None
    calibrated: Calibrated | Refusal
    sure: Answers | None
    fitting: Answers


def link_auxiliary(
    ratings: Release,
    facts: Facts,
    aux: Release,
    truth: tuple[NDArray[np.str_], NDArray[np.str_]] | None = None,
    *,
    scoring: Scoreboard = RH,
    phi: float = 1.5,
    most: int = 2000,
    rate: float = 0.01,
    drawn: int = 8,
    within: tuple[float, float] = (0.0, 14.0),
    seed: int = 0,
    confidence: float = 0.95,
) -> Auxiliary:
    """Look for everybody of an auxiliary table in the release; items are matched by name.

    Args:
        ratings: the release.
        facts: the same, indexed.
        aux: what the adversary has: names and facts, on the same scales.
        truth: names in `aux` and names in the release of the same people; who is not listed is
            taken to be outside the release. None = not known.
        scoring: how records are scored.
        phi: one more threshold.
        most: people that are looked for; drawn at random where there are more. Everybody with a
            known truth is among them.
        rate: false matches that the calibrated threshold may make, see `calibrate`.
        drawn: facts that each person is looked for with by the plain Scoreboard, at most; about
            items that both tables have.
        within: by which values and times of these may be off.
        seed: draws people and facts.
        confidence: of the intervals.

    Raises:
        InputError: the tables share no item, or the truth names people that there are not.
    """
    place = _places(aux.items, ratings.items)
    shared = int((place >= 0).sum())
    if not shared:
        raise InputError(
            f"{aux.name} and {ratings.name} share no item, for example {aux.items[0]!r} and "
            f"{ratings.items[0]!r}. Give items the same names in both."
        )
    true = np.full(len(aux.people), NO_MATCH)
    if truth is not None:
        mine, theirs = _all_there(truth[0], aux, "aux"), _all_there(truth[1], ratings, "release")
        true[mine] = theirs
    order = np.random.default_rng([seed, 78]).permutation(len(aux.people))
    order = order[np.argsort(true[order] < 0, kind="stable")]  # known pairs first
    chosen = np.sort(order[:most])
    known = facts_of(index_of(aux), chosen)
    known = replace(known, item=place[known.item])
    links = link(facts, known, scoring, true=true[chosen] if truth is not None else None)
    phis = sorted({*PHIS, phi})
    answered: dict[float, Measured] = {
        one: clopper_pearson(int((links.matched(one) >= 0).sum()), len(chosen), confidence)
        for one in phis
    }
    points = clear = sure = None
    if truth is not None and (true[chosen] >= 0).any():
        points = curve(links, true[chosen], phis, confidence)
        clear = _clear(links, true[chosen])
    pairs = None if truth is None else true[chosen]
    calibrated = _calibrated(facts, known, scoring, rate, seed, confidence)
    if isinstance(calibrated, Calibrated):
        sure = _answers(links, calibrated.phi, pairs, confidence)
    shared_facts = _shared(known)
    few = some_facts_of(
        shared_facts, np.full(len(chosen), drawn), np.random.default_rng([seed, 86])
    )
    plain = Scoreboard("minimum", "threshold", value_scale=within[0], time_scale=within[1])
    return Auxiliary(
        aux.name,
        aux.people[chosen],
        shared,
        _useful(known),
        links,
        pairs,
        answered,
        points,
        clear,
        calibrated,
        sure,
        _answers(link(facts, few, plain), phi, pairs, confidence),
    )


def _calibrated(
    facts: Facts, known: Known, scoring: Scoreboard, rate: float, seed: int, confidence: float
) -> Calibrated | Refusal:
    """From people of the release, each known as a person of the auxiliary table is."""
    counts = np.diff(_shared(known).start)
    able = np.unique(facts.person).astype(np.int64)
    people = np.sort(np.random.default_rng([seed, 87]).permutation(able)[:_OUTSIDE])
    alike = records_like(facts, people, counts, seed)
    alike = replace(
        alike,
        value=None if known.value is None else alike.value,
        time=None if known.time is None else alike.time,
    )
    try:
        return calibrate(outside(facts, alike, people, scoring, seed), rate, confidence)
    except NotMeasurable as error:
        return Refusal(str(error))


def _answers(links: Links, phi: float, true: Int | None, confidence: float) -> Answers:
    named = links.matched(phi)
    answered = clopper_pearson(int((named >= 0).sum()), len(named), confidence)
    inside = np.zeros(len(named), bool) if true is None else true >= 0
    untold = Refusal("nobody is known to be in both tables.")
    if true is None or not inside.any():
        return Answers(answered, untold, untold)
    right = clopper_pearson(int((named == true)[inside].sum()), int(inside.sum()), confidence)
    if inside.all():
        return Answers(answered, right, Refusal("everybody is known to be in both tables."))
    strange = int((named >= 0)[~inside].sum())
    return Answers(answered, right, clopper_pearson(strange, int((~inside).sum()), confidence))


def _shared(known: Known) -> Known:
    """Known facts about items of the release alone."""
    there = np.flatnonzero(known.item != NOT_RELEASED)
    before = np.concatenate([[0], np.cumsum(known.item != NOT_RELEASED)])
    return Known(
        before[known.start],
        known.item[there],
        None if known.value is None else known.value[there],
        None if known.time is None else known.time[there],
    )


def _clear(links: Links, true: Int) -> tuple[float, int]:
    right = (links.best == true) & (true >= 0)
    wrong = float(links.eccentricity[~right].max(initial=0.0))
    return wrong, int((links.eccentricity[right] > wrong).sum())


def _useful(known: Known) -> int:
    return int((np.diff(_shared(known).start) > 0).sum())


def _places(names: NDArray[np.str_], among: NDArray[np.str_]) -> Int:
    """Where each name stands among ascending ones, -1 = nowhere."""
    at = np.minimum(np.searchsorted(among, names), len(among) - 1)
    return np.where(among[at] == names, at, NOT_RELEASED)


def _all_there(names: NDArray[np.str_], ratings: Release, side: str) -> Int:
    found = _places(names.astype(np.str_), ratings.people)
    if (found < 0).any():
        odd = names[np.argmax(found < 0)]
        raise InputError(
            f"truth names {str(odd)!r}, who is not in {ratings.name} ({side}). Take the pair out."
        )
    if len(np.unique(found)) != len(found):
        raise InputError(f"truth names somebody of {ratings.name} twice. Name each once.")
    return found
