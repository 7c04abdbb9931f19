"""What static figures draw alike: dashes for those who see no colour, bands, legends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from lethe.report.static_svg import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Json = Mapping[str, Any]

SIZE = (420.0, 270.0)  # points
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
