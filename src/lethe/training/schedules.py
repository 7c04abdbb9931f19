"""Learning rates over the steps of one training."""

from __future__ import annotations

import math

SCHEDULES = ("constant", "cosine", "one-cycle")
_ONE_CYCLE_START, _ONE_CYCLE_END, _ONE_CYCLE_RISE = 25.0, 1e4, 0.3


def factor(schedule: str, step: int, steps: int, warmup: float) -> float:
    """What the learning rate is multiplied by at a step.

    Args:
        schedule: ``constant``; ``cosine``, half a cosine down to 0; or ``one-cycle`` (Smith and
            Topin 2018, as in torch.optim: up from 1/25 over 30 % of the steps, down to 1/250,000,
            both along a cosine; momentum stays).
        step: from 0.
        steps: of the whole training.
        warmup: share of the steps, in [0, 1), over which the rate rises linearly before a
            ``constant`` or ``cosine`` schedule begins.

    >>> [factor("cosine", step, 4, 0.5) for step in range(4)]
    [0.5, 1.0, 1.0, 0.5]
    """
    if schedule == "one-cycle":
        start, end = 1 / _ONE_CYCLE_START, 1 / (_ONE_CYCLE_START * _ONE_CYCLE_END)
        peak = _ONE_CYCLE_RISE * steps - 1
        if step <= peak:
            return _between(start, 1.0, step / peak if peak > 0 else 1.0)
        return _between(1.0, end, (step - peak) / max(steps - 1 - peak, 1))
    rising = round(warmup * steps)
    if step < rising:
        return (step + 1) / rising
    if schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(steps - rising, 1)))


def _between(first: float, last: float, share: float) -> float:
    return last + (first - last) / 2 * (1 + math.cos(math.pi * share))
