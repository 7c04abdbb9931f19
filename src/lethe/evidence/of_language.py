"""Types of the findings of a language-model audit, shared by the audit and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lethe.evidence.estimate import Estimate
from lethe.evidence.plain import Amount, Auc, Count, Number, Share


@dataclass(frozen=True)
class TextAttack:
    """Rates of an attack; `excess`: over the blind classifier, at the rate of the risk."""

    auc: Auc
    tpr: Mapping[float, Share]
    realised_fpr: Mapping[float, float]
    excess: Share


@dataclass(frozen=True, kw_only=True)
class TextGroup:
    """Share of texts that are extracted, by method or by copies or length."""

    name: str
    texts: Count | None = None
    share: Share


@dataclass(frozen=True)
class Side:
    """Extraction from texts that were trained on (``member``) or not (``other``)."""

    side: str
    texts: int
    rows: Sequence[TextGroup]


@dataclass(frozen=True)
class Pattern:
    """Personal patterns: their number in the texts of each side, and the share extracted."""

    name: str
    member: Share
    members: Count
    other: Share
    others: Count


@dataclass(frozen=True)
class Extraction:
    """Extraction; `control` is the share of texts never trained on."""

    sides: Sequence[Side]
    groups: Sequence[TextGroup]
    patterns: Sequence[Pattern]
    control: Share


@dataclass(frozen=True)
class Bound(Estimate):
    """A lower limit on epsilon; `note` says on what it is based."""

    note: str


@dataclass(frozen=True)
class CanaryRow:
    """Canaries with equally many copies: their lower limit on epsilon, by form of the bound."""

    repetitions: int
    canaries: Count
    inserted: Count
    epsilon: Mapping[str, Bound]
    largest: Number
    exposure: Amount | None
    most_exposure: Number | None
    extracted: Share
    control: Share
    note: str


@dataclass(frozen=True, kw_only=True)
class LanguageDetails:
    """Measurements on a candidate beside its risk."""

    text_attacks: Mapping[str, TextAttack]
    extraction: Extraction
    canaries: Sequence[CanaryRow] = ()


@dataclass(frozen=True)
class BlindRates:
    """A classifier without the model; `tells`: whether it distinguishes members from others."""

    tells: bool
    p_value: float
    by: str
    auc: Auc
    tpr: Mapping[float, Share]


@dataclass(frozen=True)
class EpsilonClaim:
    """The test of a claimed epsilon by canaries with a single copy."""

    epsilon: float
    delta: float
    verdict: str
    words: str


@dataclass(frozen=True)
class CanaryPlan:
    """The planted canaries, and the claim that they test."""

    plan: str
    canaries: int
    inserted: int
    delta: float
    reach: float
    claim: EpsilonClaim | None
    checks: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Prompts:
    """Settings of extraction: tokens, the chance from which a text counts, and tries."""

    prefix: int
    suffix: int
    chance: float
    samples: Sequence[int]


@dataclass(frozen=True)
class MarkShares:
    """Shares of tokens that the token-level attack marks."""

    rate: float
    member: Share
    other: Share


@dataclass(frozen=True)
class LanguageSection:
    """Results of the whole audit."""

    words: Sequence[str]
    unit: str
    fpr: float
    base: bool
    refused: str
    blind: BlindRates
    canaries: CanaryPlan | None
    extraction: Prompts
    marks: MarkShares | None


@dataclass(frozen=True, kw_only=True)
class LanguageData:
    """The texts."""

    records: int
    members: int
    others: int
    asked: int
    units: Sequence[int]
    people: int | None = None
    tokens: int
    notes: Sequence[str]
    fingerprint: str


@dataclass(frozen=True)
class ExposedText:
    """One of the most exposed texts."""

    rank: int
    id: str
    attack: str
    score: float
