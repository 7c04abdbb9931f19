"""Sparse records: how few facts name a person, as they are and after each mitigation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lethe.data.records import Ratings
from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Estimate
from lethe.evidence.frontier import Candidate
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.of_rows import Calibrated
from lethe.linkage.document import BASELINE
from lethe.linkage.records.attackers import (
    COMPARED,
    Adversary,
    closed_world,
    draw_targets,
    has_all_items,
    look,
    outside,
    share_out,
    simulate,
)
from lethe.linkage.records.auxiliary import link_auxiliary
from lethe.linkage.records.candidates import (
    Aim,
    Attacked,
    Looked,
    Simulated,
    family_of,
    measure,
    named_rightly,
    risk_change,
    utility_in,
)
from lethe.linkage.records.document import RecordSubject
from lethe.linkage.records.facts import Index, index_of
from lethe.linkage.records.mitigations import Change, Coarsened, Sheet, as_it_is, changes
from lethe.linkage.records.scoreboard import (
    NO_MATCH,
    curve,
    facts_needed,
    joined,
    thresholds,
)
from lethe.linkage.records.unicity import people_fitting, worst_case
from lethe.linkage.settings import RecordSettings

_MISSED = 0.02  # share of people with too few facts for all others, from which one fact is known


def study_records(
    ratings: Ratings,
    settings: RecordSettings,
    aux: Ratings | None = None,
    truth: tuple[NDArray[np.str_], NDArray[np.str_]] | None = None,
) -> RecordSubject:
    """Simulate adversaries and look real people up, then give all of them each coarser release.

    Raises:
        InputError: see `link_auxiliary`.
        NotMeasurable: fewer than 2 people have enough facts for the first adversary.
    """
    facts = index_of(ratings)
    sheet = sheet_of(facts)
    skipped: dict[str, str] = {}
    aims: list[Aim] = []
    for name, adversary in adversaries(facts, settings).items():
        try:
            aims.append(_aim(name, adversary, facts, settings))
        except NotMeasurable as error:
            if not aims:
                raise
            skipped[name] = str(error)
    listed, looked = list(aims), None
    if aux is not None:
        others = 1 + sum(aim.attacks(settings) for aim in aims)
        looked = link_auxiliary(ratings, facts, aux, truth, settings, others)
        if looked.aim is not None:
            listed.append(looked.aim)
    sure = family_of(listed, settings)
    simulated = tuple(_simulated(aim, facts, settings, sure) for aim in aims)
    first = simulated[0]
    best = first.strongest
    unicity = _unicity(facts, settings, skipped)  # says first what it could not measure
    anybody = Adversary(1, value_error=None, time_error=None)
    people = draw_targets(facts, anybody, settings.targets, settings.seed)
    return RecordSubject(
        settings,
        tuple(_candidates(sheet, ratings, listed, settings, skipped)),
        skipped,
        ratings,
        facts,
        simulated,
        facts_needed(
            facts,
            first.aim.known,
            first.aim.targets,
            lambda part: (
                look(facts, {best: part}, {best: first.aim.boards(settings)[best]})[best].best
            ),
            confidence=sure,
        ),
        unicity,
        worst_case(facts, people, confidence=settings.confidence),
        looked,
        sure,
    )


def sheet_of(facts: Index) -> Sheet:
    """The facts as columns, in the order of the index, whatever that of the file was."""
    item = np.repeat(np.arange(facts.items, dtype=np.int32), facts.support)
    values, times = facts.values_at(slice(None)), facts.times_at(slice(None))
    return Sheet(facts.person, item, values, times, facts.people, facts.items)


def adversaries(facts: Index, settings: RecordSettings) -> dict[str, Adversary]:
    """Those that are simulated, by name; the first sets the risk."""
    value_error = None if facts.value is None else settings.value_error
    errors: list[int | None] = [None]
    if facts.time is not None:
        errors = [*dict.fromkeys([settings.time_error, 3, 14]), None]
    sizes = dict.fromkeys(
        [settings.facts, max(settings.facts // 2, 1), max(settings.facts // 4, 1)]
    )
    plans = [(total, error, 0) for error in errors for total in sizes]
    fewest = min(total - total // 4 for total in sizes)
    if (facts.lengths() < fewest).mean() > _MISSED:
        plans += [(1, error, 0) for error in errors]
    plans += [(settings.facts, None, top) for top in (100, 500) if 4 * top <= facts.items]
    dense = has_all_items(facts).mean() > 0.5  # then no fact can be about an item one lacks
    listed = {}
    for total, error, top in plans:
        right = total if dense else total - total // 4
        known = f"{right} of {total} facts" if right < total else f"{total} facts"
        known = "1 fact" if total == 1 else known
        when = "no dates" if error is None else f"within {error} days"
        where = f", outside the {top} most popular items" if top else ""
        listed[f"{known}, {when}{where}"] = Adversary(
            total, right, value_error, error, outside_top=top
        )
    return listed


def _aim(name: str, adversary: Adversary, facts: Index, settings: RecordSettings) -> Aim:
    targets = draw_targets(facts, adversary, settings.targets, settings.seed)
    if len(targets) < 2:
        raise NotMeasurable(
            f"{len(targets)} people have enough facts for: {name}. Let fewer be known: --facts "
            f"{max(int(np.median(facts.lengths())), 1)} (facts in Python)."
        )
    return Aim(
        name,
        targets,
        simulate(facts, targets, adversary, settings.seed),
        sampling=replace(
            adversary.sampling(facts), closed=closed_world(len(targets), facts.people)
        ),
        simulated=(facts, adversary),
    )


def _simulated(aim: Aim, facts: Index, settings: RecordSettings, sure: float) -> Simulated:
    boards, targets = aim.boards(settings), aim.targets
    links = look(facts, aim.known_by, boards)
    absent = outside(facts, aim.known_by, targets, boards)
    calibrated = share_out(absent, settings.false_matches, settings.confidence)
    true = np.concatenate([targets, np.full(len(targets), NO_MATCH)])
    by = {}
    for name, named in links.items():
        hit, threshold = named.best == targets, calibrated[name]
        result = named_rightly(aim.label(name), hit, aim.name, name, sure)
        points = curve(joined([named, absent[name]]), true, thresholds(settings.phi), sure)
        shown = COMPARED if settings.phi is None else settings.phi
        point = next(point for point in points if point.phi == shown)
        if isinstance(threshold, Calibrated):
            there = curve(named, targets, [threshold.phi], sure)[0]
            threshold = replace(threshold, match=there.recall, abstention=there.abstention)
        rates = point.recall, point.precision, point.abstention, point.false_match
        by[name] = Looked(
            *(aim.name, name, len(targets), result.estimate, *rates, threshold),
            *(result, named, points),
        )
    return Simulated(aim, by)


def _unicity(
    facts: Index, settings: RecordSettings, skipped: dict[str, str]
) -> dict[int, Estimate]:
    shares = {}
    for total in (1, 2, 3, 4):
        bare = Adversary(total, value_error=None, time_error=None)
        targets = draw_targets(facts.distinct, bare, settings.targets, settings.seed)
        if not len(targets):
            skipped[f"{total} items known"] = "nobody has so many"
            continue
        known = simulate(facts.distinct, targets, bare, settings.seed)
        alone = int((people_fitting(facts, known) == 1).sum())
        shares[total] = clopper_pearson(alone, len(known), settings.confidence)
    return shares


def _applied(change: Change, seed: Sequence[int], sheet: Sheet) -> Coarsened:
    return change(sheet, np.random.default_rng(seed))


def _candidates(
    sheet: Sheet,
    ratings: Ratings,
    aims: Sequence[Aim],
    settings: RecordSettings,
    skipped: dict[str, str],
) -> Iterator[Candidate]:
    plans: dict[str, tuple[str, Change]] = {
        BASELINE: ("the records as they are", lambda s, _: as_it_is(s)),
        **changes(settings),
    }
    sure = family_of(aims, settings)
    baseline: Attacked | None = None
    for at, (name, (words, change)) in enumerate(plans.items()):
        try:
            mitigated = partial(_applied, change, [settings.seed, 77, at])
            changed = mitigated(sheet)
            utility = utility_in(sheet, ratings, settings, changed, mitigated)
            release = measure(name, words, sheet, changed, utility, aims, settings, baseline)
        except NotMeasurable as error:
            skipped[name] = str(error)
            continue
        if baseline is None:
            baseline = release
            yield release
            continue
        change_of_risk = risk_change(baseline=baseline, release=release, confidence=sure)
        yield release.beside(baseline, settings.confidence, change_of_risk)
