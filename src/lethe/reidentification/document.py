"""From measurements to the findings: candidates on a frontier, rules, checks, words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lethe.errors import InputError, did_you_mean
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.estimate import Measured as Known
from lethe.evidence.findings import Findings
from lethe.evidence.frontier import Candidate, Frontier, equivalence
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.risk import family_confidence
from lethe.evidence.rules import UNDECIDED, Rule, Ruling, joint_outcome, judge
from lethe.reidentification import texts
from lethe.reidentification.attackers import ATTACKERS
from lethe.reidentification.by_user import scaled
from lethe.reidentification.candidates import BASELINE, RECOMMENDED, Measured, Way
from lethe.reidentification.section import section
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.surface import tier
from lethe.training.fingerprint import hash_array, versions

Json = dict[str, Any]
MOST_PEOPLE = 100


def compose(measured: Sequence[Measured], settings: EmbeddingSettings) -> Findings:
    """The findings of an audit of representations.

    Args:
        measured: the models, the baseline's first.
        settings: of the audit.

    Raises:
        InputError: the rules are to judge a candidate that there is not.
    """
    several = len(measured) > 1
    named = {_name(one, way, several): (one, way) for one in measured for way in one.ways}
    candidates = [_candidate(name, one, way, settings) for name, (one, way) in named.items()]
    frontier = Frontier(candidates, settings.margin)
    rulings = _rulings(named, candidates, settings)
    outcome = joint_outcome(ruling.outcome for ruling in rulings)
    chosen = _operating(named, candidates)
    first = measured[0]
    return Findings(
        subject={
            "release": "embeddings",
            "name": ", ".join(one.model.name for one in measured),
            "summary": texts.summary(measured),
        },
        threat_model=texts.threat_model(settings),
        data=_data(measured),
        attacks=texts.attacks_run(first, settings),
        attacks_not_run=texts.not_run(measured, settings),
        baseline={"candidate": candidates[0].name},
        candidates=[candidate.to_json() for candidate in candidates],
        frontier={
            "utility": texts.utility_name(first),
            "risk": "lift: Top-1 of the strongest attacker over chance (1 = chance)",
            "margin": settings.margin,
            "pareto": frontier.pareto(),
            "knee": frontier.knee(),
            "operating_point": chosen,
            "rule": texts.operating_rule(settings, first),
            "skipped": [
                {"name": _label(one, name, several), "why": why}
                for one in measured
                for name, why in one.skipped.items()
            ],
        },
        records={
            "kept": settings.keep_records,
            "exposed": _exposed(measured, settings) if settings.keep_records else [],
        },
        checks=[check for one in measured for check in _checks(one, several, settings)],
        rules=[ruling.to_json() for ruling in rulings],
        verdict={
            "outcome": outcome,
            "candidate": settings.release,
            "words": [*texts.verdict_words(measured, outcome, settings), *_needs(named, rulings)],
        },
        guarantees=[
            {"candidate": name, "guarantee": guarantee.to_json()}
            for name, (_, way) in named.items()
            for guarantee in (way.guarantee, *way.further)
        ],
        limits=texts.limits(measured, settings),
        context={},
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
            "versions": versions("lethe-privacy", "numpy", "scipy", "scikit-learn"),
        },
        representations={
            "rule": texts.operating_rule(settings, first),
            "metric": settings.metric,
            "models": [section(one, settings) for one in measured],
        },
    )


def _label(one: Measured, name: str, several: bool) -> str:
    return f"{one.model.name}: {name}" if several else name


def _name(one: Measured, way: Way, several: bool) -> str:
    return _label(one, way.name, several)


def _candidate(name: str, one: Measured, way: Way, settings: EmbeddingSettings) -> Candidate:
    base, users, sure = one.ways[0], len(one.split.users), settings.confidence
    unknown = Estimate(None, None, None, sure, "not provided", 0)
    loss = change = None
    lift = way.judged.risk.estimate
    details: Json = {
        "tier": tier(lift),
        "top_1": scaled(lift, 1 / users).to_json(),
        "bound": None if way.limit is None else way.limit.success,
    }
    if way is not base:
        # The strongest of each was chosen: the interval allows for that.
        both = family_confidence(sure, len(way.judged.attacks))
        now, before = way.judged.strongest, base.judged.strongest
        change = scaled(now.less(before, None, both), users)
        if way.task is not None and base.task is not None and one.task is not None:
            loss = base.task.merit.less(way.task.merit, one.task.users, sure)
            details["equivalent"] = equivalence(loss, settings.margin)
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
    )


def _operating(
    named: dict[str, tuple[Measured, Way]], candidates: Sequence[Candidate]
) -> str | None:
    """Of the models that have an operating point, the one that keeps the most utility."""
    known = [
        (candidate.utility.value, -at, candidate.name)
        for at, candidate in enumerate(candidates)
        if named[candidate.name][1].name == RECOMMENDED and candidate.utility.value is not None
    ]
    return max(known)[2] if known else None


def _rulings(
    named: dict[str, tuple[Measured, Way]],
    candidates: Sequence[Candidate],
    settings: EmbeddingSettings,
) -> list[Ruling]:
    """Each rule on the release named: of every model, where the name has no model in it."""
    judged = [
        candidate
        for candidate in candidates
        if settings.release in (candidate.name, named[candidate.name][1].name)
    ]
    if not judged:
        raise InputError(
            f"release={settings.release!r} is no candidate.{did_you_mean(settings.release, named)} "
            f"There are: {', '.join(named)}."
        )
    return [
        Ruling(rule, candidate.name, judge(rule, found), found)
        for candidate in judged
        for rule in settings.rules()
        for found in [_evidence(rule, candidate, named[candidate.name][1], settings)]
    ]


def _evidence(
    rule: Rule, candidate: Candidate, way: Way, settings: EmbeddingSettings
) -> Known | None:
    if rule.metric in ("lift", "top-1"):
        return candidate.risk if rule.metric == "lift" else Estimate(**candidate.details["top_1"])
    if rule.metric == "bound":
        if way.limit is None:
            return Refusal("nothing limits what an attacker may do with this release")
        method = "no attacker exceeds it"
        return Estimate(None, None, way.limit.success, settings.confidence, method, 0)
    if way.name == BASELINE:
        return None
    return candidate.utility_loss


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
        rows.append(_permuted_row(on, status, detail, lift))
    if sound:
        name = max(sound, key=lambda name: sound[name].high or 0.0)
        detail = (
            f"lift of {', '.join(sound)} when people are looked for under other names: each "
            f"interval holds 1 and not {_SEEN:g}; the widest is of {name}"
        )
        rows.append(_permuted_row(on, "pass", detail, sound[name]))
    return rows


def _permuted_row(on: str, status: str, detail: str, lift: Estimate) -> Json:
    return {
        "name": "permuted identities",
        "candidate": on,
        "status": status,
        "detail": detail,
        "estimate": lift.to_json(),
    }


def _checks(one: Measured, several: bool, settings: EmbeddingSettings) -> list[Json]:
    """Self-checks of one model."""
    on = _name(one, one.ways[0], several)

    def check(name: str, fine: bool, bad: str, detail: str, found: Estimate | None = None) -> Json:
        row: Json = {"name": name, "candidate": on, "status": "pass" if fine else bad}
        row["detail"] = detail
        return row if found is None else {**row, "estimate": found.to_json()}

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
    checks = [
        *_permuted(on, clean.permuted),
        check(
            "no attack beats a proof",
            not (beyond or above),
            "fail",
            "the attack's lower limit is within every limit at every level"
            if not (beyond or above)
            else f"beaten at {', '.join([*beyond, *above])}: proof or attack is wrong",
        ),
        check(
            "ties",
            best.tie_share <= 0.01,
            "warn",
            f"{best.tie_share:.2%} of probes have their owner at the distance of somebody else; "
            "they count by expectation",
        ),
        check(
            "single precision",
            not clean.conditioning.ill,
            "warn",
            f"{clean.conditioning}; ranks here are those of double precision",
        ),
    ]
    if clean.shared is not None:
        copied = bool(clean.shared.columns) and settings.known is None
        checks.append(check("copied inputs", not copied, "warn", str(clean.shared)))
    return checks
