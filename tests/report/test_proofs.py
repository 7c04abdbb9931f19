"""Proofs in words: what they allow, what they are about, and what was measured beside them."""

from __future__ import annotations

import copy
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from documents import document
from hypothesis import given, settings
from hypothesis import strategies as st
from sample import document as sample

from lethe.evidence.estimate import Estimate, Refusal, rounded_down, rounded_up
from lethe.evidence.findings import Findings
from lethe.evidence.guarantee import GIVEN_SEED, Guarantee
from lethe.evidence.plain import read
from lethe.report import render
from lethe.report.common import room_of, sections_of
from lethe.report.of_model import Model
from lethe.report.proofs import allowed, claim_of, label, notes, pairs, proven_beside_measured


def proved(epsilon: float = 4.0, delta: float = 1e-5) -> dict[str, Any]:
    """The sample, with a proof of `weighted`."""
    plain = copy.deepcopy(sample())
    plain["guarantees"][2]["guarantee"] |= {
        "kind": "approx-dp",
        "proven": True,
        "parameters": {"epsilon": epsilon, "delta": delta},
        "relation": "add/remove",
    }
    return plain


def typed(plain: dict[str, Any]) -> Any:
    return read(Model.reads, plain)


@given(st.floats(1e-6, 1.0), st.integers(1, 6))
def test_a_proven_number_is_never_rounded_down(limit: float, digits: int) -> None:
    assert limit <= rounded_up(limit, digits) * (1 + 1e-9)
    assert rounded_up(limit, digits) <= limit * (1 + 10.0 ** (1 - digits)) * (1 + 1e-6)
    assert limit * (1 - 10.0 ** (1 - digits)) <= rounded_down(limit, digits) <= limit
    claim = Guarantee("identification-bound", {"success": limit}, "none", "record")
    for words in (label([claim]), claim_of(claim)):
        shown = re.search(r"most (over )?([\d.e-]+) %", words)
        assert shown and (shown[1] or float(shown[2]) >= 100 * limit * (1 - 1e-6)), words


@pytest.mark.parametrize(("relation", "unit"), [("replace-one", "record"), ("add/remove", "query")])
def test_an_epsilon_of_another_game_limits_no_recognition(relation: str, unit: str) -> None:
    """What an attacker tells apart is a training with and without the record."""
    claim = Guarantee("pure-dp", {"epsilon": 1.0}, relation, unit)
    assert label([claim], 0.01) == "proven: epsilon 1"
    assert label([replace(claim, relation="add/remove", unit="user")], 0.01).endswith("2.8 %")


def test_by_hand() -> None:
    """TPR 0.21 [0.11, 0.31] at FPR 0.1, delta 0.01: at least ln 1."""
    plain = proved(delta=0.01)
    rate = {"value": 0.21, "low": 0.11, "high": 0.31, "confidence": 0.95, "method": "", "n": 9}
    plain["candidates"][2]["measures"] = {"auc": rate, "tpr@0.1": rate}
    (pair,) = pairs(typed(plain))
    assert pair.name == "weighted" and pair.low == pytest.approx(0, abs=1e-12)


@settings(max_examples=20)
@given(st.floats(0, 6), st.floats(0.001, 0.4), st.floats(0, 0.01))
def test_what_a_mechanism_at_its_limit_shows_is_its_epsilon(
    epsilon: float, fpr: float, delta: float
) -> None:
    """TPR = e^epsilon FPR + delta is the most that (epsilon, delta)-DP allows."""
    plain = proved(epsilon, delta)
    rate = math.exp(epsilon) * fpr + delta
    ends = {"value": rate, "low": rate, "high": rate, "confidence": 0.95, "method": "", "n": 9}
    plain["candidates"][2]["measures"] = {f"tpr@{fpr!r}": ends}
    (pair,) = pairs(typed(plain))
    assert pair.low == pytest.approx(epsilon, abs=1e-6)
    assert allowed(epsilon, delta, fpr) <= min(rate, 1.0) + 1e-12


def test_every_rate_of_the_option_that_has_a_proof_stands_on_the_page() -> None:
    plain = proved()
    listed = pairs(typed(plain))
    assert [(pair.name, pair.fpr) for pair in listed] == [
        ("weighted", fpr) for fpr in (0.1, 0.01, 0.001)
    ]
    page = render(Findings.from_json(plain))
    part = page[page.index('id="proof"') : page.index('id="checks"')]
    assert "Epsilon, at least" in part and "no spare privacy" in part and "is wrong" not in part


def test_a_proof_below_what_was_measured_is_called_wrong() -> None:
    warning = proven_beside_measured(typed(proved(epsilon=0.01)))[0]
    assert "above the proven epsilon of weighted" in warning.text and warning.tone == "warning"


@pytest.mark.parametrize("kind", ["none", "mu", "refused"])
def test_nothing_is_shown_where_one_of_both_is_missing(kind: str) -> None:
    plain = sample() if kind == "none" else proved()
    if kind == "mu":
        plain["guarantees"][2]["guarantee"]["parameters"] = {"mu": 1.0}
    elif kind == "refused":
        plain["candidates"][2]["measures"] = {"tpr@0.1": {"refused": ""}}
    assert proven_beside_measured(typed(plain)) == []


VECTOR = Guarantee("identification-bound", {"success": 0.3}, "none", "vector")
EPSILON = Guarantee("approx-dp", {"epsilon": 1.0, "delta": 1e-5}, "add/remove", "record")
SEEDED = Guarantee("gdp", {"mu": 1.0}, "replace-one", "record", assumptions=(GIVEN_SEED,))
SURE = Guarantee("identification-bound", {"success": 0.3, "confidence": 0.9}, "none", "record")
PROOFS = (VECTOR, EPSILON, SEEDED, SURE)


@pytest.mark.parametrize(
    ("proof", "value", "low", "sentence"),
    [
        (VECTOR, 0.2, 0.1, "sees one released vector"),
        (VECTOR, 0.4, 0.2, "the measured 40.0 % is of attackers who may join the vectors"),
        (VECTOR, 0.5, 0.4, "the proven 30.0 % is of one vector"),
        (SURE, 0.2, 0.1, "hold with 90 % confidence"),
        (SURE, 0.5, 0.4, "contradicts the proven 30.0 %"),
        (SURE, 0.5, 0.3, "the measured 50.0 % lies above the proven 30.0 %; its interval"),
        (EPSILON, 0.02, 0.01, "Epsilon: delta 1e-05, add/remove a record."),
        (EPSILON, 0.02, 0.01, "at a 1 % false-positive rate, by epsilon and delta alone"),
        (EPSILON, 0.5, 0.4, "contradicts the proven 2.72 %"),
        (SEEDED, 0.5, 0.4, "The seed of the noise was known"),
    ],
)
def test_every_note_needs_its_evidence(
    proof: Guarantee, value: float, low: float, sentence: str
) -> None:
    """A reader of "at most 0.22 %" beside 0.28 % measured could not tell which was wrong."""

    def said(option: Guarantee, *ends: float) -> str:
        return " ".join(notes({"a": [option]}, {"a": Estimate(*ends, 0.9, 0.95, "", 9)}, 0.01))

    assert sentence in said(proof, value, low)
    assert said(proof, value, low).endswith("see “Guarantees, proven beside measured”.")
    of_the_proof = "measured" not in sentence and "proven" not in sentence
    holders = [option for option in PROOFS if sentence in said(option, 0.001, 0.0)]
    assert holders == [proof] * of_the_proof
    assert notes({"a": []}, {"a": Refusal("no")}, 0.01) == []


def test_two_proofs_of_one_option_say_how_they_differ() -> None:
    """34 % and 0.91 stood side by side, both "of one vector", and nothing said why."""
    room = room_of(document("vectors"))
    (section,) = (part for part in sections_of(room, {}) if part.id == "proof")
    rows = [(name, [str(cell) for cell in cells]) for name, cells in section.parts[0].rows]
    names = [name for name, _ in rows]
    twice = {name for name in names if names.count(name) > 1}
    assert twice
    for option in twice:
        claims, differences = zip(
            *(cells[:2] for name, cells in rows if name == option), strict=True
        )
        assert len(set(claims)) == len(claims) or len(set(differences)) == len(differences)
        assert "–" not in differences and any(text != "nothing more" for text in differences)
    assert all(cells[1] == "–" for name, cells in rows if name not in twice)
