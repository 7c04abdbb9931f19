"""From measurements to the findings: candidates on a frontier, rules, checks, words."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lethe.assess.run import Facts, Subject, Verdict, check, outcome_words, run
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.estimate import Measured as Known
from lethe.evidence.findings import Findings
from lethe.evidence.frontier import Candidate, Frontier
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.risk import family_confidence
from lethe.evidence.rules import UNDECIDED, Ruling
from lethe.reidentification import texts
from lethe.reidentification.attackers import ATTACKERS
from lethe.reidentification.by_user import scaled
from lethe.reidentification.candidates import RECOMMENDED, Measured, Way
from lethe.reidentification.section import section
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.surface import tier
from lethe.training.fingerprint import hash_array

Json = dict[str, Any]
MOST_PEOPLE = 100


@dataclass(frozen=True, eq=False)
class VectorsSubject(Subject):
    """Representations of one or more models, measured, the baseline's model first."""

    measured: Sequence[Measured]
    settings: EmbeddingSettings

    def findings(self) -> Findings:
        """The document of the audit."""
        return run(self, self.settings.rules(), self.settings.release)

    @functools.cached_property
    def named(self) -> dict[str, tuple[Measured, Way]]:
        """Every candidate by its name in the document."""
        several = len(self.measured) > 1
        return {
            _label(one, way.name, several): (one, way) for one in self.measured for way in one.ways
        }

    def candidates(self) -> Sequence[Candidate]:
        return self._candidates

    @functools.cached_property
    def _candidates(self) -> Sequence[Candidate]:
        return [
            _candidate(name, one, way, self.settings) for name, (one, way) in self.named.items()
        ]

    def recommended(self, frontier: Frontier) -> str | None:
        """Of the models that have an operating point, the one that keeps the most utility."""
        known = [
            (candidate.utility.value, -at, candidate.name)
            for at, candidate in enumerate(frontier.candidates)
            if candidate.short_name == RECOMMENDED and candidate.utility.value is not None
        ]
        return max(known)[2] if known else None

    def words(self, verdict: Verdict) -> Sequence[str]:
        return [
            outcome_words(verdict),
            *texts.points(self.measured),
            *_needs(self.named, verdict.rulings),
        ]

    def facts(self) -> Facts:
        measured, settings = self.measured, self.settings
        first, several = measured[0], len(measured) > 1
        return Facts(
            subject={
                "release": "embeddings",
                "name": ", ".join(one.model.name for one in measured),
                "summary": texts.summary(measured),
            },
            threat_model=texts.threat_model(settings),
            data=_data(measured),
            attacks=texts.attacks_run(first, settings),
            attacks_not_run=texts.not_run(measured, settings),
            utility=texts.utility_name(first),
            risk="lift: Top-1 of the strongest attacker over chance (1 = chance)",
            operating_rule=texts.operating_rule(settings, first),
            margin=settings.margin,
            skipped=[
                {"name": _label(one, name, several), "why": why}
                for one in measured
                for name, why in one.skipped.items()
            ],
            keep_records=settings.keep_records,
            exposed=_exposed(measured, settings) if settings.keep_records else [],
            checks=[check for one in measured for check in _checks(one, several, settings)],
            limits=texts.limits(measured, settings),
            reproduction={
                "seed": settings.seed,
                "confidence": settings.confidence,
                "sigmas": list(settings.sigmas),
                "draws": settings.draws,
                "pools": settings.pools,
                "plays": settings.plays,
                "metric": settings.metric,
                "min_rows": settings.min_rows,
                "gate": list(settings.gate),
            },
            libraries=("numpy", "scipy", "scikit-learn"),
            sections={
                "representations": {
                    "rule": texts.operating_rule(settings, first),
                    "metric": settings.metric,
                    "models": [section(one, settings) for one in measured],
                }
            },
        )


def _label(one: Measured, name: str, several: bool) -> str:
    return f"{one.model.name}: {name}" if several else name


def _candidate(name: str, one: Measured, way: Way, settings: EmbeddingSettings) -> Candidate:
    base, users, sure = one.ways[0], len(one.split.users), settings.confidence
    unknown = Estimate(None, None, None, sure, "not provided", 0)
    loss = change = None
    lift = way.judged.risk.estimate
    top_1 = scaled(lift, 1 / users)
    bound: Known = Refusal("nothing limits what an attacker may do with this release")
    if way.limit is not None:
        bound = Estimate(None, None, way.limit.success, sure, "no attacker exceeds it", 0)
    details: Json = {
        "tier": tier(lift),
        "top_1": top_1.to_json(),
        "bound": None if way.limit is None else way.limit.success,
    }
    if way is not base:
        # The strongest of each was chosen: the interval allows for that.
        both = family_confidence(sure, len(way.judged.attacks))
        now, before = way.judged.strongest, base.judged.strongest
        change = scaled(now.less(before, None, both), users)
        if way.task is not None and base.task is not None and one.task is not None:
            loss = base.task.merit.less(way.task.merit, one.task.users, sure)
    if way.task is not None:
        details["accuracy"] = way.task.accuracy.to_json()
    return Candidate(
        name,
        way.mitigation,
        way.settings,
        unknown if way.task is None else way.task.value,
        way.judged.attacks,
        way.guarantee,
        loss,
        change,
        details,
        {"lift": lift, "top-1": top_1, "bound": bound, "utility-loss": loss},
        way.further,
        short_name=way.name,
    )


def _needs(named: Mapping[str, tuple[Measured, Way]], rulings: Sequence[Ruling]) -> list[str]:
    """Of rules on identification that stay open: how many people would settle them at the best."""
    words = []
    for ruling in rulings:
        rule = ruling.rule
        if ruling.outcome != UNDECIDED or rule.on_width or rule.metric not in ("lift", "top-1"):
            continue
        one, way = named[ruling.candidate]
        people = len(one.split.users)
        share = rule.limit / people if rule.metric == "lift" else rule.limit
        if not 0 < share < 1 or not isinstance(ruling.evidence, Estimate):
            continue
        sure = family_confidence(ruling.evidence.confidence, len(way.judged.attacks))
        least = clopper_pearson(0, people, sure).high or 1.0
        needed = math.ceil(math.log((1 - sure) / 2) / math.log1p(-share))
        if least <= share:
            continue
        said = least * people if rule.metric == "lift" else least
        text = (
            f"{rule} on {ruling.candidate} is open: even no hit among {people:,} people allows "
            f"{said:.2g}; it needs {needed:,} people or as many independent trials."
        )
        if rule.metric == "lift":
            text += (
                " More people lower chance alike: judge the share itself, for example "
                f"'top-1<={max(share, 0.01):.2g}', or more noise draws."
            )
        words.append(text)
    return words


def _data(measured: Sequence[Measured]) -> Json:
    first = measured[0]
    return {
        "records": len(first.model.user_ids),
        "people": len(np.unique(first.model.user_ids)),
        "people_in_the_attack": len(first.split.users),
        "people_with_too_few_rows": first.split.left_out,
        "gallery_rows": len(first.split.gallery_rows),
        "probes": len(first.split.probe_rows),
        "dimensions": {one.model.name: int(one.model.representations.shape[1]) for one in measured},
        "notes": [note for one in measured for note in one.model.notes],
        "fingerprint": hash_array(first.model.representations),
    }


def people(measured: Sequence[Measured], settings: EmbeddingSettings) -> list[Json]:
    """Everybody in the clean attack with their own id, the most exposed of each model first.

    It is personal data: it says who is recognised.
    """
    rows: list[Json] = []
    for one in measured:
        found = one.clean.attacks[settings.metric].exposure
        order = np.lexsort((-found.bits, -found.named))
        rows += [
            {
                "rank": rank,
                "model": one.model.name,
                "id": str(one.split.users[found.user[at]]),
                "probes": int(found.probes[at]),
                "named": float(found.named[at]),
                "median_rank": float(found.rank[at]),
                "bits": float(found.bits[at]),
            }
            for rank, at in enumerate(order.tolist(), start=1)
        ]
    return rows


def _exposed(measured: Sequence[Measured], settings: EmbeddingSettings) -> list[Json]:
    """The most exposed people, named by rank instead of by their id."""
    most = MOST_PEOPLE // len(measured)
    return [
        {**row, "id": f"person {row['rank']}"}
        for row in people(measured, settings)
        if row["rank"] <= most
    ]


_SEEN = 2.0
"""Lift that a permuted control must be able to see before it says that an attack is sound."""


def _permuted(on: str, lifts: Mapping[str, Estimate]) -> list[Json]:
    """The control of each attacker: its lift under permuted identities is 1, and could be seen.

    Those that pass stand in one row, with the widest of their intervals.
    """
    rows: list[Json] = []
    sound: dict[str, Estimate] = {}
    for name, lift in lifts.items():
        low, high = lift.low or 0.0, lift.high or 0.0
        if low > 1:
            status, why = "fail", "it finds people under other names: its results decide nothing"
        elif high < 1:
            status, why = "warn", "below chance: it finds too little, not too much"
        elif high > _SEEN:
            status, why = "warn", f"no power to see a lift of {_SEEN:g}: more people would tell"
        else:
            sound[name] = lift
            continue
        detail = f"{name}: {why} (over {lift.n} permutations)"
        rows.append(check("permuted identities", status, detail, on, lift))
    if sound:
        name = max(sound, key=lambda name: sound[name].high or 0.0)
        detail = (
            f"lift of {', '.join(sound)} when people are looked for under other names: each "
            f"interval holds 1 and not {_SEEN:g}; the widest is of {name}"
        )
        rows.append(check("permuted identities", "pass", detail, on, sound[name]))
    return rows


def _checks(one: Measured, several: bool, settings: EmbeddingSettings) -> list[Json]:
    """Self-checks of one model."""
    on = _label(one, one.ways[0].name, several)
    clean = one.clean
    best = clean.attacks[settings.metric]
    beyond = [
        f"{level.sigma:g}"
        for level in one.curve.levels
        if (level.share.low or 0.0) > one.bounds[level.sigma]
    ]
    single = {attacker.name for attacker in ATTACKERS if attacker.vectors == 1}
    above = [
        f"{way.name} ({result.attack})"
        for way in one.ways
        for result in way.judged.attacks
        if way.limit is not None
        and result.attack in single
        and isinstance(result.estimate, Estimate)
        and (result.estimate.low or 0.0) > way.limit.success * len(one.split.users)
    ]
    broken = [*beyond, *above]
    checks = [
        *_permuted(on, clean.permuted),
        check(
            "no attack beats a proof",
            "fail" if broken else "pass",
            f"beaten at {', '.join(broken)}: proof or attack is wrong"
            if broken
            else "the attack's lower limit is within every limit at every level",
            on,
        ),
        check(
            "ties",
            "pass" if best.tie_share <= 0.01 else "warn",
            f"{best.tie_share:.2%} of probes have their owner at the distance of somebody else; "
            "they count by expectation",
            on,
        ),
        check(
            "single precision",
            "warn" if clean.conditioning.ill else "pass",
            f"{clean.conditioning}; ranks here are those of double precision",
            on,
        ),
    ]
    if clean.shared is not None:
        copied = bool(clean.shared.columns) and settings.known is None
        status = "warn" if copied else "pass"
        checks.append(check("copied inputs", status, str(clean.shared), on))
    return checks
