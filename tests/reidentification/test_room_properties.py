"""On random data no attack of this room beats the limits, and the limits stand in their order.

The game is that of the certificates: a probe row is picked, all equally likely, and M noisy draws
of it are released. What the gallery attack holds (means of other rows, noisy or clean) tells
nothing about that noise, so the limits hold for it too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from lethe.reidentification.attack import measure
from lethe.reidentification.certificates import (
    Known,
    closed_form,
    exact_limit,
    known,
    optimal_attacker,
)
from lethe.reidentification.gallery import (
    Split,
    gallery_means,
    means,
    split_rows,
)
from lethe.reidentification.ranks import Ranks, ranks
from lethe.reidentification.smoothing import smooth

METRICS = ("cosine", "l2")
COPIES = 30  # releases of each probe


@dataclass(frozen=True)
class People:
    """Rows of some users, and who is known by which.

    Attributes:
        rows: (n, d).
        split: of them.
    """

    rows: np.ndarray
    split: Split

    def game(self) -> Known:
        """One probe row is released."""
        probes = self.rows[self.split.probe_rows]
        return known(probes, self.split.probe_user, np.full(len(probes), 1 / len(probes)))

    def together(self) -> Known:
        """All probes of a user are released, in a fixed order; users are equally likely."""
        rows = [
            self.rows[self.split.probe_rows[self.split.probe_user == user]].ravel()
            for user in range(len(self.split.users))
        ]
        return known(np.array(rows))

    def released(self, sigma: float, draws: int, seed: int, clean_gallery: bool) -> People:
        """Every probe released `COPIES` times, against one gallery."""
        gallery, probes = self.split.gallery_rows, self.split.probe_rows
        held = self.rows[gallery]
        if not clean_gallery:
            held = smooth(held, sigma, draws, seed)
        again = np.tile(self.rows[probes], (COPIES, 1))
        split = replace(
            self.split,
            gallery_rows=np.arange(len(gallery)),
            probe_rows=len(gallery) + np.arange(len(again)),
            probe_user=np.tile(self.split.probe_user, COPIES),
        )
        return People(np.vstack([held, smooth(again, sigma, draws, seed + 1)]), split)


def people(seed: int, users: int, dimension: int, apart: float, rows: int | None = None) -> People:
    """Users with a centre each, some of them twins, unevenly many rows, some of these equal."""
    rng = np.random.default_rng([seed, 11])
    centre = apart * rng.normal(size=(users, dimension)) + rng.normal(size=dimension)
    centre[rng.random(users) < 0.2] = centre[0]
    count = np.full(users, rows) if rows else rng.integers(4, 10, users)
    owner = np.repeat(np.arange(users), count)
    within = rng.choice([0.0, 0.3, 1.0]) * rng.normal(size=(len(owner), dimension))
    return People(centre[owner] + within, split_rows(owner, seed))


def top_1(released: People, metric: str) -> float:
    """Top-1 of the gallery attack."""
    split = released.split
    gallery, probes = gallery_means(released.rows, split), released.rows[split.probe_rows]
    found = ranks(probes, gallery, split.probe_user, metric, backend="numpy")
    return measure(found, split.probe_user, top=(1,)).top[1].value


def leeway(share: float, trials: int) -> float:
    """4.5 standard errors of a share of independent trials."""
    return 4.5 * math.sqrt(max(share * (1 - share), 1 / trials) / trials)


NOISE = {
    "seed": st.integers(0, 100_000),
    "users": st.integers(3, 14),
    "dimension": st.integers(1, 5),
    "apart": st.sampled_from([0.0, 0.1, 1.0, 4.0]),
    "sigma": st.floats(0.05, 8),
    "draws": st.integers(1, 4),
    "clean": st.booleans(),
}


@settings(max_examples=16)
@given(**NOISE)
def test_no_gallery_attack_beats_the_limits(seed, users, dimension, apart, sigma, draws, clean):
    """By cosine and L2 distance."""
    drawn = people(seed, users, dimension, apart)
    released = drawn.released(sigma, draws, seed, clean)
    trials = len(released.split.probe_rows)
    bound = limit(drawn.game(), sigma, draws, seed)
    for metric in METRICS:
        share = top_1(released, metric)
        assert share - leeway(share, trials) <= bound, metric


def limit(game: Known, sigma: float, draws: int, seed: int) -> float:
    """The lower of both limits on M draws; the best attacker never exceeds the closed form."""
    level = sigma / math.sqrt(draws)
    bound = closed_form(game, level).success
    best = optimal_attacker(game, level, trials=1500, confidence=0.99999, seed=seed)
    reached = best.estimate.value
    assert reached - leeway(reached, 1500) <= bound
    return min(best.success, bound)


@settings(max_examples=12)
@given(**{**NOISE, "dimension": st.integers(2, 5)})
def test_no_attack_with_all_probes_together_beats_the_limits(
    seed, users, dimension, apart, sigma, draws, clean
):
    """Four rows a user: two are known, two are released together."""
    drawn = people(seed, users, dimension, apart, rows=4)
    bound = limit(drawn.together(), sigma, draws, seed)
    for metric in ("cosine", "l2"):
        named = 0.0
        for copy in range(COPIES):
            noise = smooth(drawn.rows, sigma, draws, seed + copy)
            if clean:
                noise[drawn.split.gallery_rows] = drawn.rows[drawn.split.gallery_rows]
            owner = np.arange(users)
            unit = noise / np.linalg.norm(noise, axis=1, keepdims=True)
            rows = (unit if metric == "cosine" else noise)[drawn.split.probe_rows]
            probes = means(rows, drawn.split.probe_user, users)
            gallery = gallery_means(noise, drawn.split)
            named += float(np.mean(first(ranks(probes, gallery, owner, metric, backend="numpy"))))
        assert named / COPIES - leeway(named / COPIES, COPIES * users) <= bound, metric


def first(found: Ranks) -> np.ndarray:
    """Top-1 credit of each probe, ties by expectation."""
    return np.where(found.closer == 0, 1 / (1 + found.tied), 0.0)


@settings(max_examples=15)
@given(**{**NOISE, "draws": st.just(1)})
def test_noise_by_user_is_not_beaten_either(seed, users, dimension, apart, sigma, draws, clean):
    """Each user has noise of another size: only the best attacker that was played limits this."""
    drawn = people(seed, users, dimension, apart)
    level = sigma * np.random.default_rng([seed, 12]).uniform(0.3, 3, users)
    split = drawn.split
    unit = drawn.released(1.0, draws, seed, clean)
    still = drawn.released(0.0, draws, seed, clean)
    owner = np.concatenate([split.gallery_user, unit.split.probe_user])
    rows = still.rows + level[owner][:, None] * (unit.rows - still.rows)
    best = optimal_attacker(drawn.game(), level, trials=1500, confidence=0.99999, seed=seed)
    for metric in METRICS:
        share = top_1(People(rows, unit.split), metric)
        assert share - leeway(share, len(unit.split.probe_rows)) <= best.success, metric


@settings(max_examples=60)
@given(
    seed=st.integers(0, 100_000),
    users=st.integers(2, 8),
    sigma=st.floats(0.02, 50),
    draws=st.integers(1, 5),
)
def test_the_bound_is_above_the_exact_success_of_the_best_attacker(seed, users, sigma, draws):
    """On a line, where that is an integral: no chance in it, and no leeway.

    The played attacker's limit is above it too, in all but 1 of 100,000 plays.
    """
    rng = np.random.default_rng([seed, 13])
    count = rng.integers(users, 3 * users)
    owner = np.append(np.arange(users), rng.integers(0, users, count - users))
    rows = rng.choice([0.1, 1.0, 10.0]) * rng.normal(size=count)
    rows[rng.random(count) < 0.2] = rows[0]
    game = known(rows[:, None], owner, rng.dirichlet(np.ones(count)))
    exact = best_on_a_line(game, sigma / math.sqrt(draws))
    level = sigma / math.sqrt(draws)
    assert closed_form(game, level).success >= exact - 1e-9
    played = optimal_attacker(game, level, trials=500, confidence=0.99999, seed=seed)
    assert played.success >= exact - 1e-9
    assert game.prior.max() - 1e-4 <= exact <= exact_limit(game, game.rows).success + 1e-9


def best_on_a_line(game: Known, spread: float) -> float:
    """The integral of the largest joint density over all users, on a line.

    The best user of every cell of a fine grid is taken at its middle, and his chance of the cell is
    exact: what is found is what a real decoder reaches, so it is never too high.
    """
    points = game.rows[:, 0]
    grid = np.sort((points[:, None] + spread * np.linspace(-9, 9, 1501)).ravel())
    middle = np.concatenate([grid[:1], (grid[1:] + grid[:-1]) / 2, grid[-1:]])
    edges = np.concatenate([[-np.inf], grid, [np.inf]])
    joint = game.by_user(game.weight * np.exp(-(((middle[:, None] - points) / spread) ** 2) / 2))
    mass = np.diff(ndtr((edges[:, None] - points) / spread), axis=0) * game.weight
    return float(game.by_user(mass)[np.arange(len(middle)), joint.argmax(axis=1)].sum())


def test_the_integral_of_this_file_is_phi_for_two_users():
    reached = best_on_a_line(known([[-1.0], [1.0]]), 2.0)
    assert 0 <= float(ndtr(0.5)) - reached <= 1e-5
