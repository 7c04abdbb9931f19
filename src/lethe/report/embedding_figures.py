"""Figures of an audit of representations, for the page and as files of their own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lethe.evidence.estimate import Refusal
from lethe.evidence.of_vectors import RadiiSection, RadiusRow, SurfaceCell, VectorModel
from lethe.report.catalogue import say
from lethe.report.numbers import percent
from lethe.report.sections import Chart
from lethe.report.static_svg import (
    COLOURS,
    DASHES,
    MARGINS,
    SIZE,
    Slots,
    band,
    chart,
    charts_of_data,
    heat_map,
    legend,
    new_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def decay(model: VectorModel, slots: Slots) -> Figure | None:
    """Top-1, Top-5 and Top-10 by noise, with what naming at random gives."""
    levels, chance = model.levels, model.attacks[0].chance.top[1]
    figure, axes = new_axes(*SIZE, MARGINS)
    places = _places(axes, [level.sigma for level in levels])
    for k, colour, dashes in ((1, "before", "solid"), (5, "after", "dashed"), (10, "ink", "chain")):
        top = [level.top[k] for level in levels]
        band(axes, places, top, colour, dashes, f"Top-{k}", logarithmic=True)
    strongest = [level.risk.mapped(lambda lift: lift * chance) for level in levels]
    band(axes, places, strongest, "muted", "solid", say("chart.sweep.strongest"), logarithmic=True)
    dotted, label = DASHES["dotted"], say("chart.sweep.chance")
    axes.axhline(chance, color=COLOURS["muted"], lw=1, dashes=dotted, label=label)
    _log_shares(axes)
    legend(axes, y="chart.sweep.y")
    return figure


def proof(model: VectorModel, slots: Slots) -> Figure | None:
    """Top-1 of the attack below the two limits that no attacker exceeds."""
    levels = [level for level in model.levels if level.bound is not None]
    figure, axes = new_axes(*SIZE, MARGINS)
    places = _places(axes, [level.sigma for level in levels])
    top = [level.top[1] for level in levels]
    band(axes, places, top, "before", "solid", say("chart.proof.attack"), logarithmic=True)
    axes.plot(
        places,
        [level.bound or 0.0 for level in levels],
        color=COLOURS["ink"],
        lw=1.4,
        dashes=DASHES["dashed"],
        label=say("chart.proof.bound"),
    )
    played = [(x, level.optimal) for x, level in zip(places, levels, strict=True)]
    known = [(x, one.high) for x, one in played if one is not None]
    if known:
        label = say("chart.proof.optimal")
        axes.plot(*zip(*known, strict=True), "v", color=COLOURS["after"], ms=5, label=label)
    _log_shares(axes)
    axes.set_ylabel("Top-1")
    return figure


def utility(model: VectorModel, slots: Slots) -> Figure | None:
    """Smoothed, one draw, and M draws: three quantities, and the floor."""
    found = model.utility
    if isinstance(found, Refusal):
        return None
    levels = found.levels
    figure, axes = new_axes(*SIZE, MARGINS)
    places = _places(axes, [level.sigma for level in levels])
    if found.smoothed is not None:
        smoothed = [found.smoothed] * len(levels)
        band(axes, places, smoothed, "muted", "chain", say("chart.utility.smoothed"))
    at = {level.sigma: place for level, place in zip(levels, places, strict=True)}
    several = [(draws, rows) for draws, rows in found.averaged.items() if draws != 1 and rows]
    for (draws, rows), dashes in zip(several, itertools.cycle(DASHES.values())):
        points = [(at[row.sigma], getattr(row.value, "value", math.nan)) for row in rows]
        axes.plot(
            *zip(*points, strict=True),
            color=COLOURS["after"],
            lw=1.1,
            dashes=dashes,
            label=say("chart.utility.mean", draws=draws),
        )
    drawn = [level.value for level in levels]
    band(axes, places, drawn, "before", "solid", say("chart.utility.draw"))
    dotted, floor = DASHES["dotted"], say("chart.utility.floor", floor=f"{found.floor:g}")
    axes.axhline(found.floor, color=COLOURS["muted"], lw=1, dashes=dotted, label=floor)
    axes.set_ylabel(found.measure)
    return figure


def certified(model: VectorModel, slots: Slots) -> Figure | None:
    """Certified accuracy against radius, in closed form and by draws at each noise level."""
    radii = model.radii
    if isinstance(radii, Refusal) or not radii.accuracy:
        return None
    figure, axes = new_axes(*SIZE, MARGINS)
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
    legend(axes, x="chart.certified.x", y="chart.certified.y")
    return figure


def histograms(model: VectorModel) -> list[tuple[str, Callable[[Slots], Figure]]]:
    """Radii by draws at each noise level, with the distance to the nearest other user."""
    radii, apart = model.radii, model.geometry.get("l2")
    if isinstance(radii, Refusal):
        return []
    near = None if apart is None else apart.median
    return [
        (say("chart.radii", sigma=f"{one.sigma:g}"), partial(_radii, radii, one, near))
        for one in radii.sampled
    ]


def _radii(radii: RadiiSection, sampled: RadiusRow, near: float | None, slots: Slots) -> Figure:
    figure, axes = new_axes(*SIZE, MARGINS)
    axes.stairs(
        sampled.counts,
        radii.edges,
        fill=True,
        color=COLOURS["after"],
        alpha=0.45,
        lw=0,
        label=say("radii.draws", sigma=f"{sampled.sigma:g}"),
    )
    if radii.closed_form is not None:
        counts, label = radii.closed_form.counts, say("radii.closed")
        axes.stairs(counts, radii.edges, color=COLOURS["before"], lw=1.3, label=label)
    if near is not None:
        label = say("chart.radii.apart")
        axes.axvline(near, color=COLOURS["ink"], lw=1.2, dashes=DASHES["dashed"], label=label)
    legend(axes, x="chart.radii.x", y="chart.radii.y")
    return figure


def surface(model: VectorModel) -> list[tuple[str, Callable[[Slots], Figure]]]:
    """Lift and utility over sigma and M: both depend on sigma / sqrt(M) alone."""
    known = {
        key: [cell for cell in model.surface if getattr(cell, key) is not None]
        for key in ("lift", "utility")
    }
    return [
        (say(f"chart.surface.{key}"), partial(_heat, listed, key))
        for key, listed in known.items()
        if listed
    ]


def _heat(cells: Sequence[SurfaceCell], key: str, slots: Slots) -> Figure:
    sigmas = sorted({cell.sigma for cell in cells})
    counts = sorted({cell.draws for cell in cells}, reverse=True)
    values = [getattr(cell, key).value for cell in cells]
    shown = [math.log(max(value, 1e-3)) if key == "lift" else value for value in values]
    low, high = min(shown), max(shown)
    filled = {
        (sigmas.index(cell.sigma), counts.index(cell.draws)): (
            (weight - low) / (high - low) if high > low else 0.5,
            f"{value:.3g}" if key == "lift" else f"{value:.3f}",
        )
        for cell, value, weight in zip(cells, values, shown, strict=True)
    }
    names, rows = [f"{sigma:g}" for sigma in sigmas], [str(count) for count in counts]
    figure, axes = heat_map(names, rows, filled, "after" if key == "lift" else "before")
    legend(axes, x="chart.surface.x", y="chart.surface.y")
    return figure


NAMED: Mapping[str, Callable[[VectorModel, Slots], Figure | None]] = {
    "sweep": decay,
    "proof": proof,
    "utility": utility,
    "certified": certified,
}


def vector_charts(model: VectorModel, prefix: str) -> dict[str, Chart]:
    """All figures of one model.

    Args:
        model: an entry of ``representations.models``.
        prefix: unique in the page.

    Returns:
        by name; what there is nothing to draw of is left out.
    """
    found = charts_of_data(NAMED, model, prefix)
    for kind, several in (("radii", histograms), ("surface", surface)):
        for at, (title, draw) in enumerate(several(model), start=1):
            name = f"{kind}-{at}"
            numbered = chart(title, f"{prefix}{name}", f"v{prefix}{name}-", title, draw)
            found |= {} if numbered is None else {name: numbered}
    return found


def _places(axes: Axes, sigmas: Sequence[float]) -> list[float]:
    """Noise on a logarithmic axis that begins with 0, a step below the least noise there is."""
    positive = [sigma for sigma in sigmas if sigma > 0]
    start = math.log10(min(positive)) - 0.4 if positive else 0.0
    places = [math.log10(sigma) if sigma > 0 else start for sigma in sigmas]
    shown: list[tuple[float, str]] = []
    for place, sigma in zip(places, sigmas, strict=True):
        if not shown or place - shown[-1][0] > 0.22:
            shown.append((place, f"{sigma:.2g}"))
    axes.set_xticks([place for place, _ in shown], [word for _, word in shown])
    axes.set_xlabel(say("chart.sigma"))
    return places


def _log_shares(axes: Axes) -> None:
    """A logarithmic axis of shares, from the decade below the least of them."""
    axes.set_yscale("log")
    low = max(axes.get_ylim()[0], 1e-9)
    decades = [10.0**at for at in range(math.floor(math.log10(low)), 1)]
    axes.set_yticks(decades, [percent(share) for share in decades])
    axes.minorticks_off()
    axes.set_ylim(low / 4, 1.3)
