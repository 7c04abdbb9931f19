"""The words of an audit of representations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lethe.reidentification.candidates import RECOMMENDED
from lethe.reidentification.clean import RAW, TOGETHER
from lethe.reidentification.measured import Measured
from lethe.reidentification.operating import tier
from lethe.reidentification.radius import NOT_ANONYMITY
from lethe.reidentification.settings import EmbeddingSettings

_GALLERY = "Gallery and probe: every probe against the mean of each person's known vectors"


def summary(measured: Sequence[Measured]) -> str:
    """What was audited, in one sentence."""
    first = measured[0]
    sizes = " and ".join(str(one.model.representations.shape[1]) for one in measured)
    return (
        f"{len(first.model.user_ids):,} vectors of {sizes} dimensions; "
        f"{len(first.split.probe_rows):,} of them to be named among {len(first.split.users):,} "
        "people."
    )


def threat_model(settings: EmbeddingSettings) -> dict[str, str]:
    """Who attacks, with what."""
    when = (
        "earlier vectors of known people, half of each person's rows"
        if settings.known is None
        else f"vectors of known people of period {settings.known}"
    )
    return {
        "goal": "singling out and linkage: name the owner of a new vector",
        "knowledge": f"attacks: {when}; certificates: every clean vector of every person",
        "access": "the released vectors, or noisy draws of them",
        "budget": f"exact ranks of every probe; {settings.draws} noise draws a level",
        "unit": "person",
    }


def attacks_run(first: Measured, settings: EmbeddingSettings) -> list[dict[str, Any]]:
    """The attacks on clean vectors and under noise."""
    titles = {
        "cosine": (_GALLERY + ", cosine distance", "one vector of unknown owner at a time"),
        "l2": (_GALLERY + ", Euclidean distance", "one vector of unknown owner at a time"),
        "whitened": (
            _GALLERY + ", Mahalanobis distance within persons",
            "the same, and several gallery rows of each person",
        ),
        TOGETHER: ("All probes of a person joined", "knows which probes belong together"),
        RAW: ("The inputs of the model, attacked alike", "the inputs in place of the vectors"),
    }
    rows = [
        {
            "name": name,
            "title": titles[name][0],
            "paper": "gallery and probe protocol of biometric identification (ISO/IEC 19795-1)",
            "threat": titles[name][1],
            "settings": {"min_rows": settings.min_rows, "split_seed": settings.seed},
        }
        for name in first.clean.attacks
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


def not_run(measured: Sequence[Measured]) -> list[dict[str, str]]:
    """What was left out, and why."""
    rows = [{"name": name, "why": why} for name, why in measured[0].clean.skipped.items()]
    rows.append(
        {
            "name": "people the encoder never saw",
            "why": "nothing says which rows these are; audit a file of their rows alone",
        }
    )
    rows.append(
        {
            "name": "inversion of the encoder",
            "why": "what a vector tells of its inputs is another question than whose it is",
        }
    )
    return rows


def utility_name(first: Measured) -> str:
    """What utility is."""
    if first.task is None:
        return "not provided"
    return f"{first.task.measure} of one released draw"


def operating_rule(settings: EmbeddingSettings, first: Measured) -> str:
    """The rule that was fixed before the run."""
    measure = "utility" if first.task is None else first.task.measure
    return (
        f"privacy needs noise from which on the upper limit of the lift stays below "
        f"{settings.lift:g}; utility allows noise while the lower limit of one draw's {measure} is "
        f"above {settings.floor:g}; where there is room between, the midpoint is recommended."
    )


def limits(measured: Sequence[Measured], settings: EmbeddingSettings) -> list[str]:
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
    if settings.diameter is None and settings.norm is None:
        said.append(
            "No bound on how far two vectors differ was given, so no differential privacy is "
            "claimed for any noise."
        )
    for one in measured:
        if one.task is None:
            said.append(
                f"{one.model.name}: head or labels are missing, so utility was not measured."
            )
    return said


def verdict_words(
    measured: Sequence[Measured], outcome: str, settings: EmbeddingSettings
) -> list[str]:
    """The outcome, and where to stand with each model."""
    told = {
        "pass": f"{settings.release} meets every criterion that was fixed before the run.",
        "fail": f"{settings.release} breaks a criterion that was fixed before the run.",
        "not-enough-evidence": f"For {settings.release} the intervals hold a criterion's limit.",
        "not-tested": "No criterion was set, so nothing passes or fails; --gate sets one.",
    }
    several = len(measured) > 1
    points = [str(one.point)[:1].upper() + str(one.point)[1:] + "." for one in measured]
    if several:
        points = [f"{one.model.name}: {said}" for one, said in zip(measured, points, strict=True)]
    return [told[outcome], *points]


def plain_words(one: Measured, settings: EmbeddingSettings) -> list[str]:
    """What was found on one model, for somebody who reads nothing else."""
    found = one.clean.attacks[settings.metric]
    share, chance = found.top[1], found.chance.top(1)
    words = [
        f"Of 1,000 vectors an attacker names the owner of {1000 * (share.value or 0):.3g} "
        f"({settings.confidence:.0%} interval: {1000 * (share.low or 0):.3g} to "
        f"{1000 * (share.high or 0):.3g}); a blind guess names {1000 * chance:.2g}."
    ]
    together = one.clean.attacks.get(TOGETHER)
    if together is not None:
        words.append(
            "Who knows which vectors belong together names "
            f"{100 * (together.top[1].value or 0):.3g} of 100 people."
        )
    way = next((way for way in one.ways if way.name == RECOMMENDED), None)
    if way is not None and way.limit is not None:
        words.append(
            f"With the recommended noise the attack is {way.level.lift.value:.3g} times as good as "
            f"a guess ({tier(way.level.lift)}), and no attacker whatever names the owner of more "
            f"than {1000 * way.limit.success:.3g} of 1,000 single released vectors."
        )
    return words
