"""Scoreboard: worked by hand, against a dictionary loop, ties, and what may not matter."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linkage_facts import known_of, scores

from lethe.linkage.records.facts import Known, index_facts
from lethe.linkage.records.scoreboard import NO_MATCH, RH, Scoreboard, _standing, link

# Items: 0 is had by persons 0 and 1, item 1 by person 0 alone, item 2 by nobody.
HAND = index_facts([0, 1, 0], [0, 0, 1], [4.0, 1.0, 5.0], [100, 40, 10], people=4, items=3)


def test_a_case_worked_by_hand():
    known = known_of([0, 1, 2, -1], [4.0, 3.5, 1.0, 1.0], [70, 10, 0, 0])
    found = scores(HAND, known, 0)
    first = (1 + math.exp(-1)) / math.log(3) + (math.exp(-1) + 1) / math.log(2)
    second = (math.exp(-2) + math.exp(-1)) / math.log(3)
    assert found.tolist() == pytest.approx([first, second, 0, 0])
    mean = (first + second) / 4
    deviation = math.sqrt((first**2 + second**2) / 4 - mean**2)  # over all, zeros too
    links = link(HAND, known)
    assert links.best.tolist() == [0]
    assert links.eccentricity == pytest.approx((first - second) / deviation)
    assert links.matched(1.0).tolist() == [0] and links.matched(9.0).tolist() == [NO_MATCH]


def test_ties_at_the_top_are_no_match():
    facts = index_facts([0, 1, 2], [0, 0, 1])
    assert link(facts, known_of([0])).matched(0).tolist() == [NO_MATCH]
    # The same three similarities, added in another order, differ in the last digit only.
    one, other = (0.1 + 0.2) + 0.3, 0.1 + (0.2 + 0.3)
    assert one != other
    found = _standing(np.array([[one, other, 0.0], [0.6, 0.599, 0.0]]))
    assert found.best.tolist() == [NO_MATCH, 0]


@st.composite
def problems(draw):
    seed, people = draw(st.integers(0, 10_000)), draw(st.integers(2, 30))
    items, density = draw(st.integers(1, 12)), draw(st.sampled_from([0.1, 0.5, 0.9]))
    rng = np.random.default_rng(seed)
    held = rng.random((people, items)) < density
    held[0, 0] = True
    person, item = np.nonzero(held)
    value, time = rng.integers(1, 6, len(person)), rng.integers(-50, 400, len(person))
    asked = rng.integers(-1, items, draw(st.integers(1, 6)))
    known = known_of(asked, rng.integers(1, 6, len(asked)), rng.integers(-60, 420, len(asked)))
    return rng, people, items, (person, item, value, time), known


def by_dictionary(people, rows, known, board):
    """The definition, one record and one fact at a time."""
    held = {(p, i): (v, t) for p, i, v, t in zip(*(c.tolist() for c in rows), strict=True)}
    total = []
    for person in range(people):
        parts = []
        for item, value, time in zip(known.item, known.value, known.time, strict=True):
            support = sum(i == item for _, i in held)
            if (person, item) not in held:
                parts.append(0.0)
                continue
            v, t = held[person, item]
            like = math.exp(-abs(v - value) / board.value_scale)
            like += math.exp(-abs(t - time) / board.time_scale)
            parts.append(like / math.log(1 + support))
        total.append(sum(parts))
    return total


@given(problems())
@settings(max_examples=80)
def test_scores_are_those_of_a_loop(problem):
    _, people, items, rows, known = problem
    board = Scoreboard(1.2, 25)
    facts = index_facts(*rows, people=people, items=items)
    assert scores(facts, known, 0, board) == pytest.approx(
        by_dictionary(people, rows, known, board)
    )


@given(problems())
@settings(max_examples=60)
def test_names_do_not_matter(problem):
    rng, people, items, (person, item, value, time), known = problem
    who, what, mixed = rng.permutation(people), rng.permutation(items), rng.permutation(len(person))
    facts = index_facts(person, item, value, time, people=people, items=items)
    other = index_facts(
        who[person][mixed], what[item][mixed], value[mixed], time[mixed], people=people, items=items
    )
    asked = np.where(known.item >= 0, what[known.item], -1)
    renamed = Known(known.start, asked, known.value, known.time)
    one, two = link(facts, known), link(other, renamed)
    assert one.best[0] == NO_MATCH if two.best[0] == NO_MATCH else two.best[0] == who[one.best[0]]
    assert one.eccentricity == pytest.approx(two.eccentricity, abs=1e-9)


def test_the_defaults_are_those_of_the_paper():
    assert (RH.value_scale, RH.time_scale) == (1.5, 30)
