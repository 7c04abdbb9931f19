"""Private statistics: of arrays, and of aggregates that a database has computed.

Every function on arrays takes the cost by name (`epsilon`, `epsilon` and `delta`, `rho` or `mu`),
the relation, and with `people` whose each row is: then at most `most` rows of each person are used
and the person is what is protected. Bounds and categories are given: a smallest or largest value
read off the data is some person's value.

A column holds one value a record: a list, an array of shape (n,), a tensor, or a column of pandas,
polars or Arrow. Anything with several values a record is refused.

Every statistic exists twice. The array form, such as `mean(values, bounds=(18, 100), epsilon=0.5)`,
clamps, counts and releases. The form of aggregates, such as `noisy_mean`, gets whole numbers that
are exact, so that rows need not leave the database. All take a `Spend` and a `Neighbours`:

    spend = Spend(epsilon=0.5)            # or epsilon and delta, or rho, or mu
    whose = Neighbours("add/remove", "user", rows=3)

Real numbers are put on a lattice before they are summed: `Lattice(low, high)` maps a value to a
whole number of steps above `low`, in [0, width]. Sums of those are exact, in any order and on any
machine, so the sensitivity is exact too. `lattice.units(array)` does it here and
`lethe.queries.lattice.from_first_sql` writes the same in SQL.

The form of aggregates (`confidence` is 0.95 everywhere and can be given):

    noisy_count(rows, spend, whose)                                      -> Answer
    noisy_counts(cells, spend, whose, keys=None)                         -> Answers (histogram)
    noisy_sum(rows, total, lattice, spend, whose)                        -> Answer
    noisy_mean(rows, total, lattice, spend, whose, public_rows=False)    -> Answer
    noisy_variance(rows, total, squares, lattice, spend, whose)          -> Answer
    noisy_quantile(cells, lattice, alpha, spend, whose)                  -> Answer
    noisy_regression(rows, moments, lattices, names, spend, whose)       -> Answers
    noisy_keys(counts, spend, whose, groups=1)                           -> Answers (unknown keys)
    over_groups(answers, keys, spend, whose)                             -> Answers (known keys)
    kept_rows(people, most, salt=...)                                    -> which rows to keep

`rows` counts rows, `total` sums their lattice units, `squares` sums the squares of the units (use
`Lattice(low, high, VARIANCE_CELLS)` for that), `cells[i]` counts rows at lattice unit i (use
`Lattice(low, high, QUANTILE_CELLS)`).

For a group-by over known keys give each group `spend.in_groups(whose.relation)`, then join the
answers with `over_groups`. For unknown keys `noisy_keys` finds the keys and costs its own share
(it needs a delta); the groups it found are then known.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import InputError, check_known_keys
from lethe.queries.aggregates.base import over_groups
from lethe.queries.aggregates.counts import noisy_count, noisy_counts
from lethe.queries.aggregates.moments import noisy_mean, noisy_sum, noisy_variance
from lethe.queries.aggregates.quantile import noisy_quantile
from lethe.queries.aggregates.regression import noisy_regression
from lethe.queries.lattice import (
    MEAN_CELLS,
    QUANTILE_CELLS,
    VARIANCE_CELLS,
    Lattice,
    check_number,
    column_of,
    numbers_of,
)
from lethe.queries.mechanisms.additive import check_whole
from lethe.queries.privacy import Answer, Answers, Neighbours, Scalar, Spend
from lethe.queries.release import noisy_keys

__all__ = [
    "MEAN_CELLS",
    "QUANTILE_CELLS",
    "VARIANCE_CELLS",
    "Lattice",
    "Neighbours",
    "Spend",
    "count",
    "histogram",
    "kept_rows",
    "marginal",
    "mean",
    "median",
    "noisy_count",
    "noisy_counts",
    "noisy_keys",
    "noisy_mean",
    "noisy_quantile",
    "noisy_regression",
    "noisy_sum",
    "noisy_variance",
    "over_groups",
    "quantile",
    "regression",
    "total",
    "variance",
]

Bounds = tuple[float, float]
People = Sequence[Hashable] | NDArray[Any] | None
_WHOSE = ("relation", "people", "most", "salt")


def count(rows: ArrayLike, **cost: Any) -> Answer:
    """How many rows are true.

    Args:
        rows: (n,) bool.
        cost: epsilon, delta, rho, mu; relation, people, most, salt.

    >>> answer = count([True, False, True], epsilon=1.0)
    >>> answer.high - answer.low
    6.0
    """
    picked = column_of(rows, "rows")
    if picked.dtype != np.bool_:
        raise InputError("rows to count must be true or false: compare with a value first.")
    spend, whose, kept = _read(len(picked), cost)
    return noisy_count(int((picked & kept).sum()), spend, whose)


def total(values: ArrayLike, *, bounds: Bounds | None = None, **cost: Any) -> Answer:
    """The sum of values clamped to the bounds; as `mean`."""
    lattice = _lattice(bounds)
    units, spend, whose = _units(values, lattice, cost)
    return noisy_sum(len(units), int(units.sum()), lattice, spend, whose)


def mean(
    values: ArrayLike, *, bounds: Bounds | None = None, public_rows: bool = False, **cost: Any
) -> Answer:
    """The mean of values clamped to the bounds.

    Args:
        values: (n,) numbers without NaN.
        bounds: lowest and highest value, known without the data.

    Raises InputError: no bounds, NaN, a cost that is none.

    Ages 8 to 12 have the mean 10; without the 8 it is 10.5. Under epsilon 1 each noisy mean is at
    most e times as likely with the child of 8 as without:

    >>> with_8, without_8 = [8, 9, 10, 11, 12], [9, 10, 11, 12]
    >>> sum(with_8) / 5, sum(without_8) / 4
    (10.0, 10.5)
    >>> for ages in (with_8, without_8):
    ...     answer = mean(ages, bounds=(0, 18), epsilon=1.0)
    ...     print(0 <= answer.low <= answer.value <= answer.high <= 18)
    True
    True
    """
    lattice = _lattice(bounds)
    units, spend, whose = _units(values, lattice, cost)
    return noisy_mean(len(units), int(units.sum()), lattice, spend, whose, public_rows=public_rows)


def variance(values: ArrayLike, *, bounds: Bounds | None = None, **cost: Any) -> Answer:
    """The variance of values clamped to the bounds; as `mean`."""
    lattice = _lattice(bounds, VARIANCE_CELLS)
    units, spend, whose = _units(values, lattice, cost)
    return noisy_variance(
        len(units), int(units.sum()), int((units * units).sum()), lattice, spend, whose
    )


def quantile(
    values: ArrayLike,
    alpha: float | Fraction,
    *,
    bounds: Bounds | None = None,
    cells: int = QUANTILE_CELLS,
    **cost: Any,
) -> Answer:
    """The alpha-quantile of values clamped to the bounds, on a grid of about `cells` points.

    There is no minimum and no maximum: see `lethe.queries.aggregates.quantile`.
    """
    lattice = _lattice(bounds, cells)
    units, spend, whose = _units(values, lattice, cost)
    counts = np.bincount(units, minlength=lattice.width + 1).tolist()
    return noisy_quantile(counts, lattice, alpha, spend, whose)


def median(values: ArrayLike, *, bounds: Bounds | None = None, **cost: Any) -> Answer:
    """The 0.5-quantile."""
    return quantile(values, 0.5, bounds=bounds, **cost)


def histogram(values: ArrayLike, *, edges: Sequence[float], **cost: Any) -> Answers:
    """Rows between edges that are given; values outside count in the first or last cell."""
    for edge in edges:
        check_number("an edge", edge)
    cuts = [float(edge) for edge in edges]
    if len(cuts) < 2 or not all(a < b for a, b in itertools.pairwise(cuts)):
        raise InputError("edges must be at least two rising numbers that are known beforehand.")
    numbers = numbers_of(values)
    spend, whose, kept = _read(len(numbers), cost)
    cells = np.searchsorted(cuts[1:-1], numbers[kept], side="right")
    counts = np.bincount(cells, minlength=len(cuts) - 1).tolist()
    keys = [{"from": a, "to": b} for a, b in itertools.pairwise(cuts)]
    return noisy_counts(counts, spend, whose, keys=keys)


def marginal(
    columns: Mapping[str, Sequence[Scalar] | NDArray[Any]],
    *,
    categories: Mapping[str, Sequence[Scalar]],
    **cost: Any,
) -> Answers:
    """Rows by every combination of categories of one or more columns (a contingency table).

    Rows with a value that is no category are left out, as if filtered.

    >>> sexes = {"sex": ["f", "m", "f"]}
    >>> table = marginal(sexes, categories={"sex": ["f", "m"]}, epsilon=1.0)
    >>> [row.key["sex"] for row in table.rows]
    ['f', 'm']
    """
    if not columns or set(columns) != set(categories):
        odd = ", ".join(sorted(map(repr, set(columns) ^ set(categories)))) or "none are given"
        raise InputError(
            "every column needs its categories, listed beforehand, and no others: "
            f"columns and categories differ in {odd}."
        )
    for name, listed in categories.items():
        if not len(listed) or len(set(listed)) != len(listed):
            raise InputError(f"categories of {name!r} must be different values, at least one.")
    lists = []
    for name, column in columns.items():
        array = column_of(column, name)
        # NumPy would turn the numbers of a list with text into text.
        lists.append(list(column if isinstance(column, list | tuple) else array))
    if len({len(values) for values in lists}) != 1:
        raise InputError("columns differ in length.")
    spend, whose, kept = _read(len(lists[0]), cost)
    cells = {cell: 0 for cell in itertools.product(*(categories[name] for name in columns))}
    for row, keep in zip(zip(*lists, strict=True), kept.tolist(), strict=True):
        if keep and row in cells:
            cells[row] += 1
    keys = [dict(zip(columns, cell, strict=True)) for cell in cells]
    return noisy_counts(list(cells.values()), spend, whose, keys=keys)


def regression(
    covariates: Mapping[str, ArrayLike],
    outcome: ArrayLike,
    *,
    bounds: Mapping[str, Bounds],
    name: str = "outcome",
    **cost: Any,
) -> Answers:
    """Least squares of `outcome` on the covariates; `bounds` has one pair a variable."""
    columns = {**covariates, name: outcome}
    if set(bounds) != set(columns):
        raise InputError(f"bounds are needed for {sorted(columns)}, got {sorted(bounds)}.")
    lattices = [_lattice(bounds[column], VARIANCE_CELLS) for column in columns]
    units = [
        lattice.units(values) for lattice, values in zip(lattices, columns.values(), strict=True)
    ]
    if len({len(u) for u in units}) != 1:
        raise InputError("columns differ in length.")
    spend, whose, kept = _read(len(units[0]), cost)
    units = [u[kept] for u in units]
    moments = [int(u.sum()) for u in units] + [
        int((a * b).sum()) for a, b in itertools.combinations_with_replacement(units, 2)
    ]
    return noisy_regression(len(units[0]), moments, lattices, list(columns), spend, whose)


def _lattice(bounds: Bounds | None, cells: int | None = None) -> Lattice:
    if bounds is None or len(bounds) != 2:
        raise InputError(
            "bounds are not given and have no default: the smallest and largest value of the data "
            "would give a person away, so name two numbers known without it, as bounds=(0, 100)."
        )
    return Lattice(*bounds) if cells is None else Lattice(*bounds, cells)


def _units(
    values: ArrayLike, lattice: Lattice, cost: Mapping[str, Any]
) -> tuple[NDArray[np.int64], Spend, Neighbours]:
    units = lattice.units(values)
    spend, whose, kept = _read(len(units), cost)
    return units[kept], spend, whose


def _read(rows: int, cost: Mapping[str, Any]) -> tuple[Spend, Neighbours, NDArray[np.bool_]]:
    check_known_keys("the cost", cost, ("epsilon", "delta", "rho", "mu", *_WHOSE))
    spend = Spend(**{name: value for name, value in cost.items() if name not in _WHOSE})
    relation, people = cost.get("relation", "add/remove"), cost.get("people")
    if people is None:
        if "most" in cost:
            raise InputError("most goes with people: say whose each row is.")
        return spend, Neighbours(relation), np.ones(rows, dtype=np.bool_)
    if len(column_of(people, "people")) != rows:
        raise InputError(f"people={len(people)} names for {rows} rows: give one to each.")
    most = cost.get("most", 1)
    kept = kept_rows(people, most, salt=cost.get("salt", ""))
    return spend, Neighbours(relation, "user", most), kept


def kept_rows(people: Sequence[Hashable], most: int, *, salt: str = "") -> NDArray[np.bool_]:
    """Which rows to keep so that no person has more than `most`.

    Those with the smallest hash of salt, person and the row's place among that person's rows: the
    same every time, whatever other people have.

    Args:
        people: whose each row is; the same text means the same person.
        most: rows of each, >= 1.
        salt: another salt, another draw; public.

    Returns: (n,) bool.

    >>> kept_rows(["a", "a", "b", "a"], 1).sum()
    np.int64(2)
    """
    check_whole("most", most)
    column_of(people, "people")
    places: dict[str, list[int]] = defaultdict(list)
    for row, person in enumerate(people):
        places[str(person)].append(row)
    kept = np.zeros(len(people), dtype=np.bool_)
    for person, rows in places.items():
        if len(rows) > most:
            order = sorted(range(len(rows)), key=lambda j: _hash(salt, person, j))
            rows = [rows[j] for j in order[:most]]
        kept[rows] = True
    return kept


def _hash(salt: str, person: str, place: int) -> bytes:
    text = f"{len(salt)}:{salt}{len(person)}:{person}{place}"
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
