"""Findings on a model's vectors, see `lethe.evidence.of_vectors`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from lethe.evidence.document import AttackRow, Histogram, NotRun, ThreatModel
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.of_vectors import (
    AtChance,
    Controls,
    Gallery,
    Named,
    NoiseLevel,
    OperatingWords,
    PeopleQuantiles,
    RadiiSection,
    RadiusRow,
    Strongest,
    SurfaceCell,
    TaskRow,
    TaskSection,
    VectorModel,
)
from lethe.reidentification.attack import Attack
from lethe.reidentification.by_user import scaled
from lethe.reidentification.candidates import RECOMMENDED, ModelAudit
from lethe.reidentification.clean import INPUTS
from lethe.reidentification.family import ATTACKERS, Attacker, allowed
from lethe.reidentification.gallery import Split
from lethe.reidentification.radius import NOT_ANONYMITY, Radii
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.sight import ALL
from lethe.reidentification.surface import Level, tier
from lethe.reidentification.sweep import TOP
from lethe.reidentification.vectors import effective_sigma

# The words of an audit of representations.


def summary(measured: Sequence[ModelAudit]) -> str:
    """Sentence on the audited release."""
    first = measured[0]
    sizes = " and ".join(str(audit.model.representations.shape[1]) for audit in measured)
    return (
        f"{len(first.model.user_ids):,} vectors of {sizes} dimensions; "
        f"{len(first.split.probe_rows):,} of them to be named among {len(first.split.users):,} "
        f"people{f', drawn at random from {first.split.people:,}' if first.split.people else ''}."
    )


def threat_model(settings: EmbeddingSettings) -> ThreatModel:
    """The threat model."""
    when = (
        "earlier vectors of known people, half of each person's rows"
        if settings.known is None
        else f"vectors of known people of period {settings.known}"
    )
    enrolled = "with and without noise" if settings.clean_gallery else "as released"
    joined = "all new vectors" if settings.joined == ALL else f"{settings.joined} new vectors"
    return ThreatModel(
        "singling out and linkage: name the owner of a new vector",
        f"attacks: {when}, {enrolled}, {joined} of a person known to belong together, "
        "both vectors of other people; certificates: every clean vector of every person",
        "the released vectors, or noisy draws of them",
        f"exact ranks of every probe; up to {settings.draws} noise draws a level",
        "person",
    )


def attacks_run(first: ModelAudit, settings: EmbeddingSettings) -> list[AttackRow]:
    """The attacks on clean vectors and under noise."""
    drawn = {"min_rows": settings.min_rows, "split_seed": settings.seed}
    run = [
        *allowed(settings.clean_gallery, settings.joined, settings.score_norm),
        *(attacker for attacker in INPUTS if attacker.name in first.clean.attacks),
    ]
    rows = [AttackRow(row.name, row.title, row.paper, row.knows, drawn) for row in run]
    if settings.plays:
        rows.append(
            AttackRow(
                "optimal",
                "The best attacker there is, played",
                "maximum a posteriori decoding; Clopper and Pearson 1934",
                "knows every clean vector, its chance and the noise",
                {"plays": settings.plays},
            )
        )
    return rows


def not_run(measured: Sequence[ModelAudit], settings: EmbeddingSettings) -> list[NotRun]:
    """Attacks and candidates that were not run, with reasons."""
    kept = {attacker.name for attacker in allowed(settings.clean_gallery, settings.joined)}
    why = "the threat model of this audit rules its knowledge out"
    ruled_out = {row.name: why for row in ATTACKERS if row.name not in kept}
    return [
        NotRun(name, why)
        for reasons in (_NEVER, measured[0].clean.skipped, ruled_out)
        for name, why in reasons.items()
    ]


_NEVER = {
    "order, times and number of a person's vectors": "vectors are read as a set: a release that "
    "tells more of them may identify more people than measured here",
    "people the encoder never saw": "nothing says which rows these are; audit a file of their "
    "rows alone",
    "inversion of the encoder": "what a vector tells of its inputs is another question than whose "
    "it is",
    "grids and digits": "a person's own rounding or step of values is read by no attack",
}


def utility_name(first: ModelAudit) -> str:
    """Name of the utility."""
    if first.task is None:
        return "not provided"
    return f"{first.task.measure} of one released draw"


def operating_rule(settings: EmbeddingSettings, first: ModelAudit) -> str:
    """The rule that was fixed before the run."""
    measure = "utility" if first.task is None else first.task.measure
    return (
        f"privacy needs noise from which on the upper limit of the lift stays below "
        f"{settings.lift:g}; utility allows noise while the lower limit of one draw's {measure} is "
        f"above {settings.floor:g}; where there is room between, the midpoint is recommended."
    )


def limits(measured: Sequence[ModelAudit], settings: EmbeddingSettings) -> list[str]:
    """Sentences on the limits of this audit."""
    sentences = [
        "Certificates of identification hold for one draw of one row of a person. Further draws "
        "and rows add up: M draws at sigma are one at sigma / sqrt(M).",
        "A small lift is no proof: only the limits on every attacker are, under their assumptions.",
        "sigma of one model is not comparable with that of another: scaling vectors and head "
        "against each other changes it. Compare mu, or sigma relative to the spread.",
        "The certified radius " + NOT_ANONYMITY + ".",
        "The encoder is taken as fixed: what its training tells is another audit "
        "(lethe audit model).",
    ]
    sentences += _drawn(measured[0].split, settings.seed)
    if settings.diameter is None and settings.norm is None:
        sentences.append(
            "No bound on how far two vectors differ was given, so no differential privacy is "
            "claimed for any noise."
        )
    if any(audit.model.attributes for audit in measured):
        sentences.append(
            "The gain on an attribute is measured with the values given beside the vectors. With "
            "other people's values it is 0, even if the vectors reveal the attribute."
        )
    for audit in measured:
        if audit.task is None:
            sentences.append(
                f"{audit.model.name}: head or labels are missing, so utility was not measured."
            )
    return sentences


def _drawn(split: Split, seed: int) -> list[str]:
    """Sentences on the meaning of numbers from a random subset of people or probes."""
    texts, people = [], len(split.users)
    if split.people:
        texts.append(
            f"{people:,} of {split.people:,} people were drawn at random (seed {seed}) for gallery "
            "and probes. The intervals take people as what was sampled, so they cover who was "
            f"drawn. Top-1 and lift are those of a gallery of {people:,} people: among "
            f"{split.people:,}, Top-1 is usually lower, and the lift is another."
        )
    if split.probes:
        texts.append(
            f"{len(np.unique(split.probe_user)):,} of {people:,} people were drawn at random (seed "
            f"{seed}) to be looked for, with all {len(split.probe_rows):,} of their vectors; the "
            f"gallery holds all {people:,}. The intervals take people as what was sampled. "
            "Metrics are learned from the vectors of the people drawn."
        )
    return texts


def points(measured: Sequence[ModelAudit]) -> list[str]:
    """Sentences on the operating point of each model."""
    texts = [str(audit.point)[:1].upper() + str(audit.point)[1:] + "." for audit in measured]
    if len(measured) == 1:
        return texts
    return [f"{audit.model.name}: {text}" for audit, text in zip(measured, texts, strict=True)]


def plain_words(audit: ModelAudit, settings: EmbeddingSettings) -> list[str]:
    """Summary of the findings on a model, in sentences."""
    judged, users = audit.candidates[0].judged, len(audit.split.users)
    lift, attacker = judged.risk.estimate, _named(judged.risk.attack, settings)
    knows = next(row.knows for row in judged.attacks if row.attack == attacker.name)
    share, low, high = (100 * (x or 0) / users for x in (lift.value, lift.low, lift.high))
    if attacker.vectors == 1:
        whom = f"the owner of {share:.2g} % of vectors"
    else:
        whom = f"{share:.2g} % of people"
    words = [
        f"The strongest attacker ({attacker.name}) identifies {whom} "
        f"({low:.2g} to {high:.2g} %, allowing for {len(judged.attacks)} attacks); a random guess "
        f"identifies {100 / users:.2g} %. It knows {knows}."
    ]
    if audit.split.people:
        words.append(
            f"The gallery holds {users:,} people, drawn at random from {audit.split.people:,}: "
            "among more people an attacker usually identifies fewer of them."
        )
    closed = audit.candidates[0].candidate.details.closed_world
    if closed is not None:
        top = closed.top_1
        share, low, high = (100 * (end or 0) for end in (top.value, top.low, top.high))
        words.append(
            f"If it also knows that everybody is in both periods, and assigns all people at once "
            f"({closed.attack}), it identifies {share:.3g} % ({low:.3g} to {high:.3g} %). This "
            "is another threat model; no rule and no other number reads it."
        )
    noisy = next((e for e in audit.candidates if e.candidate.name == RECOMMENDED), None)
    if noisy is not None and noisy.limit is not None:
        words.append(
            f"With the recommended noise the strongest attacker ({noisy.judged.risk.attack}) is "
            f"{noisy.judged.risk.estimate.value:.3g} times as good as a guess "
            f"({tier(noisy.judged.risk.estimate)}), and no attacker whatever names the owner of "
            f"more than {1000 * noisy.limit.success:.3g} of 1,000 single released vectors."
        )
    return words


def _named(name: str, settings: EmbeddingSettings) -> Attacker:
    every = allowed(settings.clean_gallery, settings.joined, settings.score_norm)
    return next(attacker for attacker in every if attacker.name == name)


_BINS = 20


def section(audit: ModelAudit, settings: EmbeddingSettings) -> VectorModel:
    """The model's part of the findings."""
    rows, dimensions = audit.model.representations.shape
    clean, point = audit.clean, audit.point
    return VectorModel(
        name=audit.model.name,
        words=plain_words(audit, settings),
        rows=rows,
        people=len(np.unique(audit.model.user_ids)),
        dimensions=dimensions,
        scale={"rms": clean.rms},
        attacks=[_gallery(name, attack) for name, attack in clean.attacks.items()],
        exposure=_exposure(audit, clean.attacks[settings.metric]),
        controls=Controls(
            clean.permuted,
            str(clean.conditioning),
            clean.strangers,
            None if clean.shared is None else str(clean.shared),
        ),
        geometry={metric: PeopleQuantiles(*apart) for metric, apart in clean.nearest.items()},
        levels=[_level(level, audit, settings) for level in audit.curve.levels],
        surface=_surface(audit, settings),
        utility=_utility(audit, settings),
        radii=_radii(audit),
        point=OperatingWords(point.privacy, point.utility, point.recommended, str(point)),
        skipped=audit.skipped,
        further=audit.further,
    )


def _gallery(name: str, attack: Attack) -> Gallery:
    """Numbers of an attack, without personal data."""
    chance = attack.chance
    tops = {k: chance.top(k) for k in attack.top}
    numbers = vars(attack) | {"name": name, "chance": AtChance(chance.mrr, chance.mean_rank, tops)}
    return Gallery(**{field.name: numbers[field.name] for field in fields(Gallery)})


def _exposure(audit: ModelAudit, attack: Attack) -> Named:
    """Counts of people by how often the deciding attacker names them; bits are of the mean's."""
    named = audit.candidates[0].judged.named[attack.exposure.user]
    counts, edges = np.histogram(named, bins=_BINS, range=(0, 1))
    bits = np.quantile(attack.exposure.bits, [0.05, 0.5, 0.95])
    return Named(
        Histogram(edges.tolist(), counts.tolist()),
        PeopleQuantiles(*bits.tolist()),
        float(np.log2(attack.users)),
    )


def _level(level: Level, audit: ModelAudit, settings: EmbeddingSettings) -> NoiseLevel:
    noisy = next((e for e in audit.candidates if e.sigma == level.sigma and e.sigma > 0), None)
    claims = () if noisy is None else (noisy.candidate.guarantee, *noisy.candidate.further)
    played = [
        claim.parameters
        for claim in claims
        if claim.kind == "identification-bound" and "confidence" in claim.parameters
    ]
    optimal = None
    if played:
        method = "one-sided limit on the best attacker there is"
        ends = (None, None, played[0]["success"])
        optimal = Estimate(*ends, played[0]["confidence"], method, settings.plays)
    shares, judged = (level.share, *level.others), level.judged
    return NoiseLevel(
        sigma=level.sigma,
        relative=level.sigma / audit.clean.rms if audit.clean.rms > 0 else 0.0,
        asked=level.sigma in settings.sigmas,
        tier=tier(level.worst),
        draws=level.draws,
        top=dict(zip(TOP, shares, strict=False)),
        mrr=shares[-1],
        lift=level.lift,
        risk=level.worst,
        strongest=None if judged is None else Strongest(judged.risk.attack, judged.risk.view),
        attacks=() if judged is None else judged.attacks,
        bound=audit.bounds.get(level.sigma),
        optimal=optimal,
    )


def _surface(audit: ModelAudit, settings: EmbeddingSettings) -> list[SurfaceCell]:
    cells = []
    for sigma in settings.surface:
        for draws in settings.averaged:
            level = audit.curve.at(sigma, draws)
            task, lift = audit.utility.get(level.sigma), level.worst
            top_1 = scaled(lift, 1 / len(audit.split.users))
            value = None if task is None else task.value
            cells.append(SurfaceCell(sigma, draws, level.sigma, top_1, lift, value))
    return cells


def _utility(audit: ModelAudit, settings: EmbeddingSettings) -> TaskSection | Refusal:
    if audit.task is None:
        missing = "a head" if audit.model.head is None else "labels"
        return Refusal(f"utility needs head and labels: {missing} would have to be given")
    known, linear = audit.utility, audit.task.norm is not None

    def averaged(draws: int) -> list[TaskRow]:
        pairs = ((s, float(f"{effective_sigma(s, draws):.12g}")) for s in settings.sigmas)
        return [TaskRow(sigma=s, value=known[level].value) for s, level in pairs if level in known]

    return TaskSection(
        measure=audit.task.measure,
        floor=settings.floor,
        head_norm=audit.task.norm,
        closed_form=linear,
        # A monotone function of the clean logit: the same at every sigma.
        smoothed=known[0.0].value if linear else None,
        levels=[
            TaskRow(
                sigma=sigma,
                value=level.value,
                accuracy=level.accuracy,
                counts=level.counts,
                smoothed=level.calibration,
            )
            for sigma, level in ((s, known[s]) for s in settings.sigmas if s in known)
        ],
        averaged={draws: averaged(draws) for draws in settings.averaged},
    )


def _radii(audit: ModelAudit) -> RadiiSection | Refusal:
    study = audit.radii
    if study is None:
        return Refusal("certified radii need a head; there is none here")
    every = [*([] if study.closed is None else [study.closed]), *study.sampled.values()]
    most = max(float(_finite(radii).max(initial=0.0)) for radii in every) or 1.0
    edges = np.linspace(0, most, 41)

    def row(radii: Radii, sigma: float | None = None) -> RadiusRow:
        finite = _finite(radii)
        return RadiusRow(
            sigma=sigma,
            mean=float(finite.mean()) if len(finite) else None,
            median=float(np.median(finite)) if len(finite) else None,
            most=float(finite.max(initial=0.0)),
            cap=radii.cap,
            abstained=radii.abstained,
            counts=np.histogram(finite, edges)[0].tolist(),
        )

    return RadiiSection(
        points=len(study.rows),
        closed_form=None if study.closed is None else row(study.closed),
        sampled=[row(radii, sigma) for sigma, radii in study.sampled.items()],
        edges=edges.tolist(),
        at=study.at.tolist(),
        accuracy=study.accuracy,
    )


def _finite(radii: Radii) -> Any:
    return radii.radius[np.isfinite(radii.radius)]
