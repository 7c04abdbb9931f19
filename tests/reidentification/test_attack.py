"""The attack's numbers: by hand, by exact expectation, against chance, and under controls."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from lethe.errors import InputError, NotMeasurable
from lethe.reidentification.attack import Chance, measure, over_ties
from lethe.reidentification.ranks import Ranks


def found(closer, tied, users):
    return Ranks(np.array(closer), np.array(tied), users)


def test_four_probes_by_hand():
    # Ranks 1; 2 or 3; 4; 1 to 4, of two people with two probes each.
    result = measure(found([0, 1, 3, 0], [0, 1, 0, 3], 4), np.array([5, 5, 9, 9]), top=(1, 2))
    assert result.top[1].value == pytest.approx((1 + 0 + 0 + 1 / 4) / 4)
    assert result.top[2].value == pytest.approx((1 + 1 / 2 + 0 + 1 / 2) / 4)
    assert result.lift[1].value == pytest.approx(4 * (1 + 1 / 4) / 4)
    harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4
    expected = (1 + (1 / 2 + 1 / 3) / 2 + 1 / 4 + harmonic / 4) / 4
    assert result.mrr.value == pytest.approx(expected)
    assert result.mean_rank.value == pytest.approx((1 + 2.5 + 4 + 2.5) / 4)
    assert result.median_rank.value == 2.5
    assert result.percentile.value == pytest.approx((0 + 1.5 + 3 + 1.5) / 3 / 4)
    assert result.tie_share == 0.5
    assert result.exposure.user.tolist() == [5, 9]
    assert result.exposure.named.tolist() == [0.5, 0.125]
    assert result.exposure.rank.tolist() == [1.75, 3.25]
    assert result.never.value == 0 and result.always.value == 0


def test_ties_are_broken_at_random_in_expectation():
    """Oracle: every order of the tied users, in fractions."""
    table = np.array([1.0, 0.5, 1 / 3, 0.25, 0.2, 1 / 6])
    exact = [Fraction(1), Fraction(1, 2), Fraction(1, 3), Fraction(1, 4), Fraction(1, 5)]
    for closer, tied in itertools.product(range(3), range(3)):
        orders = list(itertools.permutations(range(tied + 1)))  # 0 is the owner
        mean = sum(exact[closer + order.index(0)] for order in orders) / len(orders)
        got = over_ties(table, np.array([closer]), np.array([tied]))[0]
        assert got == pytest.approx(float(mean), rel=1e-12)


@pytest.mark.parametrize("users", [2, 7, 1000])
def test_all_tied_is_chance_level_in_every_metric(users):
    result = measure(found([0] * 4, [users - 1] * 4, users), np.array([0, 0, 1, 1]))
    chance = Chance(users)
    for k in (1, 5, 10, 20):
        assert result.top[k].value == pytest.approx(min(k / users, 1))
        assert result.lift[k].value == pytest.approx(1)
    assert result.mrr.value == pytest.approx(chance.mrr)
    assert result.mean_rank.value == pytest.approx(chance.mean_rank)
    assert result.percentile.value == pytest.approx(0.5)
    assert result.bits.value == pytest.approx(0, abs=1e-9)


def test_chance_is_what_a_uniform_rank_gives():
    """Every rank once: each metric is at its value at chance; H_G / G as the study prints it."""
    users = 500
    result = measure(found(np.arange(users), [0] * users, users), np.arange(users))
    assert result.mrr.value == pytest.approx(Chance(users).mrr)
    assert result.mean_rank.value == Chance(users).mean_rank == result.median_rank.value
    assert result.bits.value == pytest.approx(0, abs=1e-9)
    assert Chance(28361).mrr == pytest.approx(0.000382, abs=5e-7)
    assert Chance(28361).bits == pytest.approx(np.log2(np.e), abs=1e-3)


def test_a_common_gallery_size():
    """Oracle: draw the other users of a smaller gallery many times."""
    rng = np.random.default_rng(0)
    closer, tied, users, smaller = np.array([0, 1, 4, 2]), np.array([0, 0, 0, 3]), 12, 5
    result = measure(found(closer, tied, users), np.arange(4), common=(smaller, 1, users))
    hits = []
    for _ in range(20_000):
        others = rng.permutation(users - 1)[: smaller - 1]
        nearer, level = (others < closer[:, None]).sum(1), None
        level = ((others >= closer[:, None]) & (others < (closer + tied)[:, None])).sum(1)
        hits.append(np.mean(np.where(nearer == 0, 1 / (1 + level), 0)))
    error = np.std(hits) / np.sqrt(len(hits))
    assert result.common[smaller].value == pytest.approx(np.mean(hits), abs=5 * error)
    assert result.common[1].value == pytest.approx(1)
    assert result.common[users].value == pytest.approx(result.top[1].value)


def test_intervals_take_people_not_probes():
    """A person's probes repeated ten times say nothing new."""
    rng = np.random.default_rng(1)
    closer, owner = rng.integers(0, 30, 90), np.repeat(np.arange(30), 3)
    once = measure(found(closer, [0] * 90, 40), owner)
    often = measure(found(np.tile(closer, 10), [0] * 900, 40), np.tile(owner, 10))
    for name in ("mrr", "mean_rank", "median_rank", "bits", "percentile"):
        assert getattr(often, name).low == pytest.approx(getattr(once, name).low)
        assert getattr(often, name).high == pytest.approx(getattr(once, name).high)
    assert often.top[5].width == pytest.approx(once.top[5].width, rel=0.1)


def test_the_interval_of_the_mean_rank_covers():
    """200 populations of persons with their own mean rank: 95 % intervals hold the truth."""
    rng, held, held_median = np.random.default_rng(2), 0, 0
    owner = np.repeat(np.arange(50), 4)
    for _ in range(200):
        level = rng.integers(0, 80, 50)
        closer = level[owner] + rng.integers(0, 20, 200)  # mean of level 39.5, of the rest 9.5
        result = measure(found(closer, [0] * 200, 100), owner, top=(1,))
        held += result.mean_rank.low <= 50 <= result.mean_rank.high
        held_median += result.median_rank.low <= 50 <= result.median_rank.high
    assert held >= 180 and held_median >= 180  # below 180 of 200 has probability 0.001 at 95 %


def test_always_and_never_named():
    result = measure(found([0, 0, 0, 2, 1, 1], [0] * 6, 9), np.repeat([0, 1, 2], 2))
    assert result.always.value == pytest.approx(1 / 3) == result.never.value
    assert result.always.n == 3


def test_lift_cannot_be_had_from_one_person():
    with pytest.raises(NotMeasurable, match="at least 2 people"):
        measure(found([0, 0], [0, 0], 4), np.array([1, 1]))
    with pytest.raises(InputError, match="common gallery size"):
        measure(found([0, 0], [0, 0], 4), np.array([1, 2]), common=(5,))
    with pytest.raises(InputError, match="k=0"):
        measure(found([0, 0], [0, 0], 4), np.array([1, 2]), top=(0,))
    with pytest.raises(InputError, match="values for"):
        measure(found([0, 0], [0, 0], 4), np.array([1, 2, 3]))
