"""The findings and the page of a ledger."""

import contextlib
import math
from html.parser import HTMLParser

import jsonschema
import pytest
from ledger_places import ONE, made, pure, spend

from lethe.assess.judged import evidence_of, judged_candidates, metrics_of
from lethe.errors import InputError
from lethe.evidence.findings import Findings, schema
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.rules import QUERY_METRICS, parse_rule
from lethe.queries.charge import Charge
from lethe.queries.ledger.document import burn_down, findings_on, proven
from lethe.report import render
from lethe.report.of_answers import Ledger


@pytest.fixture
def ledger(tmp_path):
    one = made(tmp_path / "b.db", budget=Charge("epsilon", 2 * ONE, 10**12))
    yield one
    one.close()


def filled(ledger):
    """3 answers of 0.25, one with a delta; one is stored; the budget was raised."""
    ledger.answered(spend(ledger, pure(0.25), query="a"), "1")
    ledger.raise_budget(
        "people", Charge("epsilon", 4 * ONE, 10**12), reason="a <b>second</b> study"
    )
    spend(ledger, pure(0.25), query="b")
    mixed = Guarantee("approx-dp", {"epsilon": 0.25, "delta": 1e-8}, "add/remove", "record")
    spend(ledger, mixed, analyst="bob", query="c")
    return ledger


def test_the_findings_hold_what_was_spent(ledger):
    gate = ["spent<=1.0", "queries<=2", "delta<=1e-7"]
    findings = findings_on(filled(ledger), "people", gate)
    document = findings.to_json()
    jsonschema.validate(document, schema(), cls=jsonschema.Draft202012Validator)
    assert Findings.from_json(document).to_bytes() == findings.to_bytes()
    outcomes = [(one["rule"], one["outcome"]) for one in document["rules"]]
    assert [one for _, one in outcomes] == ["pass", "fail", "pass"]
    assert document["verdict"]["outcome"] == "fail"
    section = document["queries"]["ledger"]
    assert section["kinds"] == {"approx-dp": 1, "pure-dp": 2}
    assert [(one["queries"], one["left"]["amount"]) for one in section["burn"]] == [
        (0, 2.0),
        (1, 1.75),
        (1, 3.75),
        (2, 3.5),
        (3, 3.25),
    ]
    claims = {one["candidate"]: one["guarantee"] for one in document["guarantees"]}
    assert claims["answers so far"]["kind"] == "approx-dp"
    assert claims["answers so far"]["parameters"] == {"epsilon": 0.75, "delta": 1e-8}
    assert claims["the whole budget"]["parameters"]["epsilon"] == 4.0
    checks = {one["name"]: one["status"] for one in document["checks"]}
    assert checks["chain of hashes"] == "pass" and checks["budget as fixed at first"] == "warn"


def test_rules_can_be_judged_again_from_the_findings(ledger):
    findings = Findings.from_json(findings_on(filled(ledger), "people").to_json())
    assert metrics_of(findings) is QUERY_METRICS
    (candidate,) = judged_candidates(findings)
    for name, value in {
        "spent": 0.75,
        "share": 0.1875,
        "delta": 1e-8,
        "queries": 3,
        "raises": 1,
    }.items():
        found = evidence_of(findings, candidate, parse_rule(f"{name} <= 1", QUERY_METRICS))
        assert (found.value, found.low, found.high) == (value, value, value)


@pytest.mark.parametrize(
    ("charge", "kind", "parameters"),
    [
        (Charge("epsilon", ONE), "pure-dp", {"epsilon": 1.0}),
        (Charge("epsilon", ONE, 10**9), "approx-dp", {"epsilon": 1.0, "delta": 1e-9}),
        (Charge("rho", ONE // 2), "zcdp", {"rho": 0.5}),
        (Charge("mu2", 2 * ONE), "gdp", {"mu": math.sqrt(2)}),
    ],
)
def test_what_a_spending_proves(ledger, charge, kind, parameters):
    found = proven(ledger.status("people"), charge)
    assert (found.kind, dict(found.parameters), found.proven) == (kind, parameters, True)
    assert proven(ledger.status("people"), Charge(charge.rule, 0)) is None


def test_a_long_burn_keeps_its_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("lethe.queries.ledger.document._MOST_POINTS", 10)
    ledger = made(tmp_path / "long.db", budget=Charge("epsilon", ONE))
    for at in range(43):
        spend(ledger, pure(0.02), query=str(at))
    points = burn_down(list(ledger.entries("people")))
    assert [one["queries"] for one in points] == [0, 5, 10, 15, 20, 25, 30, 35, 40, 43]
    assert points[-1]["left"]["amount"] == 0.14
    ledger.close()


@pytest.mark.parametrize("queries", [0, 9, 10, 23, 44])
def test_the_table_of_what_was_left_ends_with_the_last_answer(tmp_path, queries):
    with contextlib.closing(made(tmp_path / "b.db", budget=Charge("epsilon", ONE))) as ledger:
        for at in range(queries):
            spend(ledger, pure(0.02), query=str(at))
        (table,) = Ledger(findings_on(ledger, "people").to_json()).attacks()
    assert len(table.rows) <= 11
    first, last = table.rows[0], table.rows[-1]
    assert (first[0], last[0]) == ("0", str(queries))
    assert last[1][1].value == f"{1 - queries * 0.02:.6g}"


def test_bad_rules_and_names(ledger):
    with pytest.raises(InputError, match="Did you mean 'spent'"):
        findings_on(ledger, "people", ["spend<=1"])
    with pytest.raises(InputError, match="not in this ledger"):
        findings_on(ledger, "persons")


def test_a_kept_head_that_is_not_there_fails_a_check(ledger):
    document = findings_on(filled(ledger), "people", heads=["0" * 64]).to_json()
    assert document["checks"][0]["status"] == "fail"
    assert not document["queries"]["ledger"]["verified"]


class Page(HTMLParser):
    """Text and tags."""

    def __init__(self, page):
        super().__init__()
        self.text, self.tags = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("empty", [True, False])
def test_the_page_shows_the_account(ledger, empty):
    page = Page(render(findings_on(ledger if empty else filled(ledger), "people")))
    text = " ".join(" ".join(page.text).split())
    assert "What was answered and paid" in text and "svg" in page.tags
    assert "Options, before and after" not in text
    if not empty:
        assert "epsilon 0.75, delta 1e-08 (19 %)" in text
        assert "a <b>second</b> study" in text and "b" not in page.tags  # escaped
        assert "bob" in text
