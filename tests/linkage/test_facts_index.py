"""The index of released facts: order, size, and what it refuses."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.linkage.records.facts import facts_of, index_facts, without


def triples(facts):
    values, times = facts.values_at(range(facts.facts)), facts.times_at(range(facts.facts))
    return set(zip(facts.person.tolist(), facts.item.tolist(), values, times, strict=True))


def test_a_small_release():
    facts = index_facts([2, 0, 2, 1], [1, 3, 3, 3], [5.0, 1.5, 5.0, 2.0], [700, -3, 10, 0])
    assert (facts.people, facts.items, facts.facts) == (3, 4, 4)
    assert facts.support.tolist() == [0, 1, 0, 3]
    assert facts.person.tolist() == [2, 0, 1, 2] and facts.item.tolist() == [1, 3, 3, 3]
    assert facts.values.tolist() == [1.5, 2.0, 5.0]
    assert triples(facts) == {(2, 1, 5, 700), (0, 3, 1.5, -3), (2, 3, 5, 10), (1, 3, 2, 0)}


def test_eight_bytes_a_fact_at_most():
    rng = np.random.default_rng(0)
    person, item = np.divmod(rng.permutation(300 * 400)[:50_000], 400)
    facts = index_facts(
        person, item, rng.integers(1, 11, 50_000) / 2, rng.integers(0, 65_000, 50_000)
    )
    assert facts.nbytes - facts.start.nbytes - facts.values.nbytes <= 8 * facts.facts


@given(
    st.integers(0, 10_000),
    st.sampled_from([3, 400, 70_000, 200_000]),
    st.sampled_from(["i8", "i4", "u4"]),
)
@settings(max_examples=15)
def test_the_order_is_that_of_a_sort(seed, top, kind):
    rng = np.random.default_rng(seed)
    n = 200
    person = np.sort(rng.integers(0, top, n)).astype(kind)
    item = rng.permutation(n).astype(kind) * (top // 3 + 1)
    mixed = rng.permutation(n)
    facts = index_facts(
        person[mixed], item[mixed], item[mixed].astype(int) % 7 - 3, item[mixed] % 11
    )
    wanted = sorted(
        (int(i), int(p), int(i) % 7 - 3, int(i) % 11) for p, i in zip(person, item, strict=True)
    )
    found = zip(
        facts.item, facts.person, facts.values_at(range(n)), facts.times_at(range(n)), strict=True
    )
    assert [tuple(map(int, one)) for one in found] == wanted


def test_facts_of_people_and_the_release_without_them():
    facts = index_facts([2, 0, 2, 1, 0], [1, 3, 3, 3, 0], [5, 1, 5, 2, 4], [7, -3, 10, 0, 1])
    known = facts_of(facts, [2, 1])
    assert known.start.tolist() == [0, 2, 3] and known.item.tolist() == [1, 3, 3]
    assert known.value.tolist() == [5, 5, 2] and known.time.tolist() == [7, 10, 0]
    smaller, kept = without(facts, [0])
    assert kept.tolist() == [1, 2] and smaller.items == 4
    assert triples(smaller) == {(1, 1, 5, 7), (1, 3, 5, 10), (0, 3, 2, 0)}
