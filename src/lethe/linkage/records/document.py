"""Findings on sparse records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lethe.assess.run import AuditFacts, check
from lethe.assess.verdict import InputCheck
from lethe.data.records import Ratings
from lethe.evidence.document import AttackRow, CheckRow, NotRun
from lethe.evidence.estimate import Estimate
from lethe.evidence.frontier import Candidate
from lethe.evidence.of_rows import RecordsSection
from lethe.evidence.sight import smallest_seen
from lethe.linkage.document import (
    RowsSubject,
    fields_of,
    percent,
    strongest,
    utility_in_words,
    utility_left,
)
from lethe.linkage.records.attackers import ATTACKERS, COMPARED
from lethe.linkage.records.auxiliary import Auxiliary, pairs_of
from lethe.linkage.records.candidates import Simulated
from lethe.linkage.records.facts import Index
from lethe.linkage.records.scoreboard import FactsNeeded
from lethe.linkage.records.unicity import WorstCase
from lethe.linkage.settings import RecordSettings
from lethe.training.fingerprint import digest, hash_array

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
    """All measurements on sparse records, and the findings about them.

    Attributes:
        simulated: adversaries; the first knows most facts and also answers from a threshold on.
        unicity: by number of items known without value or time, people who are alone with them.
    """

    counted = "people looked for (--targets)"
    settings: RecordSettings
    measured: tuple[Candidate, ...]
    skipped: Mapping[str, str]
    ratings: Ratings  # what is released
    indexed: Index  # the same, indexed
    simulated: tuple[Simulated, ...]
    needed: FactsNeeded  # facts that it takes, of the first with its strongest attacker
    unicity: dict[int, Estimate]
    worst: WorstCase  # the same for the items that give most away
    aux: Auxiliary | None  # people of a real auxiliary table; None without one
    confidence: float  # of all limits on shares named rightly, so that they hold at once
    inputs: tuple[InputCheck, ...] = ()

    def facts(self) -> AuditFacts:
        settings, ratings, first, aux = self.settings, self.ratings, self.simulated[0], self.aux
        columns = [
            name
            for name, there in (("values", self.indexed.value), ("times", self.indexed.time))
            if there is not None
        ]
        with_what = " and ".join(columns) if columns else "neither values nor times"
        # A hash of all facts with their names, whatever the order of the file.
        indexed = self.indexed
        arrays = (indexed.start, indexed.person, indexed.value, indexed.values, indexed.time)
        parts = [hash_array(array) for array in arrays if array is not None]
        names = (digest(*column.tolist()) for column in (ratings.people, ratings.items))
        return self.compose(
            name=ratings.name,
            summary=(
                f"{self.indexed.facts:,} facts of {self.indexed.people:,} people about "
                f"{self.indexed.items:,} items, with {with_what}."
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
                "records": self.indexed.facts,
                "people": self.indexed.people,
                "items": self.indexed.items,
                "facts_a_person": float(self.indexed.facts / self.indexed.people),
                "notes": list(ratings.notes),
                "fingerprint": digest(*parts, str(indexed.origin), *names),
            },
            attacks=_attacks(self),
            attacks_not_run=[
                *(NotRun(name, why) for name, why in self.skipped.items()),
                *[NotRun("real auxiliary data", "none was given (--aux)")] * (aux is None),
            ],
            utility=utility_in_words(
                settings, "counts by item and value, and by item and month, that are still right"
            ),
            risk="top-1: share of people named rightly by the best guess of the strongest attacker",
            checks=_checks(self),
            limits=_LIMITS,
            section=RecordsSection(
                phi=COMPARED if settings.phi is None else settings.phi,
                rule="calibrated" if settings.phi is None else "eccentricity",
                people=indexed.people,
                items=indexed.items,
                facts=indexed.facts,
                index_bytes_a_fact=indexed.nbytes / indexed.facts,
                confidence=self.confidence,
                adversaries=[looked for one in self.simulated for looked in one.by.values()],
                curve=first.by["scoreboard-rh"].points,
                needed=self.needed,
                unicity=self.unicity,
                worst=self.worst.unique,
                auxiliary=None if aux is None else aux.rows,
                false_matches=settings.false_matches,
                words=self.plain_words(),
            ),
            reproduction=fields_of(settings, *_REPRODUCED),
        )

    def plain_words(self) -> list[str]:
        """Say what was found, in sentences for a lay reader."""
        settings, first, base, aux = self.settings, self.simulated[0], self.measured[0], self.aux
        rh = first.by["scoreboard-rh"]
        words = [
            f"The strongest attack ({strongest(base.attacks).attack}) identifies the record of "
            f"{percent(base.risk)} of the {self.indexed.people:,} people by its best guess.",
            f"Who knows {first.name} and answers {_rule_words(settings)}, identifies "
            f"{percent(base.measures['match'])} of people and names a record for "
            f"{percent(base.measures['false-match'])} of those who are not in the release; "
            f"Scoreboard-RH from an eccentricity of {COMPARED:g} on identifies "
            f"{percent(rh.at(COMPARED).recall)} and names one for "
            f"{percent(rh.at(COMPARED).false_match)}.",
        ]
        if self.needed.half is None:
            words.append("The facts of this adversary do not name half of the people.")
        else:
            words.append(f"Half of the people are named from {self.needed.half} such fact(s).")
        if aux is not None:
            words += _linked_words(aux, settings)
        lowest = min(self.measured, key=lambda candidate: getattr(candidate.risk, "value", 1.0))
        if lowest is not self.measured[0]:
            words.append(
                f"Of the releases that were tried, {lowest.name} ({lowest.mitigation}) is found "
                f"least: {percent(lowest.risk)}, at "
                f"{utility_left(lowest, self.measured[0])}."
            )
        return words

    def pairs(self) -> Sequence[Mapping[str, object]]:
        """Return who of the auxiliary table was named as whom."""
        return () if self.aux is None else pairs_of(self.aux, self.ratings)

    def exposed(self) -> list[dict[str, object]]:
        """The people looked for, those whose record stands out most first."""
        first = self.simulated[0]
        targets = first.aim.targets
        links = first.by[first.strongest].links
        right = links.best == targets
        standing = np.where(right, links.eccentricity, -1.0)
        held = np.bincount(self.indexed.person, minlength=self.indexed.people)
        return [
            {
                "rank": rank,
                "id": str(self.ratings.people[targets[at]]),
                "facts": int(held[targets[at]]),
                "named": bool(right[at]),
                "eccentricity": float(links.eccentricity[at]),
                "facts_needed": int(self.needed.needed[at]) or None,
            }
            for rank, at in enumerate(np.argsort(-standing, kind="stable").tolist(), start=1)
        ]


def _rule_words(settings: RecordSettings) -> str:
    if settings.phi is not None:
        return f"from an eccentricity of {settings.phi:g} on"
    return (
        f"only where at most {percent(settings.false_matches)} of people who are not in the "
        "release are expected to be given a record"
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


def _attacks(study: RecordSubject) -> list[AttackRow]:
    settings, aux = study.settings, study.aux
    scales = {"value_scale": settings.value_scale, "time_scale": settings.time_scale}
    rows = [
        AttackRow(
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
        AttackRow(
            "unicity",
            "Items that only one person has together",
            "De Montjoye et al., Scientific Reports 2013",
            "a few items of a person, without values or times",
            {"items": [int(m) for m in study.unicity]},
        )
    )
    if aux is not None:
        rows += [
            AttackRow(
                f"{name}, auxiliary",
                f"{ATTACKERS[name].title}; everybody of {aux.rows.name}",
                ATTACKERS[name].paper,
                f"a real table of the same items; {ATTACKERS[name].knows}",
                {"people": aux.rows.people, "shared_items": aux.rows.shared_items, **scales},
            )
            for name in aux.by
        ]
    return rows


def _checks(study: RecordSubject) -> list[CheckRow]:
    first = study.simulated[0]
    match = study.measured[0].measures["match"]
    answered = isinstance(match, Estimate) and match.value != 0
    held = np.bincount(study.indexed.person, minlength=study.indexed.people)
    assert first.aim.simulated is not None
    total = first.aim.simulated[1].total
    few = int((held < total).sum())
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
            "warn" if few > study.indexed.people / 2 else "pass",
            f"{few} of {study.indexed.people} people have fewer than {total} facts "
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
            ("values", study.indexed.value is not None and len(study.indexed.values) == 1),
            ("times", study.indexed.time is not None and not study.indexed.latest),
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


def _power(study: RecordSubject) -> CheckRow:
    """Say which planted leaks the audit saw."""
    base = study.measured[0]
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
