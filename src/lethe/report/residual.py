"""A draft of the residual risk in plain words, for people to accept, change or throw away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lethe.report import words

Json = Mapping[str, Any]

DRAFTED = "Drafted by the tool; nobody has accepted it."
_MORE = "What was not tested may add to this, and so do other releases about the same people."


def residual_risk(document: Json, given: str) -> dict[str, Any]:
    """What is left if the judged candidate is released.

    Args:
        document: `Findings.to_json()`.
        given: the words of people, from the context; empty if they gave none.

    Returns:
        The sentences, and whether the tool wrote them.
    """
    if given:
        return {"drafted": False, "sentences": [given]}
    sentences = [*_found(document), _proof(document), _MORE]
    return {"drafted": True, "sentences": sentences}


def _found(document: Json) -> list[str]:
    """What was measured on the candidate that was judged."""
    if document.get("representations"):
        models = document["representations"]["models"]
        return [text for model in models for text in model["words"][:1]]
    for section in ("table", "queries"):
        if document.get(section):
            return list(document[section]["words"][:2])
    candidate = judged(document)
    if candidate is None:
        return []
    rate = words.strictest_rate(candidate)
    if rate is None:
        return [f"If “{candidate['name']}” is released, what is left could not be measured."]
    return [f"If “{candidate['name']}” is released: {words.naming(rate[1], rate[0])}."]


def judged(document: Json) -> Json | None:
    """The candidate that the rules judged, or else the release as it is now."""
    by_name = {candidate["name"]: candidate for candidate in document["candidates"]}
    baseline = (document["baseline"] or {}).get("candidate")
    return by_name.get(document["verdict"]["candidate"]) or by_name.get(baseline)


def _proof(document: Json) -> str:
    name = document["verdict"]["candidate"] or (document["baseline"] or {}).get("candidate")
    proven = [
        one["guarantee"]
        for one in document["guarantees"]
        if one["candidate"] == name and one["guarantee"]["proven"]
    ]
    if not proven:
        return (
            "Nothing limits what a stronger attacker could learn: this is what the attacks of "
            "this audit found."
        )
    told = " and ".join(words.claim_of(one) for one in proven)
    return f"Against stronger attackers stands a proof, as long as its assumptions hold: {told}."
