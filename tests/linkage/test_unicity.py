"""How few facts single a person out, drawn and at worst: by hand, and against loops."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from linkage_facts import known_of

from lethe.linkage.records.facts import Index, Known, index_facts
from lethe.linkage.records.unicity import people_fitting, worst_case


def by_trying(facts: Index, person: int, most: int) -> int:
    """Fewest items, by one look at everybody for each set."""
    held: list[set[int]] = [set() for _ in range(facts.people)]
    for who, what in zip(facts.person.tolist(), facts.item.tolist(), strict=True):
        held[who].add(what)
    for k in range(1, most + 1):
        for chosen in combinations(sorted(held[person]), k):
            if sum(set(chosen) <= one for one in held) == 1:
                return k
    return 0


def released(rows: list[list[int]]) -> Index:
    person = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    return index_facts(person, np.concatenate(rows).astype(np.int64))


def test_a_case_worked_by_hand() -> None:
    # 0 alone has item 9; 1 is alone with 0 and 3; 2 and 3 have all that the other one has.
    facts = released([[0, 9], [0, 1, 3], [0, 1, 2], [0, 1, 2], [3, 4], [3, 4, 5], [1, 2, 3, 5]])
    found = worst_case(facts, np.arange(7))
    assert found.needed.tolist() == [1, 2, 0, 0, 0, 2, 2]
    assert found.searched.tolist() == [4] * 7
    assert [round(7 * found.unique[k].value) for k in (1, 2, 3, 4)] == [1, 4, 4, 4]


@given(
    seed=st.integers(0, 100_000),
    people=st.integers(2, 25),
    items=st.integers(1, 9),
    share=st.floats(0.3, 0.95),
)
@settings(max_examples=80)
def test_the_same_as_trying_every_set(seed: int, people: int, items: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    table = rng.random((people, items)) < share
    table[np.arange(people), rng.integers(0, items, people)] = True
    person, item = np.nonzero(table)
    facts = index_facts(person, item, people=people, items=items)
    found = worst_case(facts, np.arange(people))
    assert found.needed.tolist() == [by_trying(facts, at, 4) for at in range(people)]


def test_long_lists_are_searched_and_short_ones_marked() -> None:
    # A rare item beside one that nearly everybody has takes the search in the long list.
    rng = np.random.default_rng(0)
    rows = [[0, *rng.choice(np.arange(1, 6), 2, replace=False).tolist()] for _ in range(400)]
    rows += [[0, 6, 7], [6, 1], [7, 1], [0, 6, 1], [0, 7, 2]]
    facts = released(rows)
    chosen = np.arange(395, 405)
    found = worst_case(facts, chosen, 3)
    assert found.needed.tolist() == [by_trying(facts, int(at), 3) for at in chosen]
    assert found.needed[5] == 2


def test_what_is_not_settled_widens_the_interval() -> None:
    whole = list(range(6))
    facts = released([whole, *([i for i in whole if i != out] for out in whole), [9]])
    stopped = worst_case(facts, [0, 7], limit=0)
    assert stopped.needed.tolist() == [0, 1] and stopped.searched.tolist() == [1, 4]
    assert stopped.unique[1].high < 1 and stopped.unique[2].high == 1
    assert stopped.unique[4].value == 0.5
    whole_search = worst_case(facts, [0, 7])
    assert whole_search.searched.tolist() == [4, 4] and whole_search.unique[4].high < 1


def fitting_by_loop(rows, items):
    held = set(zip(*(column.tolist() for column in rows), strict=True))
    return sum(all((person, item) in held for item in items) for person in range(30))


@given(st.integers(0, 10_000))
@settings(max_examples=40)
def test_people_who_fit_are_those_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    rows = np.nonzero(rng.random((30, 8)) < 0.6)
    known = Known(np.array([0, 1, 3, 6]), rng.integers(-1, 8, 6))
    found = people_fitting(index_facts(*rows, people=30, items=8), known)
    wanted = [fitting_by_loop(rows, known.item[span].tolist()) for span in known.spans()]
    assert found.tolist() == wanted


def test_only_presence_may_be_known():
    facts = index_facts([0, 1, 1], [0, 0, 1], [1, 2, 3])
    assert people_fitting(facts, known_of([0])).tolist() == [2]
    assert people_fitting(facts, known_of([0, 1])).tolist() == [1]
    assert people_fitting(facts, known_of([0], [np.nan])).tolist() == [2]
