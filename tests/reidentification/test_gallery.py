"""Galleries and probes: who is known, who is to be named, and joint evidence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.errors import InputError, NotMeasurable
from lethe.reidentification.gallery import (
    check_users,
    covariance_within,
    gallery_means,
    inverse_root,
    sampled,
    split_periods,
    split_rows,
)


@given(st.lists(st.integers(1, 9), min_size=3, max_size=30), st.integers(0, 99))
@settings(max_examples=60)
def test_each_users_rows_are_halved_at_random(sizes, seed):
    owner = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    enough = [size for size in sizes if size >= 4]
    if len(enough) < 2:
        with pytest.raises(NotMeasurable, match="4 rows each"):
            split_rows(owner, seed)
        return
    split = split_rows(owner, seed)
    assert not set(split.gallery_rows) & set(split.probe_rows)
    assert split.left_out == len(sizes) - len(enough)
    assert (split.users[split.gallery_user] == owner[split.gallery_rows]).all()
    assert (split.users[split.probe_user] == owner[split.probe_rows]).all()
    known, asked = np.bincount(split.gallery_user), np.bincount(split.probe_user)
    assert known.tolist() == [size // 2 for size in enough]
    assert (known + asked).tolist() == enough


def test_the_seed_decides_and_every_row_may_be_a_probe():
    owner = np.repeat(np.arange(2), 6)
    splits = [split_rows(owner, seed) for seed in range(200)]
    assert (split_rows(owner, 3).probe_rows == splits[3].probe_rows).all()
    often = np.bincount(np.concatenate([one.probe_rows for one in splits]), minlength=12)
    assert np.abs(often - 100).max() < 5 * np.sqrt(200) / 2  # five standard deviations


@given(st.lists(st.integers(4, 9), min_size=4, max_size=12), st.integers(0, 9), st.data())
def test_people_are_looked_for_with_all_their_vectors_in_a_gallery_of_everybody(sizes, seed, data):
    whole = split_rows(np.repeat(np.arange(len(sizes)), sizes), seed)
    counts = np.bincount(whole.probe_user)
    most = data.draw(st.integers(2 * counts.max(), counts.sum()))
    part = sampled(whole, 0, most, seed)
    assert np.array_equal(part.gallery_rows, whole.gallery_rows)
    assert len(part.probe_rows) <= most
    drawn = np.unique(part.probe_user)
    asked = np.isin(whole.probe_user, drawn)
    assert len(drawn) >= 2 and np.array_equal(part.probe_rows, whole.probe_rows[asked])
    assert part.probes == (0 if asked.all() else len(whole.probe_rows))


def test_means_by_hand_and_against_a_loop():
    split = split_rows(np.repeat(["b", "a"], 4))
    vectors = np.arange(16.0, dtype=np.float32).reshape(8, 2)
    found = gallery_means(vectors, split)
    for user in range(2):
        rows = split.gallery_rows[split.gallery_user == user]
        assert split.users[user] == ["a", "b"][user]
        np.testing.assert_allclose(found[user], vectors[rows].mean(axis=0))


def test_text_and_whole_numbers_are_ids():
    assert check_users(np.array([1.0, 2.0])).dtype == np.int64
    assert check_users(np.array(["a", "b"], dtype=object)).tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (np.array([7, "7"], dtype=object), "mixes types"),
        (np.array([1.5, 2.0]), "text or whole numbers"),
        (np.array([1.0, np.nan]), "text or whole numbers"),
        (np.array(["a", ""], dtype=object), "missing in 1 rows"),
        (np.array([[1], [2]]), "one id for each row"),
        (np.array([]), "one id for each row"),
    ],
)
def test_odd_ids_are_refused(ids, words):
    with pytest.raises(InputError, match=words):
        split_rows(ids)


def test_a_later_period():
    owner = np.array([0, 0, 1, 1, 2, 2, 3])
    period = np.array(["may", "june", "may", "june", "may", "may", "june"])
    split = split_periods(owner, period, "may", "june")
    assert split.users.tolist() == [0, 1] and split.left_out == 2
    assert split.gallery_rows.tolist() == [0, 2] and split.probe_rows.tolist() == [1, 3]
    with pytest.raises(InputError, match="period='july'"):
        split_periods(owner, period, "may", "july")
    with pytest.raises(InputError, match="give two"):
        split_periods(owner, period, "may", "may")
    with pytest.raises(NotMeasurable, match="2 rows in both periods"):
        split_periods(owner, period, "may", "june", min_rows=2)


def test_a_coordinate_that_is_copied_does_not_decide_alone():
    """Constant within persons in the gallery: as loud as the quietest other, not infinitely."""
    rng = np.random.default_rng(6)
    owner = np.repeat(np.arange(20), 6)
    vectors = rng.standard_normal((120, 3)) * [1, 5, 1]
    vectors[:, 2] = np.arange(20)[owner]
    split = split_rows(owner)
    within = vectors[split.gallery_rows] - gallery_means(vectors, split)[split.gallery_user]
    matrix = inverse_root(covariance_within(within, 40))
    weight = np.linalg.norm(matrix, axis=1)
    assert weight[2] < 10 * weight[0]
    assert weight[0] > 3 * weight[1]


def test_rows_of_another_file():
    split = split_rows(np.repeat(np.arange(3), 4))
    with pytest.raises(InputError, match="the split names row 11"):
        gallery_means(np.ones((5, 2)), split)
