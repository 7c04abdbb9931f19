"""How epsilon is spread over the records, where every record has one of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lethe.report.catalogue import say
from lethe.report.numbers import grouped
from lethe.report.sections import Part, Words
from lethe.report.static_svg import COLOURS, Slots, chart, new_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Json = Mapping[str, Any]
_SIZE, _MARGINS = (420.0, 220.0), (52.0, 8.0, 8.0, 40.0)


def epsilon_chart(name: str, found: Json, at: int) -> list[Part]:
    """A histogram of the epsilon of every record of a candidate, and its quartiles in words."""
    quartiles = {key: parameter("epsilon", found[key]) for key in ("min", "median", "max")}
    said = say("epsilons.words", n=grouped(found["n"]), **quartiles)
    title = say("epsilons.title", name=name)

    def draw(slots: Slots) -> Figure:
        figure, axes = new_axes(*_SIZE, _MARGINS)
        axes.stairs(found["counts"], found["edges"], fill=True, color=COLOURS["after"], lw=0)
        axes.set_xlim(0, found["edges"][-1])
        axes.set_ylim(0, None)
        axes.set_xlabel(say("chart.epsilon"))
        axes.set_ylabel(say("chart.records"))
        return figure

    label = f"{title}. {said}"
    drawn = chart(title, f"epsilons-{at}", f"epsilon{at}-", label, draw)
    return [Words(said), *([drawn] if drawn else [])]


def parameter(name: str, value: float) -> str:
    """A parameter of a guarantee at five digits; what is proven is never rounded down.

    >>> parameter("epsilon", 7.99123), parameter("delta", 1e-5), parameter("steps", 298.0)
    ('7.9913', '1e-05', '298')
    """
    if "epsilon" in name and value > 0:
        digits = 4 - math.floor(math.log10(value))
        value = math.ceil(value * 10.0**digits - 1e-9) / 10.0**digits
    return f"{value:.5g}" if value != round(value) or abs(value) < 1 else grouped(round(value))
