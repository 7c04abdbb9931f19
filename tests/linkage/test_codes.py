"""Columns as codes and rows as classes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.data.columns import encode
from lethe.errors import InputError
from lethe.linkage.codes import classes_of


def test_missing_is_a_value_and_the_last_one():
    text = np.array(["b", "", "a", "b"], dtype=object)
    assert encode(text).codes.tolist() == [1, 2, 0, 1] and encode(text).levels == 3
    days = np.array(["2024-01-02", "NaT", "2024-01-01"], dtype="datetime64[D]")
    assert encode(days).codes.tolist() == [1, 2, 0]
    assert encode(np.array([False, True])).levels == 2
    assert encode(np.array([np.nan, np.nan])).codes.tolist() == [0, 0]
    quoted = np.array(["O'Neil", 'say "x"', "O'Neil"], dtype=object)
    assert encode(quoted).codes.tolist() == [0, 1, 0]


def test_a_table_of_numbers_is_no_column():
    with pytest.raises(InputError, match="no column"):
        encode(np.zeros((2, 2)))
    with pytest.raises(InputError, match="holds None"):
        encode(np.array(["a", None], dtype=object))


@given(st.integers(0, 10_000), st.integers(1, 6), st.sampled_from([2, 5, 2**20, 2**40]))
@settings(max_examples=60)
def test_classes_are_those_of_tuples(seed, width, top):
    rng = np.random.default_rng(seed)
    table = rng.choice(rng.integers(0, top, 3), size=(50, width))
    found = classes_of(list(table.T))
    sizes = Counter(map(tuple, table.tolist()))
    assert found.of_size.tolist() == [sizes[tuple(row)] for row in table.tolist()]
    rows, first = sorted(sizes), dict(zip(map(tuple, table.tolist()), found.of_row, strict=True))
    assert [first[row] for row in rows] == list(range(len(rows)))  # by the first column, then on
