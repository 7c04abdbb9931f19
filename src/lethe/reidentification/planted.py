"""Leaks of known size planted into a release's own rows, and the attackers' results on them.

Some people get rows that reveal them in one of four ways. Every coordinate keeps a value that the
release emits there, so that constant, rounded or tied vectors show their own lack of power.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Estimate
from lethe.evidence.risk import RELEASE
from lethe.evidence.sight import Plant
from lethe.reidentification.attackers import Panel, named_first
from lethe.reidentification.by_user import scaled
from lethe.reidentification.enrolled import ENROLLED, GAUSSIAN, NEAREST, SOFTMAX
from lethe.reidentification.family import PLAIN
from lethe.reidentification.gallery import Index, means
from lethe.reidentification.sight import ALL, Sight, grouped
from lethe.reidentification.tally import Tally
from lethe.reidentification.vectors import Float

MEAN, MODES = "a mean of their own", "two opposite modes"
VARIANCES, REPEATS = "variances of their own", "exact repeats"
SHARES = (0.02, 0.1, 0.3, 0.8)
"""Shares of people that carry a leak, beside those that rules ask for."""
_LIFT = 4.0  # lift that a rule with limit 2 forbids
_MOST_PEOPLE = 100  # people with planted rows at most; their hits represent any number
_ROWS = 20_000  # rows of the release that values are drawn from at most
_NARROW, _QUIET = 0.1, 0.05  # residuals about a planted mean; spread of a quiet coordinate
_ON_PLANTS = (*PLAIN, *set(ENROLLED) - {SOFTMAX})  # metrics that learn nothing from other people
_MADE_FOR = {MEAN: PLAIN, MODES: (NEAREST,), VARIANCES: (GAUSSIAN,), REPEATS: (*PLAIN, NEAREST)}
_AS_KNOWN = 0.97  # share of the hits of an attacker who knows the leak: further ones need not run
_ABLE = 0.2  # least share of hits of an attacker who knows the leak: else values carry no such leak


@dataclass(frozen=True, eq=False)
class Twin:
    """A release in which the rows of some people were replaced, with only their probes.

    Attributes:
        known: share of these probes that an attacker who knows the leak links to their owner.
    """

    kind: str
    sight: Sight
    known: float


class _Values:
    """Draws rows from the values that a release emits."""

    def __init__(self, sight: Sight, rng: np.random.Generator) -> None:
        rows = np.concatenate([sight.rows, sight.probes])
        if len(rows) > _ROWS:
            rows = rows[rng.permutation(len(rows))[:_ROWS]]
        self.rows, self.rng = rows, rng
        self.sorted = np.sort(rows, axis=0)
        self.middle = self.sorted[len(rows) // 2]

    def drawn(self, number: int) -> Float:
        """(number, d) rows at random, about the median."""
        return np.asarray(self.rows[self.rng.integers(0, len(self.rows), number)] - self.middle)

    def emitted(self, wanted: Float) -> Float:
        """Round every coordinate to the nearest value that the release emits there."""
        found = np.empty_like(wanted)
        for column in range(wanted.shape[1]):
            values = self.sorted[:, column]
            place = np.searchsorted(values, wanted[:, column]).clip(1, len(values) - 1)
            below, above = values[place - 1], values[place]
            nearer = wanted[:, column] - below < above - wanted[:, column]
            found[:, column] = np.where(nearer, below, above)
        return found


def twins(sight: Sight, seed: int = 0) -> Iterator[Twin]:
    """Twins of the release, one for each kind of leak that its values can carry.

    Args:
        sight: the release as an adversary holds it, single probes.
    """
    rng = np.random.default_rng([seed, 69])
    asked = np.unique(sight.owner)
    people = np.sort(rng.permutation(asked)[: min(_MOST_PEOPLE, max(1, len(asked) // 2))])
    alone = sight.asking(np.isin(sight.owner, people))
    enrolled = np.flatnonzero(np.isin(sight.user, people))
    place = np.searchsorted(people, np.concatenate([sight.user[enrolled], alone.owner]))
    probes = slice(len(enrolled), None)
    values = _Values(sight, rng)
    anchor, residual = values.drawn(len(people)), values.drawn(len(place))
    width = np.where(rng.random(anchor.shape) < 0.5, 1.0, _QUIET)
    # Signs alternate within enrolment and within the probes; a single row has a single mode.
    turn = np.concatenate([_turns(sight.user[enrolled]), _turns(alone.owner)])
    several = np.bincount(place[: len(enrolled)], minlength=len(people)) > 1
    sign = np.where(several[place] & (turn % 2 == 1), -1.0, 1.0)[:, None]
    wanted = {
        MEAN: anchor[place] + _NARROW * residual,
        MODES: sign * anchor[place] + _NARROW * residual,
        VARIANCES: width[place] * residual,
    }
    for kind, offset in wanted.items():
        rows = values.emitted(values.middle + offset)
        if kind == VARIANCES:
            score = _narrowness(rows[probes] - values.middle, width, values)
        else:
            ways = (1, -1) if kind == MODES else (1,)
            centres = [values.emitted(values.middle + way * anchor) for way in ways]
            near = [2 * rows[probes] @ c.T - (c**2).sum(axis=1) for c in centres]
            score = np.maximum.reduce(near)
        known = float(named_first(score, [place[probes]]).mean())
        if known >= _ABLE:
            yield Twin(kind, _with(alone, enrolled, rows), known)
    copied, known = _repeats(alone, turn[probes])
    if known >= _ABLE:
        yield Twin(REPEATS, replace(alone, probes=copied), known)


def _turns(owner: Index) -> Index:
    """Running number 0, 1, 2, ... of the rows of each person."""
    order, sizes = grouped(owner, ALL)
    turn = np.empty(len(owner), np.intp)
    turn[order] = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return turn


def _narrowness(rows: Float, width: Float, values: _Values) -> Float:
    """Log-likelihood under the widths of each person, given the spread of the release."""
    spread = (values.rows - values.middle).std(axis=0)
    still = spread <= 0
    inverse = np.where(still, 0.0, 1 / (width * np.where(still, 1.0, spread)) ** 2)
    return np.asarray(-0.5 * rows**2 @ inverse.T - np.log(width[:, ~still]).sum(axis=1))


def _with(alone: Sight, enrolled: Index, rows: Float) -> Sight:
    """The sight with replaced rows of some people."""
    table = alone.rows.copy()
    table[enrolled] = rows[: len(enrolled)]
    gallery = means(table, alone.user, len(alone.gallery))
    return replace(alone, rows=table, gallery=gallery, probes=rows[len(enrolled) :])


def _repeats(alone: Sight, turn: Index) -> tuple[Float, float]:
    """Probes that repeat the enrolled rows of their owner in turn, and the share identified."""
    order = np.argsort(alone.user, kind="stable")
    start = np.searchsorted(alone.user[order], alone.owner)
    source = order[start + turn % alone.counts.astype(np.intp)[alone.owner]]
    equal = np.unique(alone.rows, axis=0, return_inverse=True)[1].ravel()
    owners = np.bincount(np.unique(np.stack([equal, alone.user]), axis=1)[0])
    return alone.rows[source], float((1 / owners[equal[source]]).mean())


def plants(
    panel: Panel,
    sight: Sight,
    tallies: Sequence[Tally],
    limits: Sequence[float],
    confidence: float,
    seed: int = 0,
) -> list[Plant]:
    """Plant leaks of several sizes into a release, and measure the strongest attacker on each.

    Attackers that learn from other people are left out: the others must see every kind. They look
    until one finds a leak as often as who knows it: fewer of them can only show less. Where one
    names everybody on the release itself, a leak of one kind is planted.

    Args:
        panel: attackers of the release.
        sight: the release as it is handed out.
        tallies: what they found on the release itself: people without a leak count as there.
        limits: Top-1 of further sizes to plant, as rules ask for them.
        confidence: of each limit.

    Returns: One entry a kind and size; no entry where the values can carry no leak.
    """
    users = len(sight.gallery)
    asked = np.unique(sight.owner)
    order = np.random.default_rng([seed, 70]).permutation(asked)
    sizes = {math.ceil(share * users) for share in (*SHARES, *limits, (_LIFT - 1) / users)}
    sizes = {min(size + 1, len(asked)) for size in sizes}
    able = [
        tally
        for tally in sorted(tallies, key=lambda one: one.attacker.vectors == 1)
        if tally.view == RELEASE
        and tally.attacker.metric in _ON_PLANTS
        and not tally.attacker.normalised
    ]
    found: list[Plant] = []
    everybody = any(tally.share >= 1 for tally in tallies)
    for twin in twins(sight, seed):
        if everybody and found:
            break
        looked: list[tuple[Tally, Float]] = []
        for tally in sorted(able, key=lambda one: one.attacker.metric not in _MADE_FOR[twin.kind]):
            rate = _rates(panel, tally, twin.sight)
            if rate is not None:
                looked.append((tally, rate))
                if rate.mean() >= _AS_KNOWN * twin.known:
                    break
        for size in sorted(sizes) if looked else ():
            carrying = order[:size]
            measured = [_carried(tally, carrying, rate, confidence) for tally, rate in looked]
            best = max(measured, key=lambda lift: (lift.low or 0.0, lift.value or 0.0))
            share = size / len(asked)
            leak = share * twin.known + (1 - share) / users
            found.append(
                Plant(
                    twin.kind,
                    {"top-1": leak, "lift": leak * users},
                    {"top-1": replace(scaled(best, 1 / users), method="plant"), "lift": best},
                )
            )
    return found


def _rates(panel: Panel, tally: Tally, sight: Sight) -> NDArray[np.float64] | None:
    """(m,) share of the planted probes of each person that an attacker identifies, or None."""
    try:
        seen = panel.seen(tally.attacker, sight, sight)
        credit = panel.credit(tally.attacker, seen, panel.fits(tally.attacker, seen))
    except (InputError, NotMeasurable):
        return None
    people, place = np.unique(seen.owner, return_inverse=True)
    return np.bincount(place, credit) / np.bincount(place, minlength=len(people))


def _carried(tally: Tally, carrying: Index, rate: Float, confidence: float) -> Estimate:
    """Lift of an attacker if some people carry a leak that it identifies at these rates."""
    hits = tally.hits.copy()
    hits[carrying] = np.resize(rate, len(carrying)) * tally.tries[carrying]
    return replace(replace(tally, hits=hits).lift(confidence), method="plant")
