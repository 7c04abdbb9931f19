"""What a defence proves, in what sense, and what would void it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any

from lethe.errors import check_at_least, check_choice

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
CLAIMS = {
    "epsilon": -1,
    "epsilon_median": -1,
    "epsilon_min": -1,
    "delta": -1,
    "rho": -1,
    "mu": -1,
    "success": -1,
    "chance": -1,
    "radius": 1,
}
"""Parameters that say how much is proven: -1 where less is the stronger claim, 1 where more is.
All others (noise_multiplier, sampling_rate, steps, draws, ...) are settings of the mechanism: they
lead to the claim and say nothing beside it."""
RELATIONS = ("add/remove", "replace-one", "none")
UNITS = ("record", "user", "vector", "query", "none")

FLOAT_NOISE = (
    "the proof is of real numbers; the noise is ordinary floating point, whose lowest bits may "
    "reveal more"
)
SECRET_SEED = (
    "the noise comes from a secret of at least 128 bits that is handed to nobody, through a "
    "generator for statistics, not for cryptography"
)
GIVEN_SEED = (
    "the seed of this noise was given, as an audit or a reproduction needs: the label is for the "
    "same release made anew with a secret seed"
)
SEED_KNOWN = "anyone who knows or guesses the seed of the noise can draw it again and take it off"
SECRET_BITS = 128


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

    kind: Annotated[str, ("enum", (*PROVEN, *NOT_PROVEN))]
    parameters: Mapping[str, float]
    relation: Annotated[str, ("enum", RELATIONS)]
    unit: Annotated[str, ("enum", UNITS)]
    assumptions: tuple[str, ...] = ()
    voided_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, PROVEN + NOT_PROVEN)
        check_choice("relation", self.relation, RELATIONS)
        check_choice("unit", self.unit, UNITS)
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and travels to worker processes; a read-only mapping alone cannot."""
        return Guarantee, tuple({**vars(self), "parameters": dict(self.parameters)}.values())

    @property
    def proven(self) -> bool:
        """Whether the kind is a proof."""
        return self.kind in PROVEN

    def to_json(self) -> dict[str, Any]:
        """Plain values for `findings.json`."""
        lists = {"assumptions": list(self.assumptions), "voided_by": list(self.voided_by)}
        written = {**vars(self), "parameters": dict(self.parameters), **lists}
        return {"kind": self.kind, "proven": self.proven, **written}


def where_people_have_several(guarantee: Guarantee, most: int) -> Guarantee:
    """The same, saying that it protects a record and not the person behind several.

    Args:
        guarantee: a label; returned as it is unless it has numbers and its unit is a record.
        most: records of the person who has the most of them.

    >>> where_people_have_several(Guarantee("gdp", {"mu": 1.0}, "none", "record"), 3).assumptions
    ('it protects each record as one, not a person: here a person has up to 3 records',)
    """
    if guarantee.unit != "record" or not guarantee.parameters or most < 2:
        return guarantee
    note = f"it protects each record as one, not a person: here a person has up to {most} records"
    return replace(guarantee, assumptions=(note, *guarantee.assumptions))


def resting_on(
    guarantee: Guarantee, read_off: Sequence[str], assumed: Sequence[str] = ()
) -> Guarantee:
    """The same with what preparing the records means for it: no proof rests on a false premise.

    Args:
        guarantee: a label; returned as it is unless it is a proof.
        read_off: what was read off the private records, without noise; it ends a proof.
        assumed: what a proof assumes of the schema that the records were prepared by.

    >>> label = Guarantee("approx-dp", {"epsilon": 1.0, "delta": 1e-6}, "add/remove", "record")
    >>> resting_on(label, ["the list of classes"]).kind
    'empirical-only'
    """
    if not guarantee.proven:
        return guarantee
    if read_off:
        return empirical_only(
            voided_by=(
                f"no epsilon is proven: {', and '.join(read_off)} were read off all records, "
                "private ones among them, which no noise covers. Let a schema or public rows "
                "decide: schema= or public= of lethe.load, or hand the raw columns over",
            )
        )
    return replace(guarantee, assumptions=(*guarantee.assumptions, *assumed))


def from_seeded_noise(guarantee: Guarantee, *, given: bool = False) -> Guarantee:
    """The same label with what noise of a pseudo-random generator leaves open.

    Every label that rests on such noise passes through here; noise of OpenDP, which comes from the
    operating system through exact samplers, does not need it.

    Args:
        guarantee: of a release with noise in floating point; a second call only changes whether
            the seed was given.
        given: the seed was named by the caller, not drawn as a secret: see `noise_seed`.

    >>> label = from_seeded_noise(Guarantee("gdp", {"mu": 1.0}, "replace-one", "vector"))
    >>> SEED_KNOWN in label.voided_by, GIVEN_SEED in label.assumptions
    (True, False)
    """
    added = (FLOAT_NOISE, SECRET_SEED, GIVEN_SEED)
    kept = tuple(text for text in guarantee.assumptions if text not in added)
    voided = tuple(text for text in guarantee.voided_by if text != SEED_KNOWN)
    return replace(
        guarantee,
        assumptions=(*kept, FLOAT_NOISE, GIVEN_SEED if given else SECRET_SEED),
        voided_by=(*voided, SEED_KNOWN),
    )


def noise_seed(seed: int | None) -> int:
    """The seed that was given, or a secret of 128 bits from the operating system.

    Args:
        seed: >= 0, for audits and reproductions; None for whatever is handed out.
    """
    if seed is None:
        return secrets.randbits(SECRET_BITS)
    return int(check_at_least("seed", seed, 0))


def empirical_only(*assumptions: str, voided_by: tuple[str, ...] = ()) -> Guarantee:
    """The label of everything that was only measured: attacks give lower limits, never proof."""
    return Guarantee("empirical-only", {}, "none", "record", assumptions, voided_by)
