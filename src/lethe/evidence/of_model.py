"""Types of the findings of a model audit, shared by the audit and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from lethe.evidence.document import Histogram
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.plain import Amount, Auc, Count, Loss, Share, Utility


@dataclass(frozen=True)
class Shown:
    """A rate (None: the AUC) at which an attack lies above chance, where the risk's does not."""

    fpr: float | None
    estimate: Estimate


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Rates of an attack; `valid` unless a self-check failed, which `why` names."""

    always: ClassVar = ("valid", "why")
    valid: bool = True
    why: str = ""
    auc: Auc
    tpr: Mapping[float, Share]
    tau: Mapping[float, Amount]
    realised_fpr: Mapping[float, float]  # FPR of the threshold without its lottery
    roc: Mapping[str, Sequence[float]]  # fpr, tpr, low, high, band_low, band_high


@dataclass(frozen=True)
class MostExposed:
    """The most exposed records."""

    top_t: Amount
    max_t: Amount
    top_auc: Auc
    selection: str
    histogram: Histogram
    baseline_records_t: Amount | None = None

    @property
    def tracked(self) -> Amount:
        """The mean t of the records that were the most exposed at baseline."""
        return self.baseline_records_t or self.top_t


@dataclass(frozen=True)
class OnionRound:
    """Effect of removing the most exposed records on the others."""

    removed: Count
    stayed: Count
    attack: str
    risk: Measured
    top_t: Amount
    change: Amount
    newly_exposed: Count


@dataclass(frozen=True)
class Drift:
    """How much worse models are on records of another time, site or group.

    Attributes:
        near: utility on held-out records drawn at random from those that models train on.
        loss: that utility minus the one on the other records; positive = worse there.
    """

    keys: ClassVar = {"near": "random"}
    near: Estimate
    loss: Estimate


@dataclass(frozen=True)
class ClassRow:
    """Utility of a class, and its loss against the baseline."""

    keys: ClassVar = {"name": "class"}
    name: str
    records: Count
    utility: Utility
    utility_loss: Loss | None = None


@dataclass(frozen=True)
class ComparedClass(ClassRow):
    """Utility of a class under a mitigation: an unknown loss is written as null."""

    always: ClassVar = ("utility_loss",)


@dataclass(frozen=True, kw_only=True)
class F1Row:
    """F1 over classes of similar size, or of a model that reads no text.

    Losses are against the baseline on the same splits.
    """

    name: str
    smallest: int | None = None
    largest: int | None = None
    classes: Count | None = None
    records: Count | None = None
    held_out: Count | None = None
    weighted: Share
    weighted_lost: Share | None = None
    macro: Share
    macro_lost: Share | None = None


@dataclass(frozen=True, kw_only=True)
class F1Table:
    """F1 over all classes with a held-out record, by size of the class, and of blind models."""

    weighted: Share
    weighted_lost: Share | None = None
    macro: Share
    macro_lost: Share | None = None
    classes: int
    held_out: int
    classes_not_measured: int
    quarters: Sequence[F1Row]
    blind: Sequence[F1Row] = ()


@dataclass(frozen=True)
class EarlyStop:
    """The plain training stopped at an epoch, as compared with other stops.

    Attributes:
        utility_loss: against the full training, with limits that hold for all stops at once.
    """

    epochs: int  # after which training ends
    attack: str  # that it was compared under
    risk: Measured  # of that attack, with limits that hold for all stops at once
    utility: Estimate | None  # held-out accuracy, or R²; None if unknown
    utility_loss: Estimate | None


@dataclass(frozen=True)
class Slice:
    """Measurements on a group of records.

    Attributes:
        p: p-value of "no difference", corrected for all slices (Holm); None if not tested.
    """

    name: str  # value of the column
    records: Count
    auc: Auc  # within the slice
    tpr: Share  # TPR at the pooled threshold
    fpr: Share  # FPR of the slice at the pooled threshold
    tpr_within: Share  # TPR at the slice's own threshold
    t: Amount  # mean t-score of its records
    difference: Amount  # its AUC minus that of all other records
    p: float | None


@dataclass(frozen=True)
class SlicesBy:
    """The groups by one column, under one attack at one pooled FPR; or why not."""

    column: str
    attack: str
    fpr: float
    slices: Sequence[Slice] = ()
    refused: str = ""


@dataclass(frozen=True)
class Persons:
    """One attack with the scores of each person's records added up; rates count persons."""

    attack: str
    persons: int
    with_several_records: int
    most_records: int
    auc: Auc
    tpr: Mapping[float, Share]


@dataclass(frozen=True)
class Moved:
    """Whether risk moved to records that were not among the most exposed."""

    records: Count
    mean_change: Amount
    newly_exposed: Count
    words: str


@dataclass(frozen=True)
class Epsilons(Histogram):
    """Distribution of epsilon over records, where each record has its own."""

    median: float
    min: float
    max: float
    n: int


@dataclass(frozen=True, kw_only=True)
class ModelDetails:
    """Measurements on a candidate beside its risk; empty for other kinds of release."""

    always: ClassVar = ("shown",)
    shown: Sequence[Shown] = ()
    strongest_attack: str = ""
    models: int = 0
    attacks: Mapping[str, Rates] = field(default_factory=dict)
    vulnerability: MostExposed | None = None
    train_utility: Utility | None = None
    onion: Sequence[OnionRound] = ()
    drift: Drift | None = None
    per_class: Sequence[ClassRow] | None = None
    f1: F1Table | None = None
    stops: Sequence[EarlyStop] = ()
    slices: Sequence[SlicesBy] = ()
    persons: Persons | None = None
    moved: Moved | None = None
    epsilons: Epsilons | None = None
    estimated: Share | None = None  # TPR at 1 % FPR, not measured: see `membership.one_model`


@dataclass(frozen=True)
class External:
    """Held-out records of another time, site or group."""

    by: str
    records: int


@dataclass(frozen=True, kw_only=True)
class ModelData:
    """The records; `target` (mean and sd) where a number is predicted."""

    records: int
    people: int
    pool: int | None = None
    holdout: int
    notes: Sequence[str] | None = None
    fingerprint: str
    pool_people: int | None = None
    features: int | None = None
    task: str = "any"
    source: str | None = None
    external: External | None = None
    classes: Sequence[str] = ()
    class_counts: Sequence[int] = ()
    target: Mapping[str, float] | None = None


@dataclass(frozen=True)
class ExposedRecord:
    """One of the most exposed records; `auc` is Phi of t."""

    keys: ClassVar = {"tpr": "tpr_at_0.001"}
    id: str
    label: str
    t: float
    se: float
    low: float
    high: float
    auc: float
    tpr: float
