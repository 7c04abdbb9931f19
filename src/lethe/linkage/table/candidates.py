"""Measure releases of a table, recoded or synthetic: classes, disclosure, utility."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import Codes, check_column, encode
from lethe.data.source import TypedColumn
from lethe.evidence.estimate import Measured
from lethe.evidence.frontier import Candidate
from lethe.evidence.risk import AttackResult
from lethe.linkage.codes import Float, Int, Persons, classes_of, counted, nearest
from lethe.linkage.document import RowRelease, measured_only
from lethe.linkage.settings import TableSettings
from lethe.linkage.table.domains import columns_of, domains_of, plain, schema_of
from lethe.linkage.table.dp_rows import DpRows, check_installed, dp_rows
from lethe.linkage.table.inference import (
    Secret,
    Tolerance,
    best_guess,
    diversity,
    guess_from,
    pairs_of,
    secret_of,
)
from lethe.linkage.table.model import guessed_by_model
from lethe.linkage.table.population import PopulationTable, population_table
from lethe.linkage.table.reached import KNOWN, Groups, Learnt, Reached, RowSet, groups_of, reported
from lethe.linkage.table.recoding import Hierarchy, hierarchy, released_columns
from lethe.linkage.utility import (
    Original,
    Use,
    Utility,
    answer_overlap,
    count_overlap,
    counted_utility,
    split,
    use_of,
)

_ASSUMED = "the adversary knows the quasi-identifiers that were named, exactly, and no other column"
_ONE_ROW = "one row a person"
_ALL_ROWS = "the adversary knows these of all rows of a person, but not how many rows there are"


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

    table: RowSet  # the original
    hierarchies: tuple[Hierarchy, ...]  # of its quasi-identifiers
    secret: Secret | None  # the sensitive column; None without one
    settings: TableSettings  # of the audit
    people: PopulationTable | None  # the population table; None without one
    use: Use | None  # a model as utility; None = counts or queries
    held_out: NDArray[np.bool_]  # (rows,) which rows the model is tested on
    groups: Groups

    @cached_property
    def telling(self) -> int:
        """The quasi-identifier from which alone the sensitive value is guessed best."""
        assert self.secret is not None
        guesses = []
        for one in self.hierarchies:
            classes = classes_of([one.codes], self.table.counting)
            pairs = pairs_of(classes, self.secret.codes)
            guesses.append(best_guess(classes, pairs, self.secret.reach).guessed.value or 0.0)
        return int(np.argmax(guesses))

    @cached_property
    def original(self) -> Original:
        """The counts that those of recoded rows are compared with."""
        columns = [hierarchy.codes for hierarchy in self.hierarchies]
        levels = [len(one.steps[0]) for one in self.hierarchies]
        if self.secret is not None:
            columns.append(self.secret.codes)
            levels.append(int(self.secret.codes.max()) + 1)
        return Original(columns, levels, self.table.times)


def context_of(table: RowSet, settings: TableSettings) -> Context:
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
            columns_of(settings.schema, table.declared)
            for name in (*table.quasi, *(() if table.sensitive is None else (table.sensitive,))):
                _ = settings.schema[name]  # refuses a name that it does not have
    for name in settings.hierarchies:
        check_column("hierarchies", name, table.quasi, "quasi")
    secret = None
    if table.sensitive is not None:
        tolerance = Tolerance.read(str(settings.tolerance))
        secret = secret_of(table.columns[table.sensitive], tolerance)
    use = use_of(settings, table.plain)
    return Context(
        table,
        tuple(
            hierarchy(name, table.columns[name], table.weight, settings.hierarchies.get(name))
            for name in table.quasi
        ),
        secret,
        settings,
        None
        if table.population is None
        else population_table(table.columns, table.quasi, table.population),
        use,
        np.zeros(0, bool) if use is None else split(table.rows, settings),
        groups_of(table, settings),
    )


def measure_recoded(context: Context, plan: Plan) -> RowRelease:
    """Everything is a share of the rows of the table, those that are not released included.

    Raises NotMeasurable: the utility model has nothing to learn from.
    """
    steps, kept = plan.steps, plan.released
    table, hierarchies, settings = context.table, context.hierarchies, context.settings
    people, sure = table.people, settings.confidence
    columns = [hierarchy.at(step)[kept] for hierarchy, step in zip(hierarchies, steps, strict=True)]
    classes = classes_of(columns, None if table.counting is None else table.counting[kept])
    linked, alone = np.zeros(len(kept)), np.zeros(len(kept), bool)
    linked[kept], alone[kept] = 1 / classes.of_size, classes.of_size == 1
    details: dict[str, Any] = {
        "k": int(classes.size.min()),
        "classes": classes.distinct,
        "released": int(np.count_nonzero(kept) if table.times is None else table.times[kept].sum()),
        "steps": {
            one.name: {
                "step": step,
                "of": len(one.steps) - 1,
                "groups": int(one.steps[step].max()) + 1,
            }
            for one, step in zip(hierarchies, steps, strict=True)
        },
    }
    further: dict[str, Measured] = {"prosecutor": counted(1 / details["k"], people, sure)}
    if context.people is not None:
        told_of = context.people.risk(hierarchies, steps, kept, table.times, sure)
        further["journalist"] = counted(told_of.highest, people, sure)
        mean = counted(classes.people / people * (told_of.mean.value or 0.0), people, sure)
        further["population_marketer"] = mean
    learnt: list[Learnt] = []
    if (secret := context.secret) is not None:
        pairs = pairs_of(classes, secret.codes[kept])
        varied = diversity(classes, pairs, distance=settings.distance)
        further["t"] = counted(varied.t, people, sure)
        details |= {one: getattr(varied, one) for one in ("distinct_l", "entropy_l", "t", "alpha")}
        kinds = [("", False), (secret.words, False)][: 1 + bool(secret.words)]
        if isinstance(table.counting, Persons):
            kinds.append((secret.words, True))
        for within, persons in kinds:
            reach = secret.reach if within else None
            guess = best_guess(classes, pairs, reach, sure, persons=persons)
            low, high = guess.blind_values
            blind = (secret.codes >= low) & (secret.codes <= high)
            if persons and isinstance(table.counting, Persons):
                blind = np.bincount(table.counting.of_row, blind)[table.counting.of_row] > 0
            # Of people without a row the adversary guesses by the column that says most.
            certain, right = np.zeros(len(kept), bool), np.zeros(len(kept))
            if not kept.all():
                telling = hierarchies[context.telling]
                of_value = telling.at(steps[context.telling]).astype(np.int64)
                theirs = of_value[~kept], secret.codes[~kept]
                if telling.kind == "ordered":  # or by the nearest value that was released
                    present = np.unique(of_value[kept])
                    theirs = present[nearest(present, theirs[0])], theirs[1]
                rows = of_value[kept], secret.codes[kept]
                near = secret if within else None
                right[~kept] = _inferred(*theirs, *rows, near, classes.weight).right
            certain[kept], right[kept] = guess.sure, guess.of_row
            if any(steps) or not kept.all():  # or by all columns, where that is right more often
                known = hierarchies, steps, kept, classes, pairs, secret
                for other in (guessed_by_model(*known, near=bool(within)), blind):
                    for part in (kept, ~kept):
                        sums = (table.totals(np.where(part, one, 0.0)) for one in (other, right))
                        if np.greater(*sums).all():
                            right[part] = other[part]
            within += ", any value of a person"[2 * (not within) :] if persons else ""
            learnt.append(Learnt(certain, right, blind, within))
    found_by = reported(Reached(linked, alone, tuple(learnt)), table, context.groups, sure)
    measures, results = found_by.measures, found_by.results
    measures |= further
    if "population_marketer" in measures:
        linked_there = measures["population_marketer"]
        knows = f"{KNOWN}; a population table"
        results.append(AttackResult("population", linked_there, knows=knows))
    taken = {
        f"step of {one.name}": step for one, step in zip(hierarchies, steps, strict=True) if step
    }
    assumed = [_ASSUMED, _ONE_ROW if table.person is None else _ALL_ROWS]
    if plan.name.startswith("k-"):
        assumed.append("k-anonymity is no proof of privacy: classes can share a sensitive value")
    utility = _utility(context, steps, kept)
    return RowRelease(
        plan.name,
        plan.mitigation,
        taken,
        utility.estimate,
        results,
        measured_only(*assumed),
        details=found_by.details(details),
        measures={**measures, "utility-loss": None},
        used=utility,
    )


def compared(context: Context, release: RowRelease, base: RowRelease) -> Candidate:
    """A candidate beside the table as it is: the change of a risk that was counted is exact."""
    people, sure = context.table.people, context.settings.confidence
    before, now = (getattr(one.risk, "value", None) or 0.0 for one in (base, release))
    change = counted(now - before, people, sure)
    return release.beside(base, sure, change)


def _utility(context: Context, steps: Sequence[int], kept: NDArray[np.bool_]) -> Utility:
    table, hierarchies, settings = context.table, context.hierarchies, context.settings
    if context.use is not None:
        written = released_columns(table.plain, hierarchies, steps, np.ones(len(kept), bool))
        learnt, out = kept & ~context.held_out, context.held_out
        held_out = taken(table.plain, out)
        return context.use(taken(written, learnt), held_out, taken(written, out))
    if settings.queries:
        released = released_columns(table.plain, hierarchies, steps, kept)
        value = answer_overlap(table.plain, released, settings.queries)
    else:
        groups = [hierarchy.steps[step] for hierarchy, step in zip(hierarchies, steps, strict=True)]
        if context.secret is not None:
            groups.append(np.arange(int(context.secret.codes.max()) + 1))
        value = context.original.overlap(groups, kept)
    return counted_utility(value, table.rows, settings.confidence, "released rows")


Cells = TypeVar("Cells", NDArray[Any], NDArray[Any] | TypedColumn)


def taken(columns: Mapping[str, Cells], rows: NDArray[np.bool_]) -> dict[str, Cells]:
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
    """Name the candidate.

    >>> dp_name(0.5)
    'dp-synthetic-0.5'
    """
    return f"dp-synthetic-{epsilon:g}"


def synthetic_rows(
    context: Context, epsilon: float, kept: NDArray[np.bool_] | slice = slice(None)
) -> DpRows:
    """Make synthetic rows of the table, or of some rows of it; see `dp_rows` for what they prove.

    Raises:
        InputError: domains that do not fit.
        NotMeasurable: a column with too many different values.
    """
    settings = context.settings
    schema, columns = settings.schema or schema_of(context.table.plain), context.table.declared
    rows = columns if isinstance(kept, slice) else taken(columns, kept)
    return dp_rows(rows, schema, epsilon, settings.delta, bins=settings.bins, seed=settings.seed)


def measure_synthetic(context: Context, rows: DpRows, epsilon: float) -> RowRelease:
    """Look how far synthetic rows agree with the people of the table: numbers without a guarantee.

    Raises NotMeasurable: their utility cannot be told, which hangs on single rows of the table.
    """
    table, settings = context.table, context.settings
    people, sure = table.people, settings.confidence
    place = {domain.name: index for index, domain in enumerate(rows.domains)}
    mine = [rows.domains[place[name]].place(table.declared[name]) for name in table.quasi]
    theirs = [rows.cells[place[name]] for name in table.quasi]
    own_groups, drawn, size, shown = agreement(mine, theirs)
    smallest = int(size[shown].min()) if shown.any() else 0
    details: dict[str, Any] = {
        "k": smallest,
        "classes": int(shown.sum()),
        "released": len(drawn),
        "steps": {},
        "pairs": rows.pairs,
    }
    learnt: list[Learnt] = []
    if table.sensitive is not None and context.secret is not None:
        at = place[table.sensitive]
        cells = rows.domains[at].place(table.declared[table.sensitive])
        learnt.append(_inferred(own_groups, cells, drawn, rows.cells[at]))
        if context.secret.words:
            values = [table.plain[table.sensitive], rows.plain()[table.sensitive]]
            both = secret_of(np.concatenate(values), Tolerance.read(str(settings.tolerance)))
            codes, released = np.split(both.codes, [len(own_groups)])
            learnt.append(_inferred(own_groups, codes, drawn, released, both))
    linked: Float = np.where(shown[own_groups], 1 / np.maximum(size[own_groups], 1), 0.0)
    alone = shown[own_groups] & (size[own_groups] == 1)
    groups = reported(Reached(linked, alone, tuple(learnt)), table, context.groups, sure)
    measures, results = groups.measures, groups.results
    measures["prosecutor"] = counted(1 / smallest if smallest else 0.0, people, sure)
    words = f"synthetic rows, ({epsilon:g}, {settings.delta:g})-differentially private"
    chosen = {"epsilon": epsilon, "delta": settings.delta}
    utility = _utility_of(context, rows, epsilon)
    return RowRelease(
        dp_name(epsilon),
        words,
        chosen,
        utility.estimate,
        results,
        rows.guarantee,
        details=groups.details(details),
        measures=measures,
        used=utility,
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
    own_groups, drawn = of_row[: len(mine[0])], of_row[len(mine[0]) :]
    classes = int(of_row.max()) + 1
    size = np.bincount(own_groups, minlength=classes)
    return own_groups, drawn, size, (size > 0) & (np.bincount(drawn, minlength=classes) > 0)


def _inferred(
    mine: Int,
    codes: Codes,
    drawn: Int,
    released: Codes,
    near: Secret | None = None,
    weight: Int | Float | None = None,
) -> Learnt:
    """Infer people's values from released rows, see `guess_from`; from all rows if none agrees."""
    certain, right, there = guess_from(mine, codes, drawn, released, near, weight)
    everybody = np.zeros_like(mine), codes, np.zeros_like(drawn)
    _, blind, _ = guess_from(*everybody, released, near, weight)
    within = "" if near is None else near.words
    return Learnt(certain, np.where(there, right, blind), blind, within)


def _utility_of(context: Context, rows: DpRows, epsilon: float) -> Utility:
    table, settings = context.table, context.settings
    original = table.plain
    if context.use is not None:
        # Rows made of all rows know the held-out ones; these are made anew without them.
        learnt = synthetic_rows(context, epsilon, ~context.held_out)
        held_out = taken(original, context.held_out)
        rng = np.random.default_rng([settings.seed, 81])
        written = {}
        for domain in learnt.domains:
            cells = domain.place(table.declared[domain.name][context.held_out])
            drawn = domain.draw(cells, rng)
            written[domain.name] = plain(drawn, domain.column, gaps=domain.column.missing)
        return context.use(learnt.plain(), held_out, written)
    if settings.queries:
        value = answer_overlap(original, rows.plain(), settings.queries)
        return counted_utility(value, table.rows, settings.confidence, "released rows")
    names = [*table.quasi, *(() if table.sensitive is None else (table.sensitive,))]
    place = {one.name: index for index, one in enumerate(rows.domains)}
    codes, released, groups = [], [], []
    for name in names:
        column, one = encode(original[name]), rows.domains[place[name]]
        cells, of_level = np.unique(one.place(column.values), return_inverse=True)
        # A cell without any original value is -1: nobody asks for its count.
        new = np.full(one.cells, -1)
        new[cells] = np.arange(len(cells))
        codes.append(column.codes)
        released.append(new[rows.cells[place[name]]])
        groups.append(of_level)
    value = count_overlap(codes, released, groups)
    return counted_utility(value, table.rows, settings.confidence, "released rows")
