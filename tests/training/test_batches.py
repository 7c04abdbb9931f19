"""Batches, streams of each model alone, and learning rates, by hand and against torch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.training.batches import Mixer, Shuffler, dropout_seed, generator, noise_seed, plan
from lethe.training.recipe import Treatment


@given(st.integers(0, 60), st.integers(1, 20), st.integers(0, 9), st.integers(0, 3))
def test_an_epoch_deals_every_row_once_in_even_batches(
    count: int, steps: int, seed: int, extra: int
) -> None:
    rows = np.arange(count, dtype=np.int64) * 3 + 1
    shuffler = Shuffler(rows, seed, steps)
    assert shuffler.sizes.sum() == count and np.ptp(shuffler.sizes) <= 1
    width = int(shuffler.sizes.max()) + extra
    for _ in range(2):
        dealt, share = shuffler.epoch(width)
        assert dealt.shape == share.shape == (steps, width) and share.dtype == np.float32
        assert sorted(dealt[share > 0].tolist()) == rows.tolist()
        filled = shuffler.sizes > 0
        assert share.sum(axis=1) == pytest.approx(filled.astype(float), abs=1e-6)
        assert ((share > 0).sum(axis=1) == shuffler.sizes).all()


def test_hand_worked_sizes() -> None:
    assert Shuffler(np.arange(10), 0, 3).sizes.tolist() == [3, 3, 4]
    assert Shuffler(np.arange(2), 0, 4).sizes.tolist() == [0, 1, 0, 1]


def test_epochs_differ_and_the_padded_width_does_not_change_the_order() -> None:
    narrow, wide = (Shuffler(np.arange(40), 7, 4) for _ in range(2))
    first, (padded, share) = narrow.epoch(10)[0], wide.epoch(13)
    assert (padded[:, :10] == first).all() and (share[:, 10:] == 0).all()
    assert (narrow.epoch(10)[0] != first).any()
    assert (Shuffler(np.arange(40), 8, 4).epoch(10)[0] != first).any()


def test_shuffling_is_uniform() -> None:
    """The row dealt first, over 2000 seeds: each of 5 in 400 +- 4 sd."""
    first = [Shuffler(np.arange(5), seed, 1).epoch(5)[0][0, 0] for seed in range(2000)]
    assert np.abs(np.bincount(first, minlength=5) - 400).max() < 4 * np.sqrt(2000 * 0.2 * 0.8)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 9), st.integers(0, 3))
def test_partners_permute_each_batch_whatever_it_is_padded_to(
    sizes: list[int], seed: int, extra: int
) -> None:
    width = max(sizes) + extra
    narrow, wide = (Mixer(np.array(sizes), seed, 0.4) for _ in range(2))
    for _ in range(2):
        (partner, own), (few, few_own) = wide.epoch(width), narrow.epoch(max(sizes))
        assert own.dtype == np.float32 and ((own >= 0) & (own <= 1)).all()
        for row, size in enumerate(sizes):
            assert sorted(partner[row, :size]) == list(range(size))
            assert (partner[row, size:] == np.arange(size, width)).all()
            assert (own[row, size:] == 1).all()
            assert (partner[row, :size] == few[row, :size]).all()
            assert (own[row, :size] == few_own[row, :size]).all()


def test_mixtures_follow_beta_and_partners_are_uniform() -> None:
    """Beta(a, a) has mean 1/2 and variance 1/(4(2a + 1)); each of 4 partners in a quarter."""
    partner, own = Mixer(np.full(5000, 4), 3, 0.5).epoch(4)
    assert abs(own.mean() - 0.5) < 4 * np.sqrt(0.125 / 20_000)
    # The variance of (x - 1/2)^2 is at most 1/16.
    assert abs(own.var() - 0.125) < 4 * np.sqrt(1 / 16 / 20_000)
    assert np.abs(np.bincount(partner[:, 0]) - 1250).max() < 4 * np.sqrt(5000 * 0.25 * 0.75)
    other = Mixer(np.full(5000, 4), 4, 0.5).epoch(4)[1]
    assert abs(np.corrcoef(own.ravel(), other.ravel())[0, 1]) < 4 / np.sqrt(20_000)


def test_streams_of_a_model_for_different_purposes_differ() -> None:
    seeds = {noise_seed(0), dropout_seed(0), noise_seed(1), dropout_seed(1)}
    assert len(seeds) == 4 and all(0 <= seed < 2**63 for seed in seeds)
    assert generator(0, 1).random() != generator(0, 2).random()
    assert generator(0, 1).random() == generator(0, 1).random()


RISING = np.linspace(0, 1, 12, dtype=np.float32)
HALF = np.r_[np.zeros(6), np.ones(6)].astype(np.float32)
NOBODY = np.zeros(12, np.float32)


@pytest.mark.parametrize(
    ("batch", "treatment", "steps", "epochs", "weights", "kept"),
    [
        (2, Treatment(), 3, 7, np.ones(12), 12),  # 5 rows a model in batches of 2
        (2, Treatment(weights=RISING, epochs=2), 3, 2, RISING, 12),
        (1, Treatment(weights=HALF, remove=True), 2, 7, HALF, 6),
        (64, Treatment(weights=NOBODY, remove=True), 1, 7, NOBODY, 0),  # never zero steps
    ],
)
def test_plans(batch, treatment, steps, epochs, weights, kept) -> None:
    course, whole = plan(12, 10, batch, 7, treatment)
    assert (course.steps, course.epochs) == (steps, epochs)
    assert (course.weights == weights).all() and whole.sum() == kept and whole[12 - kept :].all()
