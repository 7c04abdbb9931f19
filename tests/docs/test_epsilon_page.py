"""The page on epsilon: its examples print what it says, its table is the measured one."""

from __future__ import annotations

import json
import re

import pytest
from doc_pages import ROOT, examples, page, printed

PAGE = page("epsilon.md")
MEASURED = json.loads((ROOT / "benchmarks" / "results" / "epsilon_validity.json").read_text())
EXAMPLES = examples(PAGE)


@pytest.mark.parametrize("code, output", EXAMPLES)
def test_the_examples_print_what_the_page_says(code: str, output: str) -> None:
    assert printed(code, "epsilon.md") == output


def test_both_examples_are_found() -> None:
    assert len(EXAMPLES) == 2


def test_the_table_is_the_measured_one() -> None:
    worlds = list(MEASURED["worlds"].values())
    for name in worlds[0]:
        (row,) = re.findall(rf"^\| {re.escape(name)} \| (.*) \|$", PAGE, re.MULTILINE)
        for cell, world in zip(row.split(" | "), worlds, strict=True):
            assert (cell == "-") == (name not in world)
            if name in world:
                assert int(cell.split(",")[0]) == world[name]["violations"]
                share = world[name].get("median share of epsilon")
                assert share is None or f", {100 * share:.0f} %" in cell


def test_the_measured_bounds_are_within_the_targets() -> None:
    """At most 67 of 1,000 wrong; the Gaussian form at 80 % of the truth by default."""
    assert MEASURED["repetitions"] == 1000
    for world, rows in MEASURED["worlds"].items():
        assert max(row["violations"] for row in rows.values()) <= 67
        if world.startswith("gaussian"):
            default = rows["GDP, Bonferroni(1)"]
            assert default["median share of epsilon"] >= 0.8 <= default["median share of mu"]
