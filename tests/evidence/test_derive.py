"""What a rule is judged on, read from findings alone, older ones included."""

from __future__ import annotations

import math
from typing import Any

import pytest
from report.sample import document

from lethe.errors import InputError
from lethe.evidence.derive import evidence_of, judged_candidates, kind_of, measured_of, metrics_of
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.findings import Findings
from lethe.evidence.rules import METRICS, UNDECIDED, Rule, judge, parse_rule


def findings(**changed: Any) -> Findings:
    return Findings.from_json({**document(["baseline", "weighted"]), "rules": [], **changed})


def read(found: Findings, text: str, at: int = 0) -> Any:
    return evidence_of(found, found.candidates[at], parse_rule(text))


def with_rates(rate: dict[str, Any]) -> Findings:
    made = document(["baseline", "weighted"])
    made["candidates"][0]["rates"] = {"auc": rate, "tpr": {"0.001": rate}}
    return Findings.from_json({**made, "rules": []})


RATE = {"value": 0.2, "low": 0.1, "high": 0.3, "confidence": 0.95, "method": "m", "n": 9}


def test_stored_rates_of_the_strongest_attack() -> None:
    found = with_rates(RATE)
    assert read(found, "auc<=1") == read(found, "tpr@0.001<=1") == measured_of(RATE)
    tau = read(found, "tau@0.001<=1")
    assert tau.value == pytest.approx(math.log(200)) and tau.high == pytest.approx(math.log(300))
    assert read(found, "tpr@0.002<=1") is None
    refused = {"refused": "too few"}
    assert read(with_rates(refused), "tau@0.001<=1") == Refusal("too few")


def test_findings_without_stored_rates_give_an_upper_limit_alone() -> None:
    """Three attacks: a lower limit would have to allow for the choice, so there is none."""
    found = findings()
    attacks = found.candidates[0]["attacks"].values()
    rate = read(found, "tpr@0.01<=1")
    assert rate.value == max(one["tpr"]["0.01"]["value"] for one in attacks)
    assert rate.high == max(one["tpr"]["0.01"]["high"] for one in attacks)
    assert rate.low is None
    # It can pass, but never fail, by that; one attack refused refuses all.
    assert judge(parse_rule("tpr@0.01<=0.001"), rate) == UNDECIDED
    assert isinstance(read(found, "tpr@0.001<=1"), Refusal)
    assert read(found, "tau@0.01<=1").low is None
    alone = document(["baseline"])
    alone["candidates"][0]["attacks"] = {"gap": alone["candidates"][0]["attacks"]["lira-online"]}
    one = Findings.from_json({**alone, "rules": []})
    assert read(one, "auc<=1") == measured_of(alone["candidates"][0]["attacks"]["gap"]["auc"])


def test_what_the_run_judged_stands_before_all_else() -> None:
    entry = {"rule": "auc <= 0.5", "candidate": "baseline", "outcome": "pass", "evidence": RATE}
    found = findings(rules=[entry])
    assert read(found, "auc<=0.9") == measured_of(RATE)
    assert read(found, "auc<=0.9", at=1) != measured_of(RATE)
    assert read(found, "tpr@0.01<=0.9") != measured_of(RATE)


def test_loss_and_exposure() -> None:
    found = findings()
    assert read(found, "utility-loss<=1") is None
    assert read(found, "utility-loss<=1", 1) == measured_of(found.candidates[1]["utility_loss"])
    assert read(found, "top-t<=1") == measured_of(found.candidates[0]["vulnerability"]["top_t"])
    assert kind_of(found) == "model" and metrics_of(found) is METRICS


def vectors(bound: float | None) -> Findings:
    made = document(["baseline", "weighted"])
    made["subject"]["release"] = "embeddings"
    made["reproduction"]["confidence"] = 0.9
    for one in made["candidates"]:
        one.update(top_1=RATE, bound=bound)
    made["candidates"][1]["name"] = "mlp: noise-2"
    return Findings.from_json({**made, "rules": [], "representations": {"models": [], "rule": ""}})


def test_vectors_with_and_without_a_proven_limit() -> None:
    found = vectors(0.25)
    limit = evidence_of(found, found.candidates[0], Rule("bound", None, 1.0))
    assert isinstance(limit, Estimate)
    assert (limit.value, limit.low, limit.high, limit.confidence) == (None, None, 0.25, 0.9)
    none = vectors(None)
    assert isinstance(evidence_of(none, none.candidates[0], Rule("bound", None, 1.0)), Refusal)
    assert evidence_of(found, found.candidates[0], Rule("top-1", None, 1.0)) == measured_of(RATE)
    assert [one["name"] for one in judged_candidates(found, "noise-2")] == ["mlp: noise-2"]


def test_the_candidate_that_is_judged() -> None:
    found = findings(verdict={"outcome": "pass", "candidate": "weighted", "words": []})
    assert [one["name"] for one in judged_candidates(found)] == ["weighted"]
    assert [one["name"] for one in judged_candidates(found, "baseline")] == ["baseline"]
    with pytest.raises(InputError, match="Did you mean 'weighted'"):
        judged_candidates(found, "wieghted")
