"""What an audit of a mechanism found, in sentences."""

from __future__ import annotations

from lethe.evidence.estimate import Estimate
from lethe.queries.mechanism_audit.claim import Claim
from lethe.queries.mechanism_audit.reach import ENOUGH
from lethe.queries.mechanism_audit.reuse import MOST
from lethe.queries.mechanism_audit.settings import MechanismSettings
from lethe.queries.mechanism_audit.study import Measurement, Study

_APART = 0.01  # of the shares of an odd answer on both inputs, from which on it is told
METHOD_OF_HALF = {
    "epsilon": "half the noise of a Laplace mechanism",
    "other": "half the noise of a Gaussian mechanism",
}


def plain_words(study: Study, settings: MechanismSettings) -> list[str]:
    """Sentences for somebody who reads nothing else, the verdict on the claim first."""
    words = [verdict(study, settings), _event(study.worst)]
    if isinstance(study.reuse, Estimate) and (study.reuse.low or 0.0) > MOST:
        words.append(
            f"Successive answers share their noise (rank correlation {study.reuse.value:.2f}): "
            "the difference of two answers gives away the difference of the true values, and "
            "limits on one answer say nothing of two."
        )
    if study.repeats:
        words.append(
            "The answer to the same data never changes, and differs between data: there is no "
            "fresh noise in it."
        )
    return [*words, *_odd(study)]


def verdict(study: Study, settings: MechanismSettings) -> str:
    """Whether the claim is contradicted, with the limit."""
    claim, limit = settings.claim, study.limit
    low = limit.low or 0.0
    sure = f"{settings.confidence:.0%} confidence, {settings.relation}"
    least = f"{claim.measure} is at least {low:.3g}"
    if claim.measure == "epsilon" and claim.delta:
        least += f" at delta {claim.delta:g}"
    if claim.value is None:
        return f"Nothing was claimed. On the inputs that were tried, {least} ({sure})."
    if low > claim.value:
        return f"This audit contradicts the claim of {claim}: {least} ({sure})."
    return (
        f"This audit is consistent with the claim of {claim}: the highest lower limit is "
        f"{low:.3g} ({sure}). That proves nothing: other inputs or other events may show more."
    )


def reach_words(claim: Claim, runs: int, most: float, power: Estimate | None) -> str:
    """What so many runs can show."""
    text = f"{runs:,} runs on each input can prove at most {claim.measure} {most:.3g}"
    if power is None or power.value is None:
        return text + "."
    shown = f"{half_of(claim)} would be found in {100 * power.value:.4g} % of such audits"
    return f"{text}; {shown}."


def half_of(claim: Claim) -> str:
    """What halved noise is meant."""
    pure = claim.measure == "epsilon" and claim.delta == 0
    return METHOD_OF_HALF["epsilon" if pure else "other"]


def enough(power: Estimate | None) -> bool:
    """Whether a limit below the claim says anything."""
    return power is not None and (power.value or 0.0) >= ENOUGH


def _event(worst: Measurement) -> str:
    found = worst.found
    if not found.limit.low:
        return "No event told the two inputs of any pair apart."
    ends = [f"{100 * share:.3g} %" for share in found.shares]
    return (
        f"The inputs that show most: {worst.pair.name}. The event that tells them apart: "
        f"{found.event}; {ends[0]} of {found.runs:,} runs on the first input, {ends[1]} of as many "
        "on its neighbour."
    )


def _odd(study: Study) -> list[str]:
    words = []
    for one in study.measured:
        for what, (first, second) in one.others.items():
            if abs(first - second) > _APART:
                words.append(
                    f"Inputs “{one.pair.name}”: an answer that is no number ({what}) comes in "
                    f"{100 * first:.3g} % of the runs on the first and {100 * second:.3g} % on its "
                    "neighbour. An error that depends on the data is an answer too."
                )
    return words
