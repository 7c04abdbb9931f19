"""Which few columns single people out."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.errors import InputError
from lethe.linkage.table.population import uniqueness


def named(columns):
    return {str(place): column for place, column in enumerate(columns)}


def test_a_case_worked_by_hand():
    # Column 0 tells row 3 alone; 0 and 1 together tell all rows; column 2 tells nothing.
    found = uniqueness(named([np.array([0, 0, 0, 1]), np.array([0, 1, 2, 2]), np.zeros(4, int)]), 2)
    assert [one.columns for one in found.subsets[1]] == [["1"], ["0"], ["2"]]
    assert [one.unique.value for one in found.subsets[1]] == [0.5, 0.25, 0]
    assert found.subsets[2][0].columns == ["0", "1"] and found.subsets[2][0].unique.value == 1
    assert found.needed.tolist() == [1, 1, 2, 1]
    assert [found.singled_out[m].value for m in (1, 2)] == [0.75, 1]


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 40), st.integers(1, 5))
@settings(max_examples=60)
def test_every_subset_is_counted_as_by_a_loop(seed, width, rows, levels):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, levels, (rows, width))
    found = uniqueness(named(table.T), 3)
    needed = np.zeros(rows, int)
    for m in range(1, min(3, width) + 1):
        listed = {tuple(map(int, one.columns)): one.unique.value for one in found.subsets[m]}
        assert set(listed) == set(combinations(range(width), m))
        for chosen, share in listed.items():
            keys = [tuple(row) for row in table[:, chosen].tolist()]
            counts = Counter(keys)
            alone = np.array([counts[key] == 1 for key in keys])
            assert share == pytest.approx(alone.mean())
            needed[alone & (needed == 0)] = m
        shares = [one.unique.value for one in found.subsets[m]]
        assert shares == sorted(shares, reverse=True)
        assert found.singled_out[m].value == pytest.approx(((needed > 0) & (needed <= m)).mean())
    assert found.needed.tolist() == needed.tolist()


def test_too_many_subsets_are_refused():
    with pytest.raises(InputError, match="subsets of up to 5"):
        uniqueness(named([np.zeros(2, int)] * 60), 5)
