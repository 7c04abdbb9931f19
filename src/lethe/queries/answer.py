"""What one private query gives back: the number, how far off it may be, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lethe.evidence.guarantee import Guarantee

Scalar = float | int | str | bool


@dataclass(frozen=True)
class Answer:
    """One released value.

    Attributes:
        low: lower limit of the error interval; None where the mechanism has none (a chosen
            category).
        confidence: of the interval, over the mechanism's noise alone: it does not cover what
            clamping or sampling did to the exact value.
        guarantee: what this value costs the people behind it; a group-by hands all its values
            out under one `Answers.guarantee` instead.
        key: values of the group columns, by column; empty without groups.
    """

    value: Scalar  # what was drawn; the exact value is nowhere in this object
    low: float | None
    high: float | None  # upper limit
    confidence: float
    mechanism: str  # such as ``discrete laplace``, with the library that drew it
    scale: float | None  # of the noise, in units of the value; None where the mechanism has none
    guarantee: Guarantee
    key: Mapping[str, Scalar] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what a reader must know: clamped to bounds, contribution bound,

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "key": dict(self.key),
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
            "mechanism": self.mechanism,
            "scale": self.scale,
            "guarantee": self.guarantee.to_json(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Answers:
    """All values of one query."""

    rows: tuple[Answer, ...]  # one `Answer`, or one a group
    guarantee: Guarantee  # of all of them together: what the ledger charges

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": [row.to_json() for row in self.rows],
            "guarantee": self.guarantee.to_json(),
        }
