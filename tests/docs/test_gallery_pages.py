"""The gallery: every page is linked and told about, none is too large, none tells of a machine."""

from __future__ import annotations

import re
import runpy

import pytest
from doc_pages import DOCS, page

TEXT = page("start.md")
LINKED = re.findall(r'<a href="gallery/([\w-]+)\.html">', TEXT)


@pytest.fixture(scope="module")
def reports() -> dict[str, str]:
    return dict(runpy.run_path(str(DOCS / "conf.py"))["gallery_pages"]())


def test_every_report_is_linked_once_and_every_link_leads_to_one(reports) -> None:
    assert sorted(LINKED) == sorted(reports) and len(reports) >= 7


@pytest.mark.parametrize("name", LINKED)
def test_a_report_is_whole_small_and_says_nothing_of_the_machine(name, reports) -> None:
    text = reports[name]
    assert text.startswith("<!DOCTYPE html>") and text.rstrip().endswith("</html>")
    assert len(text.encode()) < 700_000
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert re.search(r"lethe (audit|budget) \w+", text)  # how it was made
    # Absolute paths of a machine, and the full name of a kernel.
    assert not re.search(r"(?<![\w<.])/(home|root|tmp|work|Users|usr|var)/", text)
    assert not re.search(r"Linux-\d", text)


def test_the_report_that_the_front_page_links_is_up_to_date(reports) -> None:
    def words(html: str) -> list[str]:
        return re.sub(r"<style.*?</style>|<[^>]*>", " ", html, flags=re.DOTALL).split()

    stored = (DOCS / "live-report.html").read_text(encoding="utf-8")
    assert "](docs/live-report.html)" in (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert words(stored) == words(reports["digits"]), (
        "lethe report docs/gallery/digits --out docs/live-report.html writes it anew"
    )


def test_the_numbers_in_the_text_are_those_of_the_reports(reports) -> None:
    said = {
        "digits": ["names 75 (", "names 43 ("],
        "breast-cancer": ["names 62 (40 to 90)"],
        "films": ["names one for 59 %"],
        "wrong-noise": ["at least 1.84"],
    }
    told = " ".join(TEXT.split())
    for phrase in (
        "names 43 of 1,000",
        "names 75",
        "reaches from 40 to 90",
        "for 59 % of people",
        "1.84",
    ):
        assert phrase in told
    for name, phrases in said.items():
        text = " ".join(reports[name].split())
        for phrase in phrases:
            assert phrase in text, (name, phrase)
