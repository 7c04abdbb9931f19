"""Proven epsilon beside the measured one: by hand, against an oracle, and on the page."""

from __future__ import annotations

import copy
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample import document

from lethe.evidence.findings import Findings
from lethe.evidence.plain import read
from lethe.report import render
from lethe.report.of_model import Model
from lethe.report.proven_measured import pairs, proven_beside_measured, shown_epsilon


def proved(epsilon=4.0, delta=1e-5, **numbers):
    """The sample, with a proof of `weighted`."""
    plain = copy.deepcopy(document())
    plain["guarantees"][2]["guarantee"] |= {
        "kind": "approx-dp",
        "proven": True,
        "parameters": {"epsilon": epsilon, "delta": delta, **numbers},
        "relation": "add/remove",
    }
    return plain


def typed(plain):
    return read(Model.reads, plain)


def test_by_hand():
    """TPR 0.21 [0.11, 0.31] at FPR 0.1, delta 0.01: ln 1, ln 2, ln 3."""
    plain = proved(delta=0.01)
    rate = {"value": 0.21, "low": 0.11, "high": 0.31, "confidence": 0.95, "method": "", "n": 9}
    plain["candidates"][2]["measures"] = {"auc": rate, "tpr@0.1": rate}
    (found,) = pairs(typed(plain))
    assert found.name == "weighted" and found.proven == 4.0 and not found.contradicts
    assert found.low == pytest.approx(0, abs=1e-12)
    assert found.shown.value == pytest.approx(math.log(2))
    assert found.shown.high == pytest.approx(math.log(3))


@given(st.floats(0, 6), st.floats(0.001, 0.4), st.floats(0, 0.01))
def test_what_a_mechanism_at_its_limit_shows_is_its_epsilon(epsilon, fpr, delta):
    """TPR = e^epsilon FPR + delta is the most that (epsilon, delta)-DP allows."""
    shown = shown_epsilon(math.exp(epsilon) * fpr + delta, fpr, delta)
    assert shown == pytest.approx(epsilon, abs=1e-6)


def test_every_rate_of_the_candidate_that_has_a_proof():
    plain = proved()
    assert [(one.name, one.fpr) for one in pairs(typed(plain))] == [
        ("weighted", 0.1),
        ("weighted", 0.01),
        ("weighted", 0.001),
    ]
    for one in pairs(typed(plain)):
        tpr = plain["candidates"][2]["attacks"]["lira-online"]["tpr"][f"{one.fpr:g}"]
        assert one.low == max(0.0, math.log((tpr["low"] - 1e-5) / one.fpr))


def test_it_is_on_the_page_with_its_table():
    page = render(Findings.from_json(proved()))
    part = page[page.index('id="proof"') : page.index('id="checks"')]
    assert "Epsilon, at least" in part
    assert "no spare privacy" in part and "is wrong" not in part


def test_a_proof_below_what_was_measured_is_called_wrong():
    warning = proven_beside_measured(typed(proved(epsilon=0.01)))[0]
    assert "above the proven epsilon of weighted" in warning.text and warning.tone == "warning"


@pytest.mark.parametrize("kind", ["none", "mu", "refused"])
def test_nothing_is_shown_where_one_of_both_is_missing(kind):
    plain = proved()
    if kind == "none":
        plain = document()
    elif kind == "mu":
        plain["guarantees"][2]["guarantee"]["parameters"] = {"mu": 1.0}
    else:
        plain["candidates"][2]["measures"] = {"tpr@0.1": {"refused": ""}}
    assert proven_beside_measured(typed(plain)) == []


def test_many_candidates_are_folded():
    plain = proved()
    row, claim = plain["candidates"][2], plain["guarantees"][2]
    for at in range(40):
        plain["candidates"].append({**row, "name": f"c{at}"})
        plain["guarantees"].append({**claim, "candidate": f"c{at}"})
    (folded,) = proven_beside_measured(typed(plain))
    assert len(folded.parts[0].rows) == 3 * 41
