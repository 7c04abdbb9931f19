"""The aggregates of the query grammar: to add one, write its class and name it here.

See `lethe.queries.aggregates.base.Aggregate` for what a class must say.
"""

from __future__ import annotations

from lethe.queries.aggregates.base import Aggregate
from lethe.queries.aggregates.counts import Count, Histogram, Mode
from lethe.queries.aggregates.moments import Mean, Sum, Variance
from lethe.queries.aggregates.quantile import Quantile
from lethe.queries.aggregates.regression import Regression

AGGREGATES: tuple[type[Aggregate], ...] = (
    Count,
    Sum,
    Mean,
    Variance,
    Quantile,
    Histogram,
    Mode,
    Regression,
)


def examples() -> dict[str, str]:
    """A question for each word that may begin one."""
    return {word: text for kind in AGGREGATES for word, text in kind.EXAMPLES.items()}
