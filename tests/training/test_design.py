"""Which records each model trains on, by records and by whole persons."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.errors import InputError
from lethe.training.design import check_models, holdout, membership, model_seed, partners


def test_with_an_odd_number_of_records_a_coin_gives_one_more() -> None:
    """Of 400 pairs the first of each is the larger in about half: within 4 sd = 40."""
    larger = (membership(800, 7, 0)[::2].sum(axis=1) == 4).sum()
    assert abs(larger - 200) < 40


def test_splits_are_uniform() -> None:
    """Each two records are together in (N/2 - 1)/(N - 1) of the models; 4 sd of a share."""
    members = membership(4000, 10, 0)[::2]
    together = (members[:, :1] == members[:, 1:]).mean(axis=0)
    assert np.abs(together - 4 / 9).max() < 4 * np.sqrt(4 / 9 * 5 / 9 / 2000)


def test_seeds_of_design_differ() -> None:
    assert (membership(4, 50, 0) != membership(4, 50, 1)).any()
    assert len({row.tobytes() for row in membership(64, 50, 0)}) == 64


def test_model_seeds_follow_the_index_alone() -> None:
    """Golden values: another seed would silently be another experiment."""
    forward = [model_seed(0, at) for at in range(100)]
    backward = [model_seed(0, at) for at in reversed(range(100))][::-1]
    assert forward == backward and len(set(forward)) == 100
    assert all(0 <= seed < 2**63 for seed in forward)
    assert model_seed(1, 0) != model_seed(0, 0)
    state = np.random.SeedSequence(0, spawn_key=(1, 5)).generate_state(1, np.uint64)[0]
    assert forward[5] == int(state) // 2


@pytest.mark.parametrize(("asked", "trained"), [(4, 4), (5, 6), (6, 6), (63, 64), (64, 64)])
def test_check_models_rounds_odd_numbers_up(asked: int, trained: int) -> None:
    assert check_models(asked) == trained


@pytest.mark.parametrize(
    ("design", "why"),
    [
        (lambda: membership(5, 10, 0), "models=5 must be even"),
        (lambda: membership(4, 1, 0), "records=1 must be at least 2"),
        (lambda: membership(4, 5, 0, np.zeros(5, int)), "persons=1 must be at least 2"),
        (lambda: holdout(np.arange(4) % 2, 0.2, 0, np.array([0, 0, 1, 2])), "persons=3 must be"),
        *((lambda k=k: check_models(k), f"models={k} must be at least 4") for k in (3, 2, 0, -4)),
    ],
)
def test_designs_that_are_refused(design: Callable[[], Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        design()


def naive_partners(members: np.ndarray) -> set[frozenset[int]]:
    found: set[frozenset[int]] = set()
    free = set(range(len(members)))
    for one in range(len(members)):
        for two in range(one):
            if {one, two} <= free and (members[one] == ~members[two]).all():
                found.add(frozenset({one, two}))
                free -= {one, two}
    return found


@given(st.integers(2, 10), st.randoms(use_true_random=False))
def test_partners_are_found_in_any_order(pairs: int, rng: object) -> None:
    order = list(range(2 * pairs))
    rng.shuffle(order)
    members = membership(2 * pairs, 40, 0)[order]
    partner = partners(members)
    assert (partner[partner] == np.arange(2 * pairs)).all()
    assert (members[partner] == ~members).all()
    assert {frozenset({a, int(b)}) for a, b in enumerate(partner)} == naive_partners(members)


def test_two_models_that_differ_in_half_of_the_records_are_no_pair() -> None:
    """Any two are complements in the records that they differ in."""
    two = np.random.default_rng(0).random((2, 400)) < 0.5
    assert partners(two).tolist() == [-1, -1]
    core = np.vstack([two[0], ~two[0]])
    core[:, :80] = True
    assert partners(core).tolist() == [1, 0]


def test_a_design_without_pairs_has_no_partners() -> None:
    assert partners(np.eye(5, dtype=bool)).tolist() == [-1] * 5


def test_rows_that_stand_twice_are_paired_once_each() -> None:
    row = np.array([True, False, True])
    assert partners(np.array([row, row, ~row])).tolist().count(-1) == 1
    partner = partners(np.array([row, row, ~row, ~row, row]))
    paired = np.flatnonzero(partner >= 0)
    assert len(paired) == 4 and (partner[partner[paired]] == paired).all()


def test_holdout_takes_the_share_of_each_class() -> None:
    labels = np.repeat([0, 1, 2, 3], [50, 10, 2, 1])
    held = holdout(labels, 0.2, 0)
    assert [int(held[labels == code].sum()) for code in range(4)] == [10, 2, 1, 0]
    assert (holdout(labels, 0.2, 0) == held).all()
    assert (holdout(labels, 0.2, 1) != held).any()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_every_class_keeps_a_record_to_train_on(labels: list[int], share: float) -> None:
    codes = np.array(labels)
    held = holdout(codes, share, 0)
    for code in np.unique(codes):
        rows = codes == code
        assert 0 < (~held[rows]).sum()
        assert held[rows].any() == (rows.sum() > 1)


GROUPINGS = st.lists(st.integers(-3, 12), min_size=2, max_size=60).filter(
    lambda listed: len(set(listed)) > 1
)


@given(st.integers(2, 10), GROUPINGS, st.integers(0, 2**32))
def test_no_person_is_split_and_each_is_in_half_of_the_models(
    pairs: int, listed: list[int], seed: int
) -> None:
    groups = np.array(listed)
    members = membership(2 * pairs, len(groups), seed, groups)
    assert members.shape == (2 * pairs, len(groups))
    assert (members[1::2] == ~members[::2]).all()
    for person in np.unique(groups):
        own = members[:, groups == person]
        assert (own == own[:, :1]).all()
        assert own[:, 0].sum() == pairs
    # And as many persons IN as OUT, but for one where their number is odd.
    first = np.unique(groups, return_index=True)[1]
    persons = len(first)
    sizes = set(members[:, first].sum(axis=1).tolist())
    assert sizes <= {persons // 2, (persons + 1) // 2}


@given(st.integers(2, 8), st.integers(1, 8), GROUPINGS, st.integers(0, 99))
def test_raising_the_number_of_models_keeps_the_first_by_persons(
    pairs: int, more: int, listed: list[int], seed: int
) -> None:
    groups = np.array(listed)
    few = membership(2 * pairs, len(groups), seed, groups)
    many = membership(2 * (pairs + more), len(groups), seed, groups)
    assert (many[: 2 * pairs] == few).all()


@given(st.integers(2, 30), st.integers(0, 99))
def test_persons_of_one_record_each_are_records(records: int, seed: int) -> None:
    """The design by person is then the design by record, to the bit."""
    by_person = membership(8, records, seed, np.arange(records) * 7 - 3)
    assert (by_person == membership(8, records, seed)).all()


def test_names_of_persons_do_not_matter_but_who_shares_one_does() -> None:
    groups = np.array([0, 0, 1, 2, 2, 2, 3])
    assert (membership(6, 7, 1, groups) == membership(6, 7, 1, groups * 10 + 5)).all()


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=4, max_size=80).filter(
        lambda rows: len({person for person, _ in rows}) >= 4
    ),
    st.floats(0.05, 0.9),
    st.integers(0, 50),
)
def test_holdout_takes_whole_persons_and_leaves_every_class(
    rows: list[tuple[int, int]], share: float, seed: int
) -> None:
    groups, labels = (np.array(column) for column in zip(*rows, strict=True))
    held = holdout(labels, share, seed, groups)
    for person in np.unique(groups):
        own = held[groups == person]
        assert own.all() or not own.any()
    assert set(labels[~held]) == set(labels)
    assert len(np.unique(groups[~held])) >= 2
    assert (held == holdout(labels, share, seed, groups)).all()


def test_holdout_by_person_comes_near_the_share_of_each_class() -> None:
    """400 persons of 1 to 9 records: the last person taken is at most 9 records off."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(400), rng.integers(1, 10, 400))
    labels = rng.choice(3, len(groups), p=[0.6, 0.3, 0.1])
    held = holdout(labels, 0.2, 0, groups)
    for code in range(3):
        rows = labels == code
        assert abs(held[rows].sum() - 0.2 * rows.sum()) <= 9
    assert (held != holdout(labels, 0.2, 1, groups)).any()
