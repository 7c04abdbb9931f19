"""Figures of an audit of rows, for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lethe.evidence.estimate import Measured, Refusal
from lethe.evidence.of_rows import Point, QuasiSection, RecordsSection, SyntheticSection
from lethe.report.catalogue import say
from lethe.report.numbers import percent
from lethe.report.static_svg import (
    COLOURS,
    DASHES,
    MARGINS,
    SIZE,
    WIDTH,
    Slots,
    band,
    figure_of_rows,
    interval,
    legend,
    new_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MOST_COLUMNS = 9


def pairs(section: QuasiSection, slots: Slots) -> Figure | None:
    """Rows that are alone in a column (on the diagonal) and in a pair, in percent."""
    shares = {
        frozenset(subset.columns): _value(subset.unique)
        for size, listed in section.uniqueness.subsets.items()
        for subset in listed
        if size < 3
    }
    names = sorted(section.quasi, key=lambda name: -shares.get(frozenset([name]), 0.0))
    names = names[:_MOST_COLUMNS]
    if len(names) < 2:
        return None
    figure, axes = new_axes(WIDTH, 28.0 * max(len(names), 3) + 52.0, (120.0, 22.0, 6.0, 46.0))
    for row, first in enumerate(names):
        for column, second in enumerate(names[: row + 1]):
            share = shares.get(frozenset([first, second]))
            if share is None:
                continue
            x, y = [column, column + 1, column + 1, column], [row, row, row + 1, row + 1]
            axes.fill(x, y, color=COLOURS["after"], alpha=0.08 + 0.5 * share, lw=0)
            axes.text(column + 0.5, row + 0.5, f"{100 * share:.0f}", ha="center", va="center")
    centres = [place + 0.5 for place in range(len(names))]
    axes.set_xticks(centres, [str(place) for place in range(1, len(names) + 1)])
    labels = [slots.put(f"{place}. {name}", 18) for place, name in enumerate(names, start=1)]
    axes.set_yticks(centres, labels)
    axes.tick_params(length=0)
    axes.grid(False)
    axes.set_xlim(0, len(names))
    axes.set_ylim(len(names), 0)
    legend(axes, x="chart.pairs.x")
    return figure


def thresholds(section: RecordsSection, slots: Slots) -> Figure:
    """Recall, precision, abstention and false matches by eccentricity."""
    return _curve(section.curve, section.phi)


def facts_known(section: RecordsSection, slots: Slots) -> Figure:
    """People named by the number of facts that are known."""
    figure, axes = new_axes(*SIZE, MARGINS)
    needed = section.needed.shares
    sizes = list(needed)
    band(axes, sizes, list(needed.values()), "before", "solid", say("chart.facts.known"))
    if bare := section.unicity:
        band(axes, list(bare), list(bare.values()), "after", "dashed", say("chart.facts.alone"))
    axes.set_xticks(sizes, [str(m) for m in sizes])
    _shares(axes, 1.0)
    legend(axes, x="chart.facts.x", y="chart.facts.y")
    return figure


def three_rates(section: SyntheticSection, slots: Slots) -> Figure | None:
    """Main attack, control and blind baseline of each attack on synthetic rows."""
    attacks = section.attacks
    if not attacks:
        return None
    figure, axes = figure_of_rows([slots.put(one.name) for one in attacks])
    for at, one in enumerate(attacks):
        for shift, (key, colour, mark) in enumerate(
            (("main", "after", "o"), ("control", "before", "s"), ("baseline", "muted", "D"))
        ):
            label = "" if at else say(f"chart.rates.{key}")
            interval(axes, -at - 0.22 * (shift - 1), getattr(one, key), colour, mark, label)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], [percent(x) for x in (0, 0.25, 0.5, 0.75, 1)])
    axes.set_xlabel(say("chart.rates.x"))
    return figure


def _value(rate: Measured) -> float:
    return getattr(rate, "value", None) or 0.0


def _curve(points: Sequence[Point], phi: float) -> Figure:
    figure, axes = new_axes(*SIZE, MARGINS)
    places = list(range(len(points)))
    for key, colour, dashes in (
        ("recall", "before", "solid"),
        ("false_match", "after", "solid"),
        ("precision", "ink", "dashed"),
        ("abstention", "muted", "chain"),
    ):
        rates = [getattr(point, key) for point in points]
        known = [
            (place, rate)
            for place, rate in zip(places, rates, strict=True)
            if not isinstance(rate, Refusal)
        ]
        if known:
            at, measured = zip(*known, strict=True)
            band(axes, at, measured, colour, dashes, say(f"chart.curve.{key}"))
    _phi_axis(axes, [point.phi for point in points], phi)
    _shares(axes, 1.0)
    legend(axes, y="chart.curve.y")
    return figure


def _phi_axis(axes: Axes, phis: Sequence[float], phi: float) -> None:
    axes.set_xticks(list(range(len(phis))), [f"{value:g}" for value in phis])
    axes.axvline(list(phis).index(phi), color=COLOURS["muted"], lw=1, dashes=DASHES["dotted"])
    axes.set_xlabel(say("chart.phi"))


def _shares(axes: Axes, top: float) -> None:
    step = next((step for step in (0.002, 0.01, 0.02, 0.05, 0.1, 0.2) if top <= 6 * step), 0.25)
    ticks = [tick * step for tick in range(int(1 / step) + 1) if tick * step <= top + step]
    axes.set_yticks(ticks, [percent(round(share, 6)) for share in ticks])
    axes.set_ylim(0, min(top * 1.05, 1.02))
