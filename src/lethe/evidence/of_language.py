"""What an audit of a language model writes into its findings, and its report reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lethe.evidence.estimate import Estimate
from lethe.evidence.plain import Amount, Auc, Count, Number, Share


@dataclass(frozen=True)
class TextAttack:
    """What one attack achieved; `excess` over the blind classifier at the rate of the risk."""

    auc: Auc
    tpr: Mapping[float, Share]
    realised_fpr: Mapping[float, float]
    excess: Share


@dataclass(frozen=True, kw_only=True)
class TextGroup:
    """Share of texts that come out: one way, or of one kind by copies or by length."""

    name: str
    texts: Count | None = None
    share: Share


@dataclass(frozen=True)
class Side:
    """Texts that were trained on (``member``) or not (``other``), and what comes out of them."""

    side: str
    texts: int
    rows: Sequence[TextGroup]


@dataclass(frozen=True)
class Pattern:
    """Personal patterns: how many stand in the texts of a side, and the share that comes out."""

    name: str
    member: Share
    members: Count
    other: Share
    others: Count


@dataclass(frozen=True)
class Extraction:
    """What comes out; `control` is the share of texts never trained on."""

    sides: Sequence[Side]
    groups: Sequence[TextGroup]
    patterns: Sequence[Pattern]
    control: Share


@dataclass(frozen=True)
class Bound(Estimate):
    """A lower limit on epsilon; `note` says what it rests on."""

    note: str


@dataclass(frozen=True)
class CanaryRow:
    """Canaries that stand equally often: the epsilon that they show, by form of the bound."""

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
    """What was measured on a candidate beside its risk."""

    text_attacks: Mapping[str, TextAttack]
    extraction: Extraction
    canaries: Sequence[CanaryRow] = ()


@dataclass(frozen=True)
class BlindRates:
    """A classifier that never asks the model; `tells` where it tells members from others."""

    tells: bool
    p_value: float
    by: str
    auc: Auc
    tpr: Mapping[float, Share]


@dataclass(frozen=True)
class EpsilonClaim:
    """What canaries that stand once say of the claimed epsilon."""

    epsilon: float
    delta: float
    verdict: str
    words: str


@dataclass(frozen=True)
class CanaryPlan:
    """The canaries that were planted, and what was claimed of them."""

    plan: str
    canaries: int
    inserted: int
    delta: float
    reach: float
    claim: EpsilonClaim | None
    checks: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Prompts:
    """How extraction was asked: tokens, the chance that counts, and tries."""

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
    """What belongs to the whole audit."""

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
    """One of the most exposed texts, and its words that the token-level attack marks."""

    rank: int
    id: str
    attack: str
    score: float
    marked: str
