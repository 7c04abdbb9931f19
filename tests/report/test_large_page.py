"""A page on very many candidates and classes stays small, and says what it left out."""

from __future__ import annotations

import copy

import pytest
from sample import document

from lethe.evidence.findings import Findings
from lethe.report import render
from lethe.report.classes import class_tables

CANDIDATES, CLASSES = 60, 100


def enlarged(candidates=CANDIDATES, classes=CLASSES):
    """The sample's candidates over and over, each with a proof and many classes."""
    plain = document()
    made = []
    for at in range(candidates):
        one = copy.deepcopy(plain["candidates"][at % 7])
        one["name"] = f"{one['name']} {at}"
        row = one["per_class"][1]
        one["per_class"] = [{**row, "class": f"class {c}", "records": c} for c in range(classes)]
        made.append(one)
    claim = {
        **plain["guarantees"][0]["guarantee"],
        "kind": "approx-dp",
        "proven": True,
        "parameters": {"epsilon": 4.0, "delta": 1e-5},
    }
    plain["candidates"] = made
    plain["guarantees"] = [{"candidate": one["name"], "guarantee": claim} for one in made]
    plain["baseline"] = {"candidate": made[0]["name"]}
    plain["frontier"]["pareto"] = [one["name"] for one in made[::3]]
    plain["rules"][0] |= {"candidate": made[0]["name"]}
    return plain


@pytest.fixture(scope="module")
def page():
    return render(Findings.from_json(enlarged()))


def test_it_is_below_two_megabytes(page):
    assert len(page.encode()) < 2_000_000


def test_it_says_what_it_left_out(page):
    assert "The classes of 40 more candidates are in findings.json only." in page
    assert page.count("<summary>baseline 0</summary>") == 1


def test_the_foremost_candidates_keep_their_classes():
    plain = enlarged()
    first, chosen = plain["candidates"][0], plain["candidates"][50]
    plain["frontier"]["pareto"] = [plain["candidates"][at]["name"] for at in range(40, 60)]
    found = class_tables(plain, first, chosen)
    # 2,000 rows: the baseline, the chosen one, and 18 of the 20 on the frontier.
    names = [table["name"] for table in found["tables"]]
    wanted = [first, *plain["candidates"][40:59]]
    assert names == [one["name"] for one in wanted]
    assert found["left_out"] == 40


def test_of_very_many_classes_the_smallest_are_shown():
    plain = enlarged(2, 1200)
    (table, _) = class_tables(plain, plain["candidates"][0], plain["candidates"][1])["tables"]
    assert [row["class"] for row in table["rows"]] == [f"class {c}" for c in range(500)]
    assert table["left_out"] == 700
    assert "700 more classes, those with the most records" in render(Findings.from_json(plain))


def test_a_small_audit_loses_nothing():
    plain = document()
    found = class_tables(plain, plain["candidates"][0], None)
    assert [table["name"] for table in found["tables"]] == [c["name"] for c in plain["candidates"]]
    assert found["left_out"] == 0 and all(table["left_out"] == 0 for table in found["tables"])
