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
        value: what was drawn; the exact value is nowhere in this object.
        low: lower limit of the error interval; None where the mechanism has none (a chosen
            category).
        high: upper limit.
        confidence: of the interval, over the mechanism's noise alone: it does not cover what
            clamping or sampling did to the exact value.
        mechanism: such as ``discrete laplace``, with the library that drew it.
        scale: of the noise, in units of the value; None where the mechanism has none.
        guarantee: what this value costs the people behind it; a group-by hands all its values
            out under one `Answers.guarantee` instead.
        key: values of the group columns, by column; empty without groups.
        notes: what a reader must know: clamped to bounds, contribution bound, ...
    """

    value: Scalar
    low: float | None
    high: float | None
    confidence: float
    mechanism: str
    scale: float | None
    guarantee: Guarantee
    key: Mapping[str, Scalar] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

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
    """All values of one query.

    Attributes:
        rows: one `Answer`, or one a group.
        guarantee: of all of them together: what the ledger charges.
    """

    rows: tuple[Answer, ...]
    guarantee: Guarantee

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "rows": [row.to_json() for row in self.rows],
            "guarantee": self.guarantee.to_json(),
        }
