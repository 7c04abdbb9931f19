"""All draws of a pool at once: the ranks of one attack a draw, which is the reference."""

from __future__ import annotations

import numpy as np
import pytest

from lethe.reidentification.pooled import _prepare, pooled_attack
from lethe.reidentification.ranks import ranks
from lethe.reidentification.smoothing import Sample, noise_pool, parts
from lethe.reidentification.surface import attack_curve


def people(users=700, dimension=24, common=0.0, spread=1.0, seed=0):
    """More users than a tile and more probes than a block, in uneven numbers."""
    rng = np.random.default_rng([seed, 72])
    rows = rng.integers(1, 4, users)
    owner = np.repeat(np.arange(users), rng.integers(1, 3, users))
    centre = common + spread * rng.standard_normal((users, dimension))
    probes = centre[owner] + 0.5 * spread * rng.standard_normal((len(owner), dimension))
    return Sample(centre, rows, probes, owner)


def as_columns(users):
    """Hits that hold everything: ranks of each draw, one row a user (the sum over its probes)."""

    def hits(closer, tied, owner):
        weight = 1 + np.arange(closer.shape[0])[:, None]
        sums = [(weight * one).sum(axis=0).astype(float) for one in (closer, tied)]
        return np.stack([np.bincount(owner, one, minlength=users) for one in sums], axis=1)

    return hits


@pytest.mark.parametrize(("metric", "workers"), [("cosine", 2), ("l2", 1)])
def test_every_draw_has_the_ranks_of_its_own_attack(metric, workers):
    sample = people()
    assert len(parts(sample.users, 512)) == 3
    pool = noise_pool(sample, 3, seed=4)
    sigmas = [0.05, 0.7, 3.0]
    assert list(_prepare(sample, pool, sigmas, metric).sigmas) == sigmas
    batch = pooled_attack(None, as_columns(sample.users), metric, workers)
    found = {sigma: hits for sigma, hits, drawn in batch(sample, pool, sigmas)}
    for sigma in sigmas:
        closer, tied = [], []
        for noise in pool:
            noisy = noise.on(sample, sigma)
            one = ranks(noisy.probes, noisy.gallery, noisy.owner, metric, backend="numpy")
            closer.append(one.closer)
            tied.append(one.tied)
        wanted = as_columns(sample.users)(np.stack(closer), np.stack(tied), sample.owner)
        np.testing.assert_array_equal(found[sigma], wanted)


def test_vectors_that_share_nearly_everything_go_the_plain_way():
    sample = people(users=60, common=1e4, spread=1e-3)
    pool = noise_pool(sample, 2)
    assert list(_prepare(sample, pool, [1e-4], "cosine").sigmas) == []
    called = []

    def attack(noisy):
        called.append(noisy)
        return np.zeros((60, 2))

    batch = pooled_attack(attack, as_columns(60), "cosine")
    assert [drawn for _, _, drawn in batch(sample, pool, [1e-4])] == [1, 1]
    assert len(called) == 2


def test_a_sweep_is_the_same_either_way():
    sample = people(users=80, dimension=6)

    def hits(closer, tied, owner):
        return np.bincount(owner, (closer == 0).sum(axis=0), minlength=80)

    def attack(noisy):
        found = ranks(noisy.probes, noisy.gallery, noisy.owner, "l2", backend="numpy")
        return hits(found.closer[None], found.tied[None], noisy.owner)

    how = {"draws": 5, "extra": 0, "seed": 3}
    plain = attack_curve(attack, sample, [0.0, 0.4, 1.0], **how)
    batch = pooled_attack(attack, hits, "l2")
    fast = attack_curve(attack, sample, [0.0, 0.4, 1.0], **how, batch=batch)
    for one, other in zip(plain.levels, fast.levels, strict=True):
        assert one.lift == other.lift
        assert one.noise_only == other.noise_only
        assert one.draws == other.draws
