"""The findings on a mechanism: schema, rules, words, and the page that prints them."""

import re

import jsonschema
import numpy as np
import pytest

from lethe.assess.judged import evidence_of, judged_candidates, metrics_of
from lethe.evidence.findings import Findings, schema
from lethe.evidence.rules import parse_rule
from lethe.queries.mechanism_audit.audit import audit_mechanism, code_of
from lethe.queries.mechanism_audit.neighbours import Pair, standard_pairs
from lethe.queries.mechanism_audit.settings import Claim, MechanismSettings
from lethe.report import render

PAIRS = standard_pairs(0, 1)[:2]


def noisy(scale: float):
    def mechanism(data, seed):
        return round(data.sum() + np.random.default_rng(seed).laplace(scale=scale), 6)

    return mechanism


def found(scale: float = 1.0, claim: Claim | None = None, runs: int = 2000, **more) -> Findings:
    claim = Claim("epsilon", 1.0) if claim is None else claim
    return audit_mechanism(noisy(scale), PAIRS, MechanismSettings(claim, runs=runs, **more))


@pytest.mark.parametrize(
    ("scale", "claim", "runs", "outcome", "said"),
    [
        (1.0, Claim("epsilon", 1.0), 2000, "pass", "is consistent with the claim of 1-DP"),
        (0.5, Claim("epsilon", 1.0), 2000, "fail", "contradicts the claim of 1-DP"),
        (1.0, Claim("epsilon", 1.0), 120, "not-enough-evidence", "could not tell the claim"),
        (1.0, Claim(), 300, "not-tested", "Nothing was claimed"),
        (1.0, Claim("epsilon", 1.0, 1e-5), 300, "not-enough-evidence", "claim its mu or rho"),
    ],
)
def test_the_verdict(scale: float, claim: Claim, runs: int, outcome: str, said: str) -> None:
    findings = found(scale, claim, runs)
    jsonschema.validate(findings.to_json(), schema())
    assert findings.verdict["outcome"] == outcome
    assert said in " ".join(findings.verdict["words"])


def test_a_limit_passes_a_rule_only_where_it_could_have_failed() -> None:
    findings = found(rule=("epsilon-lower<=0.01", "epsilon-lower<=5"), scale=4.0, runs=400)
    outcomes = {entry["rule"]: entry["outcome"] for entry in findings.rules}
    # True epsilon 1/4: 400 runs could not show twice 0.01, nor exclude it; all show it is below 5?
    assert outcomes["epsilon-lower <= 0.01"] == "not-enough-evidence"
    assert (
        outcomes["epsilon-lower <= 1"] == "not-enough-evidence"
        or outcomes["epsilon-lower <= 1"] == "pass"
    )


def test_rules_on_finished_findings() -> None:
    findings = found(0.5)
    (candidate,) = judged_candidates(findings)
    metrics = metrics_of(findings)

    def read(text: str):
        return evidence_of(findings, candidate, parse_rule(text, metrics))

    assert read("epsilon-lower<=1").low == pytest.approx(findings.rules[0]["evidence"]["low"])
    assert read("epsilon-lower<=1").high is not None and read("epsilon-lower<=0.1").high is None
    assert read("mu-lower<=1") is None and read("reuse<=1").high < 1


def test_errors_and_shared_noise_are_told() -> None:
    drawn: list[float] = []
    rng = np.random.default_rng(0)

    def mechanism(data):
        drawn[:] = drawn or [rng.laplace()] * 2
        if len(data) == 0:
            raise ValueError
        return round(float(data.sum()) + drawn.pop(), 6)

    pairs = [Pair("one more", np.ones(2), np.ones(1)), Pair("empty", np.ones(1), np.ones(0))]
    findings = audit_mechanism(mechanism, pairs, MechanismSettings(Claim("epsilon", 1.0), runs=300))
    words = " ".join(findings.queries["words"])
    assert "share their noise" in words and "An error that depends on the data" in words
    assert [c["status"] for c in findings.checks if c["name"] == "fresh noise each time"] == [
        "fail"
    ]
    page = render(findings)
    assert "raises ValueError" in page and "share their noise" in page


def test_the_page_says_what_the_findings_say() -> None:
    nasty = '<script>alert("x")</script>'
    pairs = [Pair(nasty, np.ones(2), np.ones(1))]
    settings = MechanismSettings(Claim("epsilon", 1.0), runs=300)
    findings, again = (audit_mechanism(noisy(0.25), pairs, settings, name=nasty) for _ in range(2))
    assert findings.to_bytes() == again.to_bytes()
    page = render(findings)
    assert page == render(findings)
    assert nasty not in page and "&lt;script&gt;" in page
    section = findings.queries["mechanism"]
    assert f"{section['limit']['low']:.3f}" in page
    assert "Most exposed records" not in page and "No candidates were compared" not in page
    anchors = set(re.findall(r'href="#([^"]+)"', page))
    assert "attacks" in anchors and anchors <= set(re.findall(r' id="([^"]+)"', page))


def test_the_code_decides_what_a_run_is_bound_to() -> None:
    one, other = (code_of(noisy(scale), PAIRS, "f") for scale in (1.0, 2.0))
    assert one != other and one == code_of(noisy(1.0), PAIRS, "f")
    assert code_of(noisy(1.0), PAIRS[:1], "f") != one
    with open(__file__) as handle:

        def held(data):
            return handle.name and 1.0

        assert code_of(held, PAIRS, "f") == code_of(held, PAIRS, "f") != code_of(held, PAIRS, "g")
