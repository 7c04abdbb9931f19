"""Figures of a trained model: each sets the option put forward against the baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.of_model import Epsilons
from lethe.report.catalogue import say
from lethe.report.numbers import grouped, parameter, percent
from lethe.report.sections import Chart, Part, Words
from lethe.report.static_svg import (
    COLOURS,
    DASHES,
    Slots,
    chart,
    figure_of_rows,
    interval,
    new_axes,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lethe.report.of_model import ModelCandidate

_POINTS = 90
_MOST_GROUPS = 20


def roc_chart(baseline: ModelCandidate | None, other: ModelCandidate | None) -> list[Chart]:
    """Log-log ROC of the strongest attack before and after, with bands; empty without a curve.

    A band holds the whole curve at once, or, in findings without one, each point by itself.
    """
    import numpy as np

    dashed: tuple[int, ...] = (5, 2)
    sides = ((baseline, "before", dashed), (other, "after", ()))
    known = [
        (candidate.name, curve, colour, dashes)
        for candidate, colour, dashes in sides
        if candidate is not None and (curve := _curve(candidate)) is not None
    ]
    if not known:
        return []
    least = min(min(filter(None, curve["fpr"]), default=1e-3) for _, curve, _, _ in known)
    low = max(10.0 ** math.floor(math.log10(least) + 1e-9), 1e-5)

    def draw(slots: Slots) -> Figure:
        figure, axes = new_axes(x="chart.fpr", y="chart.tpr")
        axes.plot([low, 1], [low, 1], color=COLOURS["muted"], lw=1, dashes=(1, 2))
        axes.annotate(say("chart.guess"), (low, low), (26, 4), textcoords="offset points")
        for name, curve, colour, dashes in known:
            fpr = np.asarray(curve["fpr"], float)
            # A point for each place on the log axis: more would be bytes that nobody can see.
            wanted = np.geomspace(low, 1, _POINTS)
            keep = np.unique(np.clip(np.searchsorted(fpr, wanted), 0, len(fpr) - 1))
            keep = keep[fpr[keep] > 0]
            fpr = fpr[keep]
            limits = ("band_low", "band_high") if "band_low" in curve else ("low", "high")
            tpr, bottom, top = (
                np.maximum(np.asarray(curve[key], float)[keep], low / 100)
                for key in ("tpr", *limits)
            )
            axes.fill_between(fpr, bottom, top, color=COLOURS[colour], alpha=0.15, lw=0)
            axes.plot(fpr, tpr, color=COLOURS[colour], lw=1.7, dashes=dashes, label=slots.put(name))
        axes.set_xscale("log")
        axes.set_yscale("log")
        decades = [tick for tick in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0) if tick >= low * 0.99]
        for set_ticks in (axes.set_xticks, axes.set_yticks):
            set_ticks(decades, [percent(tick) for tick in decades])
        axes.minorticks_off()
        axes.set_xlim(low, 1)
        axes.set_ylim(low, 1)
        return figure

    return chart(say("chart.roc"), "roc", "roc-", say("chart.roc.label"), draw)


def t_chart(baseline: ModelCandidate | None, other: ModelCandidate | None) -> list[Chart]:
    """Distribution of the t-scores before and after; empty where none was computed."""
    import numpy as np

    filled: dict[str, Any] = {"fill": True, "alpha": 0.45, "lw": 0}
    sides = ((other, "after", filled), (baseline, "before", {"lw": 1.6}))
    known = [
        (candidate.name, candidate.vulnerability.histogram, colour, style)
        for candidate, colour, style in sides
        if candidate and candidate.vulnerability and sum(candidate.vulnerability.histogram.counts)
    ]
    if not known:
        return []

    def draw(slots: Slots) -> Figure:
        figure, axes = new_axes(x="chart.t", y="chart.records")
        for name, shape, colour, style in known:
            axes.stairs(
                np.maximum(shape.counts, 0.1),
                shape.edges,
                baseline=0.1,
                color=COLOURS[colour],
                label=slots.put(name),
                **style,
            )
        axes.set_yscale("log")
        most = max(max(shape.counts) for _, shape, _, _ in known)
        ticks = [10**power for power in range(8) if 10**power <= most * 1.5]
        axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.set_ylim(0.7, most * 2.5)
        bins = [  # without the empty ones, so that the ends of the axis are cut
            shape.edges[at : at + 2]
            for _, shape, _, _ in known
            for at, count in enumerate(shape.counts)
            if count > 0
        ]
        axes.set_xlim(min(low for low, _ in bins), max(high for _, high in bins))
        return figure

    return chart(say("chart.ts"), "exposure", "t-", say("chart.ts"), draw)


def group_chart(
    before: ModelCandidate, after: ModelCandidate | None, limit: float | None
) -> list[Chart]:
    """Members recognised in each group, before and after; the most exposed on top.

    Args:
        before: the baseline. Thresholds are those within each group, or, where none of its groups
            has enough records for that, the one of all records.
        after: the candidate that the audit puts forward, if it is another one.
        limit: of the rules on a group; None without one.
    """
    listed = [row for entry in before.slices for row in entry.slices]
    key = "within" if any(isinstance(row.tpr_within, Estimate) for row in listed) else "pooled"

    def rates(candidate: ModelCandidate | None) -> dict[str, Measured]:
        return {
            f"{entry.column} {row.name}": row.tpr_within if key == "within" else row.tpr
            for entry in (() if candidate is None else candidate.slices)
            for row in entry.slices
        }

    first, second = rates(before), rates(after)
    rows = [
        (name, [rate, second.get(name)])
        for name, rate in first.items()
        if isinstance(rate, Estimate) and rate.value is not None
    ]
    if not rows:
        return []
    rows.sort(key=lambda row: -getattr(row[1][0], "value", 0.0))
    series = [("before", "s", before.name)]
    if after is not None and any(isinstance(later, Estimate) for _, (_, later) in rows):
        series.append(("after", "o", after.name))

    def draw(slots: Slots) -> Figure:
        names = [slots.put(name) for name, _ in rows[:_MOST_GROUPS]]
        figure, axes = figure_of_rows(names, f"chart.groups.{key}")
        for at, (colour, marker, name) in enumerate(series):
            shift = 0.15 - 0.3 * at if len(series) > 1 else 0.0
            for place, (_, estimates) in enumerate(rows[:_MOST_GROUPS]):
                label = "" if place else slots.put(name)
                interval(axes, shift - place, estimates[at], colour, marker, label)
        axes.xaxis.set_major_formatter(lambda value, _: percent(value))
        if limit is not None:
            label = say("chart.limit", limit=percent(limit))
            axes.axvline(limit, color=COLOURS["ink"], lw=1.2, dashes=DASHES["dashed"], label=label)
        return figure

    return chart(say("chart.groups"), "groups", "groups-", say("chart.groups.label"), draw)


def onion_chart(base: ModelCandidate) -> list[Chart]:
    """Exposure of the records that remain after each round of removal."""
    layers = [(say("onion.whole"), base.vulnerability and base.vulnerability.top_t)]
    for row in base.onion:
        counts = {"removed": grouped(row.removed), "newly": grouped(row.newly_exposed)}
        layers.append((say("onion.layer", **counts), row.top_t))

    def draw(slots: Slots) -> Figure:
        figure, axes = figure_of_rows([name for name, _ in layers], "chart.onion.x")
        axes.axvline(0, color=COLOURS["muted"], lw=1, dashes=DASHES["dotted"])
        for place, (_, exposure) in enumerate(layers):
            if isinstance(exposure, Estimate):
                interval(axes, -place, exposure, "after" if place else "before", "o")
        return figure

    return chart(say("chart.onion"), "onion", "onion-", say("chart.onion.label"), draw)


def _curve(candidate: ModelCandidate) -> Mapping[str, Sequence[float]] | None:
    attack = candidate.attacks.get(candidate.strongest_attack)
    return attack.roc if attack and len(attack.roc["fpr"]) > 1 else None


# How epsilon is spread over the records, where every record has one of its own.


def epsilon_chart(name: str, found: Epsilons, at: int) -> list[Part]:
    """A histogram of the epsilon of every record of a candidate, and its quartiles in words."""
    quartiles = {key: parameter("epsilon", getattr(found, key)) for key in ("min", "median", "max")}
    said = say("epsilons.words", n=grouped(found.n), **quartiles)
    title = say("epsilons.title", name=name)

    def draw(slots: Slots) -> Figure:
        figure, axes = new_axes(x="chart.epsilon", y="chart.records")
        axes.stairs(found.counts, found.edges, fill=True, color=COLOURS["after"], lw=0)
        axes.set_xlim(0, found.edges[-1])
        axes.set_ylim(0, None)
        return figure

    label = f"{title}. {said}"
    return [Words(said), *chart(title, f"epsilons-{at}", f"epsilon{at}-", label, draw)]
