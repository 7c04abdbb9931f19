"""docs/benchmarks.md: every table and chart is what benchmarks/results give."""

from __future__ import annotations

import re

import pytest
from benchmark_modules import benchmark
from doc_pages import DOCS

charts = benchmark("charts")  # which pages imports
pages = benchmark("pages")
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_the_tables_are_the_measured_ones(name: str) -> None:
    assert pages.filled(TEXTS[name]) == TEXTS[name], "python benchmarks/pages.py writes it anew"


def test_every_table_stands_on_one_page() -> None:
    placed = re.findall(r"<!-- table ([\w-]+) -->", "".join(TEXTS.values()))
    assert sorted(placed) == sorted(pages.TABLES)


@pytest.mark.parametrize("name", sorted(pages.CHARTS))
def test_the_charts_are_the_measured_ones(name: str) -> None:
    chart = (DOCS / "figures" / f"{name}.svg").read_text(encoding="utf-8")
    assert pages.CHARTS[name]() == chart, "python benchmarks/pages.py writes it anew"
    front = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert "".join([front, *TEXTS.values()]).count(f"figures/{name}.svg)") == 1


def test_a_chart_shows_each_point_where_it_belongs() -> None:
    """Corners of a plot, its middle on a logarithmic axis, and a value beyond the axis."""
    low_high = charts.Axis("", (1, 10, 100), log=True)
    assert [low_high.place(x) for x in (1, 10, 100, 0.5, 200)] == [0, 0.5, 1, 0, 1]
    dots = charts.Series("dots", "red", [(1, 0), (100, 4)], [(0, 2), (4, 4)], line=False)
    drawn = charts.chart([charts.Panel("", low_high, charts.Axis("", (0, 4)), [dots])], 1)
    places = re.findall(r"<circle cx='([\d.]+)' cy='([\d.]+)' r='3.5' fill='red'", drawn)
    assert places[:2] == [("0.0", "190.0"), ("250.0", "0.0")]
    assert "<path d='M0.0 190.0V95.0' stroke='red'" in drawn


def test_bounds_on_epsilon_are_within_the_targets() -> None:
    """At most 67 of 1,000 wrong; the Gaussian form at 80 % of the truth by default."""
    measured = pages.results("epsilon_validity")
    assert measured["repetitions"] == 1000
    for world, rows in measured["worlds"].items():
        assert max(row["violations"] for row in rows.values()) <= 67
        if world.startswith("gaussian"):
            default = rows["GDP, Bonferroni(1)"]
            assert default["median share of epsilon"] >= 0.8 <= default["median share of mu"]


def test_audits_of_mechanisms_are_within_the_targets() -> None:
    measured = pages.results("mechanism_audit")
    assert measured["repetitions"] == 200
    assert all(row["flagged"] <= 18 for row in measured["right"].values())
    for name in ("Laplace", "discrete Laplace", "randomized response", "Gaussian, mu"):
        assert measured["half the noise"][name]["flagged"] >= 190
    text = " ".join(TEXTS["benchmarks.md"].split())
    for kind in ("right", "half the noise", "wrong"):
        rows = measured[kind].values()
        flagged, audits = sum(r["flagged"] for r in rows), sum(r["share"]["n"] for r in rows)
        assert f"in {flagged} of {audits:,}" in text


def test_the_coverage_in_the_text_is_the_measured_one() -> None:
    measured = pages.results("coverage")
    shares = [share for row in measured["rows"] for share in row.get("coverage", {}).values()]
    of_t = [share for row in measured["rows"] for share in row.get("t", {}).values()]
    text = " ".join(TEXTS["benchmarks.md"].split())
    for found, unit in ((shares, "accuracy hold"), (of_t, "from 0 to 4")):
        assert f"{unit} in {min(found):.3f} to {max(found):.3f}" in text
    assert f"no cell of {measured['cells']} is below 0.93" in text and not measured["below_floor"]


def test_what_the_text_says_of_dominance_is_measured() -> None:
    """It dominates on both tables, but for weighted-dp on adult, and never on images."""
    left = {
        each["set"]: {name for name, row in each["dominated"].items() if not row["dominated"]}
        for each in pages.results("frontier")["rounds"]
    }
    assert left["adult"] == {"weighted-dp-eps8"} and not left["diabetes130"]
    for each in pages.results("frontier")["rounds"]:
        if each["set"] in ("mnist", "cifar10"):
            assert left[each["set"]] == set(each["dominated"])
