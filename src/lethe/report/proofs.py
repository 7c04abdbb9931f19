"""What is proven, in words: the label of an option, the claim, and what a reader must know."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lethe.data.schema import MADE_PUBLIC
from lethe.evidence.document import Document
from lethe.evidence.estimate import Estimate, Measured, rounded_up
from lethe.evidence.guarantee import GIVEN_SEED, Guarantee
from lethe.report.catalogue import say
from lethe.report.numbers import decimals, parameter, percent, share, share_words
from lethe.report.sections import Column, Folded, Part, Words, table
from lethe.report.severity import judged_rates


def allowed(epsilon: float, delta: float, fpr: float) -> float:
    """The highest true positive rate that (epsilon, delta)-DP leaves to any attacker.

    Kairouz, Oh and Viswanath 2015: min(e^eps FPR + delta, 1 - e^-eps (1 - delta - FPR)).

    >>> round(allowed(1.0, 0.0, 0.01), 4)
    0.0272
    """
    if epsilon > 700:
        return 1.0
    first = math.exp(epsilon) * fpr + delta
    second = 1 - math.exp(-epsilon) * (1 - delta - fpr)
    return max(min(first, second, 1.0), fpr)


VACUOUS = 0.99
"""A limit at or above it is no limit: the most that there is to find is 1."""


def limit_of(proof: Guarantee, fpr: float | None) -> float | None:
    """The largest share that a proof leaves to any attacker; None where it limits no share.

    Args:
        fpr: the false-positive rate at which the risk of an option is read; None for other risks.
    """
    numbers = proof.parameters
    if "success" in numbers:
        return numbers["success"]
    with_and_without = proof.relation == "add/remove" and proof.unit in ("record", "user")
    if "epsilon" in numbers and fpr and with_and_without:
        return allowed(numbers["epsilon"], numbers.get("delta", 0.0), fpr)
    return None


def label(proofs: Sequence[Guarantee], fpr: float | None = None) -> str:
    """Say whether an option is only measured, or what is proven.

    Takes the option's own proof, which comes first. The others assume other chances (such as
    equally likely people), and a smaller limit from another game would look too good. A
    proof about one released vector says so: attackers who join a person's vectors find more.

    Args:
        fpr: as in `limit_of`.
    """
    if not proofs:
        return say("label.measured")
    proof, limit = proofs[0], limit_of(proofs[0], fpr)
    if is_within_schema(proof):
        return say("claim.within", claim=label([replace(proof, assumptions=())], fpr))
    vector = proof.unit == "vector"
    words = "" if limit is None else share_words(rounded_up(limit, 2))
    if "epsilon" in proof.parameters:
        epsilon = parameter("epsilon", proof.parameters["epsilon"], 3)
        if vector:
            return say("label.proven.vector.epsilon", epsilon=epsilon)
        key = "label.proven.allows" if words else "label.proven.epsilon"
        if limit is not None and limit >= VACUOUS:
            key = "label.proven.vacuous"
        return say(key, epsilon=epsilon, limit=words)
    if not words:
        return say("label.proven")
    return say("label.proven.vector.share" if vector else "label.proven.share", limit=words)


def notes(
    proofs: Mapping[str, Sequence[Guarantee]],
    risks: Mapping[str, Measured | None],
    fpr: float | None,
) -> list[str]:
    """What a reader of the labels must know: the game, the assumptions, and what was measured.

    Args:
        proofs: of every option, its own proof first.
        risks: what was measured of every option.
        fpr: as in `limit_of`.
    """
    leading = {name: listed[0] for name, listed in proofs.items() if listed}
    sentences: dict[str, None] = {}
    for name, proof in leading.items():
        numbers, limit = proof.parameters, limit_of(proof, fpr)
        if "epsilon" in numbers:
            delta = parameter("delta", numbers.get("delta", 0.0))
            words = {"delta": delta, "relation": proof.relation, "unit": proof.unit}
            sentences[say("proof.epsilon", **words)] = None
            if limit is not None and limit < VACUOUS:
                sentences[say("proof.allows", fpr=percent(fpr or 0.0))] = None
        if proof.unit == "vector":
            sentences[say("proof.vector")] = None
        if "confidence" in numbers:
            sentences[say("proof.confidence", confidence=percent(numbers["confidence"]))] = None
        if GIVEN_SEED in proof.assumptions:
            sentences[say("proof.seed")] = None
        risk = risks.get(name)
        if isinstance(risk, Estimate) and limit is not None and (risk.value or 0.0) > limit:
            key = "proof.above" if (risk.low or 0.0) <= limit else "proof.exceeded"
            key = "proof.exceeded.vector" if proof.unit == "vector" else key
            value, most = share_words(risk.value or 0.0, 3), share_words(rounded_up(limit, 3), 3)
            sentences[say(key, name=name, value=value, limit=most)] = None
    return [*sentences, say("proof.assumes", section=say("proven.heading"))] if sentences else []


class Pair(NamedTuple):
    """A proof and a measurement of one option at one false-positive rate.

    Attributes:
        proof: with an epsilon.
        low: epsilon that the lower limit of the true positive rate shows, >= 0.
    """

    name: str
    fpr: float
    tpr: Estimate
    low: float
    proof: Guarantee


def pairs(document: Document[Any, Any, Any]) -> list[Pair]:
    """Every option with a proven epsilon, at every false-positive rate that was measured.

    (epsilon, delta)-DP gives TPR <= e^epsilon FPR + delta for every attack (Wasserman and Zhou
    2010), so ln((TPR - delta) / FPR) is a lower limit on epsilon.
    """
    proofs = {
        claim.candidate: claim.guarantee
        for claim in document.guarantees
        if claim.guarantee.proven and "epsilon" in claim.guarantee.parameters
    }
    listed = []
    for row in document.candidates:
        proof = proofs.get(row.name)
        for fpr, tpr in judged_rates(row).items() if proof else ():
            if proof and isinstance(tpr, Estimate) and tpr.low is not None:
                above = tpr.low - proof.parameters.get("delta", 0.0)
                low = max(math.log(above / fpr), 0.0) if above > 0 else 0.0
                listed.append(Pair(row.name, fpr, tpr, low, proof))
    return listed


def proven_beside_measured(document: Document[Any, Any, Any]) -> list[Part]:
    """The pairs as a table, after a warning where they contradict; empty without any."""
    listed = pairs(document)
    wrong = {pair.name for pair in listed if pair.low > pair.proof.parameters["epsilon"]}
    names = ", ".join(sorted(wrong))
    columns: list[Column] = [
        (say("epsilons.head.fpr"), lambda pair: percent(pair.fpr)),
        (say("epsilons.head.tpr"), lambda pair: share(pair.tpr)),
        (say("epsilons.head.low"), lambda pair: decimals(pair.low)),
        (say("epsilons.head.proven"), lambda pair: claim_of(pair.proof)),
    ]
    title, note, first = say("epsilons.table"), say("epsilons.note"), say("epsilons.head.option")
    rows = [(pair.name, pair) for pair in listed]
    shown: list[Part] = [Folded(title, [table(title, first, rows, columns, note=note)])]
    warning = [Words(say("epsilons.contradicted", names=names), "warning")] if wrong else []
    return [*warning, *shown] if listed else []


def claim_of(guarantee: Guarantee) -> str:
    """A guarantee in short: its kind, its leading numbers, and whom it protects.

    >>> claim_of(Guarantee("approx-dp", {"epsilon": 4.0, "delta": 1e-05}, "add/remove", "record"))
    'approximate differential privacy, epsilon 4, delta 1e-05, add/remove a record'
    """
    numbers = [
        f"{name} {parameter(name, guarantee.parameters[name])}"
        for name in ("epsilon", "delta", "mu", "rho")
        if name in guarantee.parameters
    ]
    if "success" in guarantee.parameters:
        limit = share_words(rounded_up(guarantee.parameters["success"], 3), 3)
        numbers.append(say("at_most", value=limit))
    whom = [text for text in (guarantee.relation, guarantee.unit) if text != "none"]
    key = "claim.whom" if len(whom) == 2 else "claim.one"
    whom = [say(key, relation=whom[0], unit=whom[-1])] if whom else []
    claim = ", ".join([say(f"kind.{guarantee.kind}"), *numbers, *whom])
    return say("claim.within", claim=claim) if is_within_schema(guarantee) else claim


def is_within_schema(guarantee: Guarantee) -> bool:
    """Whether a claim covers only people within a schema that was read from the rows."""
    return any(text.startswith(MADE_PUBLIC) for text in guarantee.assumptions)
