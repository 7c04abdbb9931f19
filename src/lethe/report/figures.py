"""Static figures, as small multiples: each panel sets one candidate against the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lethe.report.numbers import percent
from lethe.report.static_svg import COLOURS, Slots, inline, new_axes, plain_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Json = Mapping[str, Any]

_PANEL = (250.0, 215.0)
_MARGINS = (44.0, 8.0, 8.0, 36.0)
_POINTS = 90
_MOST_CLASSES = 20


def roc_panels(baseline: Json | None, others: Sequence[Json]) -> list[tuple[str, str]]:
    """Log-log ROC of the strongest attack with bands; one panel a candidate.

    A band holds the whole curve at once, or, in findings without one, each point by itself.

    Args:
        baseline: the candidate that stands in every panel, if there is one.
        others: the candidates to set against it; empty gives one panel of the baseline alone.

    Returns:
        name of the candidate and SVG of its panel, for those that have a curve.
    """
    before = None if baseline is None else _curve(baseline)
    sets = [(c["name"], _curve(c)) for c in others]
    curves: list[tuple[str, Json | None]] = [pair for pair in sets if pair[1] is not None]
    if not curves and before is not None and baseline is not None:
        curves = [(baseline["name"], None)]
    known = [c for c in (before, *(curve for _, curve in curves)) if c is not None]
    low = min((_smallest(curve) for curve in known), default=1e-3)
    with plain_style():
        return [
            (name, _roc_panel(before, curve, low, f"roc{at}-", name))
            for at, (name, curve) in enumerate(curves)
        ]


def t_panels(baseline: Json | None, others: Sequence[Json]) -> list[tuple[str, str]]:
    """Distribution of the t-scores before and after; one panel a candidate.

    Arguments and result as in `roc_panels`.
    """
    before = None if baseline is None else _histogram(baseline)
    sets = [(c["name"], _histogram(c)) for c in others]
    shapes: list[tuple[str, Json | None]] = [pair for pair in sets if pair[1] is not None]
    if not shapes and before is not None and baseline is not None:
        shapes = [(baseline["name"], None)]
    known = [s for s in (before, *(shape for _, shape in shapes)) if s is not None]
    with plain_style():
        return [
            (name, _t_panel(before, shape, known, f"t{at}-", name))
            for at, (name, shape) in enumerate(shapes)
        ]


def class_plot(before: Json, after: Json | None) -> str:
    """Utility of each class before and after, with intervals; the classes that lose most on top.

    Args:
        before: the baseline, with ``per_class``.
        after: the candidate that the audit puts forward, if it is another one.
    """
    import numpy as np

    rows = _class_rows(before, after)
    if not rows:
        return ""
    slots = Slots()
    left = 18 + 6.2 * max(min(len(name), 24) for name, _, _ in rows)
    with plain_style():
        figure, axes = new_axes(520.0, 58 + 21.0 * len(rows), (left, 14, 8, 36))
        places = np.arange(len(rows))
        for colour, marker, shift in (("before", "s", -0.15), ("after", "o", 0.15)):
            for place, (_, first, second) in zip(places, rows, strict=True):
                one = first if colour == "before" else second
                if one is None:
                    continue
                height = place + (shift if after is not None else 0)
                ends = [one["value"] if one[s] is None else one[s] for s in ("low", "high")]
                axes.plot(ends, [height, height], color=COLOURS[colour], lw=1.3, alpha=0.75)
                axes.plot([one["value"]], [height], marker, ms=5, color=COLOURS[colour])
        axes.set_yticks(places, [slots.put(name) for name, _, _ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel("utility (higher = better)")
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        label = "Utility per class with intervals; the table holds the same numbers."
        return inline(figure, "class-", label, slots)


def classes_left_out(before: Json) -> int:
    """How many classes are in the table only."""
    return max(len(before.get("per_class") or ()) - _MOST_CLASSES, 0)


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


def _curve(candidate: Json) -> Json | None:
    attack = (candidate.get("attacks") or {}).get(candidate.get("strongest_attack"))
    return attack["roc"] if attack and len(attack["roc"]["fpr"]) > 1 else None


def _smallest(curve: Json) -> float:
    import math

    positive = [fpr for fpr in curve["fpr"] if fpr > 0]
    return max(10.0 ** math.floor(math.log10(min(positive, default=1e-3)) + 1e-9), 1e-5)


def _roc_panel(before: Json | None, after: Json | None, low: float, prefix: str, name: str) -> str:
    figure, axes = new_axes(*_PANEL, _MARGINS)
    axes.plot([low, 1], [low, 1], color=COLOURS["muted"], lw=1, dashes=(1, 2))
    _roc_line(axes, before, "before", low, dashes=(5, 2))
    _roc_line(axes, after, "after", low, dashes=())
    axes.set_xscale("log")
    axes.set_yscale("log")
    decades = [tick for tick in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0) if tick >= low * 0.99]
    for set_ticks in (axes.set_xticks, axes.set_yticks):
        set_ticks(decades, [percent(tick) for tick in decades])
    axes.minorticks_off()
    axes.set_xlim(low, 1)
    axes.set_ylim(low, 1)
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("")
    return inline(figure, prefix, f"ROC of {name} against the baseline, both axes logarithmic")


def _roc_line(
    axes: Axes, curve: Json | None, colour: str, low: float, dashes: tuple[float, ...]
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
    axes.plot(fpr, tpr, color=COLOURS[colour], lw=1.7, dashes=dashes)


def _histogram(candidate: Json) -> Json | None:
    shape = (candidate.get("vulnerability") or {}).get("histogram")
    return shape if shape and sum(shape["counts"]) > 0 else None


def _t_panel(
    before: Json | None, after: Json | None, known: Sequence[Json], prefix: str, name: str
) -> str:
    import numpy as np

    figure, axes = new_axes(*_PANEL, _MARGINS)
    if after is not None:
        axes.stairs(
            np.maximum(after["counts"], 0.1),
            after["edges"],
            baseline=0.1,
            fill=True,
            color=COLOURS["after"],
            alpha=0.45,
            lw=0,
        )
    if before is not None:
        axes.stairs(
            np.maximum(before["counts"], 0.1),
            before["edges"],
            baseline=0.1,
            color=COLOURS["before"],
            lw=1.6,
        )
    axes.set_yscale("log")
    most = max(max(shape["counts"]) for shape in known)
    top = [tick for tick in (1, 10, 100, 1000, 10**4, 10**5, 10**6, 10**7) if tick <= most * 1.5]
    axes.set_yticks(top, [f"{tick:,}" for tick in top])
    axes.minorticks_off()
    axes.set_ylim(0.7, most * 1.6)
    axes.set_xlim(*_filled_range(known))
    axes.set_xlabel("t-score of a record")
    return inline(figure, prefix, f"Distribution of t-scores of {name} and of the baseline")


def _filled_range(known: Sequence[Json]) -> tuple[float, float]:
    """The part of the axis where some record lies; empty bins at the ends are cut."""
    ends = []
    for shape in known:
        for at, count in enumerate(shape["counts"]):
            if count > 0:
                ends += [shape["edges"][at], shape["edges"][at + 1]]
    return min(ends), max(ends)
