"""Every one of the twenty fields of the document is in the page of every kind of release."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sample import MANIFEST, findings

from lethe.evidence.findings import Findings
from lethe.report import CONTEXT_FIELDS, render
from lethe.report.coverage import TITLES

GOLDEN = Path(__file__).parent.parent / "golden"
KINDS = ["model", "vectors", "table", "records", "synthetic", "mechanism", "ledger"]

# Words of each field that stand in every page, whatever was audited.
ALWAYS = {
    1: ("Report id", "Date", "Version of the report", "Author", "Reviewer", "Signature"),
    2: ("Version", "Hash of the released file", "Number of parameters", "Training records",
        "People in the training data", "Parameters per training record", "Architecture"),
    3: ("Purpose", "Users", "Out-of-scope use", "Form of release", "Who has access", "Rate limits"),
    4: ("Source", "Period", "Categories of people", "Special categories", "Sampling",
        "Duplicates", "Records per person", "Cleaning"),
    5: ("DPIA reference", "Advice of the data-protection officer", "Controller", "Processor"),
    6: ("Threat model", "Goals of an attacker", "Knowledge", "Access of the attacker",
        "Budget of queries", "Shadow models, draws and compute",
        "Why these means are reasonably likely"),
    7: ("Attacks run", "Attacks not run, and why", "Self-checks of the audit"),
    8: ("Data", "records", "fingerprint"),
    12: ("What is proven", "Assumptions", "Voided by"),
    16: ("Verdict", "What would change this verdict", "Residual risk", "Decision rule",
         "Who accepts the residual risk"),
    17: ("Limits", "Valid until", "Audit again after retraining"),
    18: ("Reproduction", "seed", "versions", "Command", "Machine", "Wall time in seconds"),
    19: ("Personal data used", "Who saw it", "Retention and deletion", "Redaction applied"),
    20: ("Glossary and reading guide", "Interval", "Not measurable"),
}  # fmt: skip


class Text(HTMLParser):
    """Visible words, and the ids."""

    def __init__(self, page):
        super().__init__()
        self.words, self.ids, self.links = [], set(), []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids.add(given.get("id"))
        self.links.append(given.get("href") or "")

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def pages():
    made = {kind: Findings.load(GOLDEN / f"{kind}.json") for kind in KINDS[1:]}
    made["model"] = findings()
    return {kind: render(one, MANIFEST) for kind, one in made.items()}


@pytest.mark.parametrize("number", TITLES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_field_is_there(pages, kind, number):
    """It has its words and its sections, or the page says why it has not."""
    page = pages[kind]
    text = Text(page)
    said = " ".join(" ".join(text.words).split())
    for words in ALWAYS.get(number, ()):
        assert words in said, words
    row = re.search(rf'<tr><th scope="row">{number}\. .*?</tr>', page)
    targets = re.findall(r'href="#([^"]+)"', row[0])
    assert set(targets) <= text.ids
    assert targets or "not part of this audit: " in row[0]


def test_the_list_is_whole():
    assert list(TITLES) == list(range(1, 21))


def test_what_is_not_in_an_audit_is_said_with_the_reason(pages):
    rows = {
        kind: {
            int(number)
            for number in re.findall(r'<th scope="row">(\d+)\. [^/]*</th><td></td>', page)
        }
        for kind, page in pages.items()
    }
    assert rows["model"] <= {13} and rows["ledger"] == {10, 11, 13, 14, 15}
    assert rows["mechanism"] == {10, 14, 15}


def test_open_fields_are_counted(pages):
    """The sample fills in the controller and nothing else of this block of four."""
    assert re.search(r">5\. .*?</td><td>3 not provided</td>", pages["model"])
    every = sum(len(fields) for fields in CONTEXT_FIELDS.values())
    assert pages["model"].count('class="absent"') < every


def test_numbers_that_the_audit_knows_are_filled_in():
    plain = findings().to_json()
    plain["subject"]["parameters"] = 2874
    plain["data"] |= {"people": 900, "pool_people": 479}
    page = render(Findings.from_json(plain))
    for label, text in (
        ("Number of parameters", "2874"),
        ("Training records", "1437"),
        ("People in the training data", "479"),
        ("Parameters per training record", "2; 6 per person"),
    ):
        assert f"<dt>{label}</dt><dd>{text}</dd>" in page, label
    plain["context"] = {"parameters": "28,740"}
    assert "<dd>20; 60 per person</dd>" in render(Findings.from_json(plain))


def test_the_paper_has_room_for_names_and_pens(pages):
    for page in pages.values():
        lines = page[page.index('id="signatures"') :]
        for role in ("Author", "Reviewer", "Data-protection officer", "Accepts the residual risk"):
            assert f'<th scope="row">{role}</th><td></td><td></td><td></td>' in lines
    assert ".signatures { display: block" in page.partition("@media print")[2]
