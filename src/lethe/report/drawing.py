"""What static figures draw alike: dashes for those who see no colour, bands, legends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from lethe.report.static_svg import COLOURS, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Json = Mapping[str, Any]

SIZE = (420.0, 270.0)  # points
_ROW, _ROWS_WIDTH = 24.0, 560.0  # points
_ROWS_MARGINS = (190.0, 14.0, 28.0, 42.0)
MARGINS = (52.0, 12.0, 12.0, 42.0)  # left, right, top, bottom
DASHES: Mapping[str, tuple[int, ...]] = {
    "solid": (),
    "dashed": (5, 2),
    "dotted": (1, 2),
    "chain": (6, 2, 1, 2),
}


def band(
    axes: Axes,
    places: Sequence[float],
    measured: Sequence[Json],
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
        measured: `Estimate.to_json()` of each; a limit that is null is drawn at the value.
        colour: a name in `COLOURS`.
        dashes: a name in `DASHES`.
        label: in the legend.
        logarithmic: the axis has no place for 0: lower limits end at a twentieth of the value.
    """
    values = [one["value"] for one in measured]
    high = [one["value"] if one["high"] is None else one["high"] for one in measured]
    low = [one["value"] if one["low"] is None else one["low"] for one in measured]
    if logarithmic:
        low = [max(one["low"] or 0.0, (one["value"] or 0.0) / 20, 1e-9) for one in measured]
    axes.fill_between(places, low, high, color=COLOURS[colour], alpha=0.15, lw=0)
    axes.plot(places, values, color=COLOURS[colour], lw=1.6, dashes=DASHES[dashes], label=label)


def legend(axes: Axes, place: Literal["best", "lower left", "upper right"] = "best") -> None:
    """The names of the lines, without a frame."""
    axes.legend(loc=place, frameon=False, fontsize=8, labelcolor=COLOURS["ink"])


def figure_of_rows(names: Sequence[str]) -> tuple[Figure, Axes]:
    """Axes with a row for each name, the first on top at 0, the next at -1.

    Args:
        names: at the left; words from data as slots.
    """
    height = _ROW * len(names) + _ROWS_MARGINS[2] + _ROWS_MARGINS[3]
    figure, axes = new_axes(_ROWS_WIDTH, height, _ROWS_MARGINS)
    axes.set_yticks([-at for at in range(len(names))], list(names))
    axes.set_ylim(-len(names) + 0.5, 0.5)
    return figure, axes


def legend_above(axes: Axes) -> None:
    """The names of the marks in one line over the axes, at the right."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=3,
        frameon=False,
        fontsize=8,
        labelcolor=COLOURS["ink"],
    )
