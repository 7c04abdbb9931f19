"""Numbers as they stand in the report: fixed decimals, intervals, refusals in words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lethe.evidence.estimate import Estimate, Measured, Refusal, rounded_up
from lethe.evidence.plain import read
from lethe.report.catalogue import say

_LONGEST_LIST = 40


@dataclass(frozen=True)
class Cell:
    """One measured quantity, ready for a table.

    Attributes:
        kind: ``estimate``, ``refused`` or ``none``.
        value: the number, or a limit such as ``at most 0.0030``; empty if there is none.
        interval: ``[low, high]``; empty if there is none.
        reason: why it was refused.
        method: how the interval is made, see `method_name`; empty if there is none.
    """

    kind: str
    value: str = ""
    interval: str = ""
    reason: str = ""
    method: str = ""

    def __str__(self) -> str:
        if self.kind == "refused":
            return say("unmeasured.why", reason=self.reason)
        return f"{self.value} ({self.interval})" if self.interval else self.value or "–"


def fixed(number: float, decimals: int, exact: bool = True) -> str:
    """A number with fixed decimals; if `exact`, more of them where it would read as zero.

    >>> fixed(0.05, 4), fixed(0.00002, 4), fixed(-1.5, 2)
    ('0.0500', '0.00002', '−1.50')
    """
    text = f"{abs(number):.{decimals}f}"
    if exact and number and float(text) == 0:
        text = f"{abs(number):.1g}"
        if "e" in text:
            text = f"{abs(number):.{int(text.split('e-')[1])}f}"
    # A true minus sign is as wide as a digit, so columns stay aligned.
    return f"−{text}" if number < 0 and float(text) != 0 else text


def measured(
    quantity: Measured | float | None,
    words: Callable[[float], str],
    interval: Callable[[Estimate], str],
) -> Cell:
    """An estimate, a refusal or a bare number as a table cell.

    Args:
        words: of the value.
        interval: of the limits, which stand alone where there is no value; may be empty.
    """
    if quantity is None:
        return Cell("none")
    if isinstance(quantity, Refusal):
        return Cell("refused", reason=quantity.reason)
    if not isinstance(quantity, Estimate):
        return Cell("estimate", words(quantity))
    limits = interval(quantity)
    method = method_name(quantity.method) if limits else ""
    if quantity.value is None:
        return Cell("estimate", limits, method=method) if limits else Cell("none")
    return Cell("estimate", words(quantity.value), limits, method=method)


def grouped(number: float) -> str:
    """A count with thousands separators.

    >>> grouped(12345), grouped(1.5)
    ('12,345', '1.5')
    """
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.6g}"


def percent(share: float) -> str:
    """A share as percent, as short as it can be.

    >>> percent(0.001), percent(0.1)
    ('0.1 %', '10 %')
    """
    return f"{100 * share:.10g} %"


def plain(value: Any) -> str:
    """Any JSON value in words, for the rows that nobody gave a form."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return say("yes" if value else "no")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:.8g}"
    if isinstance(value, Mapping):
        if is_measured(value):
            return str(decimals(read(Measured, value), 4))
        return ", ".join(f"{name} {plain(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        shown = ", ".join(plain(item) for item in value[:_LONGEST_LIST])
        return shown if len(value) <= _LONGEST_LIST else say("in_all", shown=shown, n=len(value))
    return str(value)


def few(texts: Sequence[str], most: int, mark: str = ", ") -> str:
    """The first texts, and how many more there are."""
    shown, left = mark.join(texts[:most]), len(texts) - most
    return f"{shown} {say('and_more', n=left)}" if left > 0 else shown


_LEAST = 1e-12
"""Percent, below which a share is no longer written out."""

_NOTHING = 1e-6
"""A lower limit below it is written as 0."""


def share_words(share: float, digits: int = 2) -> str:
    """A share as percent with two digits for text, three for tables.

    >>> share_words(0.0751), share_words(0.9312), share_words(0.0012), share_words(0.9997)
    ('7.5 %', '93 %', '0.12 %', 'over 99.9 %')
    >>> share_words(-0.0042), share_words(1.0), share_words(0.0), share_words(0.07513, 3)
    ('−0.42 %', '100 %', '0 %', '7.51 %')
    """
    hundred, sign = abs(100 * share), "−" if share < 0 else ""
    if not hundred:
        return "0 %"
    if 99.5 <= hundred < 100:
        text = f"{hundred:.1f}"
        if text == "100.0":
            return sign + say("over", value="99.9 %")
    elif hundred < _LEAST:
        return sign + say("under", value=f"{_LEAST:.0e} %")
    elif hundred < 1e-4:
        text = f"{hundred:.1e}"
    else:
        decimals = max(digits - 1 - math.floor(math.log10(hundred) + 1e-9), 0)
        text = f"{hundred:.{decimals}f}"
    return f"{sign}{text} %"


def range_words(quantity: Estimate, digits: int = 2) -> str:
    """An interval of a share: ``6.3 to 8.5 %``; empty where it was counted or has no limits.

    >>> range_words(Estimate(0.075, 0.0629, 0.0854, 0.95, "", 100))
    '6.3 to 8.5 %'
    >>> range_words(Estimate(0.01, 4e-7, 0.17, 0.95, "", 100))
    '0 to 17 %'
    >>> range_words(Estimate(0.9999, 0.9995, 0.99999, 0.95, "", 100))
    'over 99.9 %'
    """
    value, low, high = quantity.value, quantity.low, quantity.high
    if low is None and high is None or low == value == high:
        return ""
    if high is None:
        return say("at_least", value=share_words(low or 0.0, digits))
    if low is None:
        return say("at_most", value=share_words(high, digits))
    # A lower limit that is next to nothing says nothing more than 0 does.
    low = 0.0 if 0 < low < _NOTHING else low
    first, last = share_words(low, digits), share_words(high, digits)
    if first == last:
        return last
    return say("range", low=first.removesuffix(" %"), high=last)


def share(quantity: Measured | float | None) -> Cell:
    """A share or a difference of shares as a table cell, in percent.

    >>> str(share(Estimate(0.0751, 0.0629, 0.0854, 0.95, "", 100)))
    '7.51 % (6.29 to 8.54 %)'
    """
    return measured(
        quantity, lambda value: share_words(value, 3), lambda ends: range_words(ends, 3)
    )


def points(quantity: Measured | float | None) -> Cell:
    """A difference of shares in percentage points, for a column whose head says so.

    >>> str(points(Estimate(-0.0751, -0.0854, -0.0629, 0.95, "", 100)))
    '−7.51 (−8.54 to −6.29)'
    """
    cell = share(quantity)
    bare = {name: getattr(cell, name).replace(" %", "") for name in ("value", "interval")}
    return replace(cell, **bare)


def parameter(name: str, value: float, digits: int = 5) -> str:
    """A parameter of a guarantee; what is proven is never rounded down.

    >>> parameter("epsilon", 7.99123), parameter("delta", 1e-5), parameter("steps", 298.0)
    ('7.9913', '1e-05', '298')
    """
    value = rounded_up(value, digits) if "epsilon" in name else value
    whole = value == round(value) and (abs(value) >= 1 or not value)
    return grouped(round(value)) if whole else f"{value:.{digits}g}"


def significant(value: float, digits: int = 3) -> str:
    """A number with so many digits and no exponent where it can be read without one.

    >>> significant(59.66667), significant(0.94290845), significant(26.0), significant(123456.0)
    ('59.7', '0.943', '26', '123,456')
    """
    if not value:
        return "0"
    if abs(value) >= 10**digits:
        return fixed(value, 0) if abs(value) < 1e4 else f"{value:,.0f}".replace("-", "−")
    if abs(value) < 1e-4:
        return f"{value:.{digits - 1}e}".replace("-", "−", 1) if value < 0 else f"{value:.1e}"
    decimals = max(digits - 1 - math.floor(math.log10(abs(value)) + 1e-9), 0)
    text = f"{abs(value):.{decimals}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"−{text}" if value < 0 else text


def amount(quantity: Measured | float | None, digits: int = 3) -> Cell:
    """A number that is no share (lift, t, bits, epsilon) as a table cell."""

    def interval(quantity: Estimate) -> str:
        low, high = quantity.low, quantity.high
        ends = ["" if end is None else significant(end, digits) for end in (low, high)]
        if not any(ends) or low == quantity.value == high:
            return ""
        if all(ends):
            return say("range", low=ends[0], high=ends[1])
        return say("at_least", value=ends[0]) if ends[0] else say("at_most", value=ends[1])

    return measured(quantity, lambda value: significant(value, digits), interval)


def decimals(quantity: Measured | float | None, places: int = 3, counted: bool = False) -> Cell:
    """A measured number that is no share, with fixed decimals: a utility, a loss, an AUC.

    Args:
        counted: whether limits that are the number itself are printed, too.
    """

    def interval(quantity: Estimate) -> str:
        low, value, high = (
            "" if end is None else fixed(end, places, exact=False)
            for end in (quantity.low, quantity.value, quantity.high)
        )
        silent = not (low and value and high) or (low == value == high and not counted)
        return "" if silent else say("range", low=low, high=high)

    return measured(quantity, lambda value: fixed(value, places, exact=False), interval)


auc = partial(decimals, counted=True)
"""An AUC as a table cell: no share, three digits."""


def count(number: float | None) -> Cell:
    """A count with thousands separators as a table cell."""
    return Cell("none") if number is None else Cell("estimate", grouped(number))


UNITS: Mapping[str, Callable[[Any], Cell | str]] = {
    "share": share,
    "rate": decimals,
    "auc": auc,
    "amount": amount,
    "count": count,
    "": lambda value: "–" if value is None else str(value),
}
"""How a table prints a field, by the unit that its type says."""


def is_measured(value: Any) -> bool:
    """Whether a JSON value is an estimate or a refusal."""
    return isinstance(value, Mapping) and (
        "refused" in value or {"value", "low", "high"} <= set(value)
    )


_SEVERAL = r"; (?:Bonferroni over|strongest of) \d+ \w+|at once for \d+ attacks, |[\d.]+ times: "
_COUNT = r"\b(?!(?:19|20)\d\d\b)\d[\d.e+-]*"


def method_name(method: str) -> str:
    """How an interval is made, without the counts that differ from number to number.

    >>> method_name("t by 40 people; strongest of 6 attacks"), method_name("Obuchowski 1997")
    ('t by n people', 'Obuchowski 1997')
    """
    return re.sub(_COUNT, "n", re.sub(_SEVERAL, "", method))


def interval_methods(value: Any) -> list[str]:
    """How the intervals of a document are made, each way once, in order of appearance.

    >>> interval_methods([{"value": 1, "low": 0, "high": 2, "confidence": 0.95, "method": "exact"}])
    ['exact']
    """
    found: dict[str, None] = {}
    if isinstance(value, Mapping):
        if value.get("method") and value.get("confidence"):
            return [method_name(value["method"])]
        value = [item for key, item in value.items() if key != "plants"]  # they are not printed
    for item in value if isinstance(value, list) else ():
        if not isinstance(item, str | float | int):  # most items
            found |= dict.fromkeys(interval_methods(item))
    return list(found)


def facts(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """A nested object as rows of label and text.

    >>> facts({"seed": 0, "versions": {"numpy": "2.1"}})
    [('seed', '0'), ('versions · numpy', '2.1')]
    """
    rows: list[tuple[str, str]] = []
    for name, item in value.items():
        label = f"{prefix}{name}".replace("_", " ")
        if isinstance(item, Mapping) and item and not is_measured(item):
            rows += facts(item, f"{label} · ")
        else:
            rows.append((label, plain(item)))
    return rows
