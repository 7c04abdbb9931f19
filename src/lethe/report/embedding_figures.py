"""Figures of an audit of representations, for the page and as files of their own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lethe.evidence.estimate import Refusal
from lethe.evidence.of_vectors import VectorModel
from lethe.report.catalogue import say
from lethe.report.numbers import percent
from lethe.report.static_svg import COLOURS, DASHES, Slots, band, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def decay(model: VectorModel, slots: Slots) -> Figure | None:
    """Top-1, Top-5 and Top-10 by noise, a random guess, and the limit that is proven of Top-1."""
    levels, chance = model.levels, model.attacks[0].chance.top[1]
    figure, axes = new_axes(y="chart.sweep.y")
    places = _places(axes, [level.sigma for level in levels])
    for k, colour, dashes in ((1, "before", "solid"), (5, "after", "dashed"), (10, "ink", "chain")):
        top = [level.top[k] for level in levels]
        label = say("chart.sweep.one", k=k, metric=model.attacks[0].name)
        band(axes, places, top, colour, dashes, label, logarithmic=True)
    strongest = [level.risk.mapped(lambda lift: lift * chance) for level in levels]
    band(axes, places, strongest, "muted", "solid", say("chart.sweep.strongest"), logarithmic=True)
    bounds = [math.nan if level.bound is None else level.bound for level in levels]
    if not all(map(math.isnan, bounds)):
        broken, label = DASHES["dashed"], say("chart.sweep.bound")
        axes.plot(places, bounds, color=COLOURS["ink"], lw=1.4, dashes=broken, label=label)
    dotted, label = DASHES["dotted"], say("chart.sweep.chance")
    axes.axhline(chance, color=COLOURS["muted"], lw=1, dashes=dotted, label=label)
    axes.set_yscale("log")
    low = max(axes.get_ylim()[0], 1e-9)
    decades = [10.0**at for at in range(math.floor(math.log10(low)), 1)]
    axes.set_yticks(decades, [percent(share) for share in decades])
    axes.minorticks_off()
    axes.set_ylim(low / 4, 1.3)
    return figure


def utility(model: VectorModel, slots: Slots) -> Figure | None:
    """Smoothed, one draw, and M draws: three quantities, and the floor."""
    utilities = model.utility
    if isinstance(utilities, Refusal):
        return None
    levels = utilities.levels
    figure, axes = new_axes()
    places = _places(axes, [level.sigma for level in levels])
    if utilities.smoothed is not None:
        smoothed = [utilities.smoothed] * len(levels)
        band(axes, places, smoothed, "muted", "chain", say("chart.utility.smoothed"))
    place_of = {level.sigma: place for level, place in zip(levels, places, strict=True)}
    several = [(draws, rows) for draws, rows in utilities.averaged.items() if draws != 1 and rows]
    for (draws, rows), dashes in zip(several, itertools.cycle(DASHES.values())):
        points = [(place_of[row.sigma], getattr(row.value, "value", math.nan)) for row in rows]
        axes.plot(
            *zip(*points, strict=True),
            color=COLOURS["after"],
            lw=1.1,
            dashes=dashes,
            label=say("chart.utility.mean", draws=draws),
        )
    draws_of_one = [level.value for level in levels]
    band(axes, places, draws_of_one, "before", "solid", say("chart.utility.draw"))
    dotted, floor = DASHES["dotted"], say("chart.utility.floor", floor=f"{utilities.floor:g}")
    axes.axhline(utilities.floor, color=COLOURS["muted"], lw=1, dashes=dotted, label=floor)
    axes.set_ylabel(utilities.measure)
    return figure


def certified(model: VectorModel, slots: Slots) -> Figure | None:
    """Certified accuracy against radius, in closed form and by draws at each noise level."""
    radii = model.radii
    if isinstance(radii, Refusal) or not radii.accuracy:
        return None
    figure, axes = new_axes(x="chart.certified.x", y="chart.certified.y")
    styles = itertools.product(("solid", "dashed", "chain"), ("ink", "before", "after"))
    for (name, shares), (dashes, colour) in zip(radii.accuracy.items(), styles, strict=False):
        axes.plot(
            radii.at,
            [math.nan if share.value is None else share.value for share in shares],
            color=COLOURS[colour],
            lw=1.5,
            dashes=DASHES[dashes],
            label=say("radii.closed") if name == "closed form" else say("radii.draws", sigma=name),
        )
    axes.set_ylim(0, 1)
    return figure


NAMED: Mapping[str, Callable[[VectorModel, Slots], Figure | None]] = {
    "sweep": decay,
    "utility": utility,
    "certified": certified,
}
"""Figures of one model of vectors; None where there is nothing to draw."""


def _places(axes: Axes, sigmas: Sequence[float]) -> list[float]:
    """Noise on a logarithmic axis that begins with 0, a step below the least noise there is."""
    positive = [sigma for sigma in sigmas if sigma > 0]
    start = math.log10(min(positive)) - 0.4 if positive else 0.0
    places = [math.log10(sigma) if sigma > 0 else start for sigma in sigmas]
    labels: list[tuple[float, str]] = []
    for place, sigma in zip(places, sigmas, strict=True):
        if not labels or place - labels[-1][0] > 0.22:
            labels.append((place, f"{sigma:.2g}"))
    axes.set_xticks([place for place, _ in labels], [word for _, word in labels])
    axes.set_xlabel(say("chart.sigma"))
    return places
