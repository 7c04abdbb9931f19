"""What the page denies about a language model: each sentence has evidence, or says not measured."""

import copy
import json
import re
from typing import Any

import pytest
from documents import GOLDEN

from lethe.report.catalogue import catalogue
from lethe.report.first_screen import first_screen
from lethe.report.of_language import ABSENCE, Language

DENIES = re.compile(r"\b(no|none|not|nothing|left|remaining)\b", re.I)
NO_CLAIM = {
    "language.unmeasured": "it says that nothing was measured",
    "language.unseen": "likewise",
    "language.no_extraction": "likewise, with the reason",
    "language.extraction.note": "how extraction is computed",
    "language.rates.note": "how the blind classifier works",
    "language.head.out_control": "a heading: canaries whose coin fell on OUT",
}
CLAIMS = {
    "language.none": "No attack was shown",
    "language.extracted.control": "extraction shows no difference",
    "language.extracted.saturated": "extraction does not separate training texts",
    "language.extracted.base": "not from the base model",
    "language.refused": "Membership is not judged",
    "language.blind.fail": "A blind classifier tells members from others",
}


def found(**changes: Any) -> dict[str, Any]:
    """Findings of a model on which no attack found anything, with what was planted seen."""
    plain: dict[str, Any] = json.loads((GOLDEN / "language.json").read_bytes())
    for one in plain["candidates"]:
        ends = {"value": 0.12, "low": 0.05, "high": 0.2}
        one["risk"] |= ends
        one["measures"]["tpr@0.1"] |= ends
        one["measures"]["auc"] |= {"value": 0.52, "low": 0.45, "high": 0.6}
        one["measures"]["extraction"] |= {"low": 0.05}  # above the 3.3 % of the control
    for path, value in changes.items():
        place: Any = plain
        *way, last = path.split("__")
        for step in way:
            place = place[int(step) if step.isdigit() else step]
        place[last] = value
    return plain


def said(plain: dict[str, Any]) -> str:
    """All words of the first screen and of the attacks."""
    room = Language(plain)
    first = first_screen(room, {}, None)
    parts = [getattr(part, "text", "") for part in room.attacks()]
    return " ".join([first.lead, first.headline, *first.detail, *map(str, parts)])


def test_every_sentence_that_denies_names_its_evidence() -> None:
    sentences = catalogue()["sentences"]
    own = {key: text for key, text in sentences.items() if key.startswith("language.")}
    denying = {key for key, text in own.items() if DENIES.search(text)}
    assert denying - {*NO_CLAIM} == {*ABSENCE} == {*CLAIMS}


REFUSED = {"refused": "no attack passed its self-checks"}
LIKE_CONTROL = {"candidates__0__extraction__control__value": 0.2}
SHARE = "candidates__0__extraction__sides__1__rows__0__share__"
FULL = {f"{SHARE}{key}": at for key, at in {"low": 0.95, "value": 0.97, "high": 0.99}.items()}
TELLS = {"language__blind__tells": True}


@pytest.mark.parametrize(
    ("key", "with_it", "without"),
    [
        ("language.none", {}, {"candidates__0__plants": []}),
        ("language.none", {}, {"candidates__0__measures__auc": REFUSED}),
        ("language.extracted.base", {}, {"language__base": False}),
        ("language.extracted.control", LIKE_CONTROL, {}),
        ("language.extracted.saturated", LIKE_CONTROL | FULL, FULL),
        ("language.extracted.saturated", LIKE_CONTROL | FULL, LIKE_CONTROL),
        (
            "language.refused",
            {"candidates__0__risk": REFUSED, "language__refused": "words tell"},
            {"candidates__0__risk": REFUSED, "candidates__0__measures__extraction": REFUSED},
        ),
        ("language.blind.fail", TELLS, {}),
    ],
)
def test_a_denial_is_not_printed_without_its_evidence(key, with_it, without) -> None:
    assert CLAIMS[key].lower() in said(found(**with_it)).lower()
    assert CLAIMS[key].lower() not in said(found(**without)).lower()


def test_no_attack_is_not_said_where_another_quantity_was_shown() -> None:
    plain = found()
    plain["candidates"][0]["measures"]["auc"] |= {"value": 0.66, "low": 0.63, "high": 0.69}
    first = first_screen(Language(plain), {}, None)
    assert first.headline.startswith("An attacker tells training texts from others: AUC 0.660")
    assert first.level != "not-above-chance" and "No attack" not in said(plain)


def test_what_could_have_been_seen_stands_beside_the_denial() -> None:
    assert "A planted leak was seen from" in said(found())
    plain = copy.deepcopy(found())
    for plant in plain["candidates"][0]["plants"]:
        for read in plant["measured"].values():
            read |= {"low": 0.0}
    assert "says nothing" in said(plain) and "Not shown above chance" not in said(plain)
    plain["candidates"][0]["measures"]["extraction"] = {"refused": "no text has 40 tokens"}
    plain["candidates"][0]["extraction"] |= {"sides": []}
    room = Language(plain)
    [note] = room._extraction(room.document.candidates[0])
    assert "Extraction is not measured: no text has 40 tokens." in str(note)
