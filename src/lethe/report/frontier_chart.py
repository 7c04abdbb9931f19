"""The frontier: utility against risk, every point with its interval in both directions.

Drawn here rather than by matplotlib, because the slider needs each point as an element.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lethe.report import svg
from lethe.report.numbers import rate

# Placing the labels of a scatter so that they lie on nothing and stay near their points.

_RADII = (9, 15, 24, 36, 50, 66, 84)
_DIRECTIONS = (
    ("start", 1, 0),
    ("end", -1, 0),
    ("start", 0.7, -0.8),
    ("start", 0.7, 0.8),
    ("end", -0.7, -0.8),
    ("end", -0.7, 0.8),
    ("middle", 0, -1),
    ("middle", 0, 1),
)
_LEADER_FROM = 24


@dataclass(frozen=True)
class Box:
    """A rectangle, y downward."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """The shared area."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(wide, 0) * max(high, 0)

    def outside(self, frame: Box) -> float:
        """How far it sticks out of `frame`."""
        return (
            max(frame.left - self.left, 0)
            + max(self.right - frame.right, 0)
            + max(frame.top - self.top, 0)
            + max(self.bottom - frame.bottom, 0)
        )


@dataclass(frozen=True)
class Label:
    """Where a text goes: its anchor point, and whether a leader line is needed."""

    x: float
    y: float
    anchor: str
    leader: bool
    box: Box


def place(
    points: Sequence[tuple[float, float]],
    widths: Sequence[float],
    height: float,
    frame: Box,
    obstacles: Sequence[Box],
) -> list[Label]:
    """Greedy placement, in the order given: the first points get the best places.

    Args:
        points: the centres to label.
        widths: estimated width of each text.
        height: height of one line of text.
        frame: the area that labels must stay in.
        obstacles: what labels should not cover, such as marks and interval lines.
    """
    placed: list[Label] = []
    for (x, y), width in zip(points, widths, strict=True):
        best = min(
            (
                _candidate(x, y, width, height, radius, way)
                for radius in _RADII
                for way in _DIRECTIONS
            ),
            key=lambda pair: (
                pair[1]
                + 500 * pair[0].box.outside(frame)
                + 12 * sum(pair[0].box.overlap(other.box) for other in placed)
                + 3 * sum(pair[0].box.overlap(box) for box in obstacles)
            ),
        )
        placed.append(best[0])
    return placed


def _candidate(
    x: float, y: float, width: float, height: float, radius: float, way: tuple[str, float, float]
) -> tuple[Label, float]:
    anchor, right, down = way
    at_x, middle = x + right * radius, y + down * radius
    left = at_x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    box = Box(left - 1, middle - height / 2, left + width + 1, middle + height / 2)
    return Label(at_x, middle + height * 0.3, anchor, radius >= _LEADER_FROM, box), radius * 1.5


_LOG_FROM = 40.0
_MOST_LABELS = 14
_CHARACTER = 6.9
_LINE = 16.0


@dataclass(frozen=True)
class Point:
    """One candidate that has both numbers."""

    at: int
    name: str
    utility: Mapping[str, Any]
    risk: Mapping[str, Any]
    pareto: bool
    operating: bool
    baseline: bool


@dataclass(frozen=True)
class Axis:
    """From a value to a place on the page; the ends may be cut, so values are clamped."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def share(self, value: float) -> float:
        """Where a value lies between the ends, 0 to 1."""
        if self.log:
            part = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return min(max(part, 0.0), 1.0)

    def __call__(self, value: float) -> float:
        return self.start + self.share(value) * (self.end - self.start)

    def ticks(self, wanted: int) -> list[float]:
        """Round numbers on the axis."""
        round_numbers = svg.log_ticks if self.log else svg.ticks
        return round_numbers(self.low, self.high, wanted)


def points(document: Mapping[str, Any]) -> list[Point]:
    """The candidates that can stand on the plane."""
    frontier = document["frontier"]
    baseline = (document["baseline"] or {}).get("candidate")
    return [
        Point(
            at,
            candidate["name"],
            candidate["utility"],
            candidate["risk"],
            candidate["name"] in frontier["pareto"],
            candidate["name"] == frontier["operating_point"],
            candidate["name"] == baseline,
        )
        for at, candidate in enumerate(document["candidates"])
        if candidate["risk"].get("value") is not None and candidate["utility"]["value"] is not None
    ]


def risk_axis(drawn: Sequence[Point], start: float, end: float) -> Axis:
    """From 0, or logarithmic where the candidates lie far apart."""
    upper = max(_end(p.risk, "high") for p in drawn)
    lowest = min(p.risk["value"] for p in drawn)
    if lowest > 0 and upper / lowest > _LOG_FROM:
        low = min(max(_end(p.risk, "low"), lowest / 4) for p in drawn)
        return Axis(low / 1.15, upper * 1.1, start, end, log=True)
    return Axis(0.0, upper * 1.06 or 1.0, start, end)


def draw(document: Mapping[str, Any], fpr: float | None, width: int, height: int) -> str:
    """The chart as inline SVG; empty if no candidate has both numbers.

    Args:
        document: the findings.
        fpr: what a random guess would score as risk, if risk is a rate at an FPR.
        width: in CSS pixels of the view box; below 500 the layout of a phone is taken.
        height: in CSS pixels.
    """
    drawn = points(document)
    if not drawn:
        return ""
    frame = Box(54, 46, width - 14, height - 62)
    x = risk_axis(drawn, frame.left, frame.right)
    y = _utility_axis(drawn, frame.bottom, frame.top)
    parts = [
        _grid(x, y, frame, document["frontier"], narrow=width < 500),
        _blind_guess(x, frame, fpr),
        _pareto_line(x, y, drawn),
        _limit(frame),
        # The chosen point comes last, so that nothing covers it.
        *[_mark(x, y, p) for p in sorted(drawn, key=lambda p: (p.operating, p.pareto))],
        _labels(x, y, drawn, frame, narrow=width < 500),
    ]
    return svg.element(
        "svg",
        *parts,
        class_="chart frontier-chart",
        viewBox=f"0 0 {width} {height}",
        role="group",
        aria_label="Frontier: utility against risk, one point a candidate. The table below "
        "holds the same numbers.",
        data_start=frame.left,
        data_end=frame.right,
        data_low=f"{x.low:.8g}",
        data_high=f"{x.high:.8g}",
        data_log="1" if x.log else "0",
    )


def _end(estimate: Mapping[str, Any], side: str) -> float:
    limit = estimate[side]
    return float(estimate["value"] if limit is None else limit)


def _utility_axis(drawn: Sequence[Point], start: float, end: float) -> Axis:
    low = min(_end(p.utility, "low") for p in drawn)
    high = max(_end(p.utility, "high") for p in drawn)
    pad = 0.06 * (high - low) or 0.01
    return Axis(low - pad, high + pad, start, end)


def _grid(x: Axis, y: Axis, frame: Box, frontier: Mapping[str, Any], narrow: bool) -> str:
    parts = []
    for tick in y.ticks(5):
        at = y(tick)
        parts.append(
            svg.element("line", class_="grid", x1=frame.left, x2=frame.right, y1=at, y2=at)
        )
        parts.append(svg.text(f"{tick:g}", frame.left - 7, at + 4, text_anchor="end"))
    for tick in x.ticks(4 if narrow else 7):
        at = x(tick)
        parts.append(
            svg.element("line", class_="tick", x1=at, x2=at, y1=frame.bottom, y2=frame.bottom + 5)
        )
        parts.append(svg.text(f"{tick:g}", at, frame.bottom + 19, text_anchor="middle"))
    parts.append(
        svg.element(
            "line", class_="axis", x1=frame.left, x2=frame.right, y1=frame.bottom, y2=frame.bottom
        )
    )
    letters = int((frame.right - 8) / _CHARACTER)
    up = f"↑ {_first_upper(frontier['utility'])} (higher = better)"
    along = f"← {_first_upper(frontier['risk'])} (further left = safer)"
    for line, words in enumerate(textwrap.wrap(up, letters)[:2]):
        parts.append(svg.text(words, 0, 14 + _LINE * line, class_="title"))
    for line, words in enumerate(textwrap.wrap(along, letters)[:2]):
        parts.append(
            svg.text(
                words,
                frame.right,
                frame.bottom + 38 + _LINE * line,
                class_="title",
                text_anchor="end",
            )
        )
    return "".join(parts)


def _first_upper(words: str) -> str:
    # A metric such as tpr@0.01 is written as in a rule.
    return words if "@" in words.split(" ")[0] else words[:1].upper() + words[1:]


def _blind_guess(x: Axis, frame: Box, fpr: float | None) -> str:
    if fpr is None or not x.low <= fpr <= x.high:
        return ""
    at = x(fpr)
    return svg.element(
        "g",
        svg.element("line", x1=at, x2=at, y1=frame.top, y2=frame.bottom),
        svg.text("random guess", at + 5, frame.bottom - 6),
        class_="blind",
    )


def _pareto_line(x: Axis, y: Axis, drawn: Sequence[Point]) -> str:
    pairs = sorted((x(p.risk["value"]), y(p.utility["value"])) for p in drawn if p.pareto)
    path = " ".join(f"{svg.number(a)},{svg.number(b)}" for a, b in pairs)
    return svg.element("polyline", class_="pareto-line", points=path) if len(pairs) > 1 else ""


def _limit(frame: Box) -> str:
    """The line of the slider; the script shows and moves it."""
    return svg.element(
        "g",
        svg.element(
            "rect",
            x=frame.left,
            y=frame.top,
            width=frame.right - frame.left,
            height=frame.bottom - frame.top,
        ),
        svg.element("line", x1=frame.right, x2=frame.right, y1=frame.top, y2=frame.bottom),
        class_="limit",
        visibility="hidden",
    )


def _mark(x: Axis, y: Axis, point: Point) -> str:
    at_x, at_y = x(point.risk["value"]), y(point.utility["value"])
    left, right = x(_end(point.risk, "low")), x(_end(point.risk, "high"))
    top, bottom = y(_end(point.utility, "high")), y(_end(point.utility, "low"))
    kinds = ["chosen"] if point.operating else []
    kinds.append("pareto" if point.pareto else "dominated")
    standing = ", ".join(
        word
        for word, holds in (
            ("operating point", point.operating),
            ("no candidate beats it in both", point.pareto),
            ("beaten by another candidate", not point.pareto),
            ("the release as it is now", point.baseline),
        )
        if holds
    )
    said = f"{point.name}: risk {rate(point.risk)}, utility {rate(point.utility)}; {standing}"
    shape = (
        svg.element(
            "path",
            class_="mark",
            d=f"M{svg.number(at_x)} {svg.number(at_y - 7.5)}l7.5 7.5l-7.5 7.5l-7.5 -7.5z",
        )
        if point.pareto
        else svg.element("circle", class_="mark", cx=at_x, cy=at_y, r=5.0)
    )
    return svg.element(
        "g",
        svg.element("title", svg.escape(said)),
        svg.element(
            "path",
            class_="interval",
            d=f"M{svg.number(left)} {svg.number(at_y)}H{svg.number(right)}"
            f"M{svg.number(at_x)} {svg.number(top)}V{svg.number(bottom)}",
        ),
        svg.element("circle", class_="ring", cx=at_x, cy=at_y, r=13.0) if point.operating else "",
        shape,
        class_=f"point {' '.join(kinds)}",
        tabindex=0,
        role="img",
        aria_label=said,
        data_at=point.at,
    )


def _labels(x: Axis, y: Axis, drawn: Sequence[Point], frame: Box, narrow: bool) -> str:
    shown = [
        p for p in drawn if len(drawn) <= _MOST_LABELS or p.pareto or p.operating or p.baseline
    ]
    shown = sorted(shown, key=lambda p: (not p.operating, not p.pareto, p.at))
    # A phone has no room for names: numbers stand for them, as in the table below.
    words = [
        str(p.at + 1) if narrow else svg.shorten(p.name, 26) + (" (chosen)" if p.operating else "")
        for p in shown
    ]
    centres = [(x(p.risk["value"]), y(p.utility["value"])) for p in shown]
    spots = place(
        centres, [len(w) * _CHARACTER for w in words], _LINE, frame, _obstacles(x, y, drawn)
    )
    parts = []
    for point, (at_x, at_y), word, spot in zip(shown, centres, words, spots, strict=True):
        kind = "chosen" if point.operating else "pareto" if point.pareto else "dominated"
        line = ""
        if spot.leader:
            middle = (spot.box.top + spot.box.bottom) / 2
            end = min(max(at_x, spot.box.left), spot.box.right)
            line = svg.element("line", class_="leader", x1=at_x, y1=at_y, x2=end, y2=middle)
        parts.append(
            svg.element(
                "g",
                line,
                svg.text(word, spot.x, spot.y, text_anchor=spot.anchor),
                class_=f"label {kind}",
                data_at=point.at,
                aria_hidden="true",
            )
        )
    return "".join(parts)


def _obstacles(x: Axis, y: Axis, drawn: Sequence[Point]) -> list[Box]:
    boxes = []
    for p in drawn:
        at_x, at_y = x(p.risk["value"]), y(p.utility["value"])
        size = 15.0 if p.operating else 9.0
        boxes.append(Box(at_x - size, at_y - size, at_x + size, at_y + size))
        boxes.append(Box(x(_end(p.risk, "low")), at_y - 2, x(_end(p.risk, "high")), at_y + 2))
        boxes.append(Box(at_x - 2, y(_end(p.utility, "high")), at_x + 2, y(_end(p.utility, "low"))))
    return boxes
