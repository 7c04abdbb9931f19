"""Proven epsilon beside what the attacks reached: where both are known of one candidate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lethe.evidence.document import Document
from lethe.evidence.estimate import Estimate
from lethe.evidence.guarantee import Guarantee
from lethe.report.catalogue import say
from lethe.report.figures import parameter
from lethe.report.numbers import Cell, decimals, percent, share
from lethe.report.sections import Column, Folded, Part, Table, Words, named, table
from lethe.report.severity import judged_rates
from lethe.report.static_svg import (
    COLOURS,
    Slots,
    chart,
    figure_of_rows,
    limit_and_value,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST = 0.02  # the left end of a logarithmic axis; smaller values are drawn there
_MOST_ROWS = 24


class Pair(NamedTuple):
    """One candidate at one false positive rate.

    Attributes:
        name: of the candidate.
        fpr: in (0, 1).
        proven: epsilon of its guarantee.
        delta: of the same.
        tpr: what the strongest attack reached, an estimate.
        shown: epsilon that it and its limits show; its upper limit is none of epsilon.
    """

    name: str
    fpr: float
    proven: float
    delta: float
    tpr: Estimate
    shown: Estimate

    @property
    def low(self) -> float:
        """Epsilon that the lower limit of the rate shows, >= 0."""
        return max(self.shown.low or 0.0, 0.0)

    @property
    def contradicts(self) -> bool:
        """Whether the measured lower limit is above what is proven."""
        return self.low > self.proven


def pairs(document: Document[Any, Any, Any]) -> list[Pair]:
    """Every candidate with a proven epsilon, at every false positive rate that was measured.

    (epsilon, delta)-DP gives TPR <= e^epsilon FPR + delta for every attack (Wasserman and Zhou
    2010), so ln((TPR - delta) / FPR) is a lower limit on epsilon.
    """
    claims = {
        one.candidate: one.guarantee
        for one in document.guarantees
        if one.guarantee.proven and "epsilon" in one.guarantee.parameters
    }
    return [
        _pair(candidate.name, fpr, claims[candidate.name], tpr)
        for candidate in document.candidates
        if candidate.name in claims
        for fpr, tpr in judged_rates(candidate).items()
        if isinstance(tpr, Estimate) and tpr.low is not None
    ]


def shown_epsilon(share: float, fpr: float, delta: float) -> float | None:
    """The epsilon that a true positive rate shows; None where it shows none at all.

    >>> round(shown_epsilon(0.1, 0.01, 0.0), 3), shown_epsilon(0.001, 0.01, 0.01)
    (2.303, None)
    """
    return math.log((share - delta) / fpr) if share > delta else None


def proven_beside_measured(document: Document[Any, Any, Any]) -> list[Part]:
    """Words, a figure and its table; nothing where no candidate has both numbers."""
    found = pairs(document)
    if not found:
        return []
    drawn = found[:_MOST_ROWS]
    wrong = sorted({one.name for one in found if one.contradicts})
    parts: list[Part] = [Words(say("epsilons.contradicted", names=", ".join(wrong)), "warning")]
    shown = chart(
        say("chart.epsilons"),
        "proven-and-measured",
        "proven-measured-",
        say("chart.epsilons.label"),
        lambda slots: _drawn(drawn, slots),
    )
    drawing = [shown] if shown else []
    return [*(parts if wrong else []), *drawing, Folded(say("epsilons.table"), [_table(found)])]


def _pair(name: str, fpr: float, guarantee: Guarantee, tpr: Estimate) -> Pair:
    epsilon, delta = guarantee.parameters["epsilon"], guarantee.parameters.get("delta", 0.0)
    shown = tpr.mapped(lambda share: shown_epsilon(share, fpr, delta))
    return Pair(name, fpr, epsilon, delta, tpr, shown)


def _claim(one: Pair) -> Cell:
    return Cell("estimate", parameter("epsilon", one.proven), f"delta {one.delta:.3g}")


def _table(found: Sequence[Pair]) -> Table:
    columns: list[Column] = [
        (say("epsilons.head.fpr"), lambda one: percent(one.fpr)),
        (say("epsilons.head.tpr"), lambda one: share(one.tpr)),
        (say("epsilons.head.low"), lambda one: decimals(one.low)),
        (say("epsilons.head.proven"), _claim),
    ]
    title, note = say("epsilons.table"), say("epsilons.note")
    return table(title, say("epsilons.head.option"), named(found), columns, note=note)


def _drawn(found: Sequence[Pair], slots: Slots) -> Figure:
    """A row for each: the interval that was measured, and the proven epsilon."""
    figure, axes = figure_of_rows(
        [f"{slots.put(one.name, 28)}, {percent(one.fpr)}" for one in found]
    )
    for at, one in enumerate(found):
        ends = (one.low, one.shown.value, one.shown.high or one.shown.value)
        low, value, high = (max(end or _LEAST, _LEAST) for end in ends)
        axes.plot([low, high], [-at, -at], color=COLOURS["before"], lw=1.4)
        labels = say("chart.observed"), say("chart.epsilons.low")
        limit_and_value(axes, at, low, value, labels, 5)
        axes.plot(
            [one.proven],
            [-at],
            "D",
            ms=6,
            color=COLOURS["after"],
            label=say("chart.epsilons.proven") if at == 0 else "",
        )
    axes.set_xscale("log")
    most = max(max(one.proven, one.shown.high or 0.0) for one in found)
    axes.set_xlim(_LEAST * 0.9, most * 1.6)
    ticks = [0.02 * 10**power * step for power in range(6) for step in (1, 2.5, 5)]
    ticks = [tick for tick in ticks if tick <= most * 1.6]
    axes.set_xticks(ticks, [("≤ " if tick == _LEAST else "") + f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel(say("chart.epsilons.x"))
    return figure
