"""Changing pseudonyms, noise on values and items left out: by hand, and attacked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.errors import NotMeasurable
from lethe.evidence.plain import plain
from lethe.linkage.records.attackers import Adversary, outside, simulate
from lethe.linkage.records.candidates import Aim, measure, released
from lethe.linkage.records.facts import Known
from lethe.linkage.records.mitigations import (
    Coarsened,
    Sheet,
    as_it_is,
    dealt_pseudonyms,
    new_pseudonyms,
    noisy_values,
    value_steps,
    without_popular,
)
from lethe.linkage.records.scoreboard import RH
from lethe.linkage.settings import RecordSettings
from lethe.linkage.utility import counted_utility


def sheet() -> Sheet:
    """Two people; the first has three facts in two months, the second two in one."""
    return Sheet(
        np.array([0, 0, 0, 1, 1]),
        np.array([0, 1, 2, 1, 3]),
        np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
        np.array([10, 11, 45, 12, 13]),
        2,
        4,
    )


def test_a_new_pseudonym_each_month_by_hand() -> None:
    made = new_pseudonyms(sheet(), 28, np.random.default_rng(0))
    assert made.sheet.people == 3 and len(made.out) == 3
    # Facts of one person and month stay together; the owners say whose records they are.
    first, second, third = made.sheet.person[0], made.sheet.person[2], made.sheet.person[3]
    assert len({first, second, third}) == 3
    assert made.sheet.person.tolist() == [first, first, second, third, third]
    assert made.owners[[first, second, third]].tolist() == [0, 0, 1]


@settings(max_examples=30)
@given(st.integers(1, 60), st.integers(0, 99))
def test_a_split_loses_no_fact_and_mixes_no_people(days: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    person = rng.integers(0, 6, 40)
    times = np.concatenate([[0], rng.integers(0, 100, 38), [100]])
    whole = Sheet(person, np.arange(40), None, times, 6, 40)
    made = new_pseudonyms(whole, days, rng)
    assert made.owners[made.sheet.person].tolist() == person.tolist()
    together = {(a, b // days) for a, b in zip(person.tolist(), times.tolist(), strict=True)}
    assert made.sheet.people == len(together)
    assert made.sheet.item.tolist() == list(range(40))


def test_dealt_facts_go_to_all_pseudonyms_alike() -> None:
    many = Sheet(np.zeros(4000, int), np.arange(4000), None, None, 1, 4000)
    made = dealt_pseudonyms(many, 4, np.random.default_rng(1))
    assert made.sheet.people == 4
    # Five standard deviations of a binomial count.
    assert np.abs(np.bincount(made.sheet.person) - 1000).max() < 5 * (4000 * 3 / 16) ** 0.5


def test_what_cannot_be_split() -> None:
    rng = np.random.default_rng(0)
    bare = Sheet(np.array([0, 1]), np.array([0, 1]), None, None, 2, 2)
    with pytest.raises(NotMeasurable, match="no times"):
        new_pseudonyms(bare, 28, rng)
    with pytest.raises(NotMeasurable, match="no pseudonym would change"):
        new_pseudonyms(sheet(), 100, rng)
    with pytest.raises(NotMeasurable, match="no values"):
        noisy_values(bare, 1, rng)


def attacked(made: Coarsened, whole: Sheet, targets: np.ndarray) -> dict:
    known = simulate(whole.index(), targets, Adversary(3, value_error=None, time_error=None))
    aims = [Aim("three items", targets, known)]
    worth = counted_utility(1.0, len(whole.item), 0.95, "facts")
    return plain(measure("x", "x", whole, made, worth, aims, RecordSettings(phi=1.5)).details)


def test_any_own_pseudonym_is_right_and_gives_away_its_own_facts_only() -> None:
    # Each of 8 people has 6 items of their own, 3 in each of two months.
    person = np.repeat(np.arange(8), 6)
    times = np.tile([0, 0, 0, 50, 50, 50], 8)
    whole = Sheet(person, np.arange(48), None, times, 8, 48)
    targets = np.arange(8)
    intact = attacked(as_it_is(whole), whole, targets)
    assert intact["exposed"]["value"] == 1.0 and intact["records"] == intact["people"] == 8
    made = new_pseudonyms(whole, 28, np.random.default_rng(0))
    split = attacked(made, whole, targets)
    # Three known facts lie 3:0 or 2:1, so one record leads, and it holds half of the facts.
    assert split["match"]["value"] == 1.0
    assert split["exposed"]["value"] == split["exposed_where_right"] == 0.5
    assert split["records"] == 16 and split["people"] == 8
    assert split["false_match"]["value"] == 0.0


def test_a_wrong_guess_exposes_nobody_and_some_of_the_facts_are_some() -> None:
    # Persons 0 and 1 share two items; 0 is not released, so 1 is named in their place.
    person, item = np.array([0, 0, 0, 1, 1, 2, 2, 2]), np.array([0, 1, 2, 0, 1, 3, 4, 5])
    whole = Sheet(person, item, None, None, 3, 6)
    out = np.array([True, False, False])
    kept = Coarsened(whole.take((person != 0) & (item != 5)), out)
    found = attacked(kept, whole, np.array([0, 2]))
    # Person 2 is named, and two of their three facts are there.
    assert found["match"]["value"] == 0.5
    assert found["exposed"]["value"] == pytest.approx((0 + 2 / 3) / 2)
    assert found["exposed_where_right"] == pytest.approx(2 / 3)


def test_who_is_taken_out_is_taken_out_with_all_pseudonyms() -> None:
    made = new_pseudonyms(sheet(), 28, np.random.default_rng(0))
    facts, owner = released(made)
    # Both records of person 0 are hidden from those who look for that person: an item that nobody
    # else has names nothing then.
    known = Known(np.array([0, 1, 2]), np.array([0, 3]))
    boards = {"scoreboard-rh": RH}
    seen = outside(facts, {"scoreboard-rh": known}, np.array([0, 1]), boards, owner)
    assert seen["scoreboard-rh"].best.tolist() == [-1, -1]
    seen = outside(facts, {"scoreboard-rh": known}, np.array([1, 0]), boards, owner)
    assert owner[seen["scoreboard-rh"].best].tolist() == [0, 1]
    known = simulate(sheet().index(), [0, 1], Adversary(1, value_error=None, time_error=None))
    assert known.of(np.array([1])).item.tolist() == known.item[1:].tolist()


def test_noise_keeps_to_the_scale() -> None:
    value = np.tile([1.0, 2.0, 3.5, 4.0, 5.0], 2000)
    whole = Sheet(np.zeros(10_000, int), np.arange(10_000), value, None, 1, 10_000)
    assert value_steps(whole) == 1
    moved = noisy_values(whole, 1, np.random.default_rng(0)).sheet.value
    assert moved is not None and set(moved.tolist()) == set(value.tolist())
    middle = moved[value == 3.5]
    for near in (2.0, 3.5, 4.0):
        # Each third of 2,000, within five standard deviations.
        assert abs((middle == near).sum() - 2000 / 3) < 5 * (2000 * 2 / 9) ** 0.5
    low = moved[value == 1.0]
    assert abs((low == 1.0).sum() - 4000 / 3) < 5 * (2000 * 2 / 9) ** 0.5
    with pytest.raises(NotMeasurable, match="values are equal"):
        noisy_values(
            Sheet(np.array([0, 1]), np.array([0, 1]), np.ones(2), None, 2, 2),
            1,
            np.random.default_rng(0),
        )


def test_the_most_popular_items_go_first() -> None:
    left = without_popular(sheet(), 0.25).sheet
    assert 1 not in left.item and left.item.tolist() == [0, 2, 3]
    with pytest.raises(NotMeasurable, match="no fact is left"):
        without_popular(Sheet(np.array([0]), np.array([0]), None, None, 1, 1), 0.5)
