"""Types of the findings of an audit of rows, shared by the audit and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.plain import Count, Counted, Number, Portion, Share

# A table with quasi-identifiers.


@dataclass(frozen=True)
class Guesses:
    """Shares of people whose value is certain, guessed, or guessed without the classes.

    `within` is the tolerance of a guess; empty where only the exact value is right.
    """

    certain: Counted
    guessed: Counted
    blind: Counted
    within: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class PeopleGroup:
    """Results of attacks on the people of a group, such as ``town=Oak``."""

    name: str
    people: float
    marketer: Counted
    unique: Counted
    certain: Counted | None = None
    guessed: Counted | None = None


@dataclass(frozen=True, kw_only=True)
class TableDetails:
    """Measurements on a release of a table beside its risk.

    Attributes:
        pairs: columns that were counted together for synthetic rows.
        exact: guesses of the exact value, where the others have a tolerance.
    """

    k: int
    classes: Count
    released: Count
    steps: Mapping[str, Mapping[str, int]]  # by column: step, number of steps, groups left
    pairs: Sequence[Sequence[str]] | None = None
    distinct_l: Count | None = None
    entropy_l: Number | None = None
    t: Number | None = None
    alpha: Number | None = None
    exact: Guesses | None = None
    certain: Share | None = None
    guessed: Share | None = None
    blind: Share | None = None
    groups: Sequence[PeopleGroup] = ()
    unique: Share
    prosecutor: Share
    journalist: Share | None = None
    population_marketer: Share | None = None


@dataclass(frozen=True)
class ClassCounts:
    """Sizes of the equivalence classes of the quasi-identifiers.

    Attributes:
        k: smallest class.
        classes: equivalence classes; of persons with several rows, their different sets.
        prosecutor: highest risk of a person known to be in the table: 1 / k.
        marketer: mean of 1 / class size over people, which is classes / people: the share of
            right links when all people are linked.
        unique: share of people alone in their class.
        below: share of people in classes smaller than k, by k.
        sizes: people in classes of at least `from` and below the next.
    """

    k: Count
    classes: Count
    prosecutor: float
    marketer: Counted
    unique: Counted
    below: Mapping[int, Counted]
    sizes: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class SubsetRow:
    """Share of people whom a set of columns singles out."""

    columns: Sequence[str]
    unique: Counted


@dataclass(frozen=True)
class FewColumns:
    """By number of columns: share of people singled out by some subset, and the worst subsets."""

    singled_out: Mapping[int, Counted]
    subsets: Mapping[int, Sequence[SubsetRow]]


@dataclass(frozen=True)
class WithoutColumn:
    """The risk that remains if a column is not released."""

    name: str
    marketer_without: Counted
    unique_without: Counted


@dataclass(frozen=True)
class Diversity:
    """How much a class reveals of the sensitive value. Each figure is of the worst class.

    Attributes:
        distinct_l: fewest different sensitive values; 1 = all rows of some class share theirs.
        entropy_l: exp of the smallest entropy, not rounded down; from 1 to `distinct_l`.
        t: largest distance of a class from the whole table, in [0, 1]; 0 = reveals nothing.
        alpha: largest share of one sensitive value, in (0, 1].
        distance: "equal" = total variation, all values equally far apart; "ordered" = earth
            mover's distance with values as far apart as their codes, over the largest distance.
    """

    distinct_l: int
    entropy_l: float
    t: float
    alpha: float
    distance: str


@dataclass(frozen=True)
class DisclosureRows:
    """Shares of people whose sensitive value is learnt, by number of values ruled out."""

    certain: Mapping[int, Counted]
    guessed: Mapping[int, Counted]
    blind: Counted
    near: Guesses | None = None


@dataclass(frozen=True)
class Journalist:
    """Risk of a person who may or may not be in the table, against a larger population.

    Attributes:
        highest: largest 1 / F over the classes that occur in the table.
        mean: mean of 1 / F over rows.
        unique: share of rows alone in their class in the POPULATION: certain hits.
    """

    highest: float
    mean: Counted
    unique: Counted


@dataclass(frozen=True)
class PopulationModel:
    """Unique rows that are unique in the population, under a model of class sizes.

    Attributes:
        model: "Pitman", or "Ewens" where the likelihood is highest at alpha = 0; then the interval
            holds alpha there.
        people: of the population, N.
        of_uniques: chance that a row which is unique in the sample is unique in the population.
        of_rows: that chance for any row of the sample: `of_uniques` x share of unique rows.
    """

    model: str
    people: Count
    of_uniques: Share
    of_rows: Share


@dataclass(frozen=True, kw_only=True)
class QuasiSection:
    """Results of the whole audit of a table."""

    always: ClassVar = ("kind",)
    kind: str = "quasi"
    rows: int
    people: int | None = None
    quasi: Sequence[str]
    sensitive: str | None
    anonymity: ClassCounts
    uniqueness: FewColumns
    columns: Sequence[WithoutColumn]
    diversity: Diversity | None = None
    disclosure: DisclosureRows | None = None
    journalist: Journalist | None = None
    population: PopulationModel | Refusal | None = None
    words: Sequence[str]


# Sparse records.


@dataclass(frozen=True, kw_only=True)
class RecordDetails:
    """Measurements on a release of records beside its risk."""

    match: Share
    false_match: Share
    exposed: Share
    exposed_where_right: Portion | None
    facts: Count
    people: Count
    records: Count


@dataclass(frozen=True)
class Calibrated:
    """A threshold of eccentricity for giving an answer.

    Attributes:
        false_match: chance that a record is named for a person who is not in the release.
        match: of a simulated adversary with this threshold, as is `abstention`.
    """

    phi: Number
    false_match: Share
    match: Share | None = None
    abstention: Share | None = None


@dataclass(frozen=True)
class AdversaryRow:
    """An attacker with the knowledge of a simulated adversary."""

    name: str
    attacker: str
    targets: Count
    top_1: Share
    match: Share
    precision: Share
    abstention: Share
    false_match: Share
    calibrated: Calibrated | Refusal


@dataclass(frozen=True)
class Point:
    """The linkage when it answers only at an eccentricity of at least `phi`.

    Recall can only fall and abstention only rise with phi; precision usually rises.

    Attributes:
        phi: threshold; 0 = always the best record, unless several share the highest score.
        recall: share of released targets whose own record is named.
        precision: share of the answers, to released targets and to others, that are right.
        abstention: share of released targets for whom no record is named.
        wrong: share of released targets for whom the record of another person is named.
        false_match: share of people outside the release for whom a record is named.
    """

    phi: float
    recall: Share
    precision: Share
    abstention: Share
    wrong: Share
    false_match: Share


@dataclass(frozen=True)
class FactsKnown:
    """Share of people whose own record is named from their first m facts, by m.

    `half`: the smallest m with a share of at least one half; None = never.
    """

    shares: Mapping[int, Share]
    half: int | None


@dataclass(frozen=True)
class Answers:
    """Results of a rule for answering.

    Attributes:
        answered: share of people for whom a record is named, right or wrong.
        right: share of the known pairs that are named correctly.
        strange: share of the other people for whom a record is named.
        counts: people, named; known pairs, named rightly (`right`); others, named
            (`others_named`); the last four None without the truth.
    """

    answered: Share
    right: Share
    strange: Share
    counts: Mapping[str, int | None]


@dataclass(frozen=True)
class AuxiliaryAttacker:
    """An attacker on a real auxiliary table; `sure` is None if it never answers."""

    name: str
    knows: str
    calibrated: Calibrated | Refusal
    sure: Answers | None
    compared: Answers


@dataclass(frozen=True)
class Answered:
    """Share of people for whom Scoreboard-RH names a record at a threshold."""

    phi: float
    share: Share


@dataclass(frozen=True)
class AuxiliaryRows:
    """A real linkage; `curve` is None without the truth."""

    name: str
    people: int
    shared_items: int
    people_with_a_shared_item: int
    known_pairs: int | None
    answered: Sequence[Answered]
    curve: Sequence[Point] | None
    attackers: Sequence[AuxiliaryAttacker]
    together: Answers


@dataclass(frozen=True, kw_only=True)
class RecordsSection:
    """Results of the whole audit of records."""

    always: ClassVar = ("kind",)
    kind: str = "records"
    phi: float
    rule: str
    people: int
    items: int
    facts: int
    index_bytes_a_fact: float
    confidence: float
    adversaries: Sequence[AdversaryRow]
    curve: Sequence[Point]
    needed: FactsKnown
    unicity: Mapping[int, Share]
    worst: Mapping[int, Share]
    auxiliary: AuxiliaryRows | None
    false_matches: float | None
    words: Sequence[str]


# Synthetic rows.


@dataclass(frozen=True, kw_only=True)
class SyntheticDetails:
    """The strongest attack, and the worst excess of each kind."""

    strongest: str
    excess: Mapping[str, Share]


@dataclass(frozen=True)
class SyntheticAttack:
    """Success of an attack, see `lethe.linkage.synthetic.risk.Risk`."""

    name: str
    knows: str
    powered: bool
    main: Share
    control: Share
    baseline: Share
    excess: Share
    works: bool


@dataclass(frozen=True)
class NearPeople:
    """Number of people with an identical (share 0) or a near synthetic row, and by chance."""

    attack: str
    share: float
    people: int
    of: int
    expected: float
    p: float

    @property
    def beyond(self) -> float:
        """People beyond the expected ones."""
        return self.people - self.expected


@dataclass(frozen=True)
class Distances:
    """Mean distance to the closest synthetic row, 0 = identical, 1 = different in every column.

    Attributes:
        original: of original rows; `control`: of control rows.
        change: original minus control; below 0 = the synthetic rows are nearer to the people they
            were made from than to others.
    """

    original: Estimate
    control: Estimate
    change: Estimate


@dataclass(frozen=True, kw_only=True)
class SyntheticSection:
    """Results of the whole audit of synthetic rows."""

    always: ClassVar = ("kind",)
    kind: str = "synthetic"
    rows: Mapping[str, int]  # original, synthetic, control
    attacks: Sequence[SyntheticAttack]
    people: Sequence[NearPeople] = ()
    distances: Distances
    words: Sequence[str]
