"""The fast scoreboard names the same records as NumPy's, with the same figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.linkage.records import scoreboard_numba
from lethe.linkage.records.attackers import Adversary, draw_targets, simulate
from lethe.linkage.records.facts import Facts, Known, index_facts, known_of
from lethe.linkage.records.scoreboard import Scoreboard, link


def power_law(seed: int, people: int = 200, values: bool = True, times: bool = True) -> Facts:
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(2, 82)
    item = [rng.choice(80, 12, replace=False, p=weight / weight.sum()) for _ in range(people)]
    return index_facts(
        np.repeat(np.arange(people), 12),
        np.concatenate(item),
        rng.integers(1, 11, 12 * people) / 2 if values else None,
        rng.integers(-50, 900, 12 * people) if times else None,
    )


def same(facts: Facts, known: Known, board: Scoreboard, true: np.ndarray | None = None) -> None:
    slow, fast = (
        link(facts, known, board, true=true, backend=backend) for backend in ("numpy", "numba")
    )
    assert fast.best.tolist() == slow.best.tolist()
    for name in ("eccentricity", "deviation", "entropy", "surprise"):
        one, other = getattr(fast, name), getattr(slow, name)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("values", "times"), [(True, True), (True, False), (False, True)])
def test_the_same_records_and_figures(seed: int, values: bool, times: bool) -> None:
    facts = power_law(seed, values=values, times=times)
    adversary = Adversary(8, 6, 0.0 if values else None, 14 if times else None)
    targets = draw_targets(facts, adversary, 40, seed)
    known = simulate(facts, targets, adversary, seed)
    same(facts, known, Scoreboard(), targets)
    same(facts, known, Scoreboard(value_scale=0.3, time_scale=2.0))


def test_thresholds_of_one_column_and_both() -> None:
    facts = power_law(5)
    both = simulate(facts, np.arange(20), Adversary(4), 0)
    same(facts, both, Scoreboard(similarity="threshold", time_scale=14))
    times = simulate(facts, np.arange(20), Adversary(4, value_error=None), 0)
    same(facts, times, Scoreboard(similarity="threshold", time_scale=14))


def test_corners() -> None:
    facts = index_facts([0, 1, 1, 2], [0, 0, 1, 1], [1.0, 1.0, 2.0, 2.0], [5, 5, 9, 9], people=3)
    board = Scoreboard()
    # A tie, items that nobody has, far times, an item twice, and nothing at all.
    same(facts, known_of([0], [1.0], [5]), board, np.array([0]))
    same(facts, known_of([-1, 1], [1.0, 2.0], [5, 9]), board, np.array([-1]))
    same(facts, known_of([1, 0], [2.0, 1.0], [90_000, -70_000]), board, np.array([1]))
    same(facts, known_of([1, 1], [2.0, 9.0], [9, 9]), board)
    same(facts, known_of([-1], [1.0], [5]), board, np.array([2]))
    # What is not known is left to NumPy.
    same(facts, known_of([0, 1], [np.nan, 2.0], [5, 9]), board)
    same(facts, known_of([0, 1], [1.0, 2.0], [5.5, 9]), board)
    same(facts, known_of([0, 1]), board)


def test_entropy_can_be_left_out() -> None:
    facts = power_law(1)
    known = simulate(facts, np.arange(10), Adversary(4), 0)
    whole = link(facts, known)
    for backend in ("numpy", "numba"):
        bare = link(facts, known, entropy=False, backend=backend)
        assert np.isnan(bare.entropy).all() and np.isnan(bare.surprise).all()
        assert bare.best.tolist() == whole.best.tolist()


@given(block=st.integers(1, 250), seed=st.integers(0, 1000))
@settings(max_examples=25)
def test_how_many_people_are_in_hand_changes_nothing(block: int, seed: int) -> None:
    facts = power_law(seed)
    targets = np.random.default_rng(seed).permutation(facts.people)[:5]
    known = simulate(facts, targets, Adversary(8, 6), seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoreboard_numba, "_BLOCK", block)
        same(facts, known, Scoreboard(), targets)


def test_more_people_than_are_in_hand_at_once() -> None:
    facts = power_law(2, people=scoreboard_numba._BLOCK + 700)
    adversary = Adversary(8, 6)
    targets = draw_targets(facts, adversary, 10)
    assert (targets < scoreboard_numba._BLOCK).any()
    assert (targets >= scoreboard_numba._BLOCK).any()
    same(facts, simulate(facts, targets, adversary), Scoreboard(), targets)
