"""Sparse records: how few facts name a person, as they are and after each mitigation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Refusal
from lethe.linkage.adversary import Adversary, draw_targets, simulate
from lethe.linkage.calibration import Calibrated, calibrate, outside
from lethe.linkage.coarsening import Change, Sheet, as_it_is
from lethe.linkage.facts import Facts, Int, Known, index_of, without
from lethe.linkage.matching import PHIS, Bits, FactsNeeded, Point, bits, curve, facts_needed
from lethe.linkage.record_changes import changes
from lethe.linkage.record_utility import Value
from lethe.linkage.record_way import Attack, Measurement, measure, pick
from lethe.linkage.scoreboard import NO_MATCH, Links, Scoreboard, link
from lethe.linkage.settings import RecordSettings
from lethe.linkage.uniqueness import Unicity, unicity
from lethe.linkage.way import BASELINE, Way
from lethe.linkage.worst_case import WorstCase, worst_case
from lethe.loaders.sorted_ratings import Release


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
        calibrated: threshold at which few people outside the release are named a record, from all
            targets looked for without their own.
        sure: recall and silence there; None where there is no such threshold.
    """

    name: str
    adversary: Adversary
    targets: Int
    known: Known
    strangers: Int
    links: Links
    points: list[Point]
    bits: Bits
    calibrated: Calibrated | Refusal
    sure: Point | None

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
        worst: the same for the items that give most away.
        ways: the release as it is, then the candidates.
        skipped: name and reason of what could not be measured.
    """

    ratings: Release
    facts: Facts
    simulated: tuple[Simulated, ...]
    needed: FactsNeeded
    unicity: dict[int, Unicity]
    worst: WorstCase
    ways: tuple[Way, ...]
    skipped: Mapping[str, str]


def study_records(ratings: Release, settings: RecordSettings) -> RecordStudy:
    """Simulate adversaries, then give the first of them each coarser release.

    Raises:
        NotMeasurable: fewer than 2 people have enough facts for the adversary that sets the risk.
    """
    facts = index_of(ratings)
    sheet = sheet_of(facts)
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
        _worst(facts, settings),
        tuple(_ways(sheet, ratings, first, settings, skipped)),
        skipped,
    )


def sheet_of(facts: Facts) -> Sheet:
    """The facts as columns, in the order of the index, whatever that of the file was."""
    everything = slice(None)
    item = np.repeat(np.arange(facts.items, dtype=np.int32), facts.support)
    return Sheet(
        facts.person,
        item,
        facts.values_at(everything),
        facts.times_at(everything),
        facts.people,
        facts.items,
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
    found, sure = _calibrated(facts, known, targets, links, settings)
    return Simulated(
        name,
        adversary,
        targets,
        known,
        strangers,
        links,
        points,
        bits(links, settings.confidence),
        found,
        sure,
    )


def _calibrated(
    facts: Facts, known: Known, targets: Int, links: Links, settings: RecordSettings
) -> tuple[Calibrated | Refusal, Point | None]:
    try:
        alone = outside(facts, known, targets, board(settings), settings.seed)
        found = calibrate(alone, settings.false_matches, settings.confidence)
    except NotMeasurable as error:
        return Refusal(str(error)), None
    return found, curve(links, targets, [found.phi], settings.confidence)[0]


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


def _worst(facts: Facts, settings: RecordSettings) -> WorstCase:
    anybody = Adversary(1, value_error=None, time_error=None)
    people = draw_targets(facts, anybody, settings.targets, settings.seed)
    return worst_case(facts, people, confidence=settings.confidence)


def _ways(
    sheet: Sheet,
    ratings: Release,
    first: Simulated,
    settings: RecordSettings,
    skipped: dict[str, str],
) -> Iterator[Way]:
    plans: dict[str, tuple[str, Change]] = {
        BASELINE: ("the records as they are", lambda s, _: as_it_is(s)),
        **changes(settings),
    }
    attack = Attack(first.known, first.targets, first.strangers, board(settings))
    value = Value(sheet, ratings, settings)
    base: Measurement | None = None
    for at, (name, (words, change)) in enumerate(plans.items()):
        try:
            rng = partial(np.random.default_rng, [settings.seed, 77, at])
            made = change(sheet, rng())
            worth = value.of(made, change, rng)
            one = measure(name, words, sheet, made, worth, attack, settings, base)
        except NotMeasurable as error:
            skipped[name] = str(error)
            continue
        base = base or one
        yield one.way
