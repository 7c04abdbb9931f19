"""From exact numbers to answers with noise: the only door through which numbers get out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lethe.errors import InputError
from lethe.queries.answer import Answer, Answers, Scalar
from lethe.queries.evaluate import Exact, Groups, Layout, unknown_groups
from lethe.queries.grammar import (
    Categories,
    Count,
    Histogram,
    Mean,
    Mode,
    Quantile,
    Query,
    Regression,
    Sum,
    Variance,
    number_text,
)
from lethe.queries.mechanisms.choosing import exponential
from lethe.queries.mechanisms.spend import Neighbours, Spend
from lethe.queries.privacy import Privacy
from lethe.queries.statistics.counts import noisy_count, noisy_counts, noisy_sum
from lethe.queries.statistics.grouping import noisy_keys, over_groups
from lethe.queries.statistics.moments import noisy_mean, noisy_variance
from lethe.queries.statistics.quantiles import noisy_quantile
from lethe.queries.statistics.regression import noisy_regression

Key = Mapping[str, Scalar]
FOR_KEYS = 1 / 3
"""Part of the cost that finds the groups, where their names are private."""
_OUTSIDE = "values outside the bounds are in the first and last bin"


def release(query: Query, groups: Groups, layout: Layout, privacy: Privacy) -> Answers:
    """Noise on exact numbers.

    Args:
        query: what was asked.
        groups: of `lethe.queries.evaluate.measure`.
        layout: how they were added up.
        privacy: what it may cost, and whose data it is.

    Returns:
        Answers by group; found groups only where they have enough rows to be shown.

    Guarantee:
        `Answers.guarantee`.
    Assumes:
        One row or one person at most changes `groups` as `privacy.whose` says, which `measure`
        sees to.

    Raises:
        InputError: the mechanism needs another kind of cost; this does not depend on `groups`.
    """
    spend, whose = privacy.spend, privacy.whose
    if unknown_groups(query):
        return _found_groups(query, groups, layout, spend, whose)
    return _known_groups(query, groups, layout, spend, whose)


def _known_groups(
    query: Query, groups: Groups, layout: Layout, spend: Spend, whose: Neighbours
) -> Answers:
    names = [_named(query, values) for values in groups]
    asked = query.aggregate
    if isinstance(asked, Count) and query.by:
        counts = [exact.rows for exact in groups.values()]
        return noisy_counts(counts, spend, whose, keys=names)
    if isinstance(asked, Histogram | Categories):
        cells = [count for exact in groups.values() for count in exact.cells]
        most = len(next(iter(groups.values())).cells)
        labels = _labels(asked)[:most]
        keys = [{**name, asked.column: label} for name in names for label in labels]
        return _noted(noisy_counts(cells, spend, whose, keys=keys), _notes(asked))
    if not query.by:
        return _one(query, next(iter(groups.values())), layout, spend, whose)
    share = spend.in_groups(whose.relation)
    parts = [_one(query, exact, layout, share, whose).rows for exact in groups.values()]
    if not isinstance(asked, Regression):
        return over_groups([part[0] for part in parts], names, spend, whose)
    joined = over_groups([part[0] for part in parts], names, spend, whose)
    rows = tuple(
        replace(row, key={**name, **row.key})
        for name, part in zip(names, parts, strict=True)
        for row in part
    )
    return Answers(rows, joined.guarantee)


def _found_groups(
    query: Query, groups: Groups, layout: Layout, spend: Spend, whose: Neighbours
) -> Answers:
    if spend.delta is None:
        raise InputError(
            "groups that the question does not list need epsilon with a delta (--delta 1e-6), "
            f"because their names are private; or list them: by {query.by[0].column} among [..]."
        )
    texts = {json.dumps(list(values)): values for values in groups}
    counts: dict[Scalar, int] = {text: groups[values].rows for text, values in texts.items()}
    only_count = isinstance(query.aggregate, Count)
    part = spend if only_count else spend.share(FOR_KEYS)
    found = noisy_keys(counts, part, whose, groups=whose.rows, column="group")
    shown = [texts[str(row.key["group"])] for row in found.rows]
    if only_count:
        rows = tuple(
            replace(row, key=_named(query, values))
            for row, values in zip(found.rows, shown, strict=True)
        )
        return Answers(rows, found.guarantee)
    rest = spend.share(1 - FOR_KEYS)
    guarantee = whose.guarantee(spend, *_told(found.guarantee.assumptions))
    if not shown:
        return Answers((), guarantee)
    kept = {values: groups[values] for values in shown}
    told = _known_groups(query, kept, layout, rest, whose)
    threshold = found.rows[0].notes[0]
    return Answers(_noted(told, (threshold,)).rows, guarantee)


def _told(assumptions: Sequence[str]) -> list[str]:
    """What `Neighbours.guarantee` does not say by itself."""
    return [one for one in assumptions if not one.startswith("no person has more than")]


def _one(query: Query, exact: Exact, layout: Layout, spend: Spend, whose: Neighbours) -> Answers:
    """The answer of one group."""
    asked = query.aggregate
    if isinstance(asked, Regression):
        names = (asked.x, asked.y)
        return noisy_regression(exact.rows, exact.sums, layout.lattices, names, spend, whose)
    answer = _single(asked, exact, layout, spend, whose)
    return Answers((answer,), answer.guarantee)


def _single(
    asked: Count | Sum | Mean | Variance | Quantile | Mode | Histogram | Categories,
    exact: Exact,
    layout: Layout,
    spend: Spend,
    whose: Neighbours,
) -> Answer:
    if isinstance(asked, Count):
        return noisy_count(exact.rows, spend, whose)
    if isinstance(asked, Mode):
        return exponential(
            asked.among[: len(exact.cells)],
            exact.cells,
            sensitivity=whose.rows,
            spend=spend,
            monotone=whose.relation == "add/remove",
            whose=whose,
            notes=("one of the listed values, the likelier the more rows have it",),
        )
    lattice = layout.lattices[0]
    if isinstance(asked, Sum):
        return noisy_sum(exact.rows, exact.sums[0], lattice, spend, whose)
    if isinstance(asked, Mean):
        return noisy_mean(exact.rows, exact.sums[0], lattice, spend, whose)
    if isinstance(asked, Variance):
        total, squares = exact.sums
        return noisy_variance(exact.rows, total, squares, lattice, spend, whose)
    assert isinstance(asked, Quantile)
    chosen = noisy_quantile(exact.cells, lattice, float(asked.share), spend, whose)
    assert isinstance(chosen.value, int | float)
    step = number_text(lattice.step * layout.scale)
    clamped = f"values clamped to {asked.bounds} and rounded to multiples of {step}"
    return replace(chosen, value=chosen.value * layout.scale, notes=(clamped, *chosen.notes[1:]))


def _named(query: Query, values: Sequence[Scalar]) -> Key:
    return {key.column: value for key, value in zip(query.by, values, strict=True)}


def _labels(asked: Histogram | Categories) -> list[Scalar]:
    """Names of the cells.

    >>> from lethe.queries.grammar import Bounds
    >>> _labels(Histogram("age", Bounds(0, 100), 2))
    ['[0, 50)', '[50, 100]']
    """
    if isinstance(asked, Categories):
        return list(asked.among)
    low, width = asked.bounds.low, asked.bounds.high - asked.bounds.low
    edges = [number_text(low + width * at / asked.bins) for at in range(asked.bins)]
    edges.append(number_text(asked.bounds.high))
    ends = [")"] * (asked.bins - 1) + ["]"]
    return [f"[{a}, {b}{end}" for a, b, end in zip(edges, edges[1:], ends, strict=False)]


def _notes(asked: Histogram | Categories) -> tuple[str, ...]:
    return (_OUTSIDE,) if isinstance(asked, Histogram) else ()


def _noted(answers: Answers, notes: tuple[str, ...]) -> Answers:
    rows = tuple(replace(row, notes=(*row.notes, *notes)) for row in answers.rows)
    return Answers(rows, answers.guarantee)
