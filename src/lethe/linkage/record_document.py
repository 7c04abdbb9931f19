"""What the findings say of sparse records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Measured, Refusal
from lethe.linkage.auxiliary import Answers, Auxiliary
from lethe.linkage.calibration import Calibrated
from lethe.linkage.document import (
    Account,
    attack,
    check,
    of_1000,
    utility_in_words,
    utility_left,
)
from lethe.linkage.matching import Point
from lethe.linkage.record_study import RecordStudy, Simulated
from lethe.linkage.settings import RecordSettings
from lethe.training.fingerprint import digest, hash_array

Json = dict[str, Any]
_PAPER = "Narayanan and Shmatikov, IEEE S&P 2008"
PUBLISHED: list[Json] = [
    {"facts": "2", "days": 3, "top_1": 0.680},
    {"facts": "3 of 4", "days": 3, "top_1": 0.906},
    {"facts": "6 of 8", "days": 3, "top_1": 0.996},
    {"facts": "2", "days": 14, "top_1": 0.432},
    {"facts": "3 of 4", "days": 14, "top_1": 0.773},
    {"facts": "6 of 8", "days": 14, "top_1": 0.986},
]
"""Netflix Prize, 480,189 people: best guess right, in an independent reproduction of the paper."""


def account_of_records(
    study: RecordStudy, aux: Auxiliary | None, settings: RecordSettings
) -> Account:
    """All that is to be said."""
    ratings, first = study.ratings, study.simulated[0]
    columns = [
        name
        for name, there in (("values", study.facts.value), ("times", study.facts.time))
        if there is not None
    ]
    with_what = " and ".join(columns) if columns else "neither values nor times"
    return Account(
        name=ratings.name,
        summary=(
            f"{study.facts.facts:,} facts of {study.facts.people:,} people about "
            f"{study.facts.items:,} items, with {with_what}."
        ),
        threat_model={
            "goal": "linkage: find the record of a person of whom a few facts are known",
            "knowledge": f"{first.name}; others beside it, and exact names of items",
            "access": "the whole release",
            "budget": f"every record is scored for each of {len(first.targets)} people",
            "unit": "person",
        },
        data={
            "records": study.facts.facts,
            "people": study.facts.people,
            "items": study.facts.items,
            "facts_a_person": float(study.facts.facts / study.facts.people),
            "notes": list(ratings.notes),
            "fingerprint": _fingerprint(study),
        },
        attacks=_attacks(study, aux, settings),
        not_run=_not_run(study, aux),
        utility=utility_in_words(
            settings, "counts by item and value, and by item and month, that are still right"
        ),
        risk=f"top-1: share of people named rightly by the best guess ({first.name})",
        ways=study.ways,
        skipped=study.skipped,
        checks=_checks(study, settings),
        words=plain_words(study, aux, settings),
        limits=[
            "Simulated adversaries know facts of the release itself, drawn at random. What people "
            "really tell elsewhere is not drawn at random.",
            "Fewer people make everybody easier to find: shares of a small sample are not those "
            "of the whole service, and those of other data are not yours.",
            "Counts by item do not look at whole records: new pseudonyms cost them nothing. What "
            "follows a person over time loses: queries or a utility model show how much.",
            "Each mitigation is attacked by somebody who scores as before; one who knows the "
            "mitigation may do better.",
        ],
        section=_section(study, aux, settings),
        people=_people(first, study, settings) if settings.keep_records else (),
        settings={
            name: getattr(settings, name)
            for name in (
                "targets",
                "phi",
                "facts",
                "time_error",
                "value_error",
                "value_scale",
                "time_scale",
                "support",
                "share",
                "sought",
                "false_matches",
            )
        },
    )


def _fingerprint(study: RecordStudy) -> str:
    """Hash of all facts with their names, whatever the order of the file."""
    facts = study.facts
    arrays: tuple[NDArray[Any] | None, ...]
    arrays = (facts.start, facts.person, facts.value, facts.values, facts.time)
    parts = [hash_array(array) for array in arrays if array is not None]
    names = (digest(*column.tolist()) for column in (study.ratings.people, study.ratings.items))
    return digest(*parts, str(facts.origin), *names)


def plain_words(study: RecordStudy, aux: Auxiliary | None, settings: RecordSettings) -> list[str]:
    """What was found, for somebody who reads nothing else."""
    first = study.simulated[0]
    best, sure = first.at(0.0), first.at(settings.phi)
    words = [
        f"Who knows {first.name}, names the right record of {of_1000(best.recall)} of 1,000 "
        f"people by the best guess, of {study.facts.people:,}; answering only when one record "
        f"stands out (eccentricity {settings.phi:g}), of {of_1000(sure.recall)}, and names "
        f"a record for {of_1000(sure.false_match)} of 1,000 people who are not in the release."
    ]
    if first.sure is not None and isinstance(first.calibrated, Calibrated):
        words.append(
            f"At the threshold {first.calibrated.phi:.3g}, set so that at most "
            f"{1000 * settings.false_matches:.3g} of 1,000 people who are not in the release are "
            f"expected to be given a record, {of_1000(first.sure.recall)} are named rightly."
        )
    if study.needed.half is None:
        words.append("The facts of this adversary do not name half of the people.")
    else:
        words.append(f"Half of the people are named from {study.needed.half} such fact(s).")
    if aux is not None:
        named = aux.answered[settings.phi]
        text = (
            f"Of {len(aux.people):,} people of {aux.name}, a record is named for "
            f"{of_1000(named)} of 1,000"
        )
        if aux.points is not None:
            point = next(point for point in aux.points if point.phi == settings.phi)
            known = int((aux.true >= 0).sum()) if aux.true is not None else 0
            right = round((point.recall.value or 0.0) * known)
            text += f"; {right} of the {known} who are known to be in both are named rightly"
            if aux.clear is not None:
                text += (
                    f". Beyond an eccentricity of {aux.clear[0]:.3g} nobody is named wrongly, and "
                    f"{aux.clear[1]} of the {known} rightly; that limit was found afterwards"
                )
        words.append(text + ".")
        if aux.sure is not None and isinstance(aux.calibrated, Calibrated):
            words.append(_calibrated_words(aux.calibrated, aux.sure))
    lowest = min(study.ways, key=lambda way: getattr(way.risk, "value", 1.0))
    if lowest is not study.ways[0]:
        words.append(
            f"Of the releases that were tried, {lowest.name} ({lowest.mitigation}) is found least: "
            f"{of_1000(lowest.risk)} of 1,000, at {utility_left(lowest, study.ways[0])}."
        )
    return words


def _calibrated_words(found: Calibrated, sure: Answers) -> str:
    text = (
        f"At the threshold {found.phi:.3g}, which released people who were looked for without "
        f"their own record set, a record is named for {of_1000(sure.answered)} of 1,000"
    )
    if isinstance(sure.right, Refusal):
        return text + "."
    return (
        f"{text}: for {of_1000(sure.right)} of 1,000 of those known to be in both, rightly, and "
        f"for {of_1000(sure.strange)} of 1,000 of the others."
    )


def _attacks(study: RecordStudy, aux: Auxiliary | None, settings: RecordSettings) -> list[Json]:
    scales = {"value_scale": settings.value_scale, "time_scale": settings.time_scale}
    rows = [
        attack(f"scoreboard {at}", "Scoreboard-RH", _PAPER, one.name, scales)
        for at, one in enumerate(study.simulated, start=1)
    ]
    rows.append(
        attack(
            "unicity",
            "Items that only one person has together",
            "De Montjoye et al., Scientific Reports 2013",
            "a few items of a person, without values or times",
            {"items": [int(m) for m in study.unicity]},
        )
    )
    if aux is not None:
        rows.append(
            attack(
                "auxiliary",
                f"Scoreboard-RH, everybody of {aux.name}",
                _PAPER,
                "a real table of the same items",
                {"people": len(aux.people), "shared_items": aux.shared_items, **scales},
            )
        )
    return rows


def _not_run(study: RecordStudy, aux: Auxiliary | None) -> list[Json]:
    rows = [{"name": name, "why": why} for name, why in study.skipped.items()]
    if aux is None:
        rows.append({"name": "real auxiliary data", "why": "none was given (--aux)"})
    rows.append(
        {
            "name": "plain scoreboard (minimum)",
            "why": "one wrong fact defeats it; a real auxiliary table is given to it",
        }
    )
    return rows


def _checks(study: RecordStudy, settings: RecordSettings) -> list[Json]:
    first = study.simulated[0]
    answered = first.at(settings.phi).abstention.value != 1
    held = np.bincount(study.facts.person, minlength=study.facts.people)
    few = int((held < first.adversary.total).sum())
    rows = [
        check(
            "somebody is named",
            "pass" if answered else "warn",
            "the threshold lets answers through"
            if answered
            else f"no record stands out by {settings.phi:g}: the adversary stays silent",
        ),
        check(
            "people with few facts",
            "warn" if few > study.facts.people / 2 else "pass",
            f"{few} of {study.facts.people} people have fewer than {first.adversary.total} facts "
            "and are not looked for by this adversary",
        ),
    ]
    return rows + [
        check("input", "warn", note) for note in study.ratings.notes if "left out" in note
    ]


def _section(study: RecordStudy, aux: Auxiliary | None, settings: RecordSettings) -> Json:
    first = study.simulated[0]
    return {
        "kind": "records",
        "phi": settings.phi,
        "people": study.facts.people,
        "items": study.facts.items,
        "facts": study.facts.facts,
        "index_bytes_a_fact": study.facts.nbytes / study.facts.facts,
        "adversaries": [_adversary(one, settings) for one in study.simulated],
        "published": PUBLISHED,
        "curve": [_point(point) for point in first.points],
        "needed": {
            "shares": {str(m): one.to_json() for m, one in study.needed.identified.items()},
            "half": study.needed.half,
        },
        "unicity": {str(m): one.share.to_json() for m, one in study.unicity.items()},
        "worst": {str(k): one.to_json() for k, one in study.worst.unique.items()},
        "auxiliary": None if aux is None else _auxiliary(aux),
        "false_matches": settings.false_matches,
    }


def _adversary(one: Simulated, settings: RecordSettings) -> Json:
    point = one.at(settings.phi)
    return {
        "name": one.name,
        "targets": len(one.targets),
        "strangers": len(one.strangers),
        "top_1": one.at(0.0).recall.to_json(),
        "match": point.recall.to_json(),
        "precision": point.precision.to_json(),
        "abstention": point.abstention.to_json(),
        "false_match": point.false_match.to_json(),
        "calibrated": _calibrated(
            one.calibrated,
            {}
            if one.sure is None
            else {"match": one.sure.recall, "abstention": one.sure.abstention},
        ),
        "bits": {
            "prior": one.bits.prior,
            "left": one.bits.left.to_json(),
            "gained": one.bits.gained.to_json(),
        },
    }


def _calibrated(found: Calibrated | Refusal, measured: Mapping[str, Measured]) -> Json:
    if isinstance(found, Refusal):
        return found.to_json()
    rates = {"false_match": found.false_match, **measured}
    return {"phi": found.phi, **{name: one.to_json() for name, one in rates.items()}}


def _answers(found: Answers) -> dict[str, Measured]:
    return {"answered": found.answered, "right": found.right, "strange": found.strange}


def _point(point: Point) -> Json:
    return {
        "phi": point.phi,
        "recall": point.recall.to_json(),
        "precision": point.precision.to_json(),
        "abstention": point.abstention.to_json(),
        "wrong": point.wrong.to_json(),
        "false_match": point.false_match.to_json(),
    }


def _auxiliary(aux: Auxiliary) -> Json:
    return {
        "name": aux.name,
        "people": len(aux.people),
        "shared_items": aux.shared_items,
        "people_with_a_shared_item": aux.useful,
        "known_pairs": None if aux.true is None else int((aux.true >= 0).sum()),
        "answered": [
            {"phi": phi, "share": one.to_json()} for phi, one in sorted(aux.answered.items())
        ],
        "curve": None if aux.points is None else [_point(point) for point in aux.points],
        "clear": None
        if aux.clear is None
        else {"eccentricity": aux.clear[0], "known_pairs": aux.clear[1]},
        "calibrated": _calibrated(aux.calibrated, {} if aux.sure is None else _answers(aux.sure)),
        "fitting": {name: one.to_json() for name, one in _answers(aux.fitting).items()},
    }


def _people(first: Simulated, study: RecordStudy, settings: RecordSettings) -> list[Json]:
    """The people looked for, those whose record stands out most first."""
    right = first.links.best == first.targets
    standing = np.where(right, first.links.eccentricity, -1.0)
    held = np.bincount(study.facts.person, minlength=study.facts.people)
    return [
        {
            "rank": rank,
            "id": str(study.ratings.people[first.targets[at]]),
            "facts": int(held[first.targets[at]]),
            "named": bool(right[at]),
            "eccentricity": float(first.links.eccentricity[at]),
            "bits_missing": float(first.links.surprise[at])
            if np.isfinite(first.links.surprise[at])
            else None,
            "facts_needed": int(study.needed.needed[at]) or None,
        }
        for rank, at in enumerate(np.argsort(-standing, kind="stable").tolist(), start=1)
    ]
