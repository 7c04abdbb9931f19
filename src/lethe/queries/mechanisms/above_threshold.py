"""The sparse vector technique: which queries of a stream are above a threshold.

Lyu, Su and Li (2017) show that four of six published versions are not private. This is their
algorithm 7: noise on the threshold once, fresh noise on each query, the answers above are counted
and end the stream, and no number of the comparison is handed out.
"""

from __future__ import annotations

import math
import threading

from lethe.errors import InputError, check_between
from lethe.evidence.guarantee import Guarantee
from lethe.queries.mechanisms.additive import check_whole
from lethe.queries.mechanisms.library import fitted, opendp, scalar
from lethe.queries.mechanisms.spend import Neighbours, Spend


class AboveThreshold:
    """A stream of yes-no answers that costs the same however many of them are no.

    epsilon is split: e1 for the noise on the threshold, of scale sensitivity / e1, and e2 for the
    queries, of scale 2 c sensitivity / e2 (c sensitivity / e2 for monotone ones), c the number of
    answers above. The split e1 : e2 = 1 : (2c)^(2/3), or 1 : c^(2/3), makes the comparison least
    noisy. All noise is discrete Laplace by OpenDP.

    Args:
        threshold: a whole number, public.
        sensitivity: most that neighbours move any one query, >= 1.
        epsilon: of the whole stream.
        most: c, how many answers above are given before the stream ends.
        monotone: neighbours move all queries in the same direction.
        whose: neighbours; one row added or removed if left out.

    Guarantee:
        epsilon-DP for all answers together, chosen adaptively or not. Whole-number noise of these
        scales keeps the proof: it shifts threshold and query by whole numbers.

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
        dp, space = opendp(), scalar("i64")
        noise, self.threshold_scale = fitted(
            lambda s: dp.m.make_laplace(*space, scale=s), sensitivity / first, sensitivity, first
        )
        self._noise, self.query_scale = fitted(
            lambda s: dp.m.make_laplace(*space, scale=s),
            times * sensitivity / second,
            times * sensitivity,
            second,
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
