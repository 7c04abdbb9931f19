"""The frontier: utility lost against risk, every point with its interval in both directions.

Drawn here rather than by matplotlib, because the slider needs each point as an element; for Python
the same points are a matplotlib figure too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from lethe.evidence.estimate import Estimate
from lethe.report import static_svg as svg
from lethe.report.catalogue import say
from lethe.report.first_screen import Room
from lethe.report.numbers import share, share_words, significant
from lethe.report.sections import Chart
from lethe.report.static_svg import COLOURS, DASHES, Slots, as_figure, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
        if wide <= 0:
            return 0.0
        return wide * max(min(self.bottom, other.bottom) - max(self.top, other.top), 0)

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
) -> list[Label | None]:
    """Greedy placement, in the order given: the first points get the best places.

    A label that would lie on another, or on the line to another, is left out: None.

    Args:
        points: the centres to label.
        widths: estimated width of each text.
        height: height of one line of text.
        frame: the area that labels must stay in.
        obstacles: what labels should not cover, such as marks and interval lines.
    """
    placed: list[Label | None] = []
    taken: list[Box] = []
    lines: list[Box] = []
    for (x, y), width in zip(points, widths, strict=True):
        label, _ = min(
            (
                _candidate(x, y, width, height, radius, direction)
                for radius in _RADII
                for direction in _DIRECTIONS
            ),
            key=lambda pair: (
                pair[1]
                + 500 * pair[0].box.outside(frame)
                + 12 * _covered(x, y, pair[0], taken, lines)
                + 3 * sum(pair[0].box.overlap(box) for box in obstacles)
            ),
        )
        if _covered(x, y, label, taken, lines):
            placed.append(None)
            continue
        placed.append(label)
        taken.append(label.box)
        lines += _leader(x, y, label)
    return placed


def _covered(x: float, y: float, label: Label, taken: list[Box], lines: list[Box]) -> float:
    """The area that a label and its line share with other labels, and it with their lines."""
    own = [label.box, *_leader(x, y, label)]
    texts = sum(bit.overlap(box) for bit in own for box in taken)
    return texts + sum(label.box.overlap(box) for box in lines)


def _leader(x: float, y: float, label: Label) -> list[Box]:
    """The line from a point to its label, as small boxes; none where it has no line."""
    if not label.leader:
        return []
    end = min(max(x, label.box.left), label.box.right)
    middle = (label.box.top + label.box.bottom) / 2
    bits = [(x + (end - x) * at / 8, y + (middle - y) * at / 8) for at in range(1, 8)]
    return [Box(left - 2, top - 2, left + 2, top + 2) for left, top in bits]


def _candidate(
    x: float,
    y: float,
    width: float,
    height: float,
    radius: float,
    direction: tuple[str, float, float],
) -> tuple[Label, float]:
    anchor, right, down = direction
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
    """One option that has both numbers.

    Attributes:
        at: its place in the table of options.
        risk: a share; a limit that is not known lies at the value.
        lost: utility lost against the baseline, paired; 0 without an interval for the baseline.
    """

    at: int
    name: str
    risk: tuple[float, float, float]
    lost: tuple[float, float, float]
    proven: bool
    recommended: bool
    words: str


@dataclass(frozen=True)
class Axis:
    """From a value to a place on the page; the ends may be cut, so values are clamped."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def part(self, value: float) -> float:
        """Where a value lies between the ends, 0 to 1."""
        if self.log:
            found = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            found = (value - self.low) / (self.high - self.low)
        return min(max(found, 0.0), 1.0)

    def __call__(self, value: float) -> float:
        return self.start + self.part(value) * (self.end - self.start)

    def ticks(self, wanted: int) -> list[float]:
        """Round numbers on the axis."""
        round_numbers = svg.log_ticks if self.log else svg.ticks
        return round_numbers(self.low, self.high, wanted)


def points(room: Room[Any]) -> list[Point]:
    """The options that can stand on the plane."""
    found = []
    for at, one in enumerate(room.document.candidates):
        risk, lost = room.risk_shown(one), one.utility_loss
        if one is room.base and lost is None:
            lost = Estimate(0.0, 0.0, 0.0, 0.95, "", 0)
        if not (isinstance(risk, Estimate) and isinstance(lost, Estimate)):
            continue
        if risk.value is None or lost.value is None:
            continue
        proven = bool(room.proofs(one.name))
        label = say("label.proven" if proven else "label.measured")
        words = {"risk": share(risk), "lost": room.utility.loss(lost), "label": label}
        said = say("chart.point", name=one.name, **words)
        best = one is room.recommended
        found.append(Point(at, one.name, _ends(risk), _ends(lost), proven, best, said))
    return found


def frontier_chart(room: Room[Any]) -> Chart | None:
    """The chart for a wide page and for a phone; None if no option tried has both numbers."""
    drawn = points(room)
    base = room.base and room.base.name
    priced = any(point.name != base for point in drawn)
    if not drawn or (len(room.document.candidates) > 1 and not priced):
        return None
    wide, narrow = _draw(room, drawn, 620, 380), _draw(room, drawn, 360, 400)
    draw = partial(as_figure, partial(_figure, room, drawn))
    return Chart(say("chart.frontier"), "frontier", wide, draw, narrow)


def _ends(found: Estimate) -> tuple[float, float, float]:
    value = found.value or 0.0
    low, high = (value if end is None else end for end in (found.low, found.high))
    return low, value, high


def _risk_axis(drawn: Sequence[Point], chance: float, start: float, end: float) -> Axis:
    """From 0, or logarithmic where the options lie far apart."""
    upper = max(point.risk[2] for point in drawn)
    lowest = min(point.risk[1] for point in drawn)
    if lowest > 0 and upper / lowest > _LOG_FROM:
        low = min(max(point.risk[0], lowest / 4) for point in drawn)
        return Axis(min(low, chance or low) / 1.15, upper * 1.1, start, end, log=True)
    lower = min(0.0, *(point.risk[0] for point in drawn))
    return Axis(1.06 * lower, max(upper, chance) * 1.06 or 1.0, start, end)


def _draw(room: Room[Any], drawn: Sequence[Point], width: int, height: int) -> str:
    narrow = width < 500
    frame = Box(62, 30, width - 14, height - 76)
    x, y = _axes(room, drawn, frame)
    guess = _guess(x, _obstacles(x, y, drawn), room.chance, frame)
    parts = [
        _grid(room, x, y, frame, narrow),
        _chance(x, frame, room.chance, guess),
        _limit(frame),
        *[_mark(x, y, point) for point in sorted(drawn, key=lambda one: one.recommended)],
        _labels(x, y, drawn, guess, frame, narrow),
        _legend(drawn, frame, height),
    ]
    return svg.element(
        "svg",
        *parts,
        class_="chart frontier-chart",
        viewBox=f"0 0 {width} {height}",
        role="group",
        aria_label=say("chart.frontier.label"),
        data_start=frame.left,
        data_end=frame.right,
        data_low=f"{x.low:.8g}",
        data_high=f"{x.high:.8g}",
        data_log="1" if x.log else "0",
    )


def _figure(room: Room[Any], drawn: Sequence[Point], slots: Slots) -> Figure:
    """The wide chart in matplotlib: the same axes, marks, intervals and places of names."""
    utility, (width, height) = room.utility, (620.0, 400.0)
    frame = Box(62, 12, width - 14, height - 78)
    x, y = _axes(room, drawn, frame)
    figure, axes = new_axes(width, height, (62.0, 14.0, 12.0, 78.0))
    axes.set_xscale("log" if x.log else "linear")
    axes.set_xlim(x.low, x.high)
    axes.set_ylim(y.high, y.low)
    axes.set_xticks(x.ticks(6), [share_words(tick) for tick in x.ticks(6)])
    scale = 100 if utility.shares else 1
    axes.set_yticks(y.ticks(5), [significant(scale * tick, 3) for tick in y.ticks(5)])
    axes.minorticks_off()
    guess = _guess(x, _obstacles(x, y, drawn), room.chance, frame)
    if guess is not None:
        axes.axvline(room.chance, color=COLOURS["muted"], lw=1, dashes=DASHES["dotted"])
        _note(axes, say("chart.guess"), guess.left, guess.bottom - 4, height, "muted")
    for point in sorted(drawn, key=lambda one: one.recommended):
        colour = "after" if point.proven else "before" if point.recommended else "muted"
        (left, risk, right), (top, lost, bottom) = point.risk, point.lost
        left, risk = max(left, x.low), max(risk, x.low)
        axes.plot([left, right], [lost, lost], color=COLOURS[colour], lw=1)
        axes.plot([risk, risk], [top, bottom], color=COLOURS[colour], lw=1)
        label = "recommended" if point.recommended else "proven" if point.proven else "measured"
        axes.plot(
            [risk],
            [lost],
            "s" if point.proven else "o",
            ms=8,
            mew=1.6,
            color=COLOURS[colour],
            mfc=COLOURS[colour] if point.recommended else "white",
            ls="none",
            label=say(f"label.{label}"),
            zorder=4,
        )
    for point, spot in _named(x, y, drawn, guess, frame):
        if spot.leader:
            middle = (spot.box.top + spot.box.bottom) / 2
            start = x(point.risk[1]), y(point.lost[1])
            end = min(max(start[0], spot.box.left), spot.box.right)
            ends = [[place / width for place in (start[0], end)], [1 - start[1] / height]]
            ends[1].append(1 - middle / height)
            line = axes.plot(*ends, color=COLOURS["muted"], lw=0.7, transform=figure.transFigure)
            line[0].set_clip_on(False)
        _note(axes, slots.put(point.name, 26), spot.x, spot.y, height, "ink", spot.anchor)
    key = "chart.lost.points" if utility.shares else "chart.lost.plain"
    axes.set_xlabel(say("chart.risk", risk=say(room.risk_head)))
    axes.set_ylabel(say(key, name=utility.name))
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axes.legend(
        once.values(),
        once.keys(),
        loc="upper left",
        bbox_to_anchor=(0, -0.13),
        ncols=3,
        frameon=False,
    )
    return figure


def _note(
    axes: Axes,
    words: str,
    right: float,
    down: float,
    height: float,
    colour: str,
    anchor: str = "start",
) -> None:
    """Words at a place of the page, in points from the upper left corner."""
    aligned: Literal["left", "center", "right"] = "left"
    if anchor != "start":
        aligned = "center" if anchor == "middle" else "right"
    axes.annotate(
        words,
        (right, height - down),
        xycoords="figure points",
        ha=aligned,
        color=COLOURS[colour],
        annotation_clip=False,
    )


def _axes(room: Room[Any], drawn: Sequence[Point], frame: Box) -> tuple[Axis, Axis]:
    """Risk to the right, utility lost downwards."""
    x = _risk_axis(drawn, room.chance, frame.left, frame.right)
    low = min(point.lost[0] for point in drawn)
    high = max(point.lost[2] for point in drawn)
    pad = 0.06 * (high - low) or 0.01
    return x, Axis(low - pad, high + pad, frame.top, frame.bottom)  # less lost = further up


def _grid(room: Room[Any], x: Axis, y: Axis, frame: Box, narrow: bool) -> str:
    utility, parts = room.utility, []
    for tick in y.ticks(5):
        at = y(tick)
        said = significant(100 * tick, 3) if utility.shares else significant(tick, 3)
        parts.append(
            svg.element("line", class_="grid", x1=frame.left, x2=frame.right, y1=at, y2=at)
        )
        parts.append(svg.text(said, frame.left - 7, at + 4, text_anchor="end"))
    for tick in x.ticks(4 if narrow else 6):
        at = x(tick)
        parts.append(
            svg.element("line", class_="tick", x1=at, x2=at, y1=frame.bottom, y2=frame.bottom + 5)
        )
        parts.append(svg.text(share_words(tick), at, frame.bottom + 19, text_anchor="middle"))
    parts.append(
        svg.element(
            "line", class_="axis", x1=frame.left, x2=frame.right, y1=frame.bottom, y2=frame.bottom
        )
    )
    key = "chart.lost.points" if utility.shares else "chart.lost.plain"
    up, along = say(key, name=utility.name), say("chart.risk", risk=say(room.risk_head))
    parts.append(svg.text(up, frame.left, frame.top - 12, class_="title"))
    parts.append(svg.text(along, frame.right, frame.bottom + 38, class_="title", text_anchor="end"))
    return "".join(parts)


def _guess(x: Axis, obstacles: Sequence[Box], chance: float, frame: Box) -> Box | None:
    """Where "random guess" stands beside its line: the lowest place that nothing else takes."""
    if not chance or not x.low <= chance <= x.high:
        return None
    left, width = x(chance) + 5, len(say("chart.guess")) * _CHARACTER
    tops = range(int(frame.bottom - _LINE), int(frame.top), -int(_LINE))
    boxes = [Box(left, top, left + width, top + _LINE) for top in tops]
    free = (box for box in boxes if not any(box.overlap(other) for other in obstacles))
    return next(free, boxes[0])


def _chance(x: Axis, frame: Box, chance: float, guess: Box | None) -> str:
    if guess is None:
        return ""
    at = x(chance)
    return svg.element(
        "g",
        svg.element("line", x1=at, x2=at, y1=frame.top, y2=frame.bottom),
        svg.text(say("chart.guess"), guess.left, guess.bottom - 4),
        class_="chance",
    )


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


def _shape(at_x: float, at_y: float, proven: bool, filled: bool) -> str:
    """A square for what is proven, a circle for what is measured; filled = recommended."""
    style = "mark filled" if filled else "mark"
    if proven:
        return svg.element(
            "rect", class_=style, x=at_x - 5.0, y=at_y - 5.0, width=10.0, height=10.0
        )
    return svg.element("circle", class_=style, cx=at_x, cy=at_y, r=5.0)


def _mark(x: Axis, y: Axis, point: Point) -> str:
    at_x, at_y = x(point.risk[1]), y(point.lost[1])
    left, right = x(point.risk[0]), x(point.risk[2])
    top, bottom = y(point.lost[0]), y(point.lost[2])
    kinds = ["proven" if point.proven else "measured", *(["best"] * point.recommended)]
    return svg.element(
        "g",
        svg.element("title", svg.escape(point.words)),
        svg.element(
            "path",
            class_="interval",
            d=f"M{svg.number(left)} {svg.number(at_y)}H{svg.number(right)}"
            f"M{svg.number(at_x)} {svg.number(top)}V{svg.number(bottom)}",
        ),
        _shape(at_x, at_y, point.proven, point.recommended),
        class_=f"point {' '.join(kinds)}",
        tabindex=0,
        role="img",
        aria_label=point.words,
        data_at=point.at,
    )


def _legend(drawn: Sequence[Point], frame: Box, height: int) -> str:
    """What the shapes mean, in the figure itself, so that it explains itself on its own."""
    entries = [("measured", False, False)]
    if any(point.proven for point in drawn):
        entries.append(("proven", True, False))
    if any(point.recommended for point in drawn):
        entries.append(("recommended", False, True))
    parts, at = [], frame.left + 5
    for key, proven, filled in entries:
        word = say(f"label.{key}")
        kind = "best" if filled else "proven" if proven else "measured"
        parts.append(
            svg.element(
                "g",
                _shape(at, height - 10.0, proven, filled),
                svg.text(word, at + 10, height - 6),
                class_=f"legend {kind}",
            )
        )
        at += 34 + _CHARACTER * len(word)
    return "".join(parts)


def _named(
    x: Axis,
    y: Axis,
    drawn: Sequence[Point],
    guess: Box | None,
    frame: Box,
    words: Callable[[Point], str] = lambda point: svg.shorten(point.name, 26),
) -> list[tuple[Point, Label]]:
    """Which points get their words beside them, and where."""
    shown = sorted(drawn, key=lambda one: (not one.recommended, not one.proven, one.at))
    shown = shown if len(drawn) <= _MOST_LABELS else shown[:_MOST_LABELS]
    centres = [(x(one.risk[1]), y(one.lost[1])) for one in shown]
    widths = [len(words(one)) * _CHARACTER for one in shown]
    obstacles = _obstacles(x, y, drawn)
    if guess is not None:
        obstacles.append(guess)
    spots = place(centres, widths, _LINE, frame, obstacles)
    # The table beside the chart and the point's own title name those that are left out.
    return [(point, spot) for point, spot in zip(shown, spots, strict=True) if spot is not None]


def _labels(
    x: Axis, y: Axis, drawn: Sequence[Point], guess: Box | None, frame: Box, narrow: bool
) -> str:
    def words(point: Point) -> str:
        # A phone has no room for names: numbers stand for them, as in the table of options.
        return str(point.at + 1) if narrow else svg.shorten(point.name, 26)

    parts = []
    for point, spot in _named(x, y, drawn, guess, frame, words):
        line, at_x, at_y = "", x(point.risk[1]), y(point.lost[1])
        if spot.leader:
            middle = (spot.box.top + spot.box.bottom) / 2
            end = min(max(at_x, spot.box.left), spot.box.right)
            line = svg.element("line", class_="leader", x1=at_x, y1=at_y, x2=end, y2=middle)
        parts.append(
            svg.element(
                "g",
                line,
                svg.text(words(point), spot.x, spot.y, text_anchor=spot.anchor),
                class_=f"label {'best' if point.recommended else ''}".strip(),
                data_at=point.at,
                aria_hidden="true",
            )
        )
    return "".join(parts)


def _obstacles(x: Axis, y: Axis, drawn: Sequence[Point]) -> list[Box]:
    boxes = []
    for point in drawn:
        at_x, at_y = x(point.risk[1]), y(point.lost[1])
        boxes.append(Box(at_x - 9, at_y - 9, at_x + 9, at_y + 9))
        boxes.append(Box(x(point.risk[0]), at_y - 2, x(point.risk[2]), at_y + 2))
        boxes.append(Box(at_x - 2, y(point.lost[0]), at_x + 2, y(point.lost[2])))
    return boxes
