"""How epsilon is spread over the records, where every record has one of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lethe.report.numbers import grouped
from lethe.report.static_svg import COLOURS, inline, new_axes, plain_style

Json = Mapping[str, Any]
_SIZE, _MARGINS = (320.0, 180.0), (48.0, 8.0, 8.0, 36.0)


def epsilon_views(candidates: Sequence[Json]) -> list[dict[str, Any]]:
    """A histogram and a sentence for each candidate with an epsilon for every record.

    Args:
        candidates: of the findings; most have none.
    """
    return [
        {
            "name": candidate["name"],
            "words": _words(candidate["epsilons"]),
            "svg": _bars(candidate["name"], candidate["epsilons"], f"epsilon{at}"),
        }
        for at, candidate in enumerate(candidates)
        if candidate.get("epsilons")
    ]


def parameter(name: str, value: float) -> str:
    """A parameter of a guarantee at five digits; what is proven is never rounded down.

    >>> parameter("epsilon", 7.99123), parameter("delta", 1e-5), parameter("steps", 298.0)
    ('7.9913', '1e-05', '298')
    """
    if "epsilon" in name and value > 0:
        digits = 4 - math.floor(math.log10(value))
        value = math.ceil(value * 10.0**digits - 1e-9) / 10.0**digits
    return f"{value:.5g}" if value != round(value) or abs(value) < 1 else grouped(round(value))


def _words(found: Json) -> str:
    return (
        f"{grouped(found['n'])} records: half of them have an epsilon of at most "
        f"{parameter('epsilon', found['median'])}; the least is "
        f"{parameter('epsilon', found['min'])}, the largest {parameter('epsilon', found['max'])}."
    )


def _bars(name: str, found: Json, prefix: str) -> str:
    """Records by epsilon, as bars from 0."""
    with plain_style():
        figure, axes = new_axes(*_SIZE, _MARGINS)
        axes.stairs(found["counts"], found["edges"], fill=True, color=COLOURS["after"], lw=0)
        axes.set_xlim(0, found["edges"][-1])
        axes.set_ylim(0, None)
        axes.set_xlabel("epsilon of a record")
        axes.set_ylabel("records")
        return inline(figure, prefix, f"Records by epsilon, {name}. {_words(found)}")
