"""Figures of an audit of rows, for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lethe.evidence.of_rows import QuasiSection, RecordsSection, SyntheticSection
from lethe.report.catalogue import say
from lethe.report.numbers import percent
from lethe.report.static_svg import (
    COLOURS,
    WIDTH,
    Slots,
    band,
    figure_of_rows,
    interval,
    new_axes,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MOST_COLUMNS = 9


def pairs(section: QuasiSection, slots: Slots) -> Figure | None:
    """Rows that are alone in a column (on the diagonal) and in a pair, in percent."""
    shares = {
        frozenset(subset.columns): getattr(subset.unique, "value", None) or 0.0
        for size, listed in section.uniqueness.subsets.items()
        for subset in listed
        if size < 3
    }
    names = sorted(section.quasi, key=lambda name: -shares.get(frozenset([name]), 0.0))
    names = names[:_MOST_COLUMNS]
    if len(names) < 2:
        return None
    height, margins = 28.0 * max(len(names), 3) + 52.0, (120.0, 22.0, 6.0, 46.0)
    figure, axes = new_axes(WIDTH, height, margins, x="chart.pairs.x")
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
    return figure


def facts_known(section: RecordsSection, slots: Slots) -> Figure:
    """People named by the number of facts that are known."""
    figure, axes = new_axes(x="chart.facts.x", y="chart.facts.y")
    needed = section.needed.shares
    sizes = list(needed)
    band(axes, sizes, list(needed.values()), "before", "solid", say("chart.facts.known"))
    if bare := section.unicity:
        band(axes, list(bare), list(bare.values()), "after", "dashed", say("chart.facts.alone"))
    axes.set_xticks(sizes, [str(m) for m in sizes])
    ticks = (0, 0.2, 0.4, 0.6, 0.8, 1)
    axes.set_yticks(ticks, [percent(share) for share in ticks])
    axes.set_ylim(0, 1.02)
    return figure


def three_rates(section: SyntheticSection, slots: Slots) -> Figure | None:
    """Main attack, control and blind baseline of each attack on synthetic rows."""
    attacks = section.attacks
    if not attacks:
        return None
    figure, axes = figure_of_rows([slots.put(one.name) for one in attacks], "chart.rates.x")
    for at, one in enumerate(attacks):
        for shift, (key, colour, mark) in enumerate(
            (("main", "after", "o"), ("control", "before", "s"), ("baseline", "muted", "D"))
        ):
            label = "" if at else say(f"chart.rates.{key}")
            interval(axes, -at - 0.22 * (shift - 1), getattr(one, key), colour, mark, label)
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], [percent(x) for x in (0, 0.25, 0.5, 0.75, 1)])
    return figure
