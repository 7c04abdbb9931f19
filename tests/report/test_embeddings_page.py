"""The page of an audit of representations."""

from __future__ import annotations

import re

import pytest
from reidentification_people import population, quick

from lethe.evidence.findings import Findings
from lethe.reidentification.audit import audit_released
from lethe.reidentification.released import Released
from lethe.report import render
from lethe.report.embedding_figures import figure_files

EVIL = "<script>alert(1)</script>\"'&$x$"


@pytest.fixture(scope="module")
def findings():
    people = population()
    short = {key: people[key] for key in ("representations", "user_ids")}
    models = [Released(f"a {EVIL}", **people), Released("bare", **short)]
    return audit_released(models, quick(plays=0, keep_records=True))


@pytest.fixture(scope="module")
def page(findings):
    return render(findings)


def test_the_page_is_small_escaped_and_the_same_each_time(findings, page):
    assert render(Findings.from_json(findings.to_json())) == page
    assert len(page.encode()) < 2_000_000
    assert EVIL not in page
    assert page.count("<script>") == 1
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)


def test_it_says_what_was_found_and_what_is_proven(page):
    for words in (
        "Models side by side",
        "Who is named, as the vectors are",
        "what nobody can exceed",
        "Utility: three quantities that are not one",
        "what they do not say",
        "This list is personal data",
        "Nobody exceeds",
    ):
        assert words in page
    assert "No attack with a ROC curve" not in page
    assert "Membership inference" not in page
    assert "person 1" in page
    assert "reader-9" not in page


def test_every_model_has_its_figures_and_the_ids_stay_apart(page):
    for label in ("Share identified by noise level", "limits on every attacker, by noise level"):
        assert page.count(label) == 2
    assert page.count("Certified accuracy against radius.") == 1  # the other has no head
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_figures_are_files_of_their_own(findings):
    files = list(figure_files(findings))
    names = [name for name, _ in files]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"figures/[12]-[a-z0-9.-]+\.(svg|png)", name) for name in names)
    for name, content in files:
        if name.endswith("svg"):
            assert b"<svg" in content
            assert b"var(--" not in content
        else:
            assert content.startswith(b"\x89PNG")
    assert [content for _, content in figure_files(findings)] == [content for _, content in files]
