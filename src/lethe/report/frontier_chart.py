"""The frontier: utility lost against risk, every point with its interval in both directions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from lethe.evidence.estimate import Estimate
from lethe.report import static_svg as svg
from lethe.report.catalogue import say
from lethe.report.first_screen import Room
from lethe.report.numbers import share, share_words, significant
from lethe.report.sections import Chart
from lethe.report.static_svg import COLOURS, DASHES, Slots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

Anchor = Literal["left", "center", "right"]
_SPOTS: Sequence[tuple[Anchor, float, float]] = (
    *(("left", 0.7, -0.8), ("left", 0.7, 0.8), ("right", -0.7, -0.8), ("right", -0.7, 0.8)),
    *(("center", 0, -1), ("center", 0, 1), ("left", 1, 0), ("right", -1, 0)),
)
_RADII = (9, 15, 24)


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
        return max(wide, 0.0) * max(high, 0.0)

    def gap(self, x: float, y: float) -> float:
        """The distance to a point."""
        return math.hypot(
            max(self.left - x, x - self.right, 0.0), max(self.top - y, y - self.bottom, 0.0)
        )


@dataclass(frozen=True)
class Label:
    """A text and its anchor point."""

    text: str
    x: float
    y: float
    anchor: Anchor
    box: Box


def place(
    points: Sequence[tuple[float, float]],
    texts: Sequence[Sequence[str]],
    frame: Box,
    obstacles: Sequence[Box],
) -> list[Label | None]:
    """Place a text beside each point, the first ones first; None where there is no room.

    No text stands nearer to another point than to its own, unless its shortest has no other place.

    Args:
        points: the centres to label.
        texts: of each point, the ones to try, the best first and the shortest last.
        frame: the area that labels must stay in.
        obstacles: what labels should not cover, such as marks and interval lines.
    """
    placed: list[Label | None] = []
    for at, (x, y) in enumerate(points):
        taken = [label.box for label in placed if label is not None]
        others = [point for point in points if point != (x, y)]
        spots: list[tuple[float, Label]] = []
        for text, clear in [*((text, True) for text in texts[at]), (texts[at][-1], False)]:
            width = len(text) * _CHARACTER
            for radius in _RADII:
                for anchor, right, down in _SPOTS:
                    across, middle = x + right * radius, y + down * radius
                    left = across - {"left": 0.0, "center": width / 2, "right": width}[anchor]
                    box = Box(left - 4, middle - _LINE / 2, left + width + 4, middle + _LINE / 2)
                    inside = box.overlap(frame) > 0.999 * (width + 8) * _LINE
                    if not inside or any(box.overlap(other) for other in taken):
                        continue
                    if clear and any(box.gap(*other) < box.gap(x, y) + 6 for other in others):
                        continue
                    covered = sum(box.overlap(other) for other in obstacles)
                    label = Label(text, across, middle + _LINE * 0.3, anchor, box)
                    spots.append((covered + 2 * radius, label))
            if spots:
                break
        placed.append(min(spots, key=lambda spot: spot[0])[1] if spots else None)
    return placed


_LOG_FROM = 40.0
_CHARACTER = 7.0
_LINE = 15.0
_NEAR = 7.0  # marks that cover each other share a label
_WIDE, _NARROW = (500.0, 270.0), (svg.WIDTH, 330.0)  # of the page, and of a phone
_LEFT, _RIGHT, _TOP, _BOTTOM = 92.0, 20.0, 8.0, 76.0


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
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0)

    def __call__(self, value: float) -> float:
        return self.start + self.part(value) * (self.end - self.start)

    def ticks(self, wanted: int) -> list[float]:
        """Round numbers on the axis."""
        from matplotlib.ticker import MaxNLocator

        if self.log:
            return svg.log_ticks(self.low, self.high, wanted)
        ticks = MaxNLocator(wanted + 2, steps=[1, 2, 5, 10]).tick_values(self.low, self.high)
        return [round(float(tick), 12) for tick in ticks if self.low <= tick <= self.high]


def points(room: Room[Any]) -> list[Point]:
    """The options that can stand on the plane."""
    marks = []
    for place, row in enumerate(room.document.candidates):
        risk, lost = room.risk_shown(row), row.utility_loss
        if row is room.base and lost is None:
            lost = Estimate(0.0, 0.0, 0.0, 0.95, "", 0)
        if not (isinstance(risk, Estimate) and isinstance(lost, Estimate)):
            continue
        if risk.value is None or lost.value is None:
            continue
        proven = bool(room.proofs(row.name))
        label = say("label.proven" if proven else "label.measured")
        words = {"risk": share(risk), "lost": room.utility.loss(lost), "label": label}
        text = say("chart.point", name=row.name, **words)
        ends = svg.ends_of(risk), svg.ends_of(lost)
        marks.append(Point(place, row.name, *ends, proven, row is room.recommended, text))
    return marks


def frontier_chart(room: Room[Any]) -> Chart | None:
    """The chart for a wide page and for a phone; None if no option tried has both numbers."""
    drawn = points(room)
    base = room.base and room.base.name
    if len(drawn) < 2 or all(point.name == base for point in drawn):
        return None
    wide, narrow = (_inline(room, drawn, size) for size in (_WIDE, _NARROW))
    draw = partial(svg.as_figure, partial(_figure, room, drawn, _WIDE))
    return Chart(say("chart.frontier"), "frontier", wide, draw, narrow)


def _inline(room: Room[Any], drawn: Sequence[Point], size: tuple[float, float]) -> str:
    """The figure as an element of the page, with what the slider and the keyboard need."""
    (x, y), slots = _axes(room, drawn, size), Slots()
    with svg.plain_style():
        figure = _figure(room, drawn, size, slots)
        parts = {}
        for point in drawn:
            words, at = slots.put(point.words, 400), f'data-at="{point.at}"'
            spoken = f'tabindex="0" role="img" aria-label="{words}"><title>{words}</title>'
            parts[f"mark-{point.at}"] = f'class="point" {at} {spoken}'
            parts[f"interval-{point.at}"] = f'class="point" {at}>'
            parts[f"label-{point.at}"] = f'class="label" {at} aria-hidden="true">'
        parts["label-several"] = 'class="label" aria-hidden="true">'
        name = f"frontier{size[0]:g}-"
        text = svg.inline(figure, name, say("chart.frontier.label"), slots, parts)
    head = (
        f'class="chart static frontier-chart" data-start="{x.start:g}" '
        f'data-end="{x.end:g}" data-low="{x.low:.8g}" data-high="{x.high:.8g}" '
        f'data-log="{x.log:d}" '
    )
    ends = f'y1="{y.start:g}" y2="{y.end:g}"'
    limit = (  # the line of the slider; the script shows and moves it
        f'<g class="limit" visibility="hidden"><rect y="{y.start:g}" width="0" '
        f'height="{y.end - y.start:g}"></rect><line {ends}></line></g>'
    )
    text = text.replace('class="chart static" ', head, 1).replace('role="img"', 'role="group"', 1)
    return f"{text.removesuffix('</svg>')}{limit}</svg>"


def _figure(
    room: Room[Any], drawn: Sequence[Point], size: tuple[float, float], slots: Slots
) -> Figure:
    """Marks with intervals in both directions, names beside them, a line at a random guess."""
    utility, (width, height), narrow = room.utility, size, size == _NARROW
    x, y = _axes(room, drawn, size)
    figure, axes = svg.new_axes(width, height, (_LEFT, _RIGHT, _TOP, _BOTTOM))
    axes.set_xscale("log" if x.log else "linear")
    axes.set_xlim(x.low, x.high)
    axes.set_ylim(y.high, y.low)
    along = x.ticks(4 if narrow else 6)
    axes.set_xticks(along, [share_words(tick) for tick in along])
    scale = 100 if utility.shares else 1
    axes.set_yticks(y.ticks(5), [significant(scale * tick, 3) for tick in y.ticks(5)])
    axes.minorticks_off()
    labels_of_marks = _labels(x, y, drawn, narrow)
    boxes = [*_obstacles(x, y, drawn), *(spot.box for _, spot in labels_of_marks)]
    guess = _guess(x, y, boxes, room.chance)
    if guess is not None:
        axes.axvline(room.chance, color=COLOURS["muted"], lw=1, dashes=DASHES["dotted"])
        _note(axes, say("chart.guess"), guess.left, guess.bottom - 4, height, "muted")
    for point in sorted(drawn, key=lambda mark: mark.recommended):
        colour = "after" if point.proven else "before" if point.recommended else "muted"
        (left, risk, right), (top, lost, bottom) = point.risk, point.lost
        left, risk = max(left, x.low), max(risk, x.low)
        interval = f"interval-{point.at}"
        axes.plot([left, right], [lost, lost], color=COLOURS[colour], lw=1, gid=interval)
        axes.plot([risk, risk], [top, bottom], color=COLOURS[colour], lw=1, gid=interval)
        label = "chart.proven" if point.proven else "label.measured"
        axes.plot(
            [risk],
            [lost],
            "s" if point.proven else "o",
            ms=8,
            mew=1.6,
            color=COLOURS[colour],
            mfc=COLOURS[colour] if point.recommended else COLOURS["paper"],
            ls="none",
            label=say("label.recommended" if point.recommended else label),
            zorder=4,
            clip_on=False,
            gid=f"mark-{point.at}",
        )
    for gid, spot in labels_of_marks:
        note = _note(axes, slots.put(spot.text, 40), spot.x, spot.y, height, "ink", spot.anchor)
        note.set_gid(gid)
    key = "chart.lost.points" if utility.shares else "chart.lost.plain"
    axes.set_xlabel(say("chart.risk", risk=say(room.risk_head)))
    axes.set_ylabel(say(key, name=utility.name))
    svg.label_in_lines(axes.xaxis, x.end - x.start)
    svg.label_in_lines(axes.yaxis, y.end - y.start)
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axes.legend(
        once.values(),
        once.keys(),
        loc="lower left",
        bbox_to_anchor=(0, 0),
        bbox_transform=figure.transFigure,
        ncols=3,
        columnspacing=1.0,
        handletextpad=0.3,
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
    anchor: Anchor = "left",
) -> Annotation:
    """Words at a place of the page, in points from the upper left corner."""
    return axes.annotate(
        words,
        (right, height - down),
        xycoords="figure points",
        ha=anchor,
        color=COLOURS[colour],
        annotation_clip=False,
    )


def _axes(room: Room[Any], drawn: Sequence[Point], size: tuple[float, float]) -> tuple[Axis, Axis]:
    """Risk to the right, logarithmic where the options lie far apart; utility lost downwards."""
    low = min(point.lost[0] for point in drawn)
    high = max(point.lost[2] for point in drawn)
    pad = 0.06 * (high - low) or 0.01
    y = Axis(low - pad, high + pad, _TOP, size[1] - _BOTTOM)  # less lost = further up
    ends, chance = (_LEFT, size[0] - _RIGHT), room.chance
    upper = max(point.risk[2] for point in drawn)
    lowest = min(point.risk[1] for point in drawn)
    if lowest > 0 and upper / lowest > _LOG_FROM:
        low = min(max(point.risk[0], lowest / 4) for point in drawn)
        return Axis(min(low, chance or low) / 1.15, upper * 1.1, *ends, log=True), y
    lower = min(0.0, *(point.risk[0] for point in drawn))
    return Axis(1.06 * lower, max(upper, chance) * 1.06 or 1.0, *ends), y


def _guess(x: Axis, y: Axis, obstacles: Sequence[Box], chance: float) -> Box | None:
    """Where "random guess" stands beside its line: the lowest place that nothing else takes."""
    if not chance or not x.low <= chance <= x.high:
        return None
    left, width = x(chance) + 5, len(say("chart.guess")) * _CHARACTER
    tops = range(int(y.end - _LINE), int(y.start), -int(_LINE))
    boxes = [Box(left, top, left + width, top + _LINE) for top in tops]
    free = (box for box in boxes if not any(box.overlap(other) for other in obstacles))
    return next(free, boxes[0])


def _labels(x: Axis, y: Axis, drawn: Sequence[Point], narrow: bool) -> list[tuple[str, Label]]:
    """Labels of the marks and what each is called in the figure.

    An option has its number in the table of options, and its name where there is room; those whose
    marks cover each other share a label.
    """
    groups: dict[tuple[float, float], list[Point]] = {}
    for point in sorted(drawn, key=lambda mark: (not mark.recommended, not mark.proven, mark.at)):
        centre = x(point.risk[1]), y(point.lost[1])
        near = next((other for other in groups if math.dist(centre, other) < _NEAR), centre)
        groups.setdefault(near, []).append(point)
    texts = []
    for group in groups.values():
        numbers = ", ".join(str(at + 1) for at in sorted(point.at for point in group))
        name = f"{numbers} {svg.shorten(group[0].name, 26)}"
        texts.append([numbers] if narrow or len(group) > 1 else [name, numbers])
    frame = Box(x.start, y.start, x.end, y.end)
    spots = place(list(groups), texts, frame, _obstacles(x, y, drawn))
    return [
        (f"label-{group[0].at}" if len(group) == 1 else "label-several", spot)
        for group, spot in zip(groups.values(), spots, strict=True)
        if spot is not None
    ]


def _obstacles(x: Axis, y: Axis, drawn: Sequence[Point]) -> list[Box]:
    boxes = []
    for point in drawn:
        at_x, at_y = x(point.risk[1]), y(point.lost[1])
        boxes.append(Box(at_x - 9, at_y - 9, at_x + 9, at_y + 9))
        boxes.append(Box(x(point.risk[0]), at_y - 2, x(point.risk[2]), at_y + 2))
        boxes.append(Box(at_x - 2, y(point.lost[0]), at_x + 2, y(point.lost[2])))
    return boxes
