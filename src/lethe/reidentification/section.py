"""What the findings say of one model's vectors: plain values for `findings.json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.plain import plain
from lethe.reidentification.attack import Attack
from lethe.reidentification.by_user import scaled
from lethe.reidentification.candidates import RECOMMENDED, Evaluated, ModelAudit
from lethe.reidentification.clean import INPUTS
from lethe.reidentification.family import ATTACKERS, Attacker, allowed
from lethe.reidentification.gallery import Split
from lethe.reidentification.radius import NOT_ANONYMITY, Radii
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.sight import ALL
from lethe.reidentification.surface import Level, tier
from lethe.reidentification.sweep import TOP
from lethe.reidentification.task import TaskLevel
from lethe.reidentification.vectors import effective_sigma

# The words of an audit of representations.


def summary(measured: Sequence[ModelAudit]) -> str:
    """What was audited, in one sentence."""
    first = measured[0]
    sizes = " and ".join(str(audit.model.representations.shape[1]) for audit in measured)
    return (
        f"{len(first.model.user_ids):,} vectors of {sizes} dimensions; "
        f"{len(first.split.probe_rows):,} of them to be named among {len(first.split.users):,} "
        f"people{f', drawn at random from {first.split.people:,}' if first.split.people else ''}."
    )


def threat_model(settings: EmbeddingSettings) -> dict[str, str]:
    """Who attacks, with what."""
    when = (
        "earlier vectors of known people, half of each person's rows"
        if settings.known is None
        else f"vectors of known people of period {settings.known}"
    )
    enrolled = "with and without noise" if settings.clean_gallery else "as released"
    joined = "all new vectors" if settings.joined == ALL else f"{settings.joined} new vectors"
    return {
        "goal": "singling out and linkage: name the owner of a new vector",
        "knowledge": f"attacks: {when}, {enrolled}, {joined} of a person known to belong together, "
        "both vectors of other people; certificates: every clean vector of every person",
        "access": "the released vectors, or noisy draws of them",
        "budget": f"exact ranks of every probe; {settings.draws} noise draws a level",
        "unit": "person",
    }


def attacks_run(first: ModelAudit, settings: EmbeddingSettings) -> list[dict[str, Any]]:
    """The attacks on clean vectors and under noise."""
    rows = [
        {
            "name": attacker.name,
            "title": attacker.title,
            "paper": attacker.paper,
            "threat": attacker.knows,
            "settings": {"min_rows": settings.min_rows, "split_seed": settings.seed},
        }
        for attacker in (
            *allowed(settings.clean_gallery, settings.joined, settings.score_norm),
            *INPUTS,
        )
        if attacker not in INPUTS or attacker.name in first.clean.attacks
    ]
    if settings.plays:
        rows.append(
            {
                "name": "optimal",
                "title": "The best attacker there is, played",
                "paper": "maximum a posteriori decoding; Clopper and Pearson 1934",
                "threat": "knows every clean vector, its chance and the noise",
                "settings": {"plays": settings.plays},
            }
        )
    return rows


def not_run(measured: Sequence[ModelAudit], settings: EmbeddingSettings) -> list[dict[str, str]]:
    """What was left out, and why."""
    rows = [{"name": name, "why": why} for name, why in measured[0].clean.skipped.items()]
    kept = {attacker.name for attacker in allowed(settings.clean_gallery, settings.joined)}
    rows += [
        {"name": attacker.name, "why": "the threat model of this audit rules its knowledge out"}
        for attacker in ATTACKERS
        if attacker.name not in kept
    ]
    return [*rows, *({"name": name, "why": why} for name, why in _NEVER.items())]


_NEVER = {
    "people the encoder never saw": "nothing says which rows these are; audit a file of their "
    "rows alone",
    "inversion of the encoder": "what a vector tells of its inputs is another question than whose "
    "it is",
    "order, times and number of a person's vectors": "vectors are read as a set: leave order and "
    "number out of the release, or do not rely on this audit",
    "grids and digits": "a person's own rounding or step of values is read by no attack",
}


def utility_name(first: ModelAudit) -> str:
    """What utility is."""
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
    """What this audit cannot say."""
    said = [
        "Certificates of identification hold for one draw of one row of a person. Further draws "
        "and rows add up: M draws at sigma are one at sigma / sqrt(M).",
        "A small lift is no proof: only the limits on every attacker are, under their assumptions.",
        "sigma of one model is not comparable with that of another: scaling vectors and head "
        "against each other changes it. Compare mu, or sigma relative to the spread.",
        "The certified radius " + NOT_ANONYMITY + ".",
        "The encoder is taken as fixed: what its training tells is another audit "
        "(lethe audit model).",
    ]
    said += _drawn(measured[0].split, settings.seed)
    if settings.diameter is None and settings.norm is None:
        said.append(
            "No bound on how far two vectors differ was given, so no differential privacy is "
            "claimed for any noise."
        )
    for audit in measured:
        if audit.task is None:
            said.append(
                f"{audit.model.name}: head or labels are missing, so utility was not measured."
            )
    return said


def _drawn(split: Split, seed: int) -> list[str]:
    """What a random subset of people or of probes means for the numbers."""
    said, people = [], len(split.users)
    if split.people:
        said.append(
            f"{people:,} of {split.people:,} people were drawn at random (seed {seed}) for gallery "
            "and probes. The intervals take people as what was sampled, so they cover who was "
            f"drawn. Top-1 and lift are those of a gallery of {people:,} people: among "
            f"{split.people:,}, Top-1 is usually lower, and the lift is another."
        )
    if split.probes:
        said.append(
            f"{len(np.unique(split.probe_user)):,} of {people:,} people were drawn at random (seed "
            f"{seed}) to be looked for, with all {len(split.probe_rows):,} of their vectors; the "
            f"gallery holds all {people:,}. The intervals take people as what was sampled. "
            "Metrics are learned from the vectors of the people drawn."
        )
    return said


def points(measured: Sequence[ModelAudit]) -> list[str]:
    """Where to stand with each model."""
    said = [str(audit.point)[:1].upper() + str(audit.point)[1:] + "." for audit in measured]
    if len(measured) == 1:
        return said
    return [f"{audit.model.name}: {text}" for audit, text in zip(measured, said, strict=True)]


def plain_words(audit: ModelAudit, settings: EmbeddingSettings) -> list[str]:
    """What was found on one model, for a reader of nothing else."""
    judged, users = audit.candidates[0].judged, len(audit.split.users)
    lift, attacker = judged.risk.estimate, _named(judged.risk.attack, settings)
    knows = next(one.knows for one in judged.attacks if one.attack == attacker.name)
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
    closed = audit.candidates[0].candidate.details.get("closed_world")
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


Json = dict[str, Any]
_BINS = 20
_OPEN_SET = ("threshold", "aimed_at", "strangers", "false_match", "identified", "misnamed")
_NUMBERS = (
    *("users", "probes", "people", "top", "lift", "common", "mrr", "mean_rank", "median_rank"),
    *("percentile", "bits", "always", "never", "tie_share"),
)


def section(audit: ModelAudit, settings: EmbeddingSettings) -> Json:
    """The entry of one model in ``representations.models``."""
    rows, dimensions = audit.model.representations.shape
    return {
        "name": audit.model.name,
        "words": plain_words(audit, settings),
        "rows": rows,
        "people": len(np.unique(audit.model.user_ids)),
        "dimensions": dimensions,
        "scale": {"rms": audit.clean.rms},
        "attacks": [named(name, attack) for name, attack in audit.clean.attacks.items()],
        "exposure": _exposure(audit, audit.clean.attacks[settings.metric]),
        "controls": _controls(audit),
        "geometry": {
            metric: dict(zip(("low", "median", "high"), apart, strict=True))
            for metric, apart in audit.clean.nearest.items()
        },
        "levels": [_level(level, audit, settings) for level in audit.curve.levels],
        "surface": _surface(audit, settings),
        "utility": _utility(audit, settings),
        "radii": _radii(audit),
        "point": {
            "privacy": audit.point.privacy,
            "utility": audit.point.utility,
            "recommended": audit.point.recommended,
            "words": str(audit.point),
        },
        "skipped": audit.skipped,
        **plain(audit.further),
    }


def named(name: str, attack: Attack) -> Json:
    """One attack in numbers; nothing in it names a person."""
    return {
        "name": name,
        **{key: getattr(attack, key) for key in _NUMBERS},
        "chance": {
            "mrr": attack.chance.mrr,
            "mean_rank": attack.chance.mean_rank,
            "top": {k: attack.chance.top(k) for k in attack.top},
        },
    }


def _exposure(audit: ModelAudit, attack: Attack) -> Json:
    """Counts of people by how often the deciding attacker names them; bits are of the mean's."""
    named = audit.candidates[0].judged.named[attack.exposure.user]
    counts, edges = np.histogram(named, bins=_BINS, range=(0, 1))
    bits = np.quantile(attack.exposure.bits, [0.05, 0.5, 0.95])
    return {
        "named": {"edges": edges.tolist(), "counts": counts.tolist()},
        "bits": dict(zip(("low", "median", "high"), bits.tolist(), strict=True)),
        "bits_that_name": float(np.log2(attack.users)),
    }


def _controls(audit: ModelAudit) -> Json:
    clean, strangers = audit.clean, audit.clean.strangers
    found: Json = {
        "permuted_lift": clean.permuted,
        "conditioning": str(clean.conditioning),
        "open_set": strangers
        if isinstance(strangers, Refusal)
        else {key: getattr(strangers, key) for key in _OPEN_SET},
    }
    if clean.shared is not None:
        found["shared_inputs"] = str(clean.shared)
    return found


def _level(level: Level, audit: ModelAudit, settings: EmbeddingSettings) -> Json:
    noisy = next((e for e in audit.candidates if e.sigma == level.sigma and e.sigma > 0), None)
    best = (
        next((g for g in _limits(noisy) if "confidence" in g.parameters), None) if noisy else None
    )
    shares = (level.share, *level.others)
    return {
        "sigma": level.sigma,
        "relative": level.sigma / audit.clean.rms if audit.clean.rms > 0 else 0.0,
        "asked": level.sigma in settings.sigmas,
        "tier": tier(level.worst),
        "draws": level.draws,
        "top": dict(zip(TOP, shares, strict=False)),
        "mrr": shares[-1],
        "lift": level.lift,
        "risk": level.worst,
        **_attacks(level),
        "bound": audit.bounds.get(level.sigma),
        "optimal": None
        if best is None
        else Estimate(
            None,
            None,
            best.parameters["success"],
            best.parameters["confidence"],
            "one-sided limit on the best attacker there is",
            settings.plays,
        ),
    }


def _attacks(level: Level) -> Json:
    if level.judged is None:
        return {"strongest": None, "attacks": []}
    risk = level.judged.risk
    return {
        "strongest": {"attack": risk.attack, "view": risk.view},
        "attacks": level.judged.attacks,
    }


def _limits(noisy: Evaluated) -> list[Guarantee]:
    every = (noisy.candidate.guarantee, *noisy.candidate.further)
    return [label for label in every if label.kind == "identification-bound"]


def _surface(audit: ModelAudit, settings: EmbeddingSettings) -> list[Json]:
    cells = []
    for sigma in settings.surface:
        for draws in settings.averaged:
            level = audit.curve.at(sigma, draws)
            utility = audit.utility.get(level.sigma)
            cells.append(
                {
                    "sigma": sigma,
                    "draws": draws,
                    "effective": level.sigma,
                    "top_1": scaled(level.worst, 1 / len(audit.split.users)),
                    "lift": level.worst,
                    "utility": utility and utility.value,
                }
            )
    return cells


def _utility(audit: ModelAudit, settings: EmbeddingSettings) -> Json:
    if audit.task is None:
        missing = "a head" if audit.model.head is None else "labels"
        return {"refused": f"utility needs head and labels: {missing} would have to be given"}
    clean = audit.utility[0.0]
    averaged = {}
    for draws in settings.averaged:
        found = [
            (sigma, audit.utility.get(float(f"{effective_sigma(sigma, draws):.12g}")))
            for sigma in settings.sigmas
        ]
        averaged[str(draws)] = [
            {"sigma": sigma, "value": level.value} for sigma, level in found if level
        ]
    return {
        "measure": audit.task.measure,
        "floor": settings.floor,
        "head_norm": audit.task.norm,
        "closed_form": audit.task.norm is not None,
        # A monotone function of the clean logit: the same at every sigma.
        "smoothed": clean.value if audit.task.norm is not None else None,
        "levels": [_task(audit.utility[s], s) for s in settings.sigmas if s in audit.utility],
        "averaged": averaged,
    }


def _task(level: TaskLevel, sigma: float) -> Json:
    found: Json = {"sigma": sigma, "value": level.value, "accuracy": level.accuracy}
    if level.counts is not None:
        found |= vars(level.counts)
    if level.calibration is not None:
        found["smoothed"] = vars(level.calibration)
    return found


def _radii(audit: ModelAudit) -> Json:
    study = audit.radii
    if study is None:
        return {"refused": "certified radii need a head; there is none here"}
    every = [*([] if study.closed is None else [study.closed]), *study.sampled.values()]
    most = max(float(_finite(radii).max(initial=0.0)) for radii in every) or 1.0
    edges = np.linspace(0, most, 41)
    return {
        "points": len(study.rows),
        "closed_form": None if study.closed is None else _spread(study.closed, edges),
        "sampled": [
            {"sigma": sigma, **_spread(radii, edges)} for sigma, radii in study.sampled.items()
        ],
        "edges": edges.tolist(),
        "at": study.at.tolist(),
        "accuracy": study.accuracy,
    }


def _finite(radii: Radii) -> Any:
    return radii.radius[np.isfinite(radii.radius)]


def _spread(radii: Radii, edges: Any) -> Json:
    known = _finite(radii)
    return {
        "mean": float(known.mean()) if len(known) else None,
        "median": float(np.median(known)) if len(known) else None,
        "most": float(known.max(initial=0.0)),
        "cap": radii.cap,
        "abstained": radii.abstained,
        "counts": np.histogram(known, edges)[0].tolist(),
    }
