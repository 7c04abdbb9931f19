"""Figures of a trained model: each sets the option put forward against the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lethe.report.catalogue import say
from lethe.report.drawing import legend, legend_above
from lethe.report.numbers import percent
from lethe.report.sections import Chart
from lethe.report.static_svg import COLOURS, Slots, chart, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Json = Mapping[str, Any]

_SIZE = (460.0, 270.0)
_MARGINS = (52.0, 20.0, 10.0, 40.0)
_POINTS = 90
_MOST_CLASSES = 20


def roc_chart(baseline: Json | None, other: Json | None) -> Chart | None:
    """Log-log ROC of the strongest attack before and after, with bands; None without a curve.

    A band holds the whole curve at once, or, in findings without one, each point by itself.
    """
    before, after = _curve(baseline), _curve(other)
    known = [curve for curve in (before, after) if curve is not None]
    if not known:
        return None
    low = min(map(_smallest, known))

    def draw(slots: Slots) -> Figure:
        figure, axes = new_axes(*_SIZE, _MARGINS)
        axes.plot([low, 1], [low, 1], color=COLOURS["muted"], lw=1, dashes=(1, 2))
        axes.annotate(
            say("chart.guess"), (low, low), (26, 4), textcoords="offset points", fontsize=8
        )
        _roc_line(axes, before, "before", low, (5, 2), slots.put((baseline or {}).get("name", "")))
        _roc_line(axes, after, "after", low, (), slots.put((other or {}).get("name", "")))
        axes.set_xscale("log")
        axes.set_yscale("log")
        decades = [tick for tick in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0) if tick >= low * 0.99]
        for set_ticks in (axes.set_xticks, axes.set_yticks):
            set_ticks(decades, [percent(tick) for tick in decades])
        axes.minorticks_off()
        axes.set_xlim(low, 1)
        axes.set_ylim(low, 1)
        axes.set_xlabel(say("chart.fpr"))
        axes.set_ylabel(say("chart.tpr"))
        legend(axes)
        return figure

    return chart(say("chart.roc"), "roc", "roc-", say("chart.roc.label"), draw)


def t_chart(baseline: Json | None, other: Json | None) -> Chart | None:
    """Distribution of the t-scores before and after; None where none was computed."""
    import numpy as np

    before, after = _histogram(baseline), _histogram(other)
    known = [shape for shape in (before, after) if shape is not None]
    if not known:
        return None

    def draw(slots: Slots) -> Figure:
        figure, axes = new_axes(*_SIZE, _MARGINS)
        if after is not None:
            axes.stairs(
                np.maximum(after["counts"], 0.1),
                after["edges"],
                baseline=0.1,
                fill=True,
                color=COLOURS["after"],
                alpha=0.45,
                lw=0,
                label=slots.put((other or {})["name"]),
            )
        if before is not None:
            axes.stairs(
                np.maximum(before["counts"], 0.1),
                before["edges"],
                baseline=0.1,
                color=COLOURS["before"],
                lw=1.6,
                label=slots.put((baseline or {})["name"]),
            )
        axes.set_yscale("log")
        most = max(max(shape["counts"]) for shape in known)
        ticks = [10**power for power in range(8) if 10**power <= most * 1.5]
        axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.set_ylim(0.7, most * 2.5)
        axes.set_xlim(*_filled_range(known))
        axes.set_xlabel(say("chart.t"))
        axes.set_ylabel(say("chart.records"))
        legend(axes, "upper right")
        return figure

    return chart(say("chart.ts"), "t-scores", "t-", say("chart.ts"), draw)


def class_chart(before: Json, after: Json | None) -> Chart | None:
    """Utility of each class before and after, with intervals; the classes that lose most on top.

    Args:
        before: the baseline, with ``per_class``.
        after: the candidate that the audit puts forward, if it is another one.
    """
    import numpy as np

    rows = _class_rows(before, after)
    if not rows:
        return None
    left = 18 + 6.2 * max(min(len(name), 24) for name, _, _ in rows)

    def draw(slots: Slots) -> Figure:
        figure, axes = new_axes(520.0, 78 + 21.0 * len(rows), (left, 14, 28, 36))
        places = np.arange(len(rows))
        for colour, marker, shift in (("before", "s", -0.15), ("after", "o", 0.15)):
            for place, (_, first, second) in zip(places, rows, strict=True):
                one = first if colour == "before" else second
                if one is None:
                    continue
                height = place + (shift if after is not None else 0)
                ends = [one["value"] if one[s] is None else one[s] for s in ("low", "high")]
                axes.plot(ends, [height, height], color=COLOURS[colour], lw=1.3, alpha=0.75)
                name = (before if colour == "before" else after or {})["name"]
                label = "" if place else slots.put(name)
                axes.plot(
                    [one["value"]], [height], marker, ms=5, color=COLOURS[colour], label=label
                )
        axes.set_yticks(places, [slots.put(name) for name, _, _ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel(say("chart.classes.x"))
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        legend_above(axes)
        return figure

    return chart(say("chart.classes"), "classes", "class-", say("chart.classes.label"), draw)


def _class_rows(before: Json, after: Json | None) -> list[tuple[str, Any, Any]]:
    def utilities(candidate: Json | None) -> dict[str, Any]:
        return {
            row["class"]: row["utility"]
            for row in (candidate or {}).get("per_class") or ()
            if row["utility"].get("value") is not None
        }

    first, second = utilities(before), utilities(after)
    rows = [(name, first.get(name), second.get(name)) for name in {**first, **second}]

    def gain(row: tuple[str, Any, Any]) -> float:
        return round(row[2]["value"] - row[1]["value"], 9) if row[1] and row[2] else 0.0

    # Ties keep the order of the findings; a stable sort does that.
    return sorted(rows, key=gain)[:_MOST_CLASSES]


def _curve(candidate: Json | None) -> Json | None:
    listed = (candidate or {}).get("attacks") or {}
    attack = listed.get((candidate or {}).get("strongest_attack"))
    return attack["roc"] if attack and len(attack["roc"]["fpr"]) > 1 else None


def _smallest(curve: Json) -> float:
    import math

    positive = [fpr for fpr in curve["fpr"] if fpr > 0]
    return max(10.0 ** math.floor(math.log10(min(positive, default=1e-3)) + 1e-9), 1e-5)


def _roc_line(
    axes: Axes, curve: Json | None, colour: str, low: float, dashes: tuple[float, ...], label: str
) -> None:
    import numpy as np

    if curve is None:
        return
    fpr = np.asarray(curve["fpr"], float)
    # A point for each place on the log axis: more would be bytes that nobody can see.
    wanted = np.geomspace(low, 1, _POINTS)
    keep = np.unique(np.clip(np.searchsorted(fpr, wanted), 0, len(fpr) - 1))
    keep = keep[fpr[keep] > 0]
    fpr = fpr[keep]
    limits = ("band_low", "band_high") if "band_low" in curve else ("low", "high")
    tpr, bottom, top = (
        np.maximum(np.asarray(curve[key], float)[keep], low / 100) for key in ("tpr", *limits)
    )
    axes.fill_between(fpr, bottom, top, color=COLOURS[colour], alpha=0.15, lw=0)
    axes.plot(fpr, tpr, color=COLOURS[colour], lw=1.7, dashes=dashes, label=label)


def _histogram(candidate: Json | None) -> Json | None:
    shape = ((candidate or {}).get("vulnerability") or {}).get("histogram")
    return shape if shape and sum(shape["counts"]) > 0 else None


def _filled_range(known: Sequence[Json]) -> tuple[float, float]:
    """The part of the axis where some record lies; empty bins at the ends are cut."""
    ends = []
    for shape in known:
        for at, count in enumerate(shape["counts"]):
            if count > 0:
                ends += [shape["edges"][at], shape["edges"][at + 1]]
    return min(ends), max(ends)
