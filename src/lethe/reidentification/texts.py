"""The words of an audit of representations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lethe.reidentification.attackers import ATTACKERS, Attacker, allowed
from lethe.reidentification.candidates import RECOMMENDED, Measured
from lethe.reidentification.clean import INPUTS
from lethe.reidentification.learned import ALL
from lethe.reidentification.radius import NOT_ANONYMITY
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.surface import tier


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
    enrolled = "with and without noise" if settings.clean_gallery else "as released"
    joined = "all new vectors" if settings.vectors == ALL else f"{settings.vectors} new vectors"
    return {
        "goal": "singling out and linkage: name the owner of a new vector",
        "knowledge": f"attacks: {when}, {enrolled}, {joined} of a person known to belong together, "
        "both vectors of other people; certificates: every clean vector of every person",
        "access": "the released vectors, or noisy draws of them",
        "budget": f"exact ranks of every probe; {settings.draws} noise draws a level",
        "unit": "person",
    }


def attacks_run(first: Measured, settings: EmbeddingSettings) -> list[dict[str, Any]]:
    """The attacks on clean vectors and under noise."""
    rows = [
        {
            "name": attacker.name,
            "title": attacker.title,
            "paper": attacker.paper,
            "threat": attacker.knows,
            "settings": {"min_rows": settings.min_rows, "split_seed": settings.seed},
        }
        for attacker in (*allowed(settings.clean_gallery, settings.vectors), *INPUTS)
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


def not_run(measured: Sequence[Measured], settings: EmbeddingSettings) -> list[dict[str, str]]:
    """What was left out, and why."""
    rows = [{"name": name, "why": why} for name, why in measured[0].clean.skipped.items()]
    rows += [
        {"name": attacker.name, "why": "the threat model of this audit rules its knowledge out"}
        for attacker in ATTACKERS
        if attacker not in allowed(settings.clean_gallery, settings.vectors)
    ]
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


def points(measured: Sequence[Measured]) -> list[str]:
    """Where to stand with each model."""
    said = [str(one.point)[:1].upper() + str(one.point)[1:] + "." for one in measured]
    if len(measured) == 1:
        return said
    return [f"{one.model.name}: {text}" for one, text in zip(measured, said, strict=True)]


def plain_words(one: Measured, settings: EmbeddingSettings) -> list[str]:
    """What was found on one model, for somebody who reads nothing else."""
    judged, users = one.ways[0].judged, len(one.split.users)
    lift, attacker = judged.risk.estimate, _named(judged.risk.attack)
    share, low, high = (100 * (x or 0) / users for x in (lift.value, lift.low, lift.high))
    if attacker.vectors == 1:
        whom = f"the owner of {share:.2g} % of vectors"
    else:
        whom = f"{share:.2g} % of people"
    words = [
        f"The strongest attacker ({attacker.name}) identifies {whom} "
        f"({low:.2g} to {high:.2g} %, allowing for {len(judged.attacks)} attacks); a random guess "
        f"identifies {100 / users:.2g} %. It knows {attacker.knows}."
    ]
    way = next((way for way in one.ways if way.name == RECOMMENDED), None)
    if way is not None and way.limit is not None:
        words.append(
            f"With the recommended noise the strongest attacker ({way.judged.risk.attack}) is "
            f"{way.judged.risk.estimate.value:.3g} times as good as a guess "
            f"({tier(way.judged.risk.estimate)}), and no attacker whatever names the owner of more "
            f"than {1000 * way.limit.success:.3g} of 1,000 single released vectors."
        )
    return words


def _named(name: str) -> Attacker:
    return next(attacker for attacker in ATTACKERS if attacker.name == name)
