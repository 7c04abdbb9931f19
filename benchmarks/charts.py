"""Line and dot charts as SVG text: the same input gives the same bytes, on any machine.

The charts of docs/benchmarks.md are made with it (benchmarks/pages.py), and the test suite
compares them with the results. Plain text, so that a chart depends on no plotting library's
version.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

PLOT_WIDTH, PLOT_HEIGHT = 250, 190
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 26, 42
LEGEND = 220
FONT = "font-family='sans-serif' font-size='11'"


@dataclass(frozen=True)
class Series:
    """Points (x, y), each with limits of y where `limits` has them.

    `line`: joined by a line; else dots, hollow unless `solid`. `names`: a text beside each dot.
    """

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    limits: Sequence[tuple[float, float]] = ()
    line: bool = True
    dashes: str = ""
    solid: bool = True
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Axis:
    """Label, ticks in ascending order (they are the range, too), and whether it is logarithmic."""

    label: str
    ticks: Sequence[float]
    log: bool = False

    def place(self, value: float) -> float:
        """Share of the axis, 0 to 1; values beyond it lie on its end."""
        low, high, here = (
            math.log(max(v, 1e-300)) if self.log else v
            for v in (self.ticks[0], self.ticks[-1], value)
        )
        return min(1.0, max(0.0, (here - low) / (high - low)))


@dataclass(frozen=True)
class Panel:
    """One plot."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]


def chart(panels: Sequence[Panel], columns: int) -> str:
    """The SVG: panels in rows of `columns`, and below them a legend of all series."""
    cell_w, cell_h = LEFT + PLOT_WIDTH + RIGHT, TOP + PLOT_HEIGHT + BOTTOM
    names = {series.name: series for panel in panels for series in panel.series}
    width = columns * cell_w
    a_row = max(1, width // LEGEND)
    rows = -(-len(panels) // columns)
    height = rows * cell_h + 18 * -(-len(names) // a_row) + 10
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' {FONT}>",
        f"<rect width='{width}' height='{height}' fill='white'/>",
    ]
    for number, panel in enumerate(panels):
        x, y = number % columns * cell_w + LEFT, number // columns * cell_h + TOP
        out.append(f"<g transform='translate({x} {y})'>")
        out += _axes(panel)
        for series in panel.series:
            out += _drawn(series, panel)
        out.append("</g>")
    for number, series in enumerate(names.values()):
        x = 12 + number % a_row * LEGEND
        y = rows * cell_h + 18 * (number // a_row) + 8
        out.append(_mark(series, x, y))
        out.append(f"<text x='{x + 26}' y='{y + 4}'>{escape(series.name)}</text>")
    return "\n".join([*out, "</svg>", ""])


def _axes(panel: Panel) -> list[str]:
    out = [
        f"<text x='0' y='-10' font-weight='bold'>{escape(panel.title)}</text>",
        f"<text x='{PLOT_WIDTH / 2:g}' y='{PLOT_HEIGHT + 34}' text-anchor='middle'>"
        f"{escape(panel.x.label)}</text>",
        f"<text transform='translate(-40 {PLOT_HEIGHT / 2:g}) rotate(-90)' "
        f"text-anchor='middle'>{escape(panel.y.label)}</text>",
    ]
    for tick in panel.y.ticks:
        y = PLOT_HEIGHT * (1 - panel.y.place(tick))
        out.append(f"<path d='M0 {y:.1f}H{PLOT_WIDTH}' stroke='#ddd'/>")
        if panel.y.label:
            out.append(f"<text x='-6' y='{y + 4:.1f}' text-anchor='end'>{tick:g}</text>")
    for tick in panel.x.ticks:
        x = PLOT_WIDTH * panel.x.place(tick)
        out.append(f"<text x='{x:.1f}' y='{PLOT_HEIGHT + 16}' text-anchor='middle'>{tick:g}</text>")
    return [*out, f"<path d='M0 0V{PLOT_HEIGHT}H{PLOT_WIDTH}' stroke='#444' fill='none'/>"]


def _drawn(series: Series, panel: Panel) -> list[str]:
    def at(x: float, y: float) -> tuple[float, float]:
        return PLOT_WIDTH * panel.x.place(x), PLOT_HEIGHT * (1 - panel.y.place(y))

    out = []
    for (x, _), (low, high) in zip(series.points, series.limits, strict=False):
        (left, bottom), (_, top) = at(x, low), at(x, high)
        out.append(
            f"<path d='M{left:.1f} {bottom:.1f}V{top:.1f}' stroke='{series.colour}' "
            "stroke-opacity='0.5'/>"
        )
    places = [at(*point) for point in series.points]
    if series.line:
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        out.append(
            f"<polyline points='{steps}' fill='none' stroke='{series.colour}' stroke-width='1.6' "
            f"stroke-dasharray='{series.dashes}'/>"
        )
        return out
    fill = series.colour if series.solid else "white"
    for x, y in places:
        out.append(
            f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{fill}' stroke='{series.colour}'/>"
        )
    for (x, y), name in zip(places, series.names, strict=False):
        out.append(f"<text x='{x + 6:.1f}' y='{y + 3:.1f}' font-size='8'>{escape(name)}</text>")
    return out


def _mark(series: Series, x: float, y: float) -> str:
    if series.line:
        return (
            f"<path d='M{x:g} {y:g}h20' stroke='{series.colour}' stroke-width='1.6' "
            f"stroke-dasharray='{series.dashes}'/>"
        )
    fill = series.colour if series.solid else "white"
    return f"<circle cx='{x + 10:g}' cy='{y:g}' r='3.5' fill='{fill}' stroke='{series.colour}'/>"
