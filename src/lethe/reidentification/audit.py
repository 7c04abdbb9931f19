"""The audit of representations, top to bottom: attack, add noise, prove, decide.

The joint claim: this is how often the strongest of these attackers names the owner, with
simultaneous intervals by people (a lower limit of what can be learnt); and at each noise level no
attacker, not even one who knows every clean vector, names the owner of one released vector more
often than the limits say.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lethe.assess.run import AuditFacts, Subject, Verdict, check, outcome_words, run
from lethe.evidence.document import CheckRow, NotRun
from lethe.evidence.estimate import Estimate
from lethe.evidence.findings import Findings
from lethe.evidence.frontier import Candidate, Frontier
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.of_vectors import Beyond, ExposedPerson, VectorData, VectorSection
from lethe.evidence.risk import family_confidence
from lethe.evidence.rules import UNDECIDED, Ruling
from lethe.evidence.sight import Plant, smallest_seen
from lethe.reidentification.beyond import (
    asked_further,
    attributes_of,
    beyond,
    further_checks,
    verification_controls,
)
from lethe.reidentification.candidates import (
    RECOMMENDED,
    Evaluated,
    Evaluation,
    ModelAudit,
    evaluate,
)
from lethe.reidentification.clean import attack_clean, split_of
from lethe.reidentification.radius import study_radii
from lethe.reidentification.released import Released, check_same_people
from lethe.reidentification.section import (
    attacks_run,
    limits,
    not_run,
    operating_rule,
    points,
    section,
    summary,
    threat_model,
    utility_name,
)
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.surface import Curve, operating_point
from lethe.reidentification.sweep import Battery, Cluster, Say, game_of, sample_of, sweep
from lethe.reidentification.task import Task, TaskLevel, task_of
from lethe.reidentification.vectors import effective_sigma
from lethe.training.environment import on_one_thread
from lethe.training.fingerprint import hash_array
from lethe.training.folder import RunFolder, write_personal

# From measurements to the findings: candidates on a frontier, rules, checks, words.

MOST_PEOPLE = 100
_SHOWN = 0.9998  # confidence of a head's merit: labels of other rows exceed chance once in 10,000
_MOST = "max_people", "max_probes"


@dataclass(frozen=True, eq=False)
class VectorsSubject(Subject):
    """Representations of one or more models, measured, the baseline's model first."""

    measured: Sequence[ModelAudit]
    settings: EmbeddingSettings

    def findings(self) -> Findings:
        """The document of the audit."""
        return run(self, self.settings.rules(), self.settings.release)

    @functools.cached_property
    def named(self) -> dict[str, tuple[ModelAudit, Evaluated]]:
        """Every candidate by its name in the document."""
        several = len(self.measured) > 1
        return {
            _label(audit, evaluated.candidate.name, several): (audit, evaluated)
            for audit in self.measured
            for evaluated in audit.candidates
        }

    def candidates(self) -> Sequence[Candidate]:
        return self._candidates

    @functools.cached_property
    def _candidates(self) -> Sequence[Candidate]:
        return [
            replace(evaluated.candidate, name=name, short_name=evaluated.candidate.name)
            for name, (_, evaluated) in self.named.items()
        ]

    def recommended(self, frontier: Frontier) -> str | None:
        """Among models with an operating point, the one with the highest utility."""
        known = [
            (candidate.utility.value, -place, candidate.name)
            for place, candidate in enumerate(frontier.candidates)
            if candidate.short_name == RECOMMENDED and candidate.utility.value is not None
        ]
        return max(known)[2] if known else None

    def words(self, verdict: Verdict) -> Sequence[str]:
        return [
            outcome_words(verdict),
            *points(self.measured),
            *_needs(self.named, verdict.rulings),
        ]

    def facts(self) -> AuditFacts:
        measured, settings = self.measured, self.settings
        first, several = measured[0], len(measured) > 1
        return AuditFacts(
            subject={
                "release": "embeddings",
                "name": ", ".join(audit.model.name for audit in measured),
                "summary": summary(measured),
            },
            threat_model=threat_model(settings),
            data=_data(measured),
            attacks=attacks_run(first, settings),
            attacks_not_run=not_run(measured, settings),
            utility=utility_name(first),
            risk="lift: Top-1 of the strongest attacker over chance (1 = chance)",
            operating_rule=operating_rule(settings, first),
            margin=settings.margin,
            skipped=[
                NotRun(_label(audit, name, several), why)
                for audit in measured
                for name, why in audit.skipped.items()
            ],
            keep_records=settings.keep_records,
            exposed=_exposed(measured, settings) if settings.keep_records else [],
            checks=[check for audit in measured for check in _checks(audit, several, settings)],
            limits=limits(measured, settings),
            reproduction={
                "seed": settings.seed,
                "confidence": settings.confidence,
                "sigmas": list(settings.sigmas),
                "draws": settings.draws,
                "plays": settings.plays,
                "metric": settings.metric,
                "min_rows": settings.min_rows,
                "rule": list(settings.rule),
                **{name: most for name in _MOST if (most := getattr(settings, name))},
                **asked_further(settings),
            },
            libraries=("numpy", "scipy", "scikit-learn"),
            sections={
                "representations": VectorSection(
                    operating_rule(settings, first),
                    settings.metric,
                    [section(audit, settings) for audit in measured],
                )
            },
        )


def _label(audit: ModelAudit, name: str, several: bool) -> str:
    return f"{audit.model.name}: {name}" if several else name


def _needs(
    named: Mapping[str, tuple[ModelAudit, Evaluated]], rulings: Sequence[Ruling]
) -> list[str]:
    """Sentences on open rules on identification: the fewest people that would settle them."""
    words = []
    for ruling in rulings:
        rule = ruling.rule
        if ruling.outcome != UNDECIDED or rule.on_width or rule.metric not in ("lift", "top-1"):
            continue
        audit, evaluated = named[ruling.candidate]
        people, looked_for = len(audit.split.users), len(np.unique(audit.split.probe_user))
        share = rule.limit / people if rule.metric == "lift" else rule.limit
        if not 0 < share < 1 or not isinstance(ruling.evidence, Estimate):
            continue
        sure = family_confidence(ruling.evidence.confidence, len(evaluated.judged.attacks))
        least = clopper_pearson(0, looked_for, sure).high or 1.0
        needed = math.ceil(math.log((1 - sure) / 2) / math.log1p(-share))
        if least <= share:
            continue
        least_shown = least * people if rule.metric == "lift" else least
        text = (
            f"{rule} on {ruling.candidate} is open: even no hit among {looked_for:,} people allows "
            f"{least_shown:.2g}; it needs {needed:,} people or as many independent trials."
        )
        if rule.metric == "lift":
            text += (
                " More people lower chance alike: judge the share itself, for example "
                f"'top-1<={max(share, 0.01):.2g}', or more noise draws."
            )
        words.append(text)
    return words


def _data(measured: Sequence[ModelAudit]) -> VectorData:
    model, split = measured[0].model, measured[0].split
    return VectorData(
        records=len(model.user_ids),
        people=len(np.unique(model.user_ids)),
        people_in_the_attack=len(split.users),
        people_with_too_few_rows=split.left_out,
        gallery_rows=len(split.gallery_rows),
        probes=len(split.probe_rows),
        people_drawn_from=split.people or None,
        probes_drawn_from=split.probes or None,
        dimensions={
            audit.model.name: int(audit.model.representations.shape[1]) for audit in measured
        },
        notes=[note for audit in measured for note in audit.model.notes],
        fingerprint=hash_array(model.representations),
    )


def people(measured: Sequence[ModelAudit], settings: EmbeddingSettings) -> list[ExposedPerson]:
    """All people of the clean attack with their id, the most exposed of each model first.

    It is personal data: it says who is recognised. `named` is of the attacker that decides; ranks
    and bits are of one who looks up the nearest mean.
    """
    rows: list[ExposedPerson] = []
    for audit in measured:
        exposure = audit.clean.attacks[settings.metric].exposure
        judged = audit.candidates[0].judged
        named = judged.named[exposure.user]
        order = np.lexsort((-exposure.bits, -named))
        rows += [
            ExposedPerson(
                rank,
                audit.model.name,
                str(audit.split.users[exposure.user[place]]),
                int(exposure.probes[place]),
                judged.risk.attack,
                float(named[place]),
                float(exposure.rank[place]),
                float(exposure.bits[place]),
            )
            for rank, place in enumerate(order.tolist(), start=1)
        ]
    return rows


def _exposed(measured: Sequence[ModelAudit], settings: EmbeddingSettings) -> list[ExposedPerson]:
    """The most exposed people, named by rank instead of by their id."""
    listed, most = people(measured, settings), MOST_PEOPLE // len(measured)
    return [replace(row, id=f"person {row.rank}") for row in listed if row.rank <= most]


_FAR = 0.55  # mean percentile of the owner, from which on vectors point the wrong way; chance 0.5
_SEEN = 2.0
"""Lift that a permuted control must be able to see for its attack to be sound."""


def _permuted(on: str, lifts: Mapping[str, Estimate]) -> list[CheckRow]:
    """Check that the lift of each attacker is 1 under permuted identities, with power."""
    rows: list[CheckRow] = []
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


def _power(on: str, plants: Sequence[Plant], users: int) -> CheckRow:
    """Check which leaks, planted into the audit's own vectors, were seen."""
    seen = smallest_seen(plants, "top-1", 1 / users)
    if seen is None:
        unseen = (
            "not every kind of planted leak was told from chance: a low number says little here"
        )
        few = "these vectors have too few values to carry a leak that could be planted"
        return check("power", "warn", unseen if plants else few, on)
    detail = f"every kind of planted leak was seen from a Top-1 of {seen:.2g} on"
    return check("power", "pass", detail, on)


def _useful(on: str | None, task: Task, level: TaskLevel) -> CheckRow:
    """Check that vectors predict their labels; if not, they may belong to other rows."""
    commonest = np.unique(task.labels, return_counts=True)[1].max() / len(task.labels)
    chance = 0.5 if task.logits.ndim == 1 else float(commonest)
    low = level.merit.estimate(task.users, _SHOWN).low
    fails = low is None or low <= chance
    detail = f"{task.measure} of the head on these vectors: {level.value}"
    if fails:
        detail += (
            f"; not surely above {chance:.2g}, as if vectors and labels were of different rows: "
            "check their order, or leave the head out"
        )
    return check("vectors and labels belong together", "fail" if fails else "pass", detail, on)


def _checks(audit: ModelAudit, several: bool, settings: EmbeddingSettings) -> list[CheckRow]:
    """Self-checks of one model."""
    on = _label(audit, audit.candidates[0].candidate.name, several)
    clean = audit.clean
    best = clean.attacks[settings.metric]
    broken = [
        f"{level.sigma:g}" for level in audit.curve.levels if level.sigma not in audit.bounds
    ] + [
        f"{evaluated.candidate.name} ({attack})"
        for evaluated in audit.candidates
        for attack in evaluated.beaten
    ]
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
            f"{best.tie_share:.2%} of probes have their owner at the distance of another person; "
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
    attacks = (clean.attacks[name] for name in clean.permuted)
    if any((attack.percentile.low or 0.0) > _FAR for attack in attacks):
        detail = "people lie farther from their own rows than from others': are some turned round?"
        checks.append(check("direction of vectors", "fail", detail, None))
    checks.append(_power(on, audit.candidates[0].judged.plants, len(audit.split.users)))
    if audit.task is not None and audit.utility:
        checks.append(_useful(on if several else None, audit.task, audit.utility[0.0]))
    checks += further_checks(on, audit.further)
    if clean.shared is not None:
        copied = bool(clean.shared.columns) and settings.known is None
        status = "warn" if copied else "pass"
        checks.append(check("copied inputs", status, str(clean.shared), on))
    return checks


def audit_released(
    models: Sequence[Released],
    settings: EmbeddingSettings | None = None,
    say: Say | None = None,
    folder: RunFolder | None = None,
    cluster: Cluster | None = None,
    other: Released | None = None,
) -> Findings:
    """Attack released vectors, find the noise that stops it, and prove what no attacker can do.

    Several models of the same rows are audited side by side.

    Args:
        models: one or more, of different names; the first is the baseline of the frontier.
        settings: its rules are fixed before anything is measured.
        say: told what is being done, one line each.
        folder: an open run folder, for finished noise levels and the table of people.
        cluster: where the noise levels are attacked; see `sweep`.
        other: a second release about the same people, each model is linked with.

    Raises:
        InputError: rows of different people, zero vectors under cosine, a head of another
            dimension, labels that it cannot give.
        NotMeasurable: fewer than 2 people with enough rows.
    """
    settings = settings or EmbeddingSettings()
    check_same_people(models)
    tell = say or (lambda text: None)
    kept = None if folder is None else folder.path / "levels"
    measured = [measure(model, settings, tell, cluster, other, kept) for model in models]
    if settings.keep_records and folder is not None:
        write_personal(folder, [vars(row) for row in people(measured, settings)])
    return VectorsSubject(measured, settings).findings()


@on_one_thread  # of linear algebra: attackers have threads of their own
def measure(
    model: Released,
    settings: EmbeddingSettings,
    say: Say,
    cluster: Cluster | None = None,
    other: Released | None = None,
    kept: Path | None = None,
) -> ModelAudit:
    """One model, top to bottom; finished noise levels are kept in a folder."""
    split = split_of(model, settings)
    sought = len(np.unique(split.probe_user))
    among = f" among {len(split.users)}" if sought < len(split.users) else ""
    say(f"{model.name}: {len(split.probe_rows)} probes of {sought} people{among}")
    battery = Battery(model, split, sample_of(model, split), settings)
    clean = attack_clean(model, split, battery.panel(noise=False), settings)

    game = game_of(model, split)
    battery = replace(
        battery,
        invalid=clean.invalid,
        deciding=clean.deciding,
        known=clean.tallies,
        folder=kept,
    )
    curve = sweep(battery, say, cluster)
    say(f"{model.name}: bounds on every attacker")
    bounds = {
        level.sigma: limit
        for level in curve.levels
        for limit in [game.closed(level.sigma).success]
        if (level.share.low or 0.0) <= limit
    }

    task = task_of(model, settings)
    utility = _utility(task, curve, settings)
    measured = [] if task is None else list(utility.values())
    point = operating_point(
        curve.private_from(settings.lift),
        None if task is None else task.most_noise(measured),
        task is not None,
    )
    radii = None if model.head is None else study_radii(model, settings)

    people, untested = attributes_of(model, settings)
    unsound, controls = verification_controls(battery, settings, say)
    say(f"{model.name}: comparing mechanisms")
    context = Evaluation(
        battery,
        game,
        task,
        clean,
        settings,
        people=people,
        untested=tuple(attribute.refused for attribute in untested),
        unsound={**clean.invalid, **unsound},
    )
    candidates = []
    for evaluated in evaluate(context, curve, point.recommended):
        candidates.append(evaluated)
        if settings.verification or people:
            say(f"{model.name}: {evaluated.candidate.name}, {len(candidates)} options looked at")
    return ModelAudit(
        model,
        split,
        clean,
        curve,
        game,
        bounds,
        task,
        utility,
        radii,
        point,
        tuple(candidates),
        dict(sorted((clean.skipped | battery.skipped | context.skipped).items())),
        beyond(model, other, battery, settings, say, Beyond(untested, controls)),
    )


def _utility(
    task: Task | None, curve: Curve, settings: EmbeddingSettings
) -> dict[float, TaskLevel]:
    """Utility of one draw at each level asked for, and of M draws on the surface."""
    if task is None:
        return {}
    levels = {level.sigma for level in curve.levels if level.sigma in curve.asked}
    if task.norm is not None:  # in closed form more levels cost nothing
        levels |= {curve.at(s, m).sigma for s in settings.surface for m in settings.averaged}
        levels |= {
            float(f"{effective_sigma(s, m):.12g}")
            for s in settings.sigmas
            for m in settings.averaged
        }
    return {sigma: task.at(sigma) for sigma in sorted(levels)}
