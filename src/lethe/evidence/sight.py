"""What an audit could have seen: leaks of known size, planted into the release's own values.

A low number is evidence only if the attackers find a leak where there is one. So every room plants
leaks into twins of its release, made of its own values, runs the same attackers on them, and stores
their results. `blindness` says whether the attackers would have seen a break of the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lethe.evidence.estimate import Estimate

_SHORT = 0.8
"""A plant of this share of the wanted size counts as large enough: plants come in steps."""


@dataclass(frozen=True)
class Plant:
    """A leak of known size, and what the attackers measured on the twin that carries it.

    Attributes:
        kind: how the leak is spread, such as ``many members a little``; each kind must be seen.
        leak: planted size by quantity as a rule writes it, such as ``tpr@0.01``, higher = worse.
        measured: the highest of the attackers' results by quantity, on the same scale.
    """

    kind: str
    leak: Mapping[str, float]
    measured: Mapping[str, Estimate]


def forbidden(limit: float, top: float = 1.0) -> float:
    """Size of the leak that an audit must see before a rule may pass.

    Twice the limit, or halfway from the limit to the top of the scale if that is less.

    >>> forbidden(0.05), forbidden(0.55)
    (0.1, 0.775)
    """
    return min(2 * limit, (limit + top) / 2)


def blindness(plants: Sequence[Plant], quantity: str, limit: float, top: float = 1.0) -> str:
    """Say why an audit could not have seen a leak beyond a limit; empty where it could.

    Looks at the smallest plant of each kind that reaches `forbidden(limit)`: the upper limit that
    the attackers measured on its twin must break the rule.

    Args:
        plants: of the judged candidate.
        quantity: metric of the rule, such as ``tpr@0.01``.
        limit: of the rule.
        top: the largest value of the metric.

    >>> seen = Estimate(0.18, 0.15, 0.22, 0.95, "", 100)
    >>> blindness([Plant("many", {"auc": 0.2}, {"auc": seen})], "auc", 0.1)
    ''
    >>> blindness([Plant("many", {"auc": 0.2}, {"auc": seen})], "auc", 0.3)
    'no leak above 0.3 could be planted in these values (the largest: 0.2)'
    """
    if limit >= top:  # nothing is forbidden
        return ""
    kinds: dict[str, list[Plant]] = {}
    for plant in plants:
        if quantity in plant.leak:
            kinds.setdefault(plant.kind, []).append(plant)
    if not kinds:
        return f"no leak was planted that {quantity} measures"
    wanted = forbidden(limit, top)
    largest = max(plant.leak[quantity] for steps in kinds.values() for plant in steps)
    if largest <= limit:
        reason = f"no leak above {limit:g} could be planted in these values"
        return f"{reason} (the largest: {largest:.3g})"
    for kind, steps in kinds.items():
        steps.sort(key=lambda plant: plant.leak[quantity])
        plant = next((step for step in steps if step.leak[quantity] >= _SHORT * wanted), steps[-1])
        leak, estimate = plant.leak[quantity], plant.measured.get(quantity)
        if leak <= limit:  # leaks of this kind are always smaller
            continue
        if estimate is None or (estimate.high is not None and estimate.high <= limit):
            value = None if estimate is None else estimate.value
            reached = "nothing" if value is None else f"{value:.3g}"
            return f"a planted leak of {leak:.3g} ({kind}) was read as {reached}: it was not seen"
    return ""


def smallest_seen(plants: Sequence[Plant], quantity: str, chance: float) -> float | None:
    """The smallest leak such that all plants of at least its size were distinguished from chance.

    Args:
        chance: what a random guess reaches in that quantity.

    Returns: None where even the largest was not.

    >>> seen = Estimate(0.18, 0.15, 0.22, 0.95, "", 100)
    >>> smallest_seen([Plant("many", {"auc": 0.2}, {"auc": seen})], "auc", 0.1)
    0.2
    """
    sizes: list[float] = []
    listed = [plant for plant in plants if quantity in plant.leak]
    for kind in dict.fromkeys(plant.kind for plant in listed):
        steps = [plant for plant in listed if plant.kind == kind and plant.leak[quantity] > chance]
        smallest = None
        for plant in sorted(steps, key=lambda plant: -plant.leak[quantity]):
            estimate = plant.measured.get(quantity)
            if estimate is None or estimate.low is None or estimate.low <= chance:
                break
            smallest = plant.leak[quantity]
        if smallest is None:
            return None
        sizes.append(smallest)
    return max(sizes, default=None)
