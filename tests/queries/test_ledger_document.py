"""The findings and the page of a ledger."""

import math
from html.parser import HTMLParser

import jsonschema
import pytest
from ledger_places import ONE, made, pure, spend

from lethe.assess.judged import evidence_of, judged_candidates, metrics_of
from lethe.errors import InputError
from lethe.evidence.findings import Findings, schema
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.of_answers import Charge
from lethe.evidence.rules import QUERY_METRICS, parse_rule
from lethe.queries.ledger.document import findings_on, proven
from lethe.queries.privacy import Privacy
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


STORED = (
    '{"rows": [{"key": {"sex": "f", "town": 3}, "value": 91, "low": 85.0, "high": 97.0},'
    ' {"value": 3, "low": 1, "high": 5}]}'
)
CHOSEN = '{"rows": [{"value": "Kent", "low": null, "high": null}]}'


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (STORED, "f, 3: 91 (85 to 97); 3 (1 to 5)"),
        (CHOSEN, "Kent"),
        (None, None),
        ("1", None),
        ('{"rows": []}', None),
    ],
)
def test_every_question_is_listed_for_the_person_who_checks_it(ledger, answer, shown):
    receipt = spend(ledger, pure(0.5), query="count() | epsilon 0.5 | key")
    if answer:
        ledger.answered(receipt, answer)
    ledger.raise_budget("people", Charge("epsilon", 3 * ONE, 10**12), reason="more")
    for at in range(12):
        spend(ledger, pure(0.05), query=str(at))
    document = findings_on(ledger, "people", ["spent<=0.95"]).to_json()
    (table,) = Ledger(document).attacks()
    assert [name for name, _ in table.rows][:2] == ["1. count()", "2. 0"] and len(table.rows) == 13
    first, last = table.rows[0][1], table.rows[-1][1]
    assert first[0] == (shown or "no answer is stored")
    assert [str(cell)[:5] for cell in first[1:4]] == ["0.5", "1.5, ", "alice"]
    assert first[4] == ("✓ Pass" if shown else "? Review: no answer is stored")
    assert (str(last[1]), str(last[2])[:4]) == ("0.05", "1.9,")
    checks = [row[1][4] for row in table.rows]
    assert checks.index("✕ Fail: spent <= 0.95") == 10 and checks[9].startswith("? Review")
    assert {row[1][5] for row in table.rows} == {""}  # room for a remark


@pytest.mark.parametrize(
    "question", ["count() where x = ' | '", "count() where x = 'a | epsilon 1, add/remove | b'"]
)
def test_no_question_hides_a_part_of_itself(ledger, question):
    """What stood behind a line of its own text was shown to nobody who checks it."""
    spend(ledger, pure(0.1), query=f"{question} | {Privacy(epsilon=0.1)} | {'0' * 64}")
    (point,) = findings_on(ledger, "people").queries["ledger"]["burn"][1:]
    assert point["question"] == question


def test_no_text_of_a_question_makes_a_giant_page(ledger):
    """A text that somebody chose stands in findings with at most 500 characters and its length."""
    small = len(findings_on(ledger, "people").to_bytes())
    receipt = spend(ledger, pure(0.1), query=f"mode(x) among ['{'q' * 19_000}']")
    ledger.answered(receipt, CHOSEN.replace("Kent", "v" * 100_000))
    findings = findings_on(ledger, "people", ["spent<=1"])
    assert len(findings.to_bytes()) - small < 3_000
    (table,) = Ledger(findings.to_json()).attacks()
    (name, (answer, *_, check, _)) = table.rows[0]
    assert check.startswith("? Review: the question or its")  # nobody passes what nobody saw
    assert "(19,018 characters)" in name and "(100,000 characters)" in answer


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
    assert "What was answered and paid" in text and ("svg" in page.tags) is not empty
    assert "Options, before and after" not in text
    if not empty:
        assert "epsilon 0.75, delta 1e-08 (19 %)" in text
        assert "a <b>second</b> study" in text and "b" not in page.tags  # escaped
        assert "bob" in text
