"""What is above a threshold, with noise on both sides or on the counts.

`AboveThreshold` is the sparse vector technique, algorithm 7 of Lyu, Su and Li (2017), who show that
four of six published versions are not private: noise on the threshold once, fresh noise on each
query, and the counted answers above end the stream.

`found_keys` says which groups exist when even their names are private: a person alone in a group is
above the threshold with probability at most delta (Rogers 2023; OpenDP's threshold measurements).
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Any

from lethe.errors import InputError, check_between
from lethe.evidence.guarantee import Guarantee
from lethe.queries.mechanisms.additive import Law, check_whole, fitted, opendp, whole_numbers
from lethe.queries.privacy import Neighbours, Spend

_LEAST_DELTA = 1e-14  # OpenDP's map stops near 1e-16
_IN = 1 - 1e-9  # what is computed here is rounded inwards


class AboveThreshold:
    """A stream of yes-no answers that costs the same however many of them are no.

    epsilon is split: e1 for the noise on the threshold, of scale sensitivity / e1, and e2 for the
    queries, of scale 2 c sensitivity / e2 (c sensitivity / e2 for monotone ones), c the number of
    answers above. The split e1 : e2 = 1 : (2c)^(2/3), or 1 : c^(2/3), makes the comparison least
    noisy. All noise is discrete Laplace by OpenDP.

    Args:
        threshold: a whole number, public.
        sensitivity: most that neighbours move any one query, >= 1.
        most: c, how many answers above are given before the stream ends.
        monotone: neighbours move all queries in the same direction.

    Guarantee: epsilon-DP for all answers together, chosen adaptively or not. Whole-number noise of
        these scales keeps the proof: it shifts threshold and query by whole numbers.

    >>> stream = AboveThreshold(1000, sensitivity=1, epsilon=1.0)
    >>> stream.ask(2), stream.ask(5000)
    (False, True)
    >>> stream.finished
    True
    """

    def __init__(
        self,
        threshold: int,
        *,
        sensitivity: int,
        epsilon: float,
        most: int = 1,
        monotone: bool = False,
        whose: Neighbours | None = None,
    ) -> None:
        check_whole("sensitivity", sensitivity)
        check_whole("most", most)
        check_between("epsilon", epsilon, 0, math.inf, open_low=True, open_high=True)
        whose = whose or Neighbours()
        if monotone and whose.relation == "replace-one":
            raise InputError("no query is monotone under replace-one: leave out monotone=True.")
        times = most if monotone else 2 * most
        whole = Spend(epsilon=epsilon)
        first = whole.share(1 / (1 + times ** (2 / 3))).epsilon
        assert first is not None
        second = (epsilon - first) * (1 - 1e-12)
        noise, self.threshold_scale = fitted(
            "laplace", "i64", "scalar", sensitivity / first, sensitivity, first
        )
        moved = times * sensitivity
        self._noise, self.query_scale = fitted(
            "laplace", "i64", "scalar", moved / second, moved, second
        )
        self._limit = noise(int(threshold))
        self._left = most
        self._turn = threading.Lock()
        self.split = (first, second)
        self.guarantee: Guarantee = whose.guarantee(
            whole, f"the stream ends after {most} answers above the threshold"
        )

    @property
    def finished(self) -> bool:
        """Whether the answers above are used up."""
        return self._left <= 0

    def ask(self, value: int) -> bool:
        """Whether the exact value of a query, with noise, reaches the noisy threshold.

        Raises:
            InputError: the stream has ended; the refusal tells nothing new.
        """
        with self._turn:
            if self.finished:
                raise InputError("the stream has ended: its answers above are used up; begin anew.")
            above = bool(self._noise(int(value)) >= self._limit)
            self._left -= above
        return above


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

    def measure(threshold: int) -> Any:
        return dp.m.make_laplace_threshold(*space, scale=scale, threshold=threshold)

    # From a little below the least threshold upwards, until the tail of the noise and OpenDP's map
    # both agree. The map alone is not enough: in OpenDP 0.16 a count of the threshold itself is
    # shown, while the map's delta is of counts above it, e^(1 / scale) times too small.
    tail = math.log(groups / delta) - math.log1p(math.exp(-1 / scale))
    threshold = largest + max(0, math.floor(scale * tail) - 1)
    while True:
        made = measure(threshold)
        cost = made.map(distance)
        kept = groups * tail_of(scale, threshold - largest) <= delta * _IN
        if kept and cost[0] <= epsilon and cost[1] <= delta:
            break
        threshold += max(1, math.floor(scale / 1000))
    rows = zip(counts, whole_numbers(counts.values()), strict=True)
    drawn = made({int(index): min(2**62, count) for index, count in rows if count > 0})
    shown = {int(k): int(drawn[k]) for k in sorted(drawn)}
    return Found(shown, threshold, Law("discrete laplace", scale))


def tail_of(scale: float, least: int) -> float:
    """P(noise >= `least`) of the discrete Laplace law: a^least / (1 + a), a = e^(-1 / scale).

    Args:
        scale: > 0.
        least: >= 0.

    >>> round(tail_of(1.0, 2), 4)
    0.0989
    """
    return math.exp(-least / scale) / (1 + math.exp(-1 / scale))
