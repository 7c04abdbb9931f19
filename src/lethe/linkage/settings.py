"""Settings of an audit of rows, with the names of the command's options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lethe.assess.verdict import WAIVABLE
from lethe.data.schema import Schema
from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.rules import RECORD_METRICS, SYNTHETIC_METRICS, TABLE_METRICS, Rule, parse_rule


@dataclass(frozen=True)
class CommonSettings:
    """Settings that all audits of rows share.

    Attributes:
        seed: of everything random.
        confidence: of all intervals.
        margin: loss of utility that counts as none.
        queries: SQL over the table "release" that it must still answer; may be repeated. Utility
            is 1 - the mean error; without any it is the share of counts that stay right.
        predict: or the column that a model of the released rows predicts: utility is its accuracy,
            or R2, on original rows that were held out.
        utility_model: or a function, or file.py:name of one, of the released rows and of held-out
            original rows, that says how good the former are, higher = better: a number, or
            one for each held-out row, whose mean has an interval. A parameter named `written` gets
            the held-out rows as the release writes them. At most one of queries, predict and
            utility_model may be given.
        held_out: share of the rows (or facts) that those two are tested on.
        rule: rule that sets the exit code, such as "unique<=0.01" or "top-1<=0.05"; may be
            repeated. See the metrics of each kind of audit in its documentation.
        release: candidate that the rules judge, such as k-5.
        accept: checks of the input that shall not stop the verdict, by name, such as identifiers;
            the report says so.
        keep_records: keep the table of exposed people in the run folder, and with an auxiliary
            table who was named as whom; it is personal data.
    """

    metrics = TABLE_METRICS  # that rules may be about
    seed: int = 0
    confidence: float = 0.95
    margin: float = 0.05
    queries: tuple[str, ...] = ()
    predict: str | None = None
    utility_model: str | Callable[..., Any] | None = None
    held_out: float = 0.3
    rule: tuple[str, ...] = ()
    release: str = "baseline"
    accept: tuple[str, ...] = ()
    keep_records: bool = False

    @property
    def model_name(self) -> str:
        """Of the user's function."""
        model = self.utility_model
        return model if isinstance(model, str) else str(getattr(model, "__qualname__", "function"))

    def rules(self) -> list[Rule]:
        """The rules, read."""
        return [parse_rule(text, self.metrics) for text in self.rule]

    def check(self) -> None:
        """Refuse values out of range.

        Raises InputError: with the rule.
        """
        check_at_least("seed", self.seed, 0)
        check_at_least("margin", self.margin, 0)
        for name in self.accept:
            check_choice("accept", name, WAIVABLE)
        check_between("confidence", self.confidence, 0, 1, open_low=True, open_high=True)
        check_between("held_out", self.held_out, 0, 1, open_low=True, open_high=True)
        asked = [name for name in ("queries", "predict", "utility_model") if getattr(self, name)]
        if len(asked) > 1:
            raise InputError(f"{' and '.join(asked)} each say what utility is. Give one of them.")
        for name in ("predict", "utility_model"):
            value = getattr(self, name)
            if not (value is None or isinstance(value, str)):
                if name == "predict" or not callable(value):
                    raise InputError(f"{name}={value!r} must be text.")
        self.rules()


@dataclass(frozen=True)
class TableSettings(CommonSettings):
    """An audit of rows with quasi-identifiers.

    Attributes:
        ks: smallest classes of the recoded candidates, each at least 2.
        suppress: largest share of rows that recoding may leave out.
        most: columns in the largest subset that is searched for unique rows.
        distance: of t-closeness: equal, or ordered.
        ruled_out: values that an adversary with background knowledge can rule out.
        population: size of the population that the rows are a random sample of: an estimate under
            a model of how many unique rows are unique there.
        epsilon: also try synthetic rows made of noisy counts, differentially private, each above 0;
            the rows that are measured are written to the run folder.
        delta: of the same, in (0, 1).
        schema: of the same, see `lethe.linkage.table.domains.domains_of`; its columns are those of
            the rows. None = read off the table and public, which the guarantee then says.
        bins: of the same, cells of a column whose schema has bounds.
        text: columns that stay text although their cells are dates or numbers.
        tolerance: how near a guess of a sensitive number counts as right: 5% of the true value, the
            default, or 1000 in the units of the column. Dates: within a day, or so many days.
        group: columns whose every value is measured as a group of people, see the rules.
        weight: column of survey weights, the people of the population that each row stands for: an
            estimate of how many unique rows are unique there.
        hierarchies: COLUMN=FILE: how it is made coarser, a csv file of each value and its ever
            coarser labels; in Python a mapping of columns to such files or mappings.
        write_release: candidate whose rows are written to the run folder, such as k-5.
    """

    ks: tuple[int, ...] = (2, 5, 10)
    suppress: float = 0.05
    most: int = 3
    distance: str = "equal"
    ruled_out: tuple[int, ...] = (0, 1, 2)
    population: int | None = None
    epsilon: tuple[float, ...] = ()
    delta: float = 1e-6
    schema: Schema | None = None
    bins: int = 32
    text: tuple[str, ...] = ()
    tolerance: str | float | None = None
    group: tuple[str, ...] = ()
    weight: str | None = None
    hierarchies: Mapping[str, Any] = field(default_factory=dict)
    write_release: str | None = None

    def __post_init__(self) -> None:
        self.check()
        near = "5%" if self.tolerance is None else str(self.tolerance)
        object.__setattr__(self, "tolerance", near)
        if self.weight is not None and self.population is not None:
            raise InputError("weights say how large the population is. Leave people or weight out.")
        for k in self.ks:
            check_at_least("ks", k, 2)
        object.__setattr__(self, "ks", tuple(sorted(set(self.ks))))
        check_between("suppress", self.suppress, 0, 1, open_high=True)
        check_at_least("most", self.most, 1)
        check_choice("distance", self.distance, ("equal", "ordered"))
        for j in self.ruled_out:
            check_at_least("ruled_out", j, 0)
        object.__setattr__(self, "ruled_out", tuple(sorted({0, *self.ruled_out})))
        if self.population is not None:
            check_at_least("population", self.population, 1)
        for epsilon in self.epsilon:
            if not isinstance(epsilon, int | float):
                raise InputError(f"epsilon={epsilon!r} must be a number.")
            check_between("epsilon", epsilon, 0, 100, open_low=True)
        object.__setattr__(self, "epsilon", tuple(sorted({float(one) for one in self.epsilon})))
        check_between("delta", self.delta, 0, 1, open_low=True, open_high=True)
        check_at_least("bins", self.bins, 1)
        if not (self.schema is None or isinstance(self.schema, Schema)):
            raise InputError("schema must be a Schema: lethe.data.schema.Schema.load(FILE).")

    def rules(self) -> list[Rule]:
        """The rules, read."""
        rules = super().rules()
        for rule in rules:
            every = rule.group.startswith("every ")
            column = rule.group[6:] if every else rule.group.partition("=")[0]
            if rule.group and column not in self.group:
                raise InputError(
                    f"rule {str(rule)!r}: the group {column!r} is not declared. Add "
                    f"--group {column}."
                )
        return rules


@dataclass(frozen=True)
class RecordSettings(CommonSettings):
    """An audit of sparse records.

    Attributes:
        targets: people that each simulated adversary looks for, at most.
        phi: eccentricity from which on every attacker answers; by default from the calibrated
            threshold of each on, at which all together name few people outside, see
            `false_matches`.
        facts: facts that the strongest adversary knows of a person; a quarter of them is wrong.
        time_error: days by which known times may be off, of the adversary that sets the risk.
        value_error: by which known values may be off.
        value_scale: rho0 of the scoreboard.
        time_scale: d0 of the scoreboard, in days.
        support: items that fewer people have are left out in one candidate.
        popular: share of the items, the most popular ones, that one candidate leaves out.
        share: of facts and of people that are drawn in two candidates.
        pseudonyms: that each person's facts are dealt to in one candidate.
        sought: people of the auxiliary table that are looked for, at most.
        false_matches: share of people outside the release for whom some attacker may name a
            record at the calibrated thresholds.
        pairs: also print who of an auxiliary table was named as whom, the first 20; personal data,
            so it needs keep_records.
    """

    metrics = RECORD_METRICS
    targets: int = 300
    phi: float | None = None
    facts: int = 8
    time_error: int = 14
    value_error: float = 0.0
    value_scale: float = 1.5
    time_scale: float = 30.0
    support: int = 5
    popular: float = 0.01
    share: float = 0.5
    pseudonyms: int = 4
    sought: int = 2000
    false_matches: float = 0.01
    pairs: bool = False

    def __post_init__(self) -> None:
        self.check()
        for name, low in (
            ("targets", 2),
            ("phi", 0),
            ("facts", 1),
            ("time_error", 0),
            ("value_error", 0),
            ("support", 2),
            ("pseudonyms", 2),
            ("sought", 1),
        ):
            if name != "phi" or self.phi is not None:
                check_at_least(name, getattr(self, name), low)
        if self.pairs and not self.keep_records:
            raise InputError(
                "pairs say who is whom, which is personal data. Add keep_records (--keep-records) "
                "to keep them, or leave pairs out: counts are reported always."
            )
        for name in ("value_scale", "time_scale"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}={getattr(self, name)!r} must be above 0.")
        for name in ("share", "popular", "false_matches"):
            check_between(name, getattr(self, name), 0, 1, open_low=True, open_high=True)
        if self.predict is not None:
            raise InputError(
                "predict is for tables of one row a person; give a utility_model for facts."
            )


@dataclass(frozen=True)
class SyntheticSettings(CommonSettings):
    """An audit of synthetic rows.

    Attributes:
        attacks: attempts of linkability and of statements about several columns, at most; the other
            attacks look at every row.
        columns: numbers of columns in statements that single out.
        neighbours: nearest synthetic rows in the linkability attack, which is run where a rule or
            `linked` asks for it.
        tolerance: of guessed numbers, relative.
        linked: columns that a second source holds, linked with --quasi through FILE. [none; all
            others where a rule asks for linkability]
        text: columns that stay text although their cells are dates or numbers.
    """

    metrics = SYNTHETIC_METRICS
    attacks: int = 500
    columns: tuple[int, ...] = (1,)
    neighbours: int = 1
    tolerance: float = 0.05
    linked: tuple[str, ...] = ()
    text: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.check()
        for name in ("attacks", "neighbours"):
            check_at_least(name, getattr(self, name), 1)
        for count in self.columns:
            check_at_least("columns", count, 1)
        check_at_least("tolerance", self.tolerance, 0)
