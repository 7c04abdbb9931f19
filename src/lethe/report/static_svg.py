"""Matplotlib figures as inline SVG: small, free of the machine, and legible on dark paper.

Colours are drawn as agreed codes and become CSS variables, so that the page's style decides
them. Words that come from data never pass through matplotlib (it would read ``$`` as mathematics
and measure them with the fonts of the machine): a slot stands for them until the end.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lethe.report.sections import Chart
from lethe.report.svg import escape, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "ink": "#111213",
    "muted": "#717273",
    "grid": "#d1d2d3",
    "before": "#0072b2",
    "after": "#d55e00",
}
FONT_SIZE = 9.0


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
    width: float, height: float, margins: tuple[float, float, float, float]
) -> tuple[Figure, Axes]:
    """A transparent figure with one set of axes; sizes in points, margins left, right, top, bottom.

    Margins are given, not fitted: fitting would measure text with the fonts of the machine.
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
    return figure, axes


if TYPE_CHECKING:
    Draw = Callable[[Slots], Figure | None]


def chart(title: str, name: str, prefix: str, label: str, draw: Draw) -> Chart | None:
    """A matplotlib chart, for the page and for Python; None where there is nothing to draw.

    Args:
        title: as in `Chart`, as is `name`.
        prefix: as in `inline`, as is `label`.
        draw: the figure; words from data pass through the slots.
    """
    with plain_style():
        slots = Slots()
        figure = draw(slots)
        if figure is None:
            return None
        svg = inline(figure, prefix, label, slots)
    return Chart(title, name, svg, partial(as_figure, draw))


def as_figure(draw: Draw) -> Figure:
    """The figure on white, with the words from data in it."""
    with plain_style():
        figure = draw(Slots(plain=True))
        assert figure is not None  # `chart` has drawn it before
        figure.set_facecolor("white")
        figure.draw_without_rendering()  # ticks are made here, in this style
        return figure


def inline(figure: Figure, prefix: str, label: str, slots: Slots | None = None) -> str:
    """The figure as an ``<svg>`` element for an HTML page.

    Args:
        figure: drawn within `plain_style`.
        prefix: unique in the page; it keeps the ids of several figures apart.
        label: what the figure shows, for those who cannot see it.
        slots: the words from data that go into it.
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
}
_STYLE = """<style>
svg { background: #fff; } text { fill: #16202a; font: 12px sans-serif; }
.title, .chance text, .legend text { fill: #55616d; } .grid { stroke: #e6e9ec; }
.axis, .tick, .chance line { stroke: #55616d; } .chance line { stroke-dasharray: 2 4; }
.interval, .leader { stroke: #7b8691; fill: none; } .mark { fill: #fff; stroke: #7b8691; }
.mark { stroke-width: 2; } .proven .interval, .proven .mark { stroke: #5b3fa0; }
.best .interval, .best .mark { stroke: #0072b2; } .mark.filled { fill: #0072b2; }
.proven .mark.filled { fill: #5b3fa0; }
</style>"""


def on_paper(svg: str) -> str:
    """A chart of the page as a file of its own: with colours, and the names of its shapes."""
    for name, code in _PAPER.items():
        svg = svg.replace(f"var(--{name})", code)
    head, rest = svg.split(">", 1)
    if "xmlns=" not in head:
        head += ' xmlns="http://www.w3.org/2000/svg"'
    style = "" if " static" in head else _STYLE
    return f"{head}>{style}{rest}\n"


def _only_used_ids(text: str, prefix: str) -> str:
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda m: f' id="{prefix}{m[1]}"' if m[1] in used else "", text)
    return re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", text)
