"""Private statistics: of arrays, and of aggregates that a database has computed.

Every statistic exists twice. The array form, such as `mean(values, bounds=(18, 100), epsilon=0.5)`,
clamps, counts and releases. The form of aggregates, such as `noisy_mean`, gets whole numbers that
are exact, so that rows need not leave the database. All take a `Spend` and a `Neighbours`:

    spend = Spend(epsilon=0.5)            # or epsilon and delta, or rho, or mu
    whose = Neighbours("add/remove", "user", rows=3)

Real numbers are put on a lattice before they are summed: `Lattice(low, high)` maps a value to a
whole number of steps above `low`, in [0, width]. Sums of those are exact, in any order and on any
machine, so the sensitivity is exact too. `lattice.units(array)` does it here and
`lattice.sql("column")` writes the same in SQL.

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

from lethe.queries.mechanisms.spend import Neighbours, Spend
from lethe.queries.statistics.arrays import (
    count,
    histogram,
    marginal,
    mean,
    median,
    quantile,
    regression,
    total,
    variance,
)
from lethe.queries.statistics.counts import noisy_count, noisy_counts, noisy_sum
from lethe.queries.statistics.grouping import noisy_keys, over_groups
from lethe.queries.statistics.lattice import (
    MEAN_CELLS,
    QUANTILE_CELLS,
    VARIANCE_CELLS,
    Lattice,
)
from lethe.queries.statistics.moments import noisy_mean, noisy_variance
from lethe.queries.statistics.people import kept_rows
from lethe.queries.statistics.quantiles import noisy_quantile
from lethe.queries.statistics.regression import noisy_regression

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
