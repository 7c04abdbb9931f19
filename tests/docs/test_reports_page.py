"""The page on reports: its example is what the gallery's report says, in the report's words."""

from __future__ import annotations

import re

from doc_pages import DOCS, page

from lethe import Findings
from lethe.report.catalogue import say

PAGE = page("report.md")


def test_the_example_is_the_first_screen_of_the_gallery() -> None:
    screen = " ".join(str(Findings.load(DOCS / "gallery" / "digits")).split())
    (sentence,) = re.findall(r"^> (.*)$", PAGE, re.MULTILINE)
    assert sentence in screen
    low, high = re.findall(r"([\d.]+) to ([\d.]+) %: decide", " ".join(PAGE.split()))[0]
    assert f"95 % interval {low} to {high} %" in screen


def test_the_report_has_the_lines_and_words_that_the_page_names() -> None:
    plain = " ".join(PAGE.replace("*", "").split())
    assert say("sign.option", name="").partition(" (")[0].lower() in plain.lower()
    for key in ("sign.accepted", "sign.date", "card.remaining", "fields.absent"):
        assert say(key).lower() in plain.lower(), key
    assert "fixed after the run began" in plain
    assert say("known.fixed.after", rule="").strip(", ") in plain
    assert re.findall(r"^(\d+)\. .*\?", PAGE, re.MULTILINE) == [str(n) for n in range(1, 11)]
