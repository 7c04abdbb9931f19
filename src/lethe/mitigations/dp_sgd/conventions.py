"""Two places for the noise of DP-SGD, one of which an accountant does not speak of."""

from __future__ import annotations

import math

from lethe.errors import check_at_least, check_between, check_choice

PLACES = ("sum", "example")


def noise_on_sum(noise_multiplier: float, place: str, batch_size: int) -> tuple[float, str]:
    """The multiplier that noise really has on the sum, and a warning where it is not the one asked.

    Some descriptions of DP-SGD write the noise inside the sum, as N(0, sigma^2 C^2) for every
    example. B such draws add up to a multiplier of sigma sqrt(B): another training, with another
    epsilon, and with less noise than stated where a Poisson batch happens to be small.

    Args:
        noise_multiplier: sigma >= 0, as it was stated.
        place: ``sum`` (one draw a step, as here) or ``example`` (one for each of the batch).
        batch_size: B >= 1.

    Returns:
        The multiplier on the sum, and one sentence, empty for ``sum``.

    >>> noise_on_sum(0.5, "example", 64)[0]
    4.0
    """
    check_between("noise_multiplier", noise_multiplier, 0, math.inf, open_high=True)
    check_choice("place", place, PLACES)
    check_at_least("batch_size", batch_size, 1)
    if place == "sum":
        return noise_multiplier, ""
    real = noise_multiplier * math.sqrt(batch_size)
    return real, (
        f"noise on every example makes the multiplier {real:g} on a sum of {batch_size}, not "
        f"{noise_multiplier:g}, and less on a smaller batch: an epsilon computed from "
        f"{noise_multiplier:g} is that of another training; draw once a step."
    )
