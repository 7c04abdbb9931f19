"""Types of the findings of an audit of vectors, shared by the audit and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from lethe.evidence.document import Histogram
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.plain import Amount, Auc, Count, Counted, Lift, Number, Portion, Rate, Share
from lethe.evidence.risk import AttackResult


@dataclass(frozen=True)
class ClosedWorld:
    """Result of assigning all people at once, if the adversary knows that all are in both periods.

    Its threat model is not that of the headline, whose attackers do not know this.
    """

    attack: str  # whose scores are assigned
    knows: str
    top_1: Estimate  # share of people who are assigned to themselves


@dataclass(frozen=True)
class Inferred:
    """Result of an attack on an attribute.

    Attributes:
        gain: accuracy over people minus the share of the majority class.
        balanced: mean accuracy over classes, minus 1 / classes.
        auc: with two classes, the chance that a person of the second is ranked above a person of
            the first; None with more.
    """

    keys: ClassVar = {"attack": "name", "balanced": "balanced_gain"}
    attack: str
    accuracy: float
    gain: Share
    balanced: Share
    auc: Number | None


@dataclass(frozen=True)
class Inference:
    """All attacks on an attribute of one release.

    Attributes:
        gain: the larger gain of the strongest attack, with limits for all at once.
        raw: the logistic attack on the raw inputs; None without them.
        over_raw: accuracy on the vectors less that on the raw inputs, paired; None without.
        permuted: the logistic attack with permuted values: near 0.
        kind: ``input`` if an input column holds it, ``inferred`` if none does, ``unknown``
            without inputs.
    """

    name: str
    people: int
    left_out: int  # people whose value is too rare
    classes: int
    majority: float  # share of the largest class
    attacks: Sequence[Inferred]
    gain: Share
    strongest: str
    raw: Inferred | None
    over_raw: Share | None
    permuted: Inferred
    kind: str


@dataclass(frozen=True)
class Unattacked:
    """An attribute that could not be attacked, and why."""

    name: str
    refused: str


@dataclass(frozen=True)
class NameControl:
    """Equal error rate of an attacker with permuted people: it must be 0.5."""

    name: str
    eer: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Verification:
    """How well an attacker distinguishes pairs of the same person from other pairs.

    Intervals resample people, in both of their roles together.

    Attributes:
        missed: share of mated pairs rejected at each of `Scored.fprs`, with limits.
    """

    always: ClassVar = ("name", "valid", "why")
    name: str = ""  # of the attacker
    valid: bool = True
    why: str = ""  # reason why it is invalid and decides nothing
    eer: Share  # chance 0.5; lower = worse for the people
    cllr: Rate | None  # of ratios calibrated on other people; None without
    min_cllr: Rate  # chance 1
    linkability: Rate  # D_sys by rank; chance 0
    expected: Rate  # ZEBRA, bits; chance 0
    worst: Amount  # ZEBRA, |log10 ratio|
    tag: str
    missed: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True, eq=False)
class Worst:
    """The strongest attacker, if any, and its result, with limits for all at once."""

    keys: ClassVar = {"measured": "*"}
    attack: str | None
    measured: Rate


@dataclass(frozen=True, eq=False)
class Scored:
    """Verification of one release by all attackers.

    Attributes:
        worst: by quantity as a rule writes it.
        skipped: reason by name of each attacker that could not be scored.
        fprs: false match rates of the DET curves; empty without.
    """

    always: ClassVar = ("skipped",)
    attacks: Sequence[Verification]
    worst: Mapping[str, Worst]
    skipped: Mapping[str, str]
    fprs: Sequence[float] = ()


@dataclass(frozen=True)
class ByPeople:
    """Top-1 expected in a random gallery of so many people."""

    name: str  # of the attacker
    users: int
    top_1: Share
    lift: Amount


@dataclass(frozen=True)
class ByVectors:
    """Top-1 by the number of joined new vectors, or of earlier vectors in a mean."""

    name: str
    vectors: int
    top_1: Share


@dataclass(frozen=True)
class Matched:
    """Share of probes whose owner is among the k nearest."""

    name: str
    k: int
    share: Estimate


@dataclass(frozen=True)
class SinglingOut:
    """Singling out by the number of people and of vectors of each person."""

    users: int
    sizes: Sequence[ByPeople]
    vectors: Sequence[ByVectors]
    enrolled: Sequence[ByVectors]
    matched: Sequence[Matched]


@dataclass(frozen=True)
class Grouping:
    """Clustering of unlabelled vectors by person.

    Attributes:
        agreement: adjusted Rand index with the people: 1 is right, 0 chance.
        permuted: the index with permuted people.
    """

    agreement: Estimate
    permuted: float
    vectors: int
    people: int


@dataclass(frozen=True)
class Linked:
    """Linkage of the people of a release to another release.

    Attributes:
        permuted: lift with permuted unknown people: it must be 1.
    """

    keys: ClassVar = {"method": "name"}
    method: str
    share: float  # of people that the attacker knows in both
    known: int  # number of these people
    unknown: Count  # the other people, who are linked among themselves
    top_1: Counted  # share of them whose nearest in the other release is themselves
    lift: Lift
    permuted: Lift


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
    top_1: Share
    lift: Amount


@dataclass(frozen=True)
class Retrieved:
    """How often the right text is named, by the size of the list."""

    texts: int
    sizes: Sequence[ByTexts]
    top_10: Estimate


@dataclass(frozen=True)
class Beyond:
    """Optional results of a model beyond identification; empty unless requested."""

    attributes_refused: Sequence[Unattacked] = ()
    verification_controls: Sequence[NameControl] = ()
    singling_out: SinglingOut | None = None
    clusters: Grouping | Refusal | None = None
    two_releases: TwoReleases | None = None
    texts: Retrieved | None = None


# One model: identification, the effect of noise on it, and the utility that remains.


@dataclass(frozen=True)
class PeopleQuantiles:
    """PeopleQuantiles over people."""

    low: float
    median: float
    high: float


@dataclass(frozen=True)
class AtChance:
    """Results of naming people at random."""

    mrr: float
    mean_rank: float
    top: Mapping[int, float]


@dataclass(frozen=True)
class Gallery:
    """An attacker on clean vectors; see `lethe.reidentification.attack.Attack`."""

    name: str
    users: int
    probes: int
    people: int
    top: Mapping[int, Share]
    lift: Mapping[int, Amount]
    common: Mapping[int, Share]
    mrr: Auc
    mean_rank: Amount
    median_rank: Amount
    percentile: Share
    bits: Amount
    always: Share
    never: Share
    tie_share: float
    chance: AtChance


@dataclass(frozen=True)
class Named:
    """How often people are identified, and how many identifying bits are known.

    Attributes:
        named: people by the share of their new vectors that the deciding attacker identifies.
    """

    named: Histogram
    bits: PeopleQuantiles
    bits_that_name: float


@dataclass(frozen=True)
class OpenSet:
    """An attacker who names a person only below a threshold of distance.

    Attributes:
        false_match: share of probes of the other half of the strangers who are taken for a person.
    """

    threshold: float  # distance up to which a person is named; chosen on one half of the strangers
    aimed_at: float  # the false-match rate that the threshold was chosen for
    strangers: int  # people who are not in the gallery
    false_match: Share
    identified: Share  # share of probes of known people who are named, and rightly
    misnamed: Share  # share of probes of known people who are taken for another person


@dataclass(frozen=True)
class Controls:
    """Controls of the attack.

    Attributes:
        permuted_lift: lift of each attacker with permuted people: it must be 1.
    """

    permuted_lift: Mapping[str, Amount]
    conditioning: str
    open_set: OpenSet | Refusal
    shared_inputs: str | None = None


@dataclass(frozen=True)
class Strongest:
    """The deciding attack, and the view that it attacks."""

    attack: str
    view: str


@dataclass(frozen=True, kw_only=True)
class NoiseLevel:
    """All attackers at one level of isotropic noise.

    Attributes:
        relative: sigma over the root mean square coordinate.
        asked: whether the level was requested; else it was added near a threshold.
        bound: closed-form limit on the Top-1 of every attacker; `optimal`: by the best decoder.
    """

    sigma: float
    relative: float
    asked: bool
    tier: str
    draws: int
    top: Mapping[int, Share]
    mrr: Auc
    lift: Amount
    risk: Lift
    strongest: Strongest | None
    attacks: Sequence[AttackResult]
    bound: Portion | None
    optimal: Estimate | None


@dataclass(frozen=True)
class SurfaceCell:
    """The strongest attacker and utility at (sigma, M), which depend on sigma / sqrt(M) only."""

    sigma: float
    draws: Count
    effective: Number
    top_1: Share
    lift: Amount
    utility: Auc | None


@dataclass(frozen=True)
class PlugIn:
    """Precision, recall and F1 from expected counts; bias O(1/n). None if undefined."""

    precision: Number | None
    recall: Number
    f1: Number


@dataclass(frozen=True)
class Calibration:
    """Errors of the published probabilities; lower = better."""

    brier: Number
    log_loss: Number
    ece: Number


@dataclass(frozen=True, kw_only=True)
class TaskRow:
    """Utility of one draw, or of the mean of several; see `lethe.reidentification.task`."""

    keys: ClassVar = {"counts": "*"}
    sigma: float
    value: Auc
    accuracy: Share | None = None
    counts: PlugIn | None = None
    smoothed: Calibration | None = None


@dataclass(frozen=True, kw_only=True)
class TaskSection:
    """Utility of the task under noise.

    Attributes:
        smoothed: of the smoothed probability, the same at every sigma; None without a closed form.
        averaged: by number of draws M, their mean at each sigma.
    """

    measure: str
    floor: float
    head_norm: float | None
    closed_form: bool
    smoothed: Auc | None
    levels: Sequence[TaskRow]
    averaged: Mapping[int, Sequence[TaskRow]]


@dataclass(frozen=True, kw_only=True)
class RadiusRow:
    """Certified radii of some rows, in closed form or by draws at `sigma`."""

    sigma: float | None = None
    mean: Number | None
    median: Number | None
    most: Number
    cap: Number | None
    abstained: Portion
    counts: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class RadiiSection:
    """Certified radii; `accuracy`: certified accuracy at the radii `at`, by kind."""

    points: int
    closed_form: RadiusRow | None
    sampled: Sequence[RadiusRow]
    edges: Sequence[float]
    at: Sequence[float]
    accuracy: Mapping[str, Sequence[Estimate]]


@dataclass(frozen=True)
class OperatingWords:
    """The operating point: the noise that privacy needs, that utility allows, and the midpoint."""

    privacy: float | None
    utility: float | None
    recommended: float | None
    words: str


@dataclass(frozen=True, kw_only=True)
class VectorModel:
    """Everything measured on one model."""

    always: ClassVar = ("skipped",)
    keys: ClassVar = {"further": "*"}
    name: str
    words: Sequence[str]
    rows: int
    people: int
    dimensions: int
    scale: Mapping[str, float]  # ``rms``
    attacks: Sequence[Gallery]
    exposure: Named
    controls: Controls
    geometry: Mapping[str, PeopleQuantiles]
    levels: Sequence[NoiseLevel]
    surface: Sequence[SurfaceCell]
    utility: TaskSection | Refusal
    radii: RadiiSection | Refusal
    point: OperatingWords
    skipped: Mapping[str, str]
    further: Beyond = Beyond()


@dataclass(frozen=True)
class VectorSection:
    """Results of the whole audit."""

    rule: str
    metric: str
    models: Sequence[VectorModel]


# Candidates, data and people.


@dataclass(frozen=True, kw_only=True)
class VectorDetails:
    """Measurements on a candidate beside its risk; `bound` limits the Top-1 of every attacker."""

    tier: str
    top_1: Share
    bound: Portion | None
    accuracy: Share | None = None
    closed_world: ClosedWorld | None = None
    verification: Scored | None = None
    attributes: Sequence[Inference] = ()


@dataclass(frozen=True, kw_only=True)
class VectorData:
    """The audited vectors and people."""

    records: int
    people: int
    people_in_the_attack: int
    people_with_too_few_rows: int
    gallery_rows: int
    probes: int
    people_drawn_from: int | None = None
    probes_drawn_from: int | None = None
    dimensions: Mapping[str, int]
    notes: Sequence[str]
    fingerprint: str


@dataclass(frozen=True)
class ExposedPerson:
    """One person; `named` by the deciding attacker, ranks and bits by the nearest mean."""

    rank: int
    model: str
    id: str
    probes: Count
    attack: str
    named: Portion
    median_rank: Annotated[float, "count"]
    bits: Number
