"""What an audit of vectors measures beyond identification, where it was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lethe.assess.run import check
from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Refusal
from lethe.reidentification.attributes import People, people_of, refused
from lethe.reidentification.released import Released
from lethe.reidentification.scored import CURVES, Scorer, grouped, singling_out
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.sweep import Battery, Say
from lethe.reidentification.texts import retrieved
from lethe.reidentification.two_releases import by_person, link_all

Json = dict[str, Any]


def attributes_of(
    model: Released, settings: EmbeddingSettings
) -> tuple[tuple[People, ...], dict[str, Any]]:
    """Who has which value of each attribute, and what is said of those that cannot be attacked."""
    ready, refusals = [], []
    for name, values in model.attributes.items():
        try:
            ready.append(
                people_of(name, values, model.user_ids, settings.seed, settings.confidence)
            )
        except NotMeasurable as error:
            refusals.append(refused(name, error))
    return tuple(ready), {"attributes_refused": refusals} if refusals else {}


def verification_controls(
    battery: Battery, settings: EmbeddingSettings, say: Say
) -> tuple[dict[str, str], dict[str, Any]]:
    """Attackers who verify people under other names, with why; and what all gave there."""
    if not settings.verification:
        return {}, {}
    say(f"{battery.model.name}: verification, its control under other names")
    found = Scorer(battery.panel(noise=False), settings.confidence, settings.seed).controls(
        battery.clean
    )
    failed = {
        name: f"people claimed to be others are verified: EER {value:.3g}, below 0.5"
        for name, (value, _, high) in found.items()
        if high < 0.5
    }
    rows = [
        {"name": name, "eer": value, "low": low, "high": high}
        for name, (value, low, high) in found.items()
    ]
    return failed, {"verification_controls": rows}


def beyond(
    model: Released,
    other: Released | None,
    battery: Battery,
    settings: EmbeddingSettings,
    say: Say,
) -> dict[str, Any]:
    """Singling out by size, clusters, a second release, and texts: where they were asked for."""
    found: dict[str, Any] = {}
    sure = settings.confidence
    if settings.verification:
        say(f"{model.name}: singling out by number of people and of vectors")
        panel = battery.panel(noise=False)
        found["singling_out"] = singling_out(panel, CURVES, battery.clean, sure).to_json()
        try:
            clusters = grouped(battery.clean, settings.seed, confidence=sure)
            found["clusters"] = clusters.to_json()
        except NotMeasurable as error:
            found["clusters"] = Refusal(str(error)).to_json()
    if other is not None:
        say(f"{model.name} and {other.name}: linking two releases")
        try:
            both = by_person(
                model.representations, model.user_ids, other.representations, other.user_ids
            )
            done, skipped = link_all(
                *both, settings.known_share, confidence=sure, seed=settings.seed
            )
            found["two_releases"] = {
                "other": other.name,
                "people": len(both[0]),
                "results": [one.to_json() for one in done],
                "skipped": skipped,
            }
        except NotMeasurable as error:
            found["two_releases"] = {"other": other.name, **Refusal(str(error)).to_json()}
    if model.texts is not None:
        say(f"{model.name}: texts behind the vectors")
        texts = retrieved(
            model.representations,
            model.user_ids,
            model.texts,
            metric=settings.metric,
            confidence=sure,
        )
        found["texts"] = texts.to_json()
    return found


def further_checks(on: str, further: Mapping[str, Any]) -> list[Json]:
    """Self-checks of what was asked for: chance where names are those of others."""
    rows: list[Json] = []
    if controls := further.get("verification_controls"):
        bad = [one["name"] for one in controls if one["high"] < 0.5]
        detail = (
            f"{', '.join(bad)}: equal error rate below 0.5 under other names: they decide nothing"
            if bad
            else "equal error rate of all attackers holds 0.5 where people are claimed to be others"
        )
        status = "fail" if bad else "pass"
        rows.append(check("verification of permuted identities", status, detail, on))
    results = further.get("two_releases", {}).get("results", ())
    if results:
        bad = [
            f"{one['name']} at {one['share']:.0%}" for one in results if one["permuted"]["low"] > 1
        ]
        detail = (
            f"{', '.join(bad)}: people are linked under other names"
            if bad
            else "lift of 1 within limits where the unknown people are looked for under other names"
        )
        rows.append(check("linkage of permuted identities", "fail" if bad else "pass", detail, on))
    return rows


def asked_further(settings: EmbeddingSettings) -> Json:
    """Settings of what is not always measured, where it was asked for."""
    found: Json = {}
    if settings.verification:
        found["verification"] = True
    if settings.score_norm:
        found["score_norm"] = True
    if settings.mitigations:
        found["mitigations"] = list(settings.mitigations)
    return found
