"""The draft of the residual risk: only where people wrote none, and marked as a draft."""

from __future__ import annotations

import copy

from sample import document, findings

from lethe.evidence.findings import Findings
from lethe.report import markdown, render
from lethe.report.residual import DRAFTED, residual_risk


def test_the_draft_speaks_of_what_was_judged():
    plain = document()
    found = residual_risk(plain, "")
    assert found["drafted"]
    first, proof, more = found["sentences"]
    tpr = plain["candidates"][3]["attacks"]["lira-online"]["tpr"]["0.001"]
    assert plain["verdict"]["candidate"] == plain["candidates"][3]["name"] == "weighted-noise"
    assert first.startswith("If “weighted-noise” is released: of 1,000 training records")
    assert f"names {1000 * tpr['value']:.1f} (" in first
    assert proof.startswith("Nothing limits") and "not tested" in more


def test_a_proof_of_the_judged_candidate_is_named():
    plain = copy.deepcopy(document())
    plain["guarantees"][3]["guarantee"] |= {
        "kind": "approx-dp",
        "proven": True,
        "parameters": {"epsilon": 4.0, "delta": 1e-5, "steps": 100.0},
        "relation": "add/remove",
    }
    proof = residual_risk(plain, "")["sentences"][1]
    assert proof.endswith(
        "approximate differential privacy, epsilon 4, delta 1e-05, add/remove a record."
    )


def test_words_of_people_take_its_place():
    given = "Few are named, and they consented."
    assert residual_risk(document(), given) == {"drafted": False, "sentences": [given]}
    plain = {**document(), "context": {"Decision": {"residual risk": given}}}
    page = render(Findings.from_json(plain))
    assert page.count(given) == 2 and DRAFTED not in page


def test_the_mark_stands_on_the_page_and_in_the_short_form():
    assert DRAFTED in render(findings())
    assert DRAFTED in markdown([(findings(), None)])


def test_what_could_not_be_measured_is_said():
    plain = document(["baseline"])
    plain["candidates"][0]["measures"] = {}
    plain["verdict"]["candidate"] = "baseline"
    assert "could not be measured" in residual_risk(plain, "")["sentences"][0]


def test_the_interval_allows_for_the_choice_of_the_attack_where_it_is_stored():
    """One number must not stand on the page with two intervals."""
    plain = document(["baseline"])
    plain["verdict"]["candidate"] = "baseline"
    wider = {**plain["candidates"][0]["risk"], "value": 0.25, "low": 0.125, "high": 0.5}
    plain["candidates"][0]["measures"] = {"auc": wider, "tpr@0.01": wider}
    assert "names 250 (95 % interval: 125 to 500)" in residual_risk(plain, "")["sentences"][0]
