"""Numbers as they stand in the report: fixed decimals, intervals, refusals in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_RATE_DECIMALS = 4
_SCORE_DECIMALS = 2
_LONGEST_LIST = 40


@dataclass(frozen=True)
class Cell:
    """One measured quantity, ready for a table.

    Attributes:
        kind: ``estimate``, ``refused`` or ``none``.
        value: the number, or a limit such as ``at most 0.0030``; empty if there is none.
        interval: ``[low, high]``; empty if there is none.
        reason: why it was refused.
    """

    kind: str
    value: str = ""
    interval: str = ""
    reason: str = ""

    def __str__(self) -> str:
        if self.kind == "refused":
            return f"not measurable: {self.reason}"
        return f"{self.value} {self.interval}".strip() or "–"


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


def measured(quantity: Mapping[str, Any] | None, decimals: int) -> Cell:
    """An estimate or refusal of the findings as a table cell."""
    if quantity is None:
        return Cell("none")
    if "refused" in quantity:
        return Cell("refused", reason=str(quantity["refused"]))
    value, low, high = quantity["value"], quantity["low"], quantity["high"]
    ends = ["–" if end is None else fixed(end, decimals, exact=False) for end in (low, high)]
    interval = "" if low is None and high is None else f"[{ends[0]}, {ends[1]}]"
    if value is not None:
        return Cell("estimate", fixed(value, decimals), interval)
    if high is not None:
        return Cell("estimate", f"at most {ends[1]}")
    return Cell("estimate", f"at least {ends[0]}") if low is not None else Cell("none")


def rate(quantity: Mapping[str, Any] | None) -> Cell:
    """A share, rate, AUC or accuracy.

    >>> str(rate({"value": 0.052, "low": 0.046, "high": None}))
    '0.0520 [0.0460, –]'
    """
    return measured(quantity, _RATE_DECIMALS)


def score(quantity: Mapping[str, Any] | None) -> Cell:
    """A t-score or tau."""
    return measured(quantity, _SCORE_DECIMALS)


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
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:.8g}"
    if isinstance(value, Mapping):
        if is_measured(value):
            return str(rate(value))
        return ", ".join(f"{name} {plain(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        shown = ", ".join(plain(item) for item in value[:_LONGEST_LIST])
        return shown if len(value) <= _LONGEST_LIST else f"{shown}, … ({len(value)} in all)"
    return str(value)


def is_measured(value: Any) -> bool:
    """Whether a JSON value is an estimate or a refusal."""
    return isinstance(value, Mapping) and (
        "refused" in value or {"value", "low", "high"} <= set(value)
    )


def interval_methods(value: Any) -> list[str]:
    """How the intervals of a document were made, each way once, in order of appearance.

    >>> interval_methods([{"value": 1, "low": 0, "high": 2, "confidence": 0.95, "method": "exact"}])
    ['95 %: exact']
    """
    found: dict[str, None] = {}
    if isinstance(value, Mapping):
        if value.get("method") and value.get("confidence"):
            return [f"{percent(value['confidence'])}: {value['method']}"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
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
