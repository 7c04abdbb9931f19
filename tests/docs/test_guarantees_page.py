"""The page on guarantees: every kind has a row, and its numbers are recomputed."""

from __future__ import annotations

import math
import re

import pytest
from doc_pages import page

from lethe.evidence.guarantee import NOT_PROVEN, PROVEN

PAGE = page("guarantees.md")


@pytest.mark.parametrize("kind", PROVEN + NOT_PROVEN)
def test_every_kind_has_a_row(kind: str) -> None:
    assert re.search(rf"^\|[^|]*`{kind}`[^|]*\|", PAGE, re.MULTILINE)


def numbers(row: str) -> list[float]:
    return [float(cell.strip().removesuffix(" %")) for cell in row.strip("| \n").split("|")]


def test_the_most_a_suspicion_can_change() -> None:
    (head,) = re.findall(r"^\| suspicion before \| epsilon (.*)$", PAGE, re.MULTILINE)
    rows = re.findall(r"^\| ([\d.]+ %) \| (.*)$", PAGE, re.MULTILINE)
    assert len(rows) == 4
    for before, cells in rows:
        prior = numbers(before)[0] / 100
        for epsilon, cell in zip(numbers(head), numbers(cells), strict=True):
            odds = math.exp(epsilon) * prior / (1 - prior)
            assert f"{100 * odds / (1 + odds):.1f}" == f"{cell:.1f}"


def test_the_most_an_attack_names() -> None:
    tables = re.findall(r"^\| epsilon \| (.*)\n.*\n\| named, at most \| (.*)$", PAGE, re.MULTILINE)
    ((head, cells),) = tables
    for epsilon, cell in zip(numbers(head), numbers(cells), strict=True):
        most = min(math.exp(epsilon) * 0.01, 1 - math.exp(-epsilon) * 0.99)
        assert f"{100 * most:.1f}" == f"{cell:.1f}"


def test_the_multiples_in_the_text() -> None:
    told = "at epsilon 0.1 every outcome is at most 1.11 times as likely; at 1 it is 2.7 times; "
    told += "at 5 it is 148 times; at 10 it is 22,026 times"
    assert told in " ".join(PAGE.split())
    assert [f"{math.exp(x):,.{d}f}" for x, d in ((0.1, 2), (1, 1), (5, 0), (10, 0))] == [
        "1.11",
        "2.7",
        "148",
        "22,026",
    ]
