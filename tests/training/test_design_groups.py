"""The design by person: nobody split, everybody balanced, and room to grow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lethe.errors import InputError
from lethe.training.design import holdout, membership
from lethe.training.recipe import TorchRecipe, Treatment
from lethe.training.shadows import Shadows, Spec, chunk_jobs, train_chunk

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
def test_raising_the_number_of_models_keeps_the_first(
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


def test_a_single_person_is_refused() -> None:
    with pytest.raises(InputError, match="persons=1 must be at least 2"):
        membership(4, 5, 0, np.zeros(5, int))


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


def test_holdout_of_three_persons_is_refused() -> None:
    with pytest.raises(InputError, match="persons=3 must be at least 4"):
        holdout(np.array([0, 1, 0, 1]), 0.2, 0, np.array([0, 0, 1, 2]))


def uneven() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def test_models_of_very_uneven_persons_train_alike_in_any_company(tmp_path: Path) -> None:
    """One person owns most records: models of a pair differ much in size, and all is well."""
    rng = np.random.default_rng(1)
    groups = np.repeat([0, 1, 2, 3, 4, 5], [60, 2, 1, 3, 1, 2])
    labels = rng.integers(0, 2, len(groups))
    features = (rng.normal(size=(len(groups), 3)) + labels[:, None]).astype(np.float32)
    sizes = membership(4, len(groups), 0, groups).sum(axis=1)
    assert sizes.max() > 5 * sizes.min()
    recipe = TorchRecipe(uneven, epochs=3, batch_size=8, optimizer="sgd", learning_rate=0.1)
    spec = Spec(
        features, labels, 2, np.ones(len(groups), bool), recipe, Treatment(), 0, groups=groups
    )
    found = []
    for width in (2, 4):
        jobs = chunk_jobs(spec, tmp_path / str(width), 4, width)
        assert sum(map(train_chunk, jobs)) == 4
        found.append(Shadows.from_shards(jobs, np.arange(len(groups))))
    assert (found[0].members.sum(axis=1) == sizes).all()
    assert np.isfinite(found[0].signals).all()
    assert found[0].signals == pytest.approx(found[1].signals, abs=1e-4)
