"""What is claimed of a mechanism: an epsilon at a delta, a rho, or a mu."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lethe.errors import InputError, check_between, check_choice
from lethe.evidence.gdp import check_delta

MEASURES = ("epsilon", "rho", "mu")


@dataclass(frozen=True)
class Claim:
    """A privacy parameter, and how large it is said to be.

    Attributes:
        measure: ``epsilon`` of (epsilon, delta)-DP, ``rho`` of zero-concentrated DP (Bun and
            Steinke 2016), ``mu`` of Gaussian DP (Dong, Roth and Su 2022).
        value: claimed, > 0; None where nothing is claimed and a limit is all that is asked for.
        delta: in [0, 1); of epsilon only.

    Raises:
        InputError: a value out of range, or a delta that goes with no epsilon.

    >>> print(Claim("epsilon", 1.0, 1e-6))
    (1, 1e-06)-DP
    """

    measure: str = "epsilon"
    value: float | None = None
    delta: float = 0.0

    def __post_init__(self) -> None:
        check_choice("measure", self.measure, MEASURES)
        check_delta(self.delta)
        if self.value is not None:
            name = f"claimed {self.measure}"
            check_between(name, self.value, 0, math.inf, open_low=True, open_high=True)
        if self.delta > 0 and self.measure != "epsilon":
            raise InputError(f"delta={self.delta:g} goes with epsilon; {self.measure} has none.")

    def of(self, value: float) -> str:
        """The same kind of statement with another number, in words."""
        if self.measure == "epsilon":
            return f"({value:.3g}, {self.delta:g})-DP" if self.delta else f"{value:.3g}-DP"
        return f"{value:.3g}-zCDP" if self.measure == "rho" else f"{value:.3g}-GDP"

    def __str__(self) -> str:
        return "nothing is claimed" if self.value is None else self.of(self.value)


def claim_from(
    epsilon: float | None, delta: float | None, rho: float | None, mu: float | None
) -> Claim:
    """The one claim among the options of a command.

    Raises:
        InputError: several claims at once, or one out of range.
    """
    given = [
        (name, value)
        for name, value in (("epsilon", epsilon), ("rho", rho), ("mu", mu))
        if value is not None
    ]
    if len(given) > 1:
        named = " and ".join(name for name, _ in given)
        raise InputError(f"{named} are both claimed; audit one claim at a time.")
    measure, value = given[0] if given else ("epsilon", None)
    return Claim(measure, value, delta or 0.0)
