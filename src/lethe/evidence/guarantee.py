"""What a defence proves, in what sense, and what would void it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lethe.errors import check_choice

PROVEN = (
    "pure-dp",
    "approx-dp",
    "gdp",
    "zcdp",
    "individual-dp",
    "identification-bound",
    "certified-radius",
)
NOT_PROVEN = ("asymptotic", "empirical-only")
RELATIONS = ("add/remove", "replace-one", "none")
UNITS = ("record", "user", "vector", "query", "none")


@dataclass(frozen=True)
class Guarantee:
    """The claim that comes with a release.

    Attributes:
        kind: one of `PROVEN` or `NOT_PROVEN`; only the former may be drawn as proof, and the
            latter never share an axis with an epsilon.
        parameters: native parameters of the kind (epsilon, delta, mu, rho, radius, ...).
        relation: which data sets count as neighbours.
        unit: whose contribution is protected.
        assumptions: what must hold for the claim.
        voided_by: what would end it.

    >>> empirical_only("attacks of this audit").proven
    False
    """

    kind: str
    parameters: Mapping[str, float]
    relation: str
    unit: str
    assumptions: tuple[str, ...] = ()
    voided_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, PROVEN + NOT_PROVEN)
        check_choice("relation", self.relation, RELATIONS)
        check_choice("unit", self.unit, UNITS)
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and travels to worker processes; a read-only mapping alone cannot."""
        return Guarantee, (
            self.kind,
            dict(self.parameters),
            self.relation,
            self.unit,
            self.assumptions,
            self.voided_by,
        )

    @property
    def proven(self) -> bool:
        """Whether the kind is a proof."""
        return self.kind in PROVEN

    def to_json(self) -> dict[str, Any]:
        """Plain values for `findings.json`."""
        return {
            "kind": self.kind,
            "proven": self.proven,
            "parameters": dict(self.parameters),
            "relation": self.relation,
            "unit": self.unit,
            "assumptions": list(self.assumptions),
            "voided_by": list(self.voided_by),
        }


def empirical_only(*assumptions: str, voided_by: tuple[str, ...] = ()) -> Guarantee:
    """The label of everything that was only measured: attacks give lower limits, never proof."""
    return Guarantee("empirical-only", {}, "none", "record", assumptions, voided_by)
