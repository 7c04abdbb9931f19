"""What the findings say of one model's vectors: plain values for `findings.json`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.guarantee import Guarantee
from lethe.reidentification import texts
from lethe.reidentification.attack import Attack
from lethe.reidentification.by_user import scaled
from lethe.reidentification.candidates import Measured, Way
from lethe.reidentification.radius import Radii
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.surface import Level, tier
from lethe.reidentification.sweep import TOP
from lethe.reidentification.task import TaskLevel
from lethe.reidentification.vectors import effective_sigma

Json = dict[str, Any]
_BINS = 20


def section(one: Measured, settings: EmbeddingSettings) -> Json:
    """The entry of one model in ``representations.models``."""
    rows, dimensions = one.model.representations.shape
    return {
        "name": one.model.name,
        "words": texts.plain_words(one, settings),
        "rows": rows,
        "people": len(np.unique(one.model.user_ids)),
        "dimensions": dimensions,
        "scale": {"rms": one.clean.rms},
        "attacks": [named(name, found) for name, found in one.clean.attacks.items()],
        "exposure": _exposure(one.clean.attacks[settings.metric]),
        "controls": _controls(one),
        "geometry": {
            metric: dict(zip(("low", "median", "high"), apart, strict=True))
            for metric, apart in one.clean.nearest.items()
        },
        "levels": [_level(level, one, settings) for level in one.curve.levels],
        "surface": _surface(one, settings),
        "utility": _utility(one, settings),
        "radii": _radii(one),
        "point": {
            "privacy": one.point.privacy,
            "utility": one.point.utility,
            "recommended": one.point.recommended,
            "words": str(one.point),
        },
        "skipped": one.skipped,
    }


def named(name: str, found: Attack) -> Json:
    """One attack in numbers; nothing in it names a person."""
    return {
        "name": name,
        "users": found.users,
        "probes": found.probes,
        "people": found.people,
        "top": {str(k): one.to_json() for k, one in found.top.items()},
        "lift": {str(k): one.to_json() for k, one in found.lift.items()},
        "common": {str(size): one.to_json() for size, one in found.common.items()},
        "mrr": found.mrr.to_json(),
        "mean_rank": found.mean_rank.to_json(),
        "median_rank": found.median_rank.to_json(),
        "percentile": found.percentile.to_json(),
        "bits": found.bits.to_json(),
        "always": found.always.to_json(),
        "never": found.never.to_json(),
        "tie_share": found.tie_share,
        "chance": {
            "mrr": found.chance.mrr,
            "mean_rank": found.chance.mean_rank,
            "top": {str(k): found.chance.top(k) for k in found.top},
        },
    }


def _exposure(found: Attack) -> Json:
    """How exposure is spread over people: counts, which single nobody out by name."""
    counts, edges = np.histogram(found.exposure.named, bins=_BINS, range=(0, 1))
    bits = np.quantile(found.exposure.bits, [0.05, 0.5, 0.95])
    return {
        "named": {"edges": edges.tolist(), "counts": counts.tolist()},
        "bits": dict(zip(("low", "median", "high"), bits.tolist(), strict=True)),
        "bits_that_name": float(np.log2(found.users)),
    }


def _controls(one: Measured) -> Json:
    clean = one.clean
    strangers = clean.strangers
    found: Json = {
        "permuted_lift": {name: lift.to_json() for name, lift in clean.permuted.items()},
        "conditioning": str(clean.conditioning),
    }
    if isinstance(strangers, Refusal):
        found["open_set"] = strangers.to_json()
    else:
        found["open_set"] = {
            "threshold": strangers.threshold,
            "aimed_at": strangers.aimed_at,
            "strangers": strangers.strangers,
            "false_match": strangers.false_match.to_json(),
            "identified": strangers.identified.to_json(),
            "misnamed": strangers.misnamed.to_json(),
        }
    if clean.shared is not None:
        found["shared_inputs"] = str(clean.shared)
    return found


def _level(level: Level, one: Measured, settings: EmbeddingSettings) -> Json:
    way = next((w for w in one.ways if w.sigma == level.sigma and w.sigma > 0), None)
    best = next((g for g in _limits(way) if "confidence" in g.parameters), None) if way else None
    shares = (level.share, *level.others)
    return {
        "sigma": level.sigma,
        "relative": level.sigma / one.clean.rms if one.clean.rms > 0 else 0.0,
        "asked": level.sigma in settings.sigmas,
        "tier": tier(level.worst),
        "draws": level.draws,
        "top": {str(k): share.to_json() for k, share in zip(TOP, shares, strict=False)},
        "mrr": shares[-1].to_json(),
        "lift": level.lift.to_json(),
        "risk": level.worst.to_json(),
        **_attacks(level),
        "bound": one.bounds.get(level.sigma),
        "optimal": None
        if best is None
        else Estimate(
            None,
            None,
            best.parameters["success"],
            best.parameters["confidence"],
            "one-sided limit on the best attacker there is",
            settings.plays,
        ).to_json(),
    }


def _attacks(level: Level) -> Json:
    if level.judged is None:
        return {"strongest": None, "attacks": []}
    risk = level.judged.risk
    return {
        "strongest": {"attack": risk.attack, "view": risk.view},
        "attacks": [result.to_json() for result in level.judged.attacks],
    }


def _limits(way: Way) -> list[Guarantee]:
    every = (way.guarantee, *way.further)
    return [one for one in every if one.kind == "identification-bound"]


def _surface(one: Measured, settings: EmbeddingSettings) -> list[Json]:
    cells = []
    for sigma in settings.surface:
        for draws in settings.averaged:
            level = one.curve.at(sigma, draws)
            utility = one.utility.get(level.sigma)
            cells.append(
                {
                    "sigma": sigma,
                    "draws": draws,
                    "effective": level.sigma,
                    "top_1": scaled(level.worst, 1 / len(one.split.users)).to_json(),
                    "lift": level.worst.to_json(),
                    "utility": None if utility is None else utility.value.to_json(),
                }
            )
    return cells


def _utility(one: Measured, settings: EmbeddingSettings) -> Json:
    if one.task is None:
        missing = "a head" if one.model.head is None else "labels"
        return {"refused": f"utility needs head and labels: {missing} would have to be given"}
    clean = one.utility[0.0]
    averaged = {}
    for draws in settings.averaged:
        found = [
            (sigma, one.utility.get(float(f"{effective_sigma(sigma, draws):.12g}")))
            for sigma in settings.sigmas
        ]
        averaged[str(draws)] = [
            {"sigma": sigma, "value": level.value.to_json()} for sigma, level in found if level
        ]
    return {
        "measure": one.task.measure,
        "floor": settings.floor,
        "head_norm": one.task.norm,
        "closed_form": one.task.norm is not None,
        # A monotone function of the clean logit: the same at every sigma.
        "smoothed": clean.value.to_json() if one.task.norm is not None else None,
        "levels": [_task(one.utility[s], s) for s in settings.sigmas if s in one.utility],
        "averaged": averaged,
    }


def _task(level: TaskLevel, sigma: float) -> Json:
    found: Json = {
        "sigma": sigma,
        "value": level.value.to_json(),
        "accuracy": level.accuracy.to_json(),
    }
    if level.counts is not None:
        found |= {
            "precision": level.counts.precision,
            "recall": level.counts.recall,
            "f1": level.counts.f1,
        }
    if level.calibration is not None:
        found["smoothed"] = {
            "brier": level.calibration.brier,
            "log_loss": level.calibration.log_loss,
            "ece": level.calibration.ece,
        }
    return found


def _radii(one: Measured) -> Json:
    study = one.radii
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
        "accuracy": {
            name: [share.to_json() for share in shares] for name, shares in study.accuracy.items()
        },
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
