"""What the findings say of sparse records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.assess.input_checks import InputCheck
from lethe.assess.run import Facts, attack, check
from lethe.evidence.document import CheckRow
from lethe.evidence.estimate import Estimate
from lethe.evidence.of_rows import (
    RecordsSection,
)
from lethe.evidence.sight import smallest_seen
from lethe.linkage.document import (
    RowsSubject,
    fields_of,
    of_1000,
    strongest,
    utility_in_words,
    utility_left,
)
from lethe.linkage.records.attackers import ATTACKERS, COMPARED
from lethe.linkage.records.auxiliary import Auxiliary, pairs_of
from lethe.linkage.records.study import RecordStudy, Simulated
from lethe.linkage.settings import RecordSettings
from lethe.training.fingerprint import digest, hash_array

Json = dict[str, Any]
_LIMITS = (
    "Simulated adversaries know facts of the release itself, drawn at random. What people "
    "really tell elsewhere is not drawn at random.",
    "Fewer people make everybody easier to find: shares of a small sample are not those "
    "of the whole service, and those of other data are not yours.",
    "Counts by item do not look at whole records: new pseudonyms cost them nothing. What "
    "follows a person over time loses: queries or a utility model show how much.",
    "Attackers allow for how far a mitigation moves values and times; one who knows more "
    "of it may do better.",
    "Times are read to the day. Exact ones link pseudonyms that change, by what falls together.",
)


_REPRODUCED = (
    *("targets", "phi", "facts", "time_error", "value_error", "value_scale", "time_scale"),
    *("support", "share", "sought", "false_matches"),
)


@dataclass(frozen=True, eq=False)
class RecordSubject(RowsSubject):
    """What the findings say of sparse records."""

    study: RecordStudy
    settings: RecordSettings
    inputs: tuple[InputCheck, ...] = ()

    @cached_property
    def pairs(self) -> Sequence[Json]:
        """Who of the auxiliary table was named as whom; empty unless kept."""
        aux = self.study.aux if self.settings.keep_records else None
        return [] if aux is None else pairs_of(aux, self.study.ratings)

    def facts(self) -> Facts:
        study, settings = self.study, self.settings
        ratings, first, aux = study.ratings, study.simulated[0], study.aux
        columns = [
            name
            for name, there in (("values", study.facts.value), ("times", study.facts.time))
            if there is not None
        ]
        with_what = " and ".join(columns) if columns else "neither values nor times"
        return self.compose(
            name=ratings.name,
            summary=(
                f"{study.facts.facts:,} facts of {study.facts.people:,} people about "
                f"{study.facts.items:,} items, with {with_what}."
            ),
            threat_model={
                "goal": "linkage: find the record of a person of whom a few facts are known",
                "knowledge": f"{first.name}; others beside it, and exact names of items",
                "access": "the whole release",
                "budget": f"every record is scored for each of {len(first.aim.targets)} people, by "
                f"{len(first.by) + first.aim.sampling.closed} attackers",
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
            attacks_not_run=_not_run(study, aux),
            utility=utility_in_words(
                settings, "counts by item and value, and by item and month, that are still right"
            ),
            risk="top-1: share of people named rightly by the best guess of the strongest attacker",
            checks=_checks(study),
            limits=_LIMITS,
            section=_section(study, settings, self.plain_words()),
            reproduction=fields_of(settings, *_REPRODUCED),
        )

    def plain_words(self) -> list[str]:
        """What was found, for a reader of nothing else."""
        study, settings = self.study, self.settings
        first, base, aux = study.simulated[0], study.candidates[0], study.aux
        rh = first.by["scoreboard-rh"]
        words = [
            f"The strongest attack ({strongest(base.attacks).attack}) identifies the record of "
            f"{of_1000(base.risk)} of 1,000 people by its best guess, of {study.facts.people:,}.",
            f"Who knows {first.name} and answers {_rule_words(settings)}, identifies "
            f"{of_1000(base.measures['match'])} of 1,000 and names a record for "
            f"{of_1000(base.measures['false-match'])} of 1,000 people who are not in the release; "
            f"Scoreboard-RH from an eccentricity of {COMPARED:g} on identifies "
            f"{of_1000(rh.at(COMPARED).recall)} and names one for "
            f"{of_1000(rh.at(COMPARED).false_match)}.",
        ]
        if study.needed.half is None:
            words.append("The facts of this adversary do not name half of the people.")
        else:
            words.append(f"Half of the people are named from {study.needed.half} such fact(s).")
        if aux is not None:
            words += _linked_words(aux, settings)
        lowest = min(study.candidates, key=lambda candidate: getattr(candidate.risk, "value", 1.0))
        if lowest is not study.candidates[0]:
            words.append(
                f"Of the releases that were tried, {lowest.name} ({lowest.mitigation}) is found "
                f"least: {of_1000(lowest.risk)} of 1,000, at "
                f"{utility_left(lowest, study.candidates[0])}."
            )
        return words

    @cached_property
    def people(self) -> Sequence[Json]:
        """Everybody, the most exposed first; empty unless kept."""
        return _people(self.study.simulated[0], self.study) if self.settings.keep_records else ()


def _fingerprint(study: RecordStudy) -> str:
    """Hash of all facts with their names, whatever the order of the file."""
    facts = study.facts
    arrays: tuple[NDArray[Any] | None, ...]
    arrays = (facts.start, facts.person, facts.value, facts.values, facts.time)
    parts = [hash_array(array) for array in arrays if array is not None]
    names = (digest(*column.tolist()) for column in (study.ratings.people, study.ratings.items))
    return digest(*parts, str(facts.origin), *names)


def _rule_words(settings: RecordSettings) -> str:
    if settings.phi is not None:
        return f"from an eccentricity of {settings.phi:g} on"
    return (
        f"only where at most {1000 * settings.false_matches:.3g} of 1,000 people who are not in "
        "the release are expected to be given a record"
    )


def _linked_words(aux: Auxiliary, settings: RecordSettings) -> list[str]:
    counts = aux.rows.together.counts
    text = (
        f"Of {counts['people']:,} people of {aux.rows.name}, {counts['named']:,} are named a "
        f"record by an attacker that answers {_rule_words(settings)}"
    )
    if counts["pairs"] is not None:
        text += (
            f": {counts['right']} of the {counts['pairs']} who are known to be in both, rightly, "
            f"and {counts['others_named']} of the {counts['others']} others"
        )
    words = [f"{text}."]
    if aux.rows.together.counts["named"] and settings.keep_records:
        words.append("Who was named as whom is in the kept table of records: personal data.")
    rh = aux.by["scoreboard-rh"].compared.counts
    if rh["pairs"] is not None:
        words.append(
            f"For comparison, Scoreboard-RH from {COMPARED:g} on: {rh['right']} of "
            f"{rh['pairs']} rightly, and {rh['others_named']} of the {rh['others']} others."
        )
    return words


def _attacks(study: RecordStudy, aux: Auxiliary | None, settings: RecordSettings) -> list[Json]:
    scales = {"value_scale": settings.value_scale, "time_scale": settings.time_scale}
    rows = [
        attack(
            f"{name} {at}",
            ATTACKERS[name].title,
            ATTACKERS[name].paper,
            f"{simulated.name}; {ATTACKERS[name].knows}",
            scales,
        )
        for at, simulated in enumerate(study.simulated, start=1)
        for name in simulated.by
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
        rows += [
            attack(
                f"{name}, auxiliary",
                f"{ATTACKERS[name].title}; everybody of {aux.rows.name}",
                ATTACKERS[name].paper,
                f"a real table of the same items; {ATTACKERS[name].knows}",
                {"people": aux.rows.people, "shared_items": aux.rows.shared_items, **scales},
            )
            for name in aux.by
        ]
    return rows


def _not_run(study: RecordStudy, aux: Auxiliary | None) -> list[Json]:
    rows = [{"name": name, "why": why} for name, why in study.skipped.items()]
    if aux is None:
        rows.append({"name": "real auxiliary data", "why": "none was given (--aux)"})
    return rows


def _checks(study: RecordStudy) -> list[CheckRow]:
    first = study.simulated[0]
    match = study.candidates[0].measures["match"]
    answered = isinstance(match, Estimate) and match.value != 0
    held = np.bincount(study.facts.person, minlength=study.facts.people)
    few = int((held < first.adversary.total).sum())
    rows = [
        check(
            "a person is named",
            "pass" if answered else "warn",
            "the thresholds let answers through"
            if answered
            else f"no record is named rightly from the thresholds on: {match}",
        ),
        check(
            "people with few facts",
            "warn" if few > study.facts.people / 2 else "pass",
            f"{few} of {study.facts.people} people have fewer than {first.adversary.total} facts "
            "and are not looked for by this adversary",
        ),
    ]
    rows += [
        check(
            f"{name} say something",
            "fail",
            f"all {name} are equal: see whether the file is the one that was meant, or leave "
            f"--{name[:-1]} out",
        )
        for name, constant in (
            ("values", study.facts.value is not None and len(study.facts.values) == 1),
            ("times", study.facts.time is not None and not study.facts.latest),
        )
        if constant
    ]
    rows += _truth(study.aux)
    rows.append(_power(study))
    return rows + [
        check("input", "warn", note) for note in study.ratings.notes if "left out" in note
    ]


def _truth(aux: Auxiliary | None) -> list[CheckRow]:
    """Whether known pairs that are named beyond doubt are named as the truth says."""
    counts = {} if aux is None else aux.rows.together.counts
    pairs, right, named, strange = (
        counts.get(key) or 0 for key in ("pairs", "right", "named", "others_named")
    )
    wrong = named - strange - right
    if not pairs or wrong <= max(right, 1):
        return []
    detail = (
        f"{wrong} of {pairs} known pairs are named as another record than the truth says, and "
        f"{right} as it says: see whether the truth belongs to these tables"
    )
    return [check("truth", "fail", detail)]


def _power(study: RecordStudy) -> CheckRow:
    """What the audit could have seen of leaks that were planted into the release as it is."""
    base = study.candidates[0]
    sizes = {
        quantity: smallest_seen(base.plants or (), quantity, base.chance)
        for quantity in ("top-1", "match")
    }
    seen = [f"{name} of {size:.3g} and more" for name, size in sizes.items() if size is not None]
    if seen:
        detail = f"planted leaks were seen from {', '.join(seen)} on (short and long records)"
        return check("power", "pass", detail, base.name)
    few = "too few records are long enough to plant any"
    detail = "no planted leak was told from chance, however large" if base.plants else few
    return check("power", "warn", f"{detail}: a low number says nothing here", base.name)


def _section(study: RecordStudy, settings: RecordSettings, words: Sequence[str]) -> RecordsSection:
    return RecordsSection(
        phi=COMPARED if settings.phi is None else settings.phi,
        rule="calibrated" if settings.phi is None else "eccentricity",
        people=study.facts.people,
        items=study.facts.items,
        facts=study.facts.facts,
        index_bytes_a_fact=study.facts.nbytes / study.facts.facts,
        confidence=study.confidence,
        adversaries=[looked for simulated in study.simulated for looked in simulated.by.values()],
        curve=study.simulated[0].by["scoreboard-rh"].points,
        needed=study.needed,
        unicity=study.unicity,
        worst=study.worst.unique,
        auxiliary=None if study.aux is None else study.aux.rows,
        false_matches=settings.false_matches,
        words=words,
    )


def _people(first: Simulated, study: RecordStudy) -> list[Json]:
    """The people looked for, those whose record stands out most first."""
    targets = first.aim.targets
    links = first.by[first.strongest].links
    right = links.best == targets
    standing = np.where(right, links.eccentricity, -1.0)
    held = np.bincount(study.facts.person, minlength=study.facts.people)
    return [
        {
            "rank": rank,
            "id": str(study.ratings.people[targets[at]]),
            "facts": int(held[targets[at]]),
            "named": bool(right[at]),
            "eccentricity": float(links.eccentricity[at]),
            "facts_needed": int(study.needed.needed[at]) or None,
        }
        for rank, at in enumerate(np.argsort(-standing, kind="stable").tolist(), start=1)
    ]
