"""Sparse records: how few facts name a person, as they are and after each mitigation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.intervals import clopper_pearson
from lethe.linkage.adversary import Adversary, draw_targets, simulate
from lethe.linkage.coarsening import (
    MONTH,
    Change,
    Coarsened,
    Sheet,
    as_it_is,
    coarser_times,
    noisy_times,
    some_facts,
    some_people,
    two_values,
    without_rare,
)
from lethe.linkage.facts import Facts, Int, Known, without
from lethe.linkage.matching import PHIS, Bits, FactsNeeded, Point, bits, curve, facts_needed
from lethe.linkage.record_utility import utility_of
from lethe.linkage.scoreboard import NO_MATCH, Links, Scoreboard, link
from lethe.linkage.settings import RecordSettings
from lethe.linkage.uniqueness import Unicity, unicity
from lethe.linkage.way import BASELINE, Way, paired_change
from lethe.loaders.ratings import Ratings

_ASSUMED = (
    "targets are drawn at random from people with enough facts, and what is known of them too",
    "the scoreboard of the audit; a better attack may name more",
)


@dataclass(frozen=True, eq=False)
class Simulated:
    """One simulated adversary and what came of it.

    Attributes:
        name: in words.
        adversary: what is known.
        targets: (Q,) who is looked for.
        known: what is known of them.
        strangers: places in `targets` of those who are also looked for in a release without them.
        links: of the targets.
        points: recall, precision, abstention and false matches at each threshold.
        bits: left and gained.
    """

    name: str
    adversary: Adversary
    targets: Int
    known: Known
    strangers: Int
    links: Links
    points: list[Point]
    bits: Bits

    def at(self, phi: float) -> Point:
        """The point of one threshold."""
        return next(point for point in self.points if point.phi == phi)


@dataclass(frozen=True, eq=False)
class RecordStudy:
    """All that was measured on sparse records.

    Attributes:
        ratings: what is released.
        facts: the same, indexed.
        simulated: adversaries; the first sets the risk of the candidates.
        needed: facts that it takes, of the first.
        unicity: by number of items known without value or time, people who are alone with them.
        ways: the release as it is, then the candidates.
        skipped: name and reason of what could not be measured.
    """

    ratings: Ratings
    facts: Facts
    simulated: tuple[Simulated, ...]
    needed: FactsNeeded
    unicity: dict[int, Unicity]
    ways: tuple[Way, ...]
    skipped: Mapping[str, str]


def study_records(ratings: Ratings, settings: RecordSettings) -> RecordStudy:
    """Simulate adversaries, then give the first of them each coarser release.

    Raises:
        NotMeasurable: fewer than 2 people have enough facts for the adversary that sets the risk.
    """
    sheet = sheet_of(ratings)
    facts = sheet.index()
    skipped: dict[str, str] = {}
    simulated = []
    for name, adversary in adversaries(facts, settings).items():
        try:
            simulated.append(_simulated(name, adversary, facts, settings))
        except NotMeasurable as error:
            if not simulated:
                raise
            skipped[name] = str(error)
    first = simulated[0]
    return RecordStudy(
        ratings,
        facts,
        tuple(simulated),
        facts_needed(
            facts, first.known, first.targets, board(settings), confidence=settings.confidence
        ),
        _unicity(facts, settings, skipped),
        tuple(_ways(sheet, ratings, first, settings, skipped)),
        skipped,
    )


def sheet_of(ratings: Ratings) -> Sheet:
    """The facts of a file as columns."""
    return Sheet(
        ratings.person,
        ratings.item,
        ratings.value,
        ratings.time,
        len(ratings.people),
        len(ratings.items),
    )


def board(settings: RecordSettings) -> Scoreboard:
    """The scoreboard of the audit."""
    return Scoreboard(value_scale=settings.value_scale, time_scale=settings.time_scale)


def adversaries(facts: Facts, settings: RecordSettings) -> dict[str, Adversary]:
    """Those that are simulated, by name; the first sets the risk."""
    value_error = None if facts.value is None else settings.value_error
    errors: list[int | None] = [None]
    if facts.time is not None:
        errors = [*dict.fromkeys([settings.time_error, 3, 14]), None]
    sizes = dict.fromkeys(
        [settings.facts, max(settings.facts // 2, 1), max(settings.facts // 4, 1)]
    )
    plans = [(total, error, 0) for error in errors for total in sizes]
    plans += [(settings.facts, None, top) for top in (100, 500) if 4 * top <= facts.items]
    found = {}
    for total, error, top in plans:
        right = total - total // 4
        known = f"{right} of {total} facts" if right < total else f"{total} facts"
        when = "no dates" if error is None else f"within {error} days"
        where = f", outside the {top} most popular items" if top else ""
        found[f"{known}, {when}{where}"] = Adversary(
            total, right, value_error, error, outside_top=top
        )
    return found


def pick(known: Known, rows: NDArray[np.integer[Any]]) -> Known:
    """What is known of some targets, in that order."""
    spans = [np.arange(known.start[at], known.start[at + 1]) for at in rows]
    held = np.concatenate(spans) if spans else np.zeros(0, np.int64)
    return Known(
        np.concatenate([[0], np.cumsum([len(span) for span in spans])]).astype(np.int64),
        known.item[held],
        None if known.value is None else known.value[held],
        None if known.time is None else known.time[held],
    )


def joined(one: Links, other: Links) -> Links:
    """Two linkages as one, for `curve`; their releases may differ by a few people."""
    names = ("best", "eccentricity", "deviation", "entropy", "surprise")
    parts = [np.concatenate([getattr(one, name), getattr(other, name)]) for name in names]
    return Links(parts[0], parts[1], parts[2], parts[3], parts[4], one.people)


def _simulated(
    name: str, adversary: Adversary, facts: Facts, settings: RecordSettings
) -> Simulated:
    targets = draw_targets(facts, adversary, settings.targets, settings.seed)
    if len(targets) < 2:
        raise NotMeasurable(f"{len(targets)} people have enough facts for: {name}.")
    known = simulate(facts, targets, adversary, settings.seed)
    links = link(facts, known, board(settings), true=targets)
    # Few at a time: without them the release must stay what it is for the others.
    most = min(len(targets), max(facts.people // 10, 1), facts.people - 2)
    rng = np.random.default_rng([settings.seed, 76])
    strangers = np.sort(rng.permutation(len(targets))[:most])
    points = curve(links, targets, _phis(settings), settings.confidence)
    if len(strangers):
        absent = link(
            without(facts, targets[strangers])[0], pick(known, strangers), board(settings)
        )
        true = np.concatenate([targets, np.full(len(strangers), NO_MATCH)])
        points = curve(joined(links, absent), true, _phis(settings), settings.confidence)
    return Simulated(
        name,
        adversary,
        targets,
        known,
        strangers,
        links,
        points,
        bits(links, settings.confidence),
    )


def _phis(settings: RecordSettings) -> list[float]:
    return sorted({*PHIS, settings.phi})


def _unicity(facts: Facts, settings: RecordSettings, skipped: dict[str, str]) -> dict[int, Unicity]:
    found = {}
    for total in (1, 2, 3, 4):
        bare = Adversary(total, value_error=None, time_error=None)
        targets = draw_targets(facts, bare, settings.targets, settings.seed)
        if not len(targets):
            skipped[f"{total} items known"] = "nobody has so many"
            continue
        known = simulate(facts, targets, bare, settings.seed)
        found[total] = unicity(facts, known, confidence=settings.confidence)
    return found


def changes(settings: RecordSettings) -> dict[str, tuple[str, Change]]:
    """The mitigations, by name, with their words."""
    half = f"{settings.share:g}"
    return {
        "weeks": ("times to the week", lambda s, _: coarser_times(s, 7)),
        "months": (f"times to {MONTH} days", lambda s, _: coarser_times(s, MONTH)),
        "years": (f"times to {13 * MONTH} days", lambda s, _: coarser_times(s, 13 * MONTH)),
        "no-times": ("no times", lambda s, _: coarser_times(s, 0)),
        "noisy-times": (
            f"times moved by up to {2 * MONTH} days at random",
            lambda s, rng: noisy_times(s, 2 * MONTH, rng),
        ),
        "two-values": ("values low or high only", lambda s, _: two_values(s)),
        "no-rare-items": (
            f"no items that fewer than {settings.support} people have",
            lambda s, _: without_rare(s, settings.support),
        ),
        "some-facts": (
            f"each fact with chance {half}",
            lambda s, rng: some_facts(s, settings.share, rng),
        ),
        "some-people": (
            f"a share of {half} of the people",
            lambda s, rng: some_people(s, settings.share, rng),
        ),
        "together": (
            f"no times, values low or high, no rare items, each fact with chance {half}",
            partial(_together, settings=settings),
        ),
    }


def _together(sheet: Sheet, rng: np.random.Generator, *, settings: RecordSettings) -> Coarsened:
    coarse = as_it_is(sheet) if sheet.value is None else two_values(sheet)
    made = coarse.sheet if sheet.time is None else coarser_times(coarse.sheet, 0).sheet
    drawn = some_facts(without_rare(made, settings.support).sheet, settings.share, rng)
    return Coarsened(drawn.sheet, drawn.out, drawn.share, 0, coarse.values)


def _ways(
    sheet: Sheet,
    ratings: Ratings,
    first: Simulated,
    settings: RecordSettings,
    skipped: dict[str, str],
) -> Iterator[Way]:
    plans: dict[str, tuple[str, Change]] = {
        BASELINE: ("the records as they are", lambda s, _: as_it_is(s)),
        **changes(settings),
    }
    base: tuple[Way, NDArray[np.bool_]] | None = None
    for at, (name, (words, change)) in enumerate(plans.items()):
        try:
            made = change(sheet, np.random.default_rng([settings.seed, 77, at]))
            one = _measure(name, words, sheet, made, ratings, first, settings, base)
        except NotMeasurable as error:
            skipped[name] = str(error)
            continue
        base = base or one
        yield one[0]


def _measure(
    name: str,
    words: str,
    sheet: Sheet,
    made: Coarsened,
    ratings: Ratings,
    first: Simulated,
    settings: RecordSettings,
    base: tuple[Way, NDArray[np.bool_]] | None,
) -> tuple[Way, NDArray[np.bool_]]:
    """Shares are of all targets, those whose record is not released included."""
    sure, scoring = settings.confidence, board(settings)
    facts, place = _released(made, np.zeros(0, np.int64))
    true = place[first.targets]
    links = link(facts, first.known, scoring)
    right = (links.matched(0.0) == true) & (true >= 0)
    sure_right = (links.matched(settings.phi) == true) & (true >= 0)
    count = len(first.targets)
    top = clopper_pearson(int(right.sum()), count, sure)
    match = clopper_pearson(int(sure_right.sum()), count, sure)
    strange: Measured = Refusal("nobody was looked for who is not in the release.")
    if len(first.strangers):
        gone, _ = _released(made, first.targets[first.strangers])
        named = link(gone, pick(first.known, first.strangers), scoring).matched(settings.phi)
        strange = clopper_pearson(int((named >= 0).sum()), len(named), sure)
    value = utility_of(sheet, made, ratings, settings.queries)
    utility = Estimate(value, value, value, sure, "counted in all facts", len(sheet.item))
    evidence: dict[str, Measured] = {"top-1": top, "match": match, "false-match": strange}
    loss = change = None
    if base is not None:
        gone_value = (base[0].utility.value or 0.0) - value
        loss = Estimate(
            gone_value, gone_value, gone_value, sure, "counted in all facts", len(sheet.item)
        )
        change = paired_change(right, base[1], sure)
        evidence["utility-loss"] = loss
    details = {
        "match": match.to_json(),
        "false_match": strange.to_json(),
        "facts": len(made.sheet.item),
        "people": int((~made.out).sum()),
    }
    way = Way(name, words, {}, top, utility, loss, change, evidence, details, _ASSUMED)
    return way, right


def _released(made: Coarsened, also_out: Int) -> tuple[Facts, Int]:
    """The release as an index, and the new number of each person, -1 = not in it."""
    out = made.out.copy()
    out[also_out] = True
    place = np.arange(len(out))
    facts = made.sheet.index()
    if out.any():
        facts, kept = without(facts, np.flatnonzero(out))
        place = np.full(len(out), NO_MATCH)
        place[kept] = np.arange(len(kept))
    return facts, place
