"""How often an analyst may ask: a bucket that fills steadily."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from lethe.errors import check_between


class Pace:
    """A token bucket for each name.

    Args:
        per_minute: questions a minute in the long run; a minute's worth may come at once.
        clock: seconds that never go backwards.
    """

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        check_between("per_minute", per_minute, 0, math.inf, open_low=True, open_high=True)
        self.most = max(per_minute, 1.0)
        self.per_second = per_minute / 60
        self._clock = clock
        self._level: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def wait(self, name: str) -> float:
        """Take one question from the bucket.

        Returns:
            0 if it was there; else the seconds until one is, and nothing was taken.

        >>> slow = Pace(60, clock=lambda: 0.0)
        >>> [slow.wait("a") for _ in range(61)][-2:]
        [0.0, 1.0]
        """
        with self._lock:
            now = self._clock()
            level, then = self._level.get(name, (self.most, now))
            level = min(self.most, level + (now - then) * self.per_second)
            taken = level >= 1
            self._level[name] = (level - 1 if taken else level, now)
            return 0.0 if taken else (1 - level) / self.per_second
