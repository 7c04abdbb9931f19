"""What a mitigation proves, in what sense, and what would void it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any

from lethe.errors import InputError, check_at_least, check_between, check_choice

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
"""Parameters that state how much is proven: -1 where less is the stronger claim, 1 where more is.
All others (noise_multiplier, sampling_rate, steps, draws, ...) are settings of the mechanism: the
claim follows from them, and they add nothing to it."""
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
        voided_by: what would void it.

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
        """Support copying and pickling, which a read-only mapping does not."""
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


def check_clip(clip: float) -> float:
    """Return `clip` if float32 holds it, its quotient with any norm and its product with noise.

    Raises InputError: it lies outside [1e-9, 1e9]: one record's gradient could overflow the sum.
    """
    return check_between("clip", clip, 1e-9, 1e9)


def check_given_delta(delta: float | None) -> float:
    """Return `delta` if it was given and lies in (0, 1)."""
    if delta is None:
        raise InputError(
            "delta is not given and has no default: choose it well below 1 / records, "
            "for example delta=1e-6 for 100000 records."
        )
    return check_between("delta", delta, 0, 1, open_low=True, open_high=True)


def where_people_have_several(guarantee: Guarantee, most: int) -> Guarantee:
    """Add the assumption that a guarantee of records does not protect a person with several.

    Args:
        guarantee: returned unchanged unless it has numbers and its unit is a record.
        most: largest number of records of one person.

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
    """Weaken or qualify a guarantee by how the records were prepared.

    Args:
        guarantee: returned unchanged unless it is proven.
        read_off: what was read from the private records without noise; it voids a proof.
        assumed: what a proof assumes about the schema that prepared the records.

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
    """Add to a guarantee what noise of a pseudo-random generator leaves open.

    Every guarantee that rests on such noise passes through here; noise of OpenDP, which comes from
    the operating system through exact samplers, does not need it.

    Args:
        guarantee: of a release with noise in floating point; a second call only changes whether
            the seed was given.
        given: whether the caller named the seed instead of drawing a secret: see `noise_seed`.

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
    """Return the given seed, or a secret of 128 bits from the operating system.

    Args:
        seed: >= 0, for audits and reproductions; None for real releases.
    """
    if seed is None:
        return secrets.randbits(SECRET_BITS)
    return int(check_at_least("seed", seed, 0))


def empirical_only(*assumptions: str, voided_by: tuple[str, ...] = ()) -> Guarantee:
    """The guarantee of what was only measured: attacks give lower limits, never proof."""
    return Guarantee("empirical-only", {}, "none", "record", assumptions, voided_by)
