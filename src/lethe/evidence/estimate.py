"""A number with its interval: no risk and no utility exists without one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context
from typing import Annotated, ClassVar

from lethe.errors import InputError, check_between


@dataclass(frozen=True)
class Estimate:
    """A measured quantity, its confidence interval, and what stands behind it.

    Attributes:
        value: the point estimate; None where none can be given (then a limit speaks alone).
        low: lower confidence limit; None if unbounded or not available.
        high: upper confidence limit; None if unbounded or not available.
        confidence: two-sided coverage the limits aim at, in (0, 1).
        method: how the limits were made, in words.
        n: sample size behind the value (what is counted is said in `method`).

    Raises:
        InputError: a field is NaN or infinite, or the limits are in the wrong order.

    >>> Estimate(0.5, 0.4, 0.6, 0.95, "Clopper-Pearson", 100).width
    0.2
    """

    value: float | None
    low: float | None
    high: float | None
    confidence: Annotated[float, ("exclusiveMinimum", 0), ("exclusiveMaximum", 1)]
    method: str
    n: Annotated[int, ("minimum", 0)]

    def __post_init__(self) -> None:
        check_between("confidence", self.confidence, 0, 1, open_low=True, open_high=True)
        for name in ("value", "low", "high"):
            number = getattr(self, name)
            if number is not None and not math.isfinite(number):
                raise InputError(f"Estimate.{name}={number} must be finite or None.")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise InputError(f"Estimate limits are reversed: {self.low} > {self.high}.")

    @property
    def width(self) -> float | None:
        """Distance between the limits; None if one of them is missing."""
        if self.low is None or self.high is None:
            return None
        return round(self.high - self.low, 12)

    def mapped(self, change: Callable[[float], float | None], method: str = "") -> Estimate:
        """Value and limits in another unit, by a function that rises.

        >>> print(Estimate(0.75, 0.5, None, 0.95, "", 100).mapped(lambda auc: 2 * auc - 1))
        0.5 [0, -]
        """
        value, low, high = (
            None if end is None else change(end) for end in (self.value, self.low, self.high)
        )
        return replace(self, value=value, low=low, high=high, method=method or self.method)

    def __str__(self) -> str:
        def show(number: float | None) -> str:
            return "-" if number is None else f"{number:.4g}"

        return f"{show(self.value)} [{show(self.low)}, {show(self.high)}]"


@dataclass(frozen=True)
class Refusal:
    """Stands where an Estimate would be when the sample cannot carry the number.

    >>> print(Refusal("fpr=0.001 needs at least 1000 distinct records"))
    not measurable: fpr=0.001 needs at least 1000 distinct records
    """

    keys: ClassVar = {"reason": "refused"}
    reason: str

    def __str__(self) -> str:
        return f"not measurable: {self.reason}"


Measured = Estimate | Refusal


def rounded_up(limit: float, digits: int) -> float:
    """A limit at so many digits, never below itself: what is proven is never rounded down.

    >>> rounded_up(0.0544, 2), rounded_up(7.99123, 5), rounded_up(0.0, 2)
    (0.055, 7.9913, 0.0)
    """
    if limit <= 0:
        return 0.0
    places = digits - 1 - math.floor(math.log10(limit))
    return round(math.ceil(round(limit * 10.0**places, 6)) / 10.0**places, max(places, 0))


def rounded_down(limit: float, digits: int) -> float:
    """A lower limit at so many digits, never above itself; `rounded_down(1.2367, 3)` is 1.23."""
    return float(Context(prec=digits, rounding=ROUND_DOWN).create_decimal(str(limit)))
