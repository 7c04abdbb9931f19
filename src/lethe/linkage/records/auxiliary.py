"""Link a real auxiliary table, or a second release, to the release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lethe.data.records import Ratings
from lethe.errors import InputError
from lethe.evidence.estimate import Measured, Refusal
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.of_rows import (
    Answered,
    Answers,
    AuxiliaryAttacker,
    AuxiliaryRows,
    Calibrated,
)
from lethe.evidence.risk import family_confidence
from lethe.linkage.document import FEWEST
from lethe.linkage.records.attackers import (
    ATTACKERS,
    COMPARED,
    Naming,
    closed_world,
    look,
    outside,
    phi_of,
    records_like,
    share_out,
    some_facts_of,
    together,
)
from lethe.linkage.records.candidates import Aim
from lethe.linkage.records.facts import NOT_RELEASED, Index, Int, Known, facts_of, index_of
from lethe.linkage.records.likelihood import Sampling
from lethe.linkage.records.scoreboard import NO_MATCH, Links, curve, thresholds
from lethe.linkage.settings import RecordSettings

_OUTSIDE = 1000  # released people looked for without their own record, at most


@dataclass(frozen=True, eq=False)
class Auxiliary:
    """A real linkage.

    Attributes:
        phi: from where on each answers; None = never, for there are too few people to set it.
    """

    rows: AuxiliaryRows  # what the findings say of it
    people: NDArray[np.str_]  # who was looked for, by name
    true: Int | None  # (Q,) record of each; -1 = not in the release. None = not known.
    links: Mapping[str, Links]  # by attacker, of everybody who was looked for
    phi: Mapping[str, float | None]
    naming: Naming  # all attackers together, each from its threshold on
    aim: Aim | None  # the known pairs, as an adversary of each candidate; None without the truth

    @property
    def by(self) -> dict[str, AuxiliaryAttacker]:
        """What came of each attacker, by name."""
        return {attacker.name: attacker for attacker in self.rows.attackers}


def link_auxiliary(
    ratings: Ratings,
    facts: Index,
    aux: Ratings,
    truth: tuple[NDArray[np.str_], NDArray[np.str_]] | None = None,
    settings: RecordSettings | None = None,
    simulated: int = 0,
) -> Auxiliary:
    """Look for everybody of an auxiliary table in the release; items are matched by name.

    Attackers that take a few facts get at most `settings.facts` of each person, about items that
    both tables have. Everybody with a known truth is among those who are looked for.

    Args:
        aux: what the adversary has: names and facts, on the same scales.
        truth: names in `aux` and names in the release of the same people; who is not listed is
            taken to be outside the release. None = not known.
        simulated: other attacks on the release, at whose side the limits of the known pairs hold.

    Raises InputError: the tables share no item, or the truth names people that there are not.
    """
    settings = settings or RecordSettings()
    place = _places(aux.items, ratings.items)
    shared = int((place >= 0).sum())
    if not shared:
        raise InputError(
            f"{aux.name} and {ratings.name} share no item, for example {aux.items[0]!r} and "
            f"{ratings.items[0]!r}. Give items the same names in both."
        )
    chosen, aim = _everybody(ratings, aux, truth, place, settings)
    pairs = None if truth is None else aim.targets
    boards = aim.boards(settings)
    inside = np.zeros(0, np.int64) if pairs is None else np.flatnonzero(pairs >= 0)
    more = len(boards) + closed_world(len(inside), facts.people)
    size = simulated + (more if len(inside) >= FEWEST else 0)
    sure = family_confidence(settings.confidence, max(size, 1))
    links = look(facts, aim.known_by, boards)
    calibrated = _calibrated(facts, aim, settings)
    phi = phi_of(calibrated, settings.phi)
    attackers = [
        AuxiliaryAttacker(
            name,
            ATTACKERS[name].knows,
            calibrated[name],
            None if (least := phi[name]) is None else _answers(named.matched(least), pairs, sure),
            _answers(named.matched(COMPARED), pairs, sure),
        )
        for name, named in links.items()
    ]
    naming = together(links, phi)
    board, phis = links["scoreboard-rh"], thresholds(settings.phi)
    known_pairs = pairs if len(inside) else None
    rows = AuxiliaryRows(
        aux.name,
        len(chosen),
        shared,
        int((np.diff(_shared(aim.known).start) > 0).sum()),
        None if pairs is None else len(inside),
        [
            Answered(
                least, clopper_pearson(int((board.matched(least) >= 0).sum()), len(chosen), sure)
            )
            for least in phis
        ],
        None if known_pairs is None else curve(board, known_pairs, phis, sure),
        attackers,
        _answers(naming.record, pairs, sure),
    )
    known = None
    if known_pairs is not None:  # people whose record in the release is known
        known = replace(
            aim,
            name=f"{len(inside)} known pairs with {aux.name}",
            targets=known_pairs[inside],
            sampling=replace(aim.sampling, closed=closed_world(len(inside), facts.people)),
            known=aim.known.of(inside),
            few=None if aim.few is None else aim.few.of(inside),
        )
    return Auxiliary(rows, aux.people[chosen], pairs, links, phi, naming, known)


def _everybody(
    ratings: Ratings,
    aux: Ratings,
    truth: tuple[NDArray[np.str_], NDArray[np.str_]] | None,
    place: NDArray[np.int64],
    settings: RecordSettings,
) -> tuple[NDArray[np.intp], Aim]:
    """Rows of `aux` that are looked for, known pairs first, and what is known of them."""
    true = np.full(len(aux.people), NO_MATCH)
    if truth is not None:
        mine, theirs = _all_there(truth[0], aux, "aux"), _all_there(truth[1], ratings, "release")
        true[mine] = theirs
    order = np.random.default_rng([settings.seed, 78]).permutation(len(aux.people))
    order = order[np.argsort(true[order] < 0, kind="stable")]
    chosen = np.sort(order[: settings.sought])
    known = facts_of(index_of(aux), chosen)
    known = replace(known, item=place[known.item])
    few = np.full(len(chosen), settings.facts)
    return chosen, Aim(
        f"everybody of {aux.name}",
        true[chosen],
        known,
        some_facts_of(_shared(known), few, np.random.default_rng([settings.seed, 86])),
        Sampling(0.95, errors=(settings.value_error, float(settings.time_error))),
    )


def _calibrated(
    facts: Index, aim: Aim, settings: RecordSettings
) -> Mapping[str, Calibrated | Refusal]:
    """Calibrate on people of the release, each known as a person of the auxiliary table is."""
    seed, known, boards = settings.seed, aim.known, aim.boards(settings)
    counts = np.diff(_shared(known).start)
    able = np.unique(facts.person).astype(np.int64)
    people = np.sort(np.random.default_rng([seed, 87]).permutation(able)[:_OUTSIDE])
    alike = records_like(facts, people, counts, seed)
    alike = replace(
        alike,
        value=None if known.value is None else alike.value,
        time=None if known.time is None else alike.time,
    )
    most = np.full(len(people), settings.facts)
    few = some_facts_of(alike, most, np.random.default_rng([seed, 88]))
    stranger_aim = replace(aim, targets=people, known=alike, few=few)
    absent = outside(facts, stranger_aim.known_by, people, boards)
    return share_out(absent, settings.false_matches, settings.confidence)


def _answers(named: Int, true: Int | None, confidence: float) -> Answers:
    answered = clopper_pearson(int((named >= 0).sum()), len(named), confidence)
    inside = np.zeros(len(named), bool) if true is None else true >= 0
    counts: dict[str, int | None] = {
        "people": len(named),
        "named": int((named >= 0).sum()),
        "pairs": None,
        "right": None,
        "others": None,
        "others_named": None,
    }
    if true is None or not inside.any():
        unknown = Refusal("nobody is known to be in both tables.")
        return Answers(answered, unknown, unknown, counts)
    right, strange = int((named == true)[inside].sum()), int((named >= 0)[~inside].sum())
    pairs, others = int(inside.sum()), int((~inside).sum())
    counts |= {"pairs": pairs, "right": right, "others": others, "others_named": strange}
    share: Measured = Refusal("everybody is known to be in both tables.")
    if others:
        share = clopper_pearson(strange, others, confidence)
    return Answers(answered, clopper_pearson(right, pairs, confidence), share, counts)


def pairs_of(study: Auxiliary, ratings: Ratings) -> list[dict[str, str | float | bool | None]]:
    """List who was named as whom, by which attacker: personal data.

    Every answer beyond a threshold is a row; `decides` marks the one that is taken. The score is
    the eccentricity.
    """
    rows: list[dict[str, str | float | bool | None]] = []
    for at, (name, links) in enumerate(study.links.items()):
        phi = study.phi[name]
        if phi is None:
            continue
        named = links.matched(phi)
        for person in np.flatnonzero(named >= 0).tolist():
            rows.append(
                {
                    "person": str(study.people[person]),
                    "record": str(ratings.people[named[person]]),
                    "attacker": name,
                    "score": float(links.eccentricity[person]),
                    "threshold": phi,
                    "decides": bool(study.naming.attacker[person] == at),
                    "right": None
                    if study.true is None
                    else bool(study.true[person] == named[person]),
                }
            )
    return sorted(rows, key=lambda row: (str(row["person"]), not row["decides"]))


def _shared(known: Known) -> Known:
    """Known facts about items of the release alone."""
    return known.take([span[known.item[span] != NOT_RELEASED] for span in known.spans()])


def _places(names: NDArray[np.str_], among: NDArray[np.str_]) -> Int:
    """Find the index of each name among ascending ones, -1 = absent."""
    at = np.minimum(np.searchsorted(among, names), len(among) - 1)
    return np.where(among[at] == names, at, NOT_RELEASED)


def _all_there(names: NDArray[np.str_], ratings: Ratings, side: str) -> Int:
    codes = _places(names.astype(np.str_), ratings.people)
    if (codes < 0).any():
        odd = names[np.argmax(codes < 0)]
        raise InputError(
            f"truth names {str(odd)!r}, who is not in {ratings.name} ({side}). Take the pair out."
        )
    if len(np.unique(codes)) != len(codes):
        raise InputError(f"truth names a person of {ratings.name} twice. Name each once.")
    return codes
