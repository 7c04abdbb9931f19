"""Release noisy group names: which groups exist, where even their names are private.

A person alone in a group is above the threshold with probability at most delta (Rogers 2023;
OpenDP's threshold measurements).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lethe.errors import InputError, check_between
from lethe.queries.mechanisms.additive import Law, fitted, opendp, whole_numbers
from lethe.queries.privacy import Spend

_LEAST_DELTA = 1e-14  # OpenDP's map stops near 1e-16
_IN = 1 - 1e-9  # what is computed here is rounded inwards


@dataclass(frozen=True)
class Found:
    """Groups above the threshold."""

    counts: dict[int, int]  # noisy count by index of the group, in the order of the index
    threshold: int  # least noisy count that is shown
    law: Law  # of the noise


def found_keys(
    counts: dict[int, int], *, groups: int, largest: int, total: int, spend: Spend
) -> Found:
    """Noisy counts of the groups above a threshold.

    Args:
        counts: rows by index of the group; the index must not depend on the private counts.
        groups: most groups that neighbours may differ in, >= 1.
        largest: most that neighbours move one count.
        total: most that neighbours move all counts, summed.

    Guarantee: (epsilon, delta)-DP: epsilon by OpenDP's map, delta by it and by the tail of the
        noise.
    Raises InputError: no delta, or one below 1e-14.
    """
    if spend.epsilon is None or spend.delta is None:
        raise InputError(
            "groups whose names are private need epsilon and a delta: give both, or list the "
            "groups."
        )
    check_between("delta", spend.delta, _LEAST_DELTA, 1)
    dp = opendp()
    atom = dp.atom_domain(T="i64")
    space = dp.map_domain(atom, atom), dp.l01inf_distance(dp.absolute_distance(T="i64"))
    distance = (groups, total, largest)
    epsilon, delta = spend.epsilon, spend.delta
    _, scale = fitted("laplace", "i64", "l1", total / epsilon, total, epsilon)
    # From a little below the least threshold upwards, until the tail of the noise and OpenDP's map
    # both agree. The map alone is not enough: in OpenDP 0.16 a count of the threshold itself is
    # shown, while the map's delta is of counts above it, e^(1 / scale) times too small.
    tail = math.log(groups / delta) - math.log1p(math.exp(-1 / scale))
    threshold = largest + max(0, math.floor(scale * tail) - 1)
    while True:
        measurement = dp.m.make_laplace_threshold(*space, scale=scale, threshold=threshold)
        cost = measurement.map(distance)
        # P(noise >= m) of the discrete Laplace law is a^m / (1 + a), a = e^(-1 / scale).
        beyond = math.exp((largest - threshold) / scale) / (1 + math.exp(-1 / scale))
        kept = groups * beyond <= delta * _IN
        if kept and cost[0] <= epsilon and cost[1] <= delta:
            break
        threshold += max(1, math.floor(scale / 1000))
    rows = zip(counts, whole_numbers(counts.values()), strict=True)
    drawn = measurement({int(index): min(2**62, count) for index, count in rows if count > 0})
    shown = {int(k): int(drawn[k]) for k in sorted(drawn)}
    return Found(shown, threshold, Law("discrete laplace", scale))
