"""Cells of columns: declared, or read off the rows and said to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.errors import InputError, NotMeasurable
from lethe.linkage.domains import MOST_NAMES, declared


def text(*values: str) -> np.ndarray:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def test_declared_cells_do_not_depend_on_the_rows() -> None:
    given = {
        "age": {"from": 0, "to": 99, "bins": 10},
        "sex": {"values": ["f", "m"]},
        "zip": {"values": [85001, 86001]},
        "day": {"from": "2020-01-01", "to": "2020-12-31", "bins": 12},
    }
    some = {
        "age": np.array([12, 105, -3]),
        "sex": text("m", "", "x"),
        "zip": np.array([86001, 85001, 1]),
        "day": np.array(["2020-01-15", "NaT", "2021-06-01"], dtype="datetime64[D]"),
    }
    other = {
        "age": np.array([50]),
        "sex": text("f"),
        "zip": np.array([85001]),
        "day": np.array(["2020-07-01"], dtype="datetime64[D]"),
    }
    one, two = declared(some, given), declared(other, given)
    assert [a.cells for a in one] == [b.cells for b in two] == [10, 3, 2, 13]
    assert [a.edges.tolist() for a in one] == [b.edges.tolist() for b in two]
    assert all(a.told for a in one)
    # Outside: numbers to the nearest cell, unknown text and missing values to the last one.
    assert one[0].place(some["age"]).tolist() == [1, 9, 0]
    assert one[1].place(some["sex"]).tolist() == [1, 2, 2]
    assert one[2].place(some["zip"]).tolist() == [1, 0, 1]
    assert one[3].place(some["day"]).tolist() == [0, 12, 11]


def test_what_is_read_off_the_rows_says_so() -> None:
    columns = {
        "few": np.array([3, 7, 7]),
        "many": np.arange(0, 300, 3),
        "real": np.array([0.0, 1.0, np.nan]),
        "text": text("b", "a", ""),
        "yes": np.array([True, True, True]),
    }
    found = {one.name: one for one in declared(columns)}
    assert found["few"].names == (3, 7) and not found["few"].told
    assert found["many"].cells == 32 and not found["many"].told
    assert found["real"].cells == 33 and found["real"].place(columns["real"]).tolist() == [
        0,
        31,
        32,
    ]
    assert found["text"].names == ("a", "b") and found["text"].cells == 3
    assert found["yes"].cells == 2 and found["yes"].told  # a bool has two values anyway


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(-50, 50), st.integers(0, 90), st.integers(0, 9))
def test_what_is_drawn_of_a_cell_lies_in_it(bins: int, low: int, span: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole = rng.integers(low, low + span + 1, 30)
    columns = {"w": whole, "r": whole + 0.25, "d": whole.astype("datetime64[D]")}
    ends = np.datetime64(low, "D"), np.datetime64(low + span, "D")
    given = {
        "w": {"from": low, "to": low + span, "bins": bins},
        "r": {"from": low, "to": low + span + 1, "bins": bins, "missing": False},
        "d": {"from": str(ends[0]), "to": str(ends[1]), "bins": bins},
    }
    for one in declared(columns, given):
        cells = rng.integers(0, one.cells, 50)
        drawn = one.draw(cells, rng)
        assert drawn.dtype == columns[one.name].dtype
        assert one.place(drawn).tolist() == cells.tolist()


def test_names_are_drawn_as_they_are() -> None:
    rng = np.random.default_rng(0)
    columns = {
        "t": text("a", "b", ""),
        "b": np.array([True, False, True]),
        "z": np.array([9, 5, 9]),
    }
    for one in declared(columns):
        cells = np.arange(one.cells)
        assert one.place(one.draw(cells, rng)).tolist() == cells.tolist()
        assert one.draw(cells, rng).dtype == columns[one.name].dtype


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"agee": {}}, "Did you mean 'age'"),
        ({"age": {"form": 1}}, "form"),
        ({"age": 3}, "must be a table"),
        ({"age": {"from": 1}}, "needs from and to"),
        ({"age": {"from": 5, "to": 1}}, "is above"),
        ({"age": {"from": "a", "to": 1}}, "must be numbers"),
        ({"age": {"edges": [1]}}, "at least 2 numbers"),
        ({"age": {"from": 1, "to": 5, "bins": 0}}, "bins"),
        ({"age": {"values": ["a"]}}, "whole numbers"),
        ({"sex": {"from": 1, "to": 2}}, "needs values"),
        ({"sex": {"values": []}}, "at least 1 value"),
        ({"sex": {"values": ["f"], "missing": 1}}, "true or false"),
        ({"real": {"values": [1.5]}}, "needs from and to, or edges"),
    ],
)
def test_bad_domains(given: dict, told: str) -> None:
    columns = {"age": np.array([1, 2]), "sex": text("f", "m"), "real": np.array([0.5, 1.0])}
    with pytest.raises(InputError, match=told):
        declared(columns, given)


def test_columns_that_need_a_declaration() -> None:
    with pytest.raises(NotMeasurable, match="different texts"):
        declared({"id": text(*map(str, range(MOST_NAMES + 1)))})
    with pytest.raises(NotMeasurable, match="no value"):
        declared({"gone": np.array([np.nan, np.nan])})
