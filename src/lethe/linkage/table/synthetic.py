"""Synthetic rows with differential privacy beside the recoded releases of the same table.

The adversary takes every synthetic row that agrees with a person in all quasi-identifiers, in the
cells that were counted, for a copy of one of the rows that agree likewise. So the marketer risk is
the number of the table's classes that the synthetic rows show, over its rows, as for a recoded
table; agreement by chance counts too, so it is an upper limit of what linkage gets. The proof is
the guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import encode
from lethe.data.source import TypedColumn
from lethe.evidence.estimate import Measured
from lethe.linkage.answers import answer_overlap, count_overlap
from lethe.linkage.codes import Int, classes_of, counted
from lethe.linkage.measurement import Measurement
from lethe.linkage.table.anonymity import Float
from lethe.linkage.table.candidates import Context, linkage_results, listed, taken
from lethe.linkage.table.domains import plain, schema_of
from lethe.linkage.table.dp_rows import DpRows, dp_rows
from lethe.linkage.utility import Utility, counted_utility


def dp_name(epsilon: float) -> str:
    """Of the candidate.

    >>> dp_name(0.5)
    'dp-synthetic-0.5'
    """
    return f"dp-synthetic-{epsilon:g}"


def measure_synthetic(context: Context, epsilon: float) -> tuple[Measurement, DpRows]:
    """Make synthetic rows and look how far they agree with the people of the table.

    Returns: The candidate, and the rows: these, and no others, are what was measured.
    Guarantee: Of the rows: see `dp_rows`. The measured numbers have none.

    Raises:
        InputError: domains that do not fit.
        NotMeasurable: a column with too many different values.
    """
    table, settings = context.table, context.settings
    columns: dict[str, NDArray[Any] | TypedColumn] = {**table.plain, **table.typed}
    made = _made(context, columns, epsilon)
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
    release = Measurement(
        dp_name(epsilon),
        words,
        chosen,
        linkage_results(evidence),
        _utility_of(context, made, epsilon),
        evidence,
        details | listed(evidence),
        proof=made.guarantee,
    )
    return release, made


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
