"""Every statistic takes one value a record, whatever holds it, and refuses anything wider.

Noise is scaled for one value a record; a wider record that is flattened moves a sum by more.
"""

from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from lethe.errors import InputError
from lethe.queries import statistics as s
from lethe.queries.mechanisms import additive

COST = {"epsilon": 1.0}
BOUNDS = (0, 10)
DOORS = {
    "count": lambda v: s.count(v, **COST),
    "total": lambda v: s.total(v, bounds=BOUNDS, **COST),
    "mean": lambda v: s.mean(v, bounds=BOUNDS, **COST),
    "variance": lambda v: s.variance(v, bounds=BOUNDS, **COST),
    "quantile": lambda v: s.quantile(v, 0.9, bounds=BOUNDS, **COST),
    "median": lambda v: s.median(v, bounds=BOUNDS, **COST),
    "histogram": lambda v: s.histogram(v, edges=[0, 5, 10], **COST),
    "marginal": lambda v: s.marginal({"a": v}, categories={"a": [0.0, 1.0]}, **COST),
    "regression": lambda v: s.regression(
        {"x": v}, [1.0] * 6, bounds={"x": BOUNDS, "outcome": BOUNDS}, **COST
    ),
    "regression, outcome": lambda v: s.regression(
        {"x": [1.0] * 6}, v, bounds={"x": BOUNDS, "outcome": BOUNDS}, **COST
    ),
    "Lattice": lambda v: s.Lattice(*BOUNDS).units(v),
    "people": lambda v: s.total([1.0] * 6, people=v, bounds=BOUNDS, **COST),
    "kept_rows": lambda v: s.kept_rows(v, 1),
}
AGGREGATES = {"noisy_count", "noisy_counts", "noisy_keys", "noisy_mean", "noisy_quantile"}
AGGREGATES |= {"noisy_regression", "noisy_sum", "noisy_variance", "over_groups"}
SIX = np.array([0.0, 1, 2, 3, 9, 10])
ROWS = np.stack([SIX, SIX, SIX], axis=1)
WIDE = {
    "array": ROWS,
    "one column": ROWS[:, :1],
    "three dimensions": ROWS[None],
    "scalar": np.array(3.0),
    "number": 3.0,
    "text": "012345",
    "mapping": dict.fromkeys(range(6), 1.0),
    "set": set(SIX),
    "generator": (value for value in SIX),
    "nested lists": ROWS.tolist(),
    "ragged lists": [[1], [2, 3], [4], [5], [6], [7]],
    "array of lists": np.array([[1], [2, 3], None, None, None, None], dtype=object),
    "masked": np.ma.array(SIX, mask=[0, 1, 0, 0, 0, 0]),
    "structured": np.zeros(6, dtype=[("a", float), ("b", float)]),
    "pandas frame": pd.DataFrame(ROWS),
    "pandas frame of one column": pd.DataFrame({"a": SIX}),
    "pandas column of lists": pd.Series(ROWS.tolist()),
    "polars frame": pl.DataFrame({"a": SIX}),
    "polars column of lists": pl.Series(ROWS.tolist()),
    "arrow table": pa.table({"a": SIX}),
    "arrow lists": pa.array(ROWS.tolist()),
    "arrow records": pa.array([{"a": 1.0}] * 6),
    "tensor": torch.tensor(ROWS),
    "tensor with gradients": torch.tensor(SIX, requires_grad=True),
}
COLUMNS = {
    "list": list,
    "tuple": tuple,
    "array": np.asarray,
    "pandas": pd.Series,
    "polars": pl.Series,
    "arrow": pa.array,
    "chunks": lambda v: pa.chunked_array([v[:1], v[1:]]),
    "tensor": torch.tensor,
}


def test_every_statistic_of_arrays_is_asked() -> None:
    given = {"Lattice", "Neighbours", "Spend", "MEAN_CELLS", "QUANTILE_CELLS", "VARIANCE_CELLS"}
    assert set(s.__all__) - given - AGGREGATES <= set(DOORS)


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_column_is_refused(door: str, wide: str) -> None:
    values = WIDE[wide]
    if door == "count" and isinstance(values, np.ndarray) and values.dtype.kind == "f":
        values = values > 0
    with mock.patch.object(additive, "noised", side_effect=AssertionError("noise was drawn")):
        with pytest.raises(InputError, match="must hold one value a record"):
            DOORS[door](values)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_is_a_column_whatever_holds_it(column: str) -> None:
    """The exact numbers that get noise, with a record more and less, in every container."""
    moved = []
    for values in (SIX, SIX[:-1]):
        with mock.patch.object(additive, "noised", wraps=additive.noised) as drawn:
            s.total(COLUMNS[column](values), bounds=BOUNDS, **COST)
            s.count(COLUMNS[column](values > 0), **COST)
            s.histogram(COLUMNS[column](values), edges=[0, 5, 10], **COST)
        moved.append([list(call.args[0]) for call in drawn.call_args_list])
    lattice = s.Lattice(*BOUNDS)
    assert moved[0] == [[int(25 / lattice.step)], [5], [4, 2]]
    assert moved[1] == [[int(15 / lattice.step)], [4], [4, 1]]


@pytest.mark.parametrize("odd", [1.5, np.array([1, 2]), "1", None, [1]])
def test_exact_numbers_are_whole_and_single(odd: object) -> None:
    for ask in (
        lambda: s.noisy_count(odd, s.Spend(**COST)),
        lambda: s.noisy_counts([1, odd], s.Spend(rho=0.1)),
        lambda: s.noisy_sum(2, odd, s.Lattice(*BOUNDS), s.Spend(mu=1.0)),
        lambda: s.noisy_keys({"a": odd}, s.Spend(epsilon=1.0, delta=1e-6)),
    ):
        with pytest.raises((InputError, TypeError)):
            ask()
