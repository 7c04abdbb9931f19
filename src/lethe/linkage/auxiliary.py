"""A real auxiliary table, or a second release: who of it is in the release?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.evidence.estimate import Measured
from lethe.evidence.intervals import clopper_pearson
from lethe.linkage.coarsening import Sheet
from lethe.linkage.facts import NOT_RELEASED, Facts, Int, Known, facts_of
from lethe.linkage.matching import PHIS, Point, curve
from lethe.linkage.scoreboard import NO_MATCH, RH, Links, Scoreboard, link
from lethe.loaders.ratings import Ratings


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


def link_auxiliary(
    ratings: Ratings,
    facts: Facts,
    aux: Ratings,
    truth: tuple[NDArray[np.str_], NDArray[np.str_]] | None = None,
    *,
    scoring: Scoreboard = RH,
    phi: float = 1.5,
    most: int = 2000,
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
        seed: draws them.
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
    sheet = Sheet(aux.person, aux.item, aux.value, aux.time, len(aux.people), len(aux.items))
    true = np.full(len(aux.people), NO_MATCH)
    if truth is not None:
        mine, theirs = _all_there(truth[0], aux, "aux"), _all_there(truth[1], ratings, "release")
        true[mine] = theirs
    order = np.random.default_rng([seed, 78]).permutation(len(aux.people))
    order = order[np.argsort(true[order] < 0, kind="stable")]  # known pairs first
    chosen = np.sort(order[:most])
    known = facts_of(sheet.index(), chosen)
    known = replace(known, item=place[known.item])
    links = link(facts, known, scoring, true=true[chosen] if truth is not None else None)
    phis = sorted({*PHIS, phi})
    answered: dict[float, Measured] = {
        one: clopper_pearson(int((links.matched(one) >= 0).sum()), len(chosen), confidence)
        for one in phis
    }
    points = clear = None
    if truth is not None and (true[chosen] >= 0).any():
        points = curve(links, true[chosen], phis, confidence)
        clear = _clear(links, true[chosen])
    return Auxiliary(
        aux.name,
        aux.people[chosen],
        shared,
        _useful(known),
        links,
        None if truth is None else true[chosen],
        answered,
        points,
        clear,
    )


def _clear(links: Links, true: Int) -> tuple[float, int]:
    right = (links.best == true) & (true >= 0)
    wrong = float(links.eccentricity[~right].max(initial=0.0))
    return wrong, int((links.eccentricity[right] > wrong).sum())


def _useful(known: Known) -> int:
    held = np.concatenate([[0], np.cumsum(known.item != NOT_RELEASED)])
    return int((held[known.start[1:]] > held[known.start[:-1]]).sum())


def _places(names: NDArray[np.str_], among: NDArray[np.str_]) -> Int:
    """Where each name stands among ascending ones, -1 = nowhere."""
    at = np.minimum(np.searchsorted(among, names), len(among) - 1)
    return np.where(among[at] == names, at, NOT_RELEASED)


def _all_there(names: NDArray[np.str_], ratings: Ratings, side: str) -> Int:
    found = _places(names.astype(np.str_), ratings.people)
    if (found < 0).any():
        odd = names[np.argmax(found < 0)]
        raise InputError(
            f"truth names {str(odd)!r}, who is not in {ratings.name} ({side}). Take the pair out."
        )
    if len(np.unique(found)) != len(found):
        raise InputError(f"truth names somebody of {ratings.name} twice. Name each once.")
    return found
