"""Sentences with the right numbers, and charts with every candidate in the right place."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sample import CANDIDATES, document, estimate

from lethe.evidence.findings import Findings
from lethe.report import figures, frontier_chart, render, words
from lethe.report.frontier_chart import Box, place
from lethe.report.numbers import facts, plain, rate, score
from lethe.report.svg import log_ticks, ticks
from lethe.report.view import band_confidence, before_and_after, panels, rates_of


def interval(value: float | None, low: float | None, high: float | None) -> dict:
    return {"value": value, "low": low, "high": high, "confidence": 0.95, "method": "", "n": 1}


def test_the_sentence_of_the_specification() -> None:
    said = words.naming(interval(0.052, None, None), 0.001)
    assert said == (
        "of 1,000 training records an attacker who may be wrong once in 1,000 names 52; "
        "a random guess names 1"
    )


@pytest.mark.parametrize(
    ("value", "fpr", "parts"),
    [
        (0.2322, 0.1, ["of 1,000", "once in 10 names 232", "guess names 100"]),
        (0.0378, 0.01, ["of 1,000", "once in 100 names 38", "guess names 10"]),
        (0.0013, 0.001, ["of 1,000", "once in 1,000 names 1.3", "guess names 1"]),
        (0.0013, 0.0001, ["of 10,000", "once in 10,000 names 13", "guess names 1"]),
        (0.05, 0.03, ["of 1,000", "wrong in 3 % of cases names 50", "guess names 30"]),
    ],
)
def test_plain_numbers(value: float, fpr: float, parts: list[str]) -> None:
    said = words.naming(interval(value, None, None), fpr)
    assert all(part in said for part in parts), said


def test_interval_and_upper_limit_in_words() -> None:
    assert "52 (95 % interval: 46 to 59)" in words.naming(interval(0.052, 0.046, 0.059), 0.001)
    assert "names at most 3;" in words.naming(interval(None, None, 0.003), 0.001)


def test_smallest_measurable_rate_is_told() -> None:
    candidate = document()["candidates"][0]
    assert words.strictest_rate(candidate)[0] == 0.001
    candidate["measures"]["tpr@0.001"] = {"refused": "too few"}
    assert words.strictest_rate(candidate)[0] == 0.01
    assert words.risk_fpr(candidate) == 0.01
    assert words.strictest_rate({"measures": {}}) is None


@pytest.mark.parametrize("kind", ["model", "scores"])
def test_the_rate_that_is_told_is_the_one_that_is_judged(kind: str) -> None:
    """Of a real audit: one number must not stand on a page with two intervals."""
    stored = Path(__file__).parents[1] / "golden" / f"{kind}.json"
    for candidate in json.loads(stored.read_text())["candidates"]:
        told = words.judged_rates(candidate)[words.risk_fpr(candidate)]
        assert told == candidate["risk"]
        assert told["low"] >= max(
            result["estimate"]["low"] for result in candidate["risk_from"]["results"]
        )


def test_most_exposed_in_words() -> None:
    assert "which is which 96 times in 100 (95 % interval: 95 to 97)" in words.exposed_few(
        interval(0.957, 0.951, 0.966)
    )
    assert "more than 99 times in 100;" in words.exposed_few(interval(0.9999, 0.996, 1.0))


@pytest.mark.parametrize(
    ("loss", "equivalent", "said"),
    [
        (
            interval(0.004, 0.0, 0.008),
            "yes",
            "loses 0.0040 in utility, at worst a loss of 0.0080; this is within the margin of 0.01",
        ),
        (interval(0.02, 0.015, 0.025), "no", "this is more than the margin"),
        (interval(0.008, 0.004, 0.012), "unclear", "is not shown"),
        (interval(-0.002, -0.003, -0.001), "yes", "gains 0.0020 in utility; this is within"),
    ],
)
def test_price_in_words(loss: dict, equivalent: str, said: str) -> None:
    candidate = {"name": "x", "utility_loss": loss, "equivalent": equivalent}
    assert said in words.price(candidate, 0.01)


def test_rules_in_words() -> None:
    assert words.rule_in_words("width(tpr@0.01) <= 0.02").startswith("width of the interval of")
    assert words.rule_in_words("linked rows below 3") == ""


def test_cells() -> None:
    assert str(rate(estimate(0.05, 0.01))) == "0.0500 [0.0400, 0.0600]"
    assert str(score(interval(-0.5, -1.25, 0.25))) == "−0.50 [−1.25, 0.25]"
    assert str(rate({"refused": "too few"})) == "not measurable: too few"
    assert str(rate(None)) == str(rate(interval(None, None, None))) == "–"
    assert str(rate(interval(None, 0.2, None))) == "at least 0.2000"
    assert plain([True, None, {"a": 1}]) == "yes, , a 1"
    assert plain(list(range(41))).endswith("… (41 in all)")
    rows = facts({"x": estimate(0.5, 0.1), "y": {}})
    assert rows == [("x", "0.5000 [0.4000, 0.6000]"), ("y", "")]


def test_ticks_are_round_and_inside() -> None:
    assert ticks(0.9483, 0.9772) == [0.95, 0.955, 0.96, 0.965, 0.97, 0.975]
    assert log_ticks(0.0005, 0.6) == [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
    assert all(0.00001 <= tick <= 0.9 for tick in log_ticks(0.00001, 0.9))


def test_every_candidate_is_a_point_with_its_numbers() -> None:
    chart = frontier_chart.draw(document(), 0.01, 960, 480)
    assert chart.count('class="point ') == len(CANDIDATES) == 7
    assert chart.count('class="ring"') == 1 and "random guess" in chart
    assert len(re.findall(r'class="point (?:chosen )?pareto"', chart)) == 4
    assert "weighted-noise: risk 0.0148 [0.0126, 0.0169], utility 0.9681" in chart
    assert chart.count('tabindex="0"') == 7
    assert "NaN" not in chart and "nan" not in chart.replace("dominant", "")


def test_safer_is_left_and_better_is_up() -> None:
    drawn = frontier_chart.points(document())
    axis = frontier_chart.risk_axis(drawn, 0, 100)
    by_name = {p.name: axis(p.risk["value"]) for p in drawn}
    assert by_name["weighted-noise"] < by_name["weighted"] < by_name["baseline"]
    chart = frontier_chart.draw(document(), None, 960, 480)
    heights = dict(
        re.findall(
            r'aria-label="([\w-]+): risk[^>]*>.*?class="mark" (?:d="M[\d.]+ |'
            r'cx="[\d.]+" cy=")([\d.]+)',
            chart,
        )
    )
    assert float(heights["baseline"]) < float(heights["early-stopping"])


def test_risks_far_apart_get_a_logarithmic_axis() -> None:
    wide = document()
    wide["candidates"][0]["risk"] = estimate(0.9, 0.02)
    wide["candidates"][1]["risk"] = estimate(0.012, 0.02)
    drawn = frontier_chart.points(wide)
    axis = frontier_chart.risk_axis(drawn, 0, 100)
    assert axis.log and 0 < axis.low < 0.012 and axis(0.0) == 0
    assert 'data-log="1"' in frontier_chart.draw(wide, None, 360, 430)


def test_one_point_and_no_point_are_drawn() -> None:
    one = document(["baseline"])
    assert 'class="point pareto"' in frontier_chart.draw(one, None, 960, 480)
    one["candidates"][0]["risk"] |= {"value": 0.0, "low": 0.0, "high": 0.0}
    one["candidates"][0]["utility"] |= {"low": None, "high": None}
    assert 'class="point pareto"' in frontier_chart.draw(one, None, 960, 480)
    one["candidates"][0]["risk"] = {"refused": "too few"}
    assert frontier_chart.draw(one, None, 960, 480) == ""


@pytest.mark.parametrize("size", [(960, 480), (360, 430)])
def test_labels_cover_no_other_label_and_stay_inside(size: tuple[int, int]) -> None:
    frame = Box(54, 46, size[0] - 14, size[1] - 62)
    crowd = [(size[0] * 0.3 + 7 * at, size[1] * 0.4 + 5 * (at % 3)) for at in range(7)]
    width = 110.0 if size[0] > 500 else 8.0
    spots = place(crowd, [width] * 7, 16.0, frame, [])
    for at, spot in enumerate(spots):
        assert spot.box.outside(frame) == 0
        assert all(spot.box.overlap(other.box) == 0 for other in spots[:at])


def test_many_candidates_keep_the_page_small_and_the_chart_readable() -> None:
    many = document()
    extra = many["candidates"][4]
    many["candidates"] += [extra | {"name": f"grid-{at:02d}"} for at in range(40)]
    chart = frontier_chart.draw(many, 0.01, 960, 480)
    assert chart.count('class="point ') == 47
    # Names of dominated candidates stay in the table and in the title of their point.
    assert chart.count('class="label ') == 4
    shown = [c["name"] for c in panels(many)]
    assert len(shown) == 8 and "weighted-noise" in shown and "baseline" not in shown


def test_panels_and_class_plot() -> None:
    baseline, chosen = before_and_after(document())
    assert (baseline["name"], chosen["name"]) == ("baseline", "weighted-noise")
    drawn = figures.roc_panels(baseline, [chosen])
    assert [name for name, _ in drawn] == ["weighted-noise"]
    for picture in (drawn[0][1], figures.t_panels(baseline, [chosen])[0][1]):
        assert picture.startswith("<svg") and "#" not in re.sub(r'(href="|url\()#', "", picture)
        assert "var(--before)" in picture and "var(--after)" in picture
    assert "0.1 %" in drawn[0][1] and "0.0 %" not in drawn[0][1]
    assert "digit 9" in figures.class_plot(baseline, chosen)
    assert figures.class_plot({"per_class": []}, None) == ""
    assert figures.roc_panels(None, []) == figures.t_panels(None, []) == []


def test_the_band_of_the_whole_curve_is_drawn_and_named() -> None:
    """Without one the intervals of single points stand in, and the page says so."""
    shown = document()
    baseline, chosen = before_and_after(shown)
    assert band_confidence(shown["candidates"]) == "95 %"
    page = render(Findings.from_json(shown))
    assert "The whole curve lies in the shaded band with 95 % confidence" in page
    with_band = figures.roc_panels(baseline, [chosen])[0][1]
    for candidate in shown["candidates"]:
        for result in candidate["attacks"].values():
            del result["roc"]["band_low"], result["roc"]["band_high"]
    assert band_confidence(shown["candidates"]) is None
    assert "Bands are intervals at each point." in render(Findings.from_json(shown))
    baseline, chosen = before_and_after(shown)
    assert figures.roc_panels(baseline, [chosen])[0][1] != with_band
    assert band_confidence([]) is None


def test_classes_that_lose_most_are_drawn_when_there_are_many() -> None:
    baseline, chosen = before_and_after(document())
    row = chosen["per_class"][0]
    for candidate, lost in ((baseline, 0.0), (chosen, 0.001)):
        candidate["per_class"] = [
            row | {"class": f"c{at:03d}", "utility": estimate(0.9 - lost * at, 0.01)}
            for at in range(100)
        ]
    plot = figures.class_plot(baseline, chosen)
    assert "c099" in plot and "c000" not in plot and figures.classes_left_out(baseline) == 80


def test_without_an_operating_point_the_safest_is_set_against_the_baseline() -> None:
    some = document()
    some["frontier"]["operating_point"] = None
    some["verdict"]["candidate"] = None
    assert before_and_after(some)[1]["name"] == "weighted-noise"
    some["frontier"]["operating_point"] = "baseline"
    some["verdict"]["candidate"] = "removal"
    assert before_and_after(some)[1]["name"] == "removal"
    assert rates_of(some["candidates"]) == ["0.1", "0.01", "0.001"]
