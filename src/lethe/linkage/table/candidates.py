"""Releases of a table, recoded or synthetic: classes, what they give away, what they serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import Coded, Codes, Grouped, check_column, encode
from lethe.data.source import TypedColumn
from lethe.errors import InputError
from lethe.evidence.estimate import Measured
from lethe.evidence.frontier import Candidate
from lethe.evidence.risk import AttackResult
from lethe.linkage.answers import Original, answer_overlap, count_overlap
from lethe.linkage.codes import Int, classes_of, counted
from lethe.linkage.document import Measurement
from lethe.linkage.settings import TableSettings
from lethe.linkage.table.anonymity import Float, anonymity, disclosure, diversity
from lethe.linkage.table.domains import columns_of, domains_of, plain, schema_of
from lethe.linkage.table.dp_rows import DpRows, check_installed, dp_rows
from lethe.linkage.table.population import PopulationTable, population_table
from lethe.linkage.table.recoding import Hierarchy, hierarchy, released_columns
from lethe.linkage.utility import Use, Utility, counted_utility, split, use_of

# Rows that are released, one a person, and what their columns are to an adversary.

Columns = Mapping[str, NDArray[Any] | Coded]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows that are released.

    Attributes:
        population: the quasi-identifiers of everybody the rows may be of; None = not known.
        typed: those of `columns` that were read by a schema, as it declares them.
    """

    name: str  # of the release
    columns: Columns  # (rows,) each, as `lethe.data.columns.read_columns` gives them
    quasi: tuple[str, ...]  # columns that an adversary may know
    sensitive: str | None = None  # column that nobody should learn; None = there is none
    population: Columns | Grouped | None = None
    times: Int | None = None  # (rows,) how many equal rows each row stands for; None = one each
    typed: Mapping[str, TypedColumn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.quasi:
            check_column("quasi", name, self.columns, self.name)
        if not self.quasi or len(set(self.quasi)) != len(self.quasi):
            raise InputError(f"quasi needs at least 1 column, each once; got {list(self.quasi)}.")
        if self.sensitive is not None:
            check_column("sensitive", self.sensitive, self.columns, self.name)
            if self.sensitive in self.quasi:
                raise InputError(
                    f"sensitive={self.sensitive!r} is also in quasi. Take it out of one of them."
                )
        lengths = {len(column) for column in self.columns.values()}
        if len(lengths) != 1 or self.rows < 2:
            raise InputError(f"{self.name} needs at least 2 rows in every column, as many in each.")

    @property
    def rows(self) -> int:
        """How many are released."""
        if self.times is not None:
            return int(self.times.sum())
        return len(self.columns[self.quasi[0]])

    @property
    def plain(self) -> dict[str, NDArray[Any]]:
        """Columns with a value for every row; none where equal rows are grouped."""
        return {
            name: column for name, column in self.columns.items() if not isinstance(column, Coded)
        }


_ASSUMED = (
    "the adversary knows the quasi-identifiers that were named, exactly, and no other column",
    "one row a person",
)
_KNOWN = "the quasi-identifiers of everybody, exactly"
_NO_PROOF = "k-anonymity is no proof of privacy: classes can share a sensitive value"


@dataclass(frozen=True, eq=False)
class Plan:
    """A recoded release that is to be measured."""

    name: str  # of the candidate
    mitigation: str  # in words
    steps: tuple[int, ...]  # of each generalisation hierarchy
    released: NDArray[np.bool_]  # (rows,) which rows are not suppressed


@dataclass(frozen=True, eq=False)
class Context:
    """What every candidate of a table is measured with."""

    table: Table  # the original
    hierarchies: tuple[Hierarchy, ...]  # of its quasi-identifiers
    secret: Codes | None  # (rows,) codes of the sensitive column; None without one
    settings: TableSettings  # of the audit
    people: PopulationTable | None  # the population table; None without one
    use: Use | None  # a model as utility; None = counts or queries
    held_out: NDArray[np.bool_]  # (rows,) which rows the model is tested on

    @cached_property
    def original(self) -> Original:
        """What counts of recoded rows are compared with."""
        columns = [one.codes for one in self.hierarchies]
        levels = [len(one.steps[0]) for one in self.hierarchies]
        if self.secret is not None:
            columns.append(self.secret)
            levels.append(int(self.secret.max()) + 1)
        return Original(columns, levels, self.table.times)


def context_of(table: Table, settings: TableSettings) -> Context:
    """Code the columns, and hold rows out where a model is the utility.

    Raises:
        InputError: columns, a population or a utility model that cannot be read, or a schema that
            does not declare what synthetic rows need.
        NotMeasurable: too few rows to hold some out.
        MissingExtra: synthetic rows are asked for without the libraries they need.
    """
    if settings.epsilon:
        check_installed()
        if settings.schema is not None:
            domains_of(settings.schema, settings.bins)
            columns_of(settings.schema, {**table.plain, **table.typed})
            for name in (*table.quasi, *(() if table.sensitive is None else (table.sensitive,))):
                _ = settings.schema[name]  # refuses a name that it does not have
    secret = None if table.sensitive is None else encode(table.columns[table.sensitive]).codes
    use = use_of(settings, table.plain)
    return Context(
        table,
        tuple(hierarchy(name, table.columns[name], table.times) for name in table.quasi),
        secret,
        settings,
        None
        if table.population is None
        else population_table(table.columns, table.quasi, table.population),
        use,
        np.zeros(0, bool) if use is None else split(table.rows, settings),
    )


def measure_recoded(context: Context, plan: Plan) -> Measurement:
    """Everything is a share of the rows of the table, those that are not released included.

    Raises NotMeasurable: the utility model has nothing to learn from.
    """
    steps, kept = plan.steps, plan.released
    table, hierarchies, settings = context.table, context.hierarchies, context.settings
    rows, sure = table.rows, settings.confidence
    columns = [one.at(step)[kept] for one, step in zip(hierarchies, steps, strict=True)]
    weight = None if table.times is None else table.times[kept]
    found = anonymity(columns, confidence=sure, times=weight)
    alone = int((found.of_class.size == 1).sum())
    evidence: dict[str, Measured] = {
        "marketer": counted(found.classes / rows, rows, sure),
        "prosecutor": counted(found.prosecutor, rows, sure),
        "unique": counted(alone / rows, rows, sure),
    }
    details: dict[str, Any] = {
        "k": found.k,
        "classes": found.classes,
        "released": found.of_class.rows,
        "steps": {
            one.name: {
                "step": step,
                "of": len(one.steps) - 1,
                "groups": int(one.steps[step].max()) + 1,
            }
            for one, step in zip(hierarchies, steps, strict=True)
        },
    }
    part = found.of_class.rows / rows
    if context.people is not None:
        told_of = context.people.risk(hierarchies, steps, kept, table.times, sure)
        evidence["journalist"] = counted(told_of.highest, rows, sure)
        mean = counted(part * (told_of.mean.value or 0.0), rows, sure)
        evidence["population_marketer"] = mean
    if context.secret is not None:
        secret = context.secret[kept]
        told = disclosure(found.of_class, secret, ruled_out=settings.ruled_out, confidence=sure)
        varied = diversity(found.of_class, secret, distance=settings.distance)
        evidence["certain"] = counted(part * (told.homogeneous.value or 0.0), rows, sure)
        details |= {
            "guessed": told.guessed[0].to_json(),
            "blind": told.blind.to_json(),
            "distinct_l": varied.distinct_l,
            "entropy_l": varied.entropy_l,
            "t": varied.t,
            "alpha": varied.alpha,
        }
    taken = {
        f"step of {one.name}": step for one, step in zip(hierarchies, steps, strict=True) if step
    }
    assumed = (*_ASSUMED, _NO_PROOF) if plan.name.startswith("k-") else _ASSUMED
    return Measurement(
        plan.name,
        plan.mitigation,
        taken,
        linkage_results(evidence),
        _utility(context, steps, kept),
        evidence,
        details | listed(evidence),
        assumed,
    )


def linkage_results(measures: Mapping[str, Measured]) -> list[AttackResult]:
    """Linkage of everybody, and of the population where there is a table of it."""
    results = [AttackResult("marketer", measures["marketer"], knows=_KNOWN)]
    if "population_marketer" in measures:
        linked = measures["population_marketer"]
        results.append(AttackResult("population", linked, knows=f"{_KNOWN}; a population table"))
    return results


def listed(measures: Mapping[str, Measured]) -> dict[str, Any]:
    """The measures that stand among a candidate's details too, as plain values."""
    names = ("unique", "prosecutor", "journalist", "population_marketer", "certain")
    return {name: measures[name].to_json() for name in names if name in measures}


def compared(context: Context, release: Measurement, base: Measurement) -> Candidate:
    """A candidate beside the table as it is: the change of the marketer risk needs no interval."""
    rows, sure = context.table.rows, context.settings.confidence
    before, now = (
        getattr(risk, "value", None) or 0.0 for risk in (base.risk, release.measures["marketer"])
    )
    change = counted(now - before, rows, sure)
    return release.candidate(sure, baseline=base, risk_change=change)


def _utility(context: Context, steps: Sequence[int], kept: NDArray[np.bool_]) -> Utility:
    table, hierarchies, settings = context.table, context.hierarchies, context.settings
    if context.use is not None:
        written = released_columns(table.plain, hierarchies, steps, np.ones(len(kept), bool))
        learnt, out = kept & ~context.held_out, context.held_out
        held_out = taken(table.plain, out)
        return context.use.utility(taken(written, learnt), held_out, taken(written, out))
    if settings.queries:
        released = released_columns(table.plain, hierarchies, steps, kept)
        value = answer_overlap(table.plain, released, settings.queries)
        return counted_utility(value, table.rows, settings.confidence, "released rows")
    groups = [one.steps[step] for one, step in zip(hierarchies, steps, strict=True)]
    if context.secret is not None:
        groups.append(np.arange(int(context.secret.max()) + 1))
    value = context.original.overlap(groups, kept)
    return counted_utility(value, table.rows, settings.confidence, "released rows")


def taken(columns: Mapping[str, NDArray[Any]], rows: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    """Some rows."""
    return {name: column[rows] for name, column in columns.items()}


# Synthetic rows with differential privacy beside the recoded releases of the same table.
#
# The adversary takes every synthetic row that agrees with a person in all quasi-identifiers, in the
# cells that were counted, for a copy of one of the rows that agree likewise. So the marketer risk
# is the number of the table's classes that the synthetic rows show, over its rows, as for a recoded
# table; agreement by chance counts too, so it is an upper limit of what linkage gets. The proof is
# the guarantee.


def dp_name(epsilon: float) -> str:
    """Of the candidate.

    >>> dp_name(0.5)
    'dp-synthetic-0.5'
    """
    return f"dp-synthetic-{epsilon:g}"


def synthetic_rows(context: Context, epsilon: float) -> DpRows:
    """Make synthetic rows of the whole table; see `dp_rows` for what they prove.

    Raises:
        InputError: domains that do not fit.
        NotMeasurable: a column with too many different values.
    """
    table = context.table
    columns: dict[str, NDArray[Any] | TypedColumn] = {**table.plain, **table.typed}
    return _made(context, columns, epsilon)


def measure_synthetic(context: Context, made: DpRows, epsilon: float) -> Measurement:
    """Look how far synthetic rows agree with the people of the table: numbers without a guarantee.

    Raises NotMeasurable: their utility cannot be told, which hangs on single rows of the table.
    """
    table, settings = context.table, context.settings
    columns: dict[str, NDArray[Any] | TypedColumn] = {**table.plain, **table.typed}
    rows, sure = table.rows, settings.confidence
    place = {one.name: at for at, one in enumerate(made.domains)}
    mine = [made.domains[place[name]].place(columns[name]) for name in table.quasi]
    theirs = [made.cells[place[name]] for name in table.quasi]
    own, drawn, size, shown = agreement(mine, theirs)
    smallest = int(size[shown].min()) if shown.any() else 0
    evidence: dict[str, Measured] = {
        "marketer": counted(int(shown.sum()) / rows, rows, sure),
        "prosecutor": counted(1 / smallest if smallest else 0.0, rows, sure),
        "unique": counted(int((shown & (size == 1)).sum()) / rows, rows, sure),
    }
    details: dict[str, Any] = {
        "k": smallest,
        "classes": int(shown.sum()),
        "released": len(drawn),
        "steps": {},
        "pairs": [list(pair) for pair in made.pairs],
    }
    if table.sensitive is not None:
        at = place[table.sensitive]
        secret = made.domains[at].place(columns[table.sensitive])
        certain, guessed = _inferred(own, secret, drawn, made.cells[at])
        most = float(np.bincount(secret).max()) / rows
        evidence["certain"] = counted(certain, rows, sure)
        details["guessed"] = counted(guessed, rows, sure).to_json()
        details["blind"] = counted(most, rows, sure).to_json()
    words = f"synthetic rows, ({epsilon:g}, {settings.delta:g})-differentially private"
    chosen = {"epsilon": epsilon, "delta": settings.delta}
    return Measurement(
        dp_name(epsilon),
        words,
        chosen,
        linkage_results(evidence),
        _utility_of(context, made, epsilon),
        evidence,
        details | listed(evidence),
        proof=made.guarantee,
    )


def agreement(
    mine: Sequence[Int], theirs: Sequence[Int]
) -> tuple[Int, Int, Int, NDArray[np.bool_]]:
    """Classes of a table that synthetic rows show.

    Args:
        mine: (rows,) cells of each quasi-identifier of the table.
        theirs: (synthetic rows,) the same of the synthetic rows.

    Returns: (rows,) and (synthetic rows,) class of each row, numbered alike; (classes,) rows of the
        table in each, and whether it has some and a synthetic row agrees with them.

    >>> agreement([np.array([0, 0, 1, 2])], [np.array([0, 3, 2])])[3].tolist()
    [True, False, True, False]
    """
    joint = [np.concatenate(both) for both in zip(mine, theirs, strict=True)]
    of_row = classes_of(joint).of_row
    own, drawn = of_row[: len(mine[0])], of_row[len(mine[0]) :]
    classes = int(of_row.max()) + 1
    size = np.bincount(own, minlength=classes)
    return own, drawn, size, (size > 0) & (np.bincount(drawn, minlength=classes) > 0)


def _made(
    context: Context, columns: Mapping[str, NDArray[Any] | TypedColumn], epsilon: float
) -> DpRows:
    settings = context.settings
    schema = settings.schema or schema_of(context.table.plain)
    return dp_rows(columns, schema, epsilon, settings.delta, bins=settings.bins, seed=settings.seed)


def _some(
    columns: Mapping[str, NDArray[Any] | TypedColumn], rows: NDArray[np.bool_]
) -> dict[str, NDArray[Any] | TypedColumn]:
    """Some rows of columns of either kind."""
    return {
        name: TypedColumn(column.values[rows], column.present[rows])
        if isinstance(column, TypedColumn)
        else column[rows]
        for name, column in columns.items()
    }


def _inferred(own_class: Int, secret: Int, drawn: Int, released: Int) -> tuple[float, float]:
    """What the synthetic rows that agree with a person say of the secret, and whether it is right.

    Returns: Share of people of whom all agreeing rows say one secret, the right one; and the share
        guessed right by the most frequent secret of the agreeing rows (of all rows where none
        agrees), equally frequent ones guessed by chance.
    """
    classes, values = (
        int(max(own_class.max(), drawn.max())) + 1,
        int(max(secret.max(), released.max())) + 1,
    )
    pairs, count = np.unique(drawn * values + released, return_counts=True)
    of_class = pairs // values
    distinct = np.bincount(of_class, minlength=classes)
    most = np.zeros(classes, np.int64)
    np.maximum.at(most, of_class, count)
    leading = count == most[of_class]
    ties = np.bincount(of_class[leading], minlength=classes)
    at = np.minimum(np.searchsorted(pairs, own_class * values + secret), len(pairs) - 1)
    said = pairs[at] == own_class * values + secret
    certain = said & (distinct[own_class] == 1)
    right: Float = np.where(said & leading[at], 1 / np.maximum(ties[own_class], 1), 0.0)
    usual = int(np.argmax(np.bincount(released)))
    right = np.where(distinct[own_class] > 0, right, (secret == usual).astype(np.float64))
    return float(certain.mean()), float(right.mean())


def _utility_of(context: Context, made: DpRows, epsilon: float) -> Utility:
    table, settings = context.table, context.settings
    original = table.plain
    if context.use is not None:
        # Rows made of all rows know the held-out ones; these are made anew without them.
        columns: dict[str, NDArray[Any] | TypedColumn] = {**original, **table.typed}
        learnt = _made(context, _some(columns, ~context.held_out), epsilon)
        held_out = taken(original, context.held_out)
        rng = np.random.default_rng([settings.seed, 81])
        written = {}
        for domain in learnt.domains:
            cells = domain.place(_some(columns, context.held_out)[domain.name])
            drawn = domain.draw(cells, rng)
            written[domain.name] = plain(drawn, domain.column, gaps=domain.column.missing)
        return context.use.utility(learnt.plain(), held_out, written)
    if settings.queries:
        value = answer_overlap(original, made.plain(), settings.queries)
        return counted_utility(value, table.rows, settings.confidence, "released rows")
    names = [*table.quasi, *(() if table.sensitive is None else (table.sensitive,))]
    place = {one.name: at for at, one in enumerate(made.domains)}
    codes, released, groups = [], [], []
    for name in names:
        column, one = encode(original[name]), made.domains[place[name]]
        cells, of_level = np.unique(one.place(column.values), return_inverse=True)
        # A cell without any original value is -1: nobody asks for its count.
        new = np.full(one.cells, -1)
        new[cells] = np.arange(len(cells))
        codes.append(column.codes)
        released.append(new[made.cells[place[name]]])
        groups.append(of_level)
    value = count_overlap(codes, released, groups)
    return counted_utility(value, table.rows, settings.confidence, "released rows")
