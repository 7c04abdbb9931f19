"""What an audit of rows is told to do; the same names as the command's options."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.rules import RECORD_METRICS, SYNTHETIC_METRICS, TABLE_METRICS, Rule, parse_rule
from lethe.linkage.anonymity import DISTANCES


@dataclass(frozen=True)
class CommonSettings:
    """Settings that all audits of rows share.

    Attributes:
        seed: of everything random.
        confidence: of all intervals.
        margin: loss of utility that counts as none.
        queries: SQL over the table `release`; utility is 1 - their mean error. Without any it is
            the share of counts that stay right, see `counts_kept`.
        gate: rules fixed before the run.
        release: the candidate that the rules judge.
        keep_records: list the most exposed people; it is personal data.
    """

    seed: int = 0
    confidence: float = 0.95
    margin: float = 0.05
    queries: tuple[str, ...] = ()
    gate: tuple[str, ...] = ()
    release: str = "baseline"
    keep_records: bool = False

    def check(self) -> None:
        """Refuse values out of range.

        Raises:
            InputError: with the rule.
        """
        check_at_least("seed", self.seed, 0)
        check_at_least("margin", self.margin, 0)
        check_between("confidence", self.confidence, 0, 1, open_low=True, open_high=True)


@dataclass(frozen=True)
class TableSettings(CommonSettings):
    """An audit of rows with quasi-identifiers.

    Attributes:
        ks: smallest classes of the recoded candidates, each at least 2.
        suppress: largest share of rows that recoding may leave out.
        most: columns in the largest subset that is searched for unique rows.
        distance: of t-closeness, see `Diversity`.
        ruled_out: values that an adversary with background knowledge can rule out.
        population: people that the rows were drawn from at random; None = not told.
    """

    ks: tuple[int, ...] = (2, 5, 10)
    suppress: float = 0.05
    most: int = 3
    distance: str = "equal"
    ruled_out: tuple[int, ...] = (0, 1, 2)
    population: int | None = None

    def __post_init__(self) -> None:
        self.check()
        for k in self.ks:
            check_at_least("ks", k, 2)
        object.__setattr__(self, "ks", tuple(sorted(set(self.ks))))
        check_between("suppress", self.suppress, 0, 1, open_high=True)
        check_at_least("most", self.most, 1)
        check_choice("distance", self.distance, DISTANCES)
        for j in self.ruled_out:
            check_at_least("ruled_out", j, 0)
        object.__setattr__(self, "ruled_out", tuple(sorted({0, *self.ruled_out})))
        if self.population is not None:
            check_at_least("population", self.population, 1)
        self.rules()

    def rules(self) -> list[Rule]:
        """The gate's rules, read."""
        return [parse_rule(text, TABLE_METRICS) for text in self.gate]


@dataclass(frozen=True)
class RecordSettings(CommonSettings):
    """An audit of sparse records.

    Attributes:
        targets: people that each simulated adversary looks for, at most.
        phi: eccentricity from which on the adversary answers.
        facts: facts that the strongest adversary knows of a person; a quarter of them is wrong.
        time_error: days by which known times may be off, of the adversary that sets the risk.
        value_error: by which known values may be off.
        value_scale: rho0 of the scoreboard.
        time_scale: d0 of the scoreboard, in days.
        support: items that fewer people have are left out in one candidate.
        share: of facts and of people that are drawn in two candidates.
        sought: people of the auxiliary table that are looked for, at most.
    """

    targets: int = 300
    phi: float = 1.5
    facts: int = 8
    time_error: int = 14
    value_error: float = 0.0
    value_scale: float = 1.5
    time_scale: float = 30.0
    support: int = 5
    share: float = 0.5
    sought: int = 2000

    def __post_init__(self) -> None:
        self.check()
        for name, low in (
            ("targets", 2),
            ("phi", 0),
            ("facts", 1),
            ("time_error", 0),
            ("value_error", 0),
            ("support", 2),
            ("sought", 1),
        ):
            check_at_least(name, getattr(self, name), low)
        for name in ("value_scale", "time_scale"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}={getattr(self, name)!r} must be above 0.")
        check_between("share", self.share, 0, 1, open_low=True, open_high=True)
        self.rules()

    def rules(self) -> list[Rule]:
        """The gate's rules, read."""
        return [parse_rule(text, RECORD_METRICS) for text in self.gate]


@dataclass(frozen=True)
class SyntheticSettings(CommonSettings):
    """An audit of synthetic rows.

    Attributes:
        attacks: attempts of each attack, at most.
        columns: numbers of columns in statements that single out.
        neighbours: nearest synthetic rows in the linkability attack.
        tolerance: of guessed numbers, relative.
    """

    attacks: int = 500
    columns: tuple[int, ...] = (1, 3)
    neighbours: int = 1
    tolerance: float = 0.05

    def __post_init__(self) -> None:
        self.check()
        for name in ("attacks", "neighbours"):
            check_at_least(name, getattr(self, name), 1)
        for count in self.columns:
            check_at_least("columns", count, 1)
        check_at_least("tolerance", self.tolerance, 0)
        self.rules()

    def rules(self) -> list[Rule]:
        """The gate's rules, read."""
        return [parse_rule(text, SYNTHETIC_METRICS) for text in self.gate]
