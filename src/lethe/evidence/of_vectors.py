"""What an audit of vectors finds beyond who is named: each result once, for findings and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lethe.evidence.estimate import Estimate, Measured, Refusal


@dataclass(frozen=True)
class ClosedWorld:
    """What assigning all people at once finds, where the adversary knows that all are in both.

    It is another threat model than that of the headline, whose attackers know nothing of the kind.
    """

    attack: str  # whose scores are assigned
    knows: str
    top_1: Estimate  # share of people who are assigned to themselves


@dataclass(frozen=True)
class Inferred:
    """What one attack infers of an attribute.

    Attributes:
        gain: share of people whose value is named rightly, less that of the majority.
        balanced: mean over values of the share of their people named rightly, less 1 / values.
        auc: of two values, the chance that a person of the second is ranked above one of the
            first; None of several.
    """

    keys: ClassVar = {"attack": "name", "balanced": "balanced_gain"}
    attack: str
    accuracy: float
    gain: Estimate
    balanced: Estimate
    auc: float | None


@dataclass(frozen=True)
class Inference:
    """All attacks on an attribute of one release.

    Attributes:
        gain: of the strongest attack, the larger of both gains, limits for all at once.
        raw: the logistic attack on the raw inputs; None without them.
        over_raw: accuracy on the vectors less that on the raw inputs, paired; None without.
        permuted: the logistic attack where values are those of other people: near 0.
        kind: ``input`` where an input column holds it, ``inferred`` where none does, ``unknown``
            without inputs.
    """

    name: str
    people: int
    left_out: int  # people of values that too few have
    classes: int
    majority: float  # share of the largest class
    attacks: Sequence[Inferred]
    gain: Measured
    strongest: str
    raw: Inferred | None
    over_raw: Estimate | None
    permuted: Inferred
    kind: str


@dataclass(frozen=True)
class Unattacked:
    """An attribute that could not be attacked, and why."""

    name: str
    refused: str


@dataclass(frozen=True)
class NameControl:
    """Equal error rate of an attacker where people are claimed to be others: 0.5."""

    name: str
    eer: float
    low: float
    high: float


@dataclass(frozen=True)
class ByPeople:
    """Top-1 expected in a random gallery of so many people."""

    name: str  # of the attacker
    users: int
    top_1: Estimate
    lift: Estimate


@dataclass(frozen=True)
class ByVectors:
    """Top-1 by the number of new vectors that are joined, or of earlier ones behind a mean."""

    name: str
    vectors: int
    top_1: Estimate


@dataclass(frozen=True)
class Matched:
    """Share of probes whose owner is among the k nearest."""

    name: str
    k: int
    share: Estimate


@dataclass(frozen=True)
class SinglingOut:
    """How singling out depends on how many people there are and on how many vectors of each."""

    users: int
    sizes: Sequence[ByPeople]
    vectors: Sequence[ByVectors]
    enrolled: Sequence[ByVectors]
    matched: Sequence[Matched]


@dataclass(frozen=True)
class Grouping:
    """Unlabelled vectors put together by whose they are.

    Attributes:
        agreement: adjusted Rand index with the people: 1 is right, 0 chance.
        permuted: the same against people by chance.
    """

    agreement: Estimate
    permuted: float
    vectors: int
    people: int


@dataclass(frozen=True)
class Linked:
    """Who of one release is found in the other.

    Attributes:
        permuted: lift where the unknown people are looked for under other names: 1.
    """

    keys: ClassVar = {"method": "name"}
    method: str
    share: float  # of people that the attacker knows in both
    known: int  # how many these are
    unknown: int  # people who are linked, among themselves
    top_1: Estimate  # share of them whose nearest in the other release is themselves
    lift: Estimate
    permuted: Estimate


@dataclass(frozen=True)
class TwoReleases:
    """Every way to link two releases, or why none could be tried."""

    other: str
    people: int | None = None
    results: Sequence[Linked] | None = None
    skipped: Mapping[str, str] | None = None
    refused: str = ""


@dataclass(frozen=True)
class ByTexts:
    """Top-1 expected in a random list of so many texts that holds the right one."""

    texts: int
    top_1: Estimate
    lift: Estimate


@dataclass(frozen=True)
class Retrieved:
    """How often the right text is named, by the size of the list."""

    texts: int
    sizes: Sequence[ByTexts]
    top_10: Estimate


@dataclass(frozen=True)
class Beyond:
    """What was asked for beyond identification, of one model; absent where it was not."""

    attributes_refused: Sequence[Unattacked] = ()
    verification_controls: Sequence[NameControl] = ()
    singling_out: SinglingOut | None = None
    clusters: Grouping | Refusal | None = None
    two_releases: TwoReleases | None = None
    texts: Retrieved | None = None
