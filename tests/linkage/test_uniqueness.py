"""Which few columns, and which few facts, single people out."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.errors import InputError
from lethe.linkage.records.facts import Known, index_facts, known_of
from lethe.linkage.records.unicity import unicity
from lethe.linkage.table.uniqueness import uniqueness


def test_a_case_worked_by_hand():
    # Column 0 tells row 3 alone; 0 and 1 together tell all rows; column 2 tells nothing.
    found = uniqueness([np.array([0, 0, 0, 1]), np.array([0, 1, 2, 2]), np.zeros(4, int)], 2)
    assert [one.columns for one in found.by_size[1]] == [(1,), (0,), (2,)]
    assert [one.unique.value for one in found.by_size[1]] == [0.5, 0.25, 0]
    assert found.by_size[2][0].columns == (0, 1) and found.by_size[2][0].unique.value == 1
    assert found.needed.tolist() == [1, 1, 2, 1]
    assert [found.singled_out[m].value for m in (1, 2)] == [0.75, 1]


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 40), st.integers(1, 5))
@settings(max_examples=60)
def test_every_subset_is_counted_as_by_a_loop(seed, width, rows, levels):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, levels, (rows, width))
    found = uniqueness(list(table.T), 3)
    needed = np.zeros(rows, int)
    for m in range(1, min(3, width) + 1):
        listed = {one.columns: one.unique.value for one in found.by_size[m]}
        assert set(listed) == set(combinations(range(width), m))
        for chosen, share in listed.items():
            keys = [tuple(row) for row in table[:, chosen].tolist()]
            counts = Counter(keys)
            alone = np.array([counts[key] == 1 for key in keys])
            assert share == pytest.approx(alone.mean())
            needed[alone & (needed == 0)] = m
        shares = [one.unique.value for one in found.by_size[m]]
        assert shares == sorted(shares, reverse=True)
        assert found.singled_out[m].value == pytest.approx(((needed > 0) & (needed <= m)).mean())
    assert found.needed.tolist() == needed.tolist()


def test_too_many_subsets_are_refused():
    with pytest.raises(InputError, match="subsets of up to 5"):
        uniqueness([np.zeros(2, int)] * 60, 5)
    with pytest.raises(InputError, match="at least 1 column"):
        uniqueness([], 1)


def fitting_by_loop(rows, known, target, value_within, time_within):
    held = {(p, i): (v, t) for p, i, v, t in zip(*(c.tolist() for c in rows), strict=True)}
    span = range(known.start[target], known.start[target + 1])
    return sum(
        all(
            (person, known.item[at]) in held
            and abs(held[person, known.item[at]][0] - known.value[at]) <= value_within
            and abs(held[person, known.item[at]][1] - known.time[at]) <= time_within
            for at in span
        )
        for person in range(30)
    )


@given(st.integers(0, 10_000), st.sampled_from([0, 1, 9]), st.sampled_from([0, 2, 30]))
@settings(max_examples=40)
def test_people_who_fit_are_those_of_a_loop(seed, value_within, time_within):
    rng = np.random.default_rng(seed)
    person, item = np.nonzero(rng.random((30, 8)) < 0.6)
    rows = (person, item, rng.integers(0, 4, len(person)), rng.integers(0, 20, len(person)))
    start = np.array([0, 1, 3, 6])
    known = Known(start, rng.integers(-1, 8, 6), *rng.integers(0, 4, (2, 6)).astype(float))
    facts = index_facts(*rows, people=30, items=8)
    found = unicity(facts, known, value_within=value_within, time_within=time_within)
    wanted = [fitting_by_loop(rows, known, q, value_within, time_within) for q in range(3)]
    assert found.fitting.tolist() == wanted
    assert found.share.value == pytest.approx(np.mean([one == 1 for one in wanted]))


def test_only_presence_may_be_known():
    facts = index_facts([0, 1, 1], [0, 0, 1], [1, 2, 3])
    assert unicity(facts, known_of([0])).fitting.tolist() == [2]
    assert unicity(facts, known_of([0, 1])).fitting.tolist() == [1]
    assert unicity(facts, known_of([0], [np.nan])).fitting.tolist() == [2]
    with pytest.raises(InputError, match="1 known fact"):
        unicity(facts, known_of([]))
