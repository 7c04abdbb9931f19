"""Matplotlib figures as inline SVG: small, free of the machine, and legible on dark paper.

Colours are drawn as agreed codes and become CSS variables, so that the page's style decides
them. Words that come from data never pass through matplotlib (it would read ``$`` as mathematics
and measure them with the fonts of the machine): a slot stands for them until the end.
"""

from __future__ import annotations

import contextlib
import html
import io
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from lethe.evidence.estimate import Estimate
from lethe.report.catalogue import say
from lethe.report.sections import Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


# SVG elements as escaped text, and axes with round numbers.


def escape(text: str) -> str:
    """Text for an element or an attribute; control characters, which XML forbids, go."""
    return html.escape("".join(c for c in text if c >= " " or c in "\t\n"), quote=True)


def shorten(text: str, length: int) -> str:
    """At most `length` characters.

    >>> shorten("weighted-noise", 9)
    'weighted…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


def log_ticks(low: float, high: float, wanted: int = 7) -> list[float]:
    """1, 2 and 5 of each decade, or the decades alone where those would be far too many.

    >>> log_ticks(0.009, 0.3)
    [0.01, 0.02, 0.05, 0.1, 0.2]
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if 3 * math.log10(high / low) <= wanted + 3 else (1,)
    every = [round(m * 10.0**d, 12) for d in decades for m in steps]
    return [tick for tick in every if low <= tick <= high]


COLOURS = {
    "ink": "#111213",
    "muted": "#717273",
    "grid": "#d1d2d3",
    "before": "#0072b2",
    "after": "#d55e00",
    "paper": "#fefdfe",
}
FONT_SIZE = 12.0
WIDTH = 358.0
"""Of a chart, in points: on a phone of 390 pixels a point is a pixel, so no text is under 12."""


@dataclass
class Slots:
    """Words from data, each behind a name that is safe to draw.

    Attributes:
        words: that were put in.
        plain: the figure is for Python, not for the page: the words themselves are drawn.
    """

    words: list[str] = field(default_factory=list)
    plain: bool = False

    def put(self, words: str, length: int = 24) -> str:
        """A stand-in for `words`."""
        if self.plain:  # a legend leaves out what begins with an underscore
            return re.sub("^_", " _", shorten(words, length))
        self.words.append(shorten(words, length))
        return f"slot{len(self.words) - 1:05d}end"

    def fill(self, text: str) -> str:
        """The text with the words back in, escaped."""
        return re.sub(r"slot(\d{5})end", lambda m: escape(self.words[int(m[1])]), text)


@contextlib.contextmanager
def plain_style() -> Iterator[None]:
    """Matplotlib as it comes, whatever the user's matplotlibrc says."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "svg.hashsalt": "lethe",
                "svg.fonttype": "none",
                "font.family": "sans-serif",
                "font.sans-serif": ["DejaVu Sans"],
                "font.size": FONT_SIZE,
                "text.parse_math": False,
                "axes.edgecolor": COLOURS["muted"],
                "axes.labelcolor": COLOURS["ink"],
                "axes.spines.top": False,
                "axes.spines.right": False,
                "axes.grid": True,
                "axes.axisbelow": True,
                "grid.color": COLOURS["grid"],
                "grid.linewidth": 0.6,
                "xtick.color": COLOURS["muted"],
                "ytick.color": COLOURS["muted"],
                "xtick.labelcolor": COLOURS["ink"],
                "ytick.labelcolor": COLOURS["ink"],
                "text.color": COLOURS["ink"],
            }
        )
        yield


def new_axes(
    width: float = WIDTH,
    height: float = 260.0,
    margins: tuple[float, float, float, float] = (64.0, 22.0, 10.0, 46.0),
    *,
    x: str = "",
    y: str = "",
) -> tuple[Figure, Axes]:
    """A transparent figure with one set of axes; sizes in points, margins left, right, top, bottom.

    Margins are given, not fitted: fitting would measure text with the fonts of the machine. `x` and
    `y` are keys of the catalogue: what the axes show.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), facecolor="none")
    FigureCanvasSVG(figure)
    left, right, top, bottom = margins
    axes = figure.add_axes(
        (
            left / width,
            bottom / height,
            1 - (left + right) / width,
            1 - (top + bottom) / height,
        )
    )
    axes.set_facecolor("none")
    axes.tick_params(length=3)
    axes.set_xlabel(say(x) if x else "")
    axes.set_ylabel(say(y) if y else "")
    return figure, axes


if TYPE_CHECKING:
    Draw = Callable[[Slots], Figure | None]


def chart(title: str, name: str, prefix: str, label: str, draw: Draw) -> list[Chart]:
    """A matplotlib chart, for the page and for Python; empty where there is nothing to draw.

    Args:
        title: as in `Chart`, as is `name`.
        prefix: as in `inline`, as is `label`.
        draw: the figure; words from data pass through the slots.
    """
    with plain_style():
        slots = Slots()
        figure = draw(slots)
        if figure is None:
            return []
        fit(figure)
        svg = inline(figure, prefix, label, slots)
    return [Chart(title, name, svg, partial(as_figure, draw))]


def charts_of_data(
    painters: Mapping[str, Callable[[Any, Slots], Figure | None]],
    data: Any,
    prefix: str = "",
    ids: str = "v",
) -> dict[str, Chart]:
    """The charts that `data` has something to draw for, by name; the catalogue has their titles.

    Args:
        painters: by name, a function of the data and the slots.
        prefix: of the names of the charts, as is `ids` of the ids in the page.
    """
    return {
        name: drawn
        for name, draw in painters.items()
        for drawn in chart(
            say(f"chart.{name}"),
            f"{prefix}{name}",
            f"{ids}{prefix}{name}-",
            say(f"chart.{name}.label"),
            partial(draw, data),
        )
    }


def as_figure(draw: Draw) -> Figure:
    """The figure on white, with the words from data in it."""
    with plain_style():
        figure = draw(Slots(plain=True))
        assert figure is not None  # `chart` has drawn it before
        fit(figure)
        figure.set_facecolor("white")
        figure.draw_without_rendering()  # ticks are made here, in this style
        return figure


def inline(
    figure: Figure,
    prefix: str,
    label: str,
    slots: Slots | None = None,
    parts: Mapping[str, str] | None = None,
) -> str:
    """The figure as an ``<svg>`` element for an HTML page.

    Args:
        figure: drawn within `plain_style`.
        prefix: unique in the page; it keeps the ids of several figures apart.
        label: what the figure shows, for those who cannot see it.
        slots: the words from data that go into it.
        parts: by the gid of an artist, what follows ``<g`` in its place.
    """
    # The label goes through a slot as well: the edits below must not touch words from data.
    slots = slots or Slots()
    said = slots.put(label, 400)
    buffer = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", text, flags=re.S)
    box = re.search(r'viewBox="([^"]*)"', text)
    head = (
        f'<svg class="chart static" viewBox="{box[1] if box else ""}" role="img" '
        f'aria-label="{said}">'
    )
    text = head + text[text.index(">") + 1 :]
    text = text.replace("xlink:href", "href")
    text = re.sub(r"(font-family: [^;\"]*;? ?)", "", text)
    text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
    for name, code in COLOURS.items():
        text = text.replace(code, f"var(--{name})")
    for gid, attributes in (parts or {}).items():
        text = text.replace(f'<g id="{gid}">', f"<g {attributes}")
    text = _only_used_ids(text, prefix)
    # Coordinates have six decimals; tick labels such as 0.01 % never have four.
    text = re.sub(r"-?\d+\.\d{4,}", lambda m: f"{float(m[0]):.1f}", text)
    text = re.sub(r"\s*\n\s*", " ", text).replace("> <", "><").replace(' "', '"')
    text = re.sub(r"<defs></defs>", "", text)
    return slots.fill(text)


# Light paper, for files; in the page its style decides the colours.
_PAPER = {
    "ink": "#16202a",
    "muted": "#55616d",
    "grid": "#e6e9ec",
    "before": "#0072b2",
    "after": "#d55e00",
    "paper": "#fff",
}


def on_paper(svg: str) -> str:
    """A chart of the page as a file of its own: with colours, and the names of its shapes."""
    for name, code in _PAPER.items():
        svg = svg.replace(f"var(--{name})", code)
    if "xmlns=" not in svg.split(">", 1)[0]:
        svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return f"{svg}\n"


def _only_used_ids(text: str, prefix: str) -> str:
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda m: f' id="{prefix}{m[1]}"' if m[1] in used else "", text)
    return re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", text)


# What static figures draw alike: dashes for those who see no colour, bands, rows.

DASHES: Mapping[str, tuple[int, ...]] = {
    "solid": (),
    "dashed": (5, 2),
    "dotted": (1, 2),
    "chain": (6, 2, 1, 2),
}


def band(
    axes: Axes,
    places: Sequence[float],
    measured: Sequence[Any],
    colour: str,
    dashes: str,
    label: str,
    *,
    logarithmic: bool = False,
) -> None:
    """A line through estimates, and their intervals behind it.

    Args:
        axes: to draw on.
        places: on the x axis.
        measured: estimates; a limit that is None is drawn at the value.
        colour: a name in `COLOURS`.
        dashes: a name in `DASHES`.
        label: in the legend.
        logarithmic: the axis has no place for 0: lower limits end at a twentieth of the value.
    """
    values, low, high = (
        [getattr(row, end) for row in measured] for end in ("value", "low", "high")
    )
    high = [value if end is None else end for value, end in zip(values, high, strict=True)]
    if logarithmic:
        low = [
            max(end or 0.0, (value or 0.0) / 20, 1e-9)
            for value, end in zip(values, low, strict=True)
        ]
    low = [value if end is None else end for value, end in zip(values, low, strict=True)]
    axes.fill_between(places, low, high, color=COLOURS[colour], alpha=0.15, lw=0)
    axes.plot(places, values, color=COLOURS[colour], lw=1.6, dashes=DASHES[dashes], label=label)


def ends_of(found: Estimate) -> tuple[float, float, float]:
    """Lower limit, value and upper limit; a limit that is not known lies at the value."""
    value = found.value or 0.0
    low, high = (value if end is None else end for end in (found.low, found.high))
    return low, value, high


def interval(axes: Axes, y: float, found: Any, colour: str, mark: str, label: str = "") -> None:
    """A mark at an estimate and a line over its interval, at one height."""
    if getattr(found, "value", None) is not None:
        low, value, high = ends_of(found)
        axes.plot([low, high], [y, y], color=COLOURS[colour], lw=1.4)
        axes.plot([value], [y], mark, ms=5, color=COLOURS[colour], label=label)


def figure_of_rows(names: Sequence[str], x: str = "") -> tuple[Figure, Axes]:
    """Axes with a row for each name, the first on top at 0, the next at -1.

    Args:
        names: above each row, so that a phone has room for both; words from data as slots.
        x: as in `new_axes`.
    """
    figure, axes = new_axes(WIDTH, 38.0 * len(names) + 56.0, (18.0, 22.0, 10.0, 46.0), x=x)
    axes.set_yticks([])
    for at, name in enumerate(names):
        across = axes.get_yaxis_transform()
        axes.text(0.01, 0.42 - at, name, transform=across, va="center", zorder=5)
    axes.set_ylim(0.6 - len(names), 0.72)
    return figure, axes


_CHARACTER, _LINE = 6.8, 16.0  # points, of a text of `FONT_SIZE` in a page's font


def label_in_lines(axis: Axis, room: float) -> float:
    """Break the label of an axis into lines that fit; the points that further lines take."""
    label = axis.get_label_text()
    if axis.get_scale() == "log":
        label = say("chart.log", label=label)
    lines = textwrap.wrap(label, max(int(room / _CHARACTER), 9), break_long_words=False)
    axis.set_label_text("\n".join(lines))
    return _LINE * max(len(lines) - 1, 0)


def _thin_out(axes: Axes) -> None:
    """Leave out the words of ticks of the x axis that would lie on those before them."""
    end = -math.inf
    for tick, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True):
        words = label.get_text()
        centre = axes.transData.transform((tick, 1.0))[0] * 72 / axes.figure.dpi
        half = 0.5 * len(words) * _CHARACTER
        if words and centre - half < end + 3:
            label.set_visible(False)
        elif words:
            end = centre + half


def fit(figure: Figure) -> None:
    """Lay out what text needs: names of the marks above the axes, labels in lines that fit.

    A logarithmic axis says so. Widths are estimated, since fonts are those of the reader.
    """
    axes = figure.axes[0]
    width, height = (72 * side for side in figure.get_size_inches())
    box = axes.get_position()
    left, right = box.x0 * width, (1 - box.x1) * width
    bottom, tall = box.y0 * height, box.height * height
    handles, names = axes.get_legend_handles_labels()
    marks = dict(zip(names, handles, strict=True))
    rows = columns = 0
    if marks:
        # Words from data are not known here, so that each of them has a line of its own.
        longest = max(1000 if "slot" in name else len(name) for name in marks)
        columns = max(1, int(width / (longest * _CHARACTER + 45)))
        rows = -(-len(marks) // columns)
    bottom += label_in_lines(axes.xaxis, width - left - right)
    left += label_in_lines(axes.yaxis, tall)
    above = _LINE * rows + (6 if rows else 0)
    top = height - box.y1 * height + above
    total = bottom + tall + top
    figure.set_size_inches(width / 72, total / 72)
    axes.set_position((left / width, bottom / total, 1 - (left + right) / width, tall / total))
    _thin_out(axes)
    if marks:
        axes.legend(
            marks.values(),
            marks.keys(),
            loc="upper left",
            bbox_to_anchor=(0, 1),
            bbox_transform=figure.transFigure,
            ncols=columns,
            frameon=False,
            borderpad=0,
            borderaxespad=0.2,
            labelspacing=0.3,
            labelcolor=COLOURS["ink"],
        )
