"""The limits stand in their order, on a line where the best attacker's success is an integral."""

import math
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from lethe.reidentification.certificates import (
    Known,
    closed_form,
    exact_limit,
    known,
    optimal_attacker,
)
from lethe.reidentification.gallery import Split, split_rows
from lethe.reidentification.smoothing import smooth

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

    def released(self, sigma: float, draws: int, seed: int, clean_gallery: bool) -> "People":
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


def limit(game: Known, sigma: float, draws: int, seed: int) -> float:
    """The lower of both limits on M draws; the best attacker never exceeds the closed form."""
    level = sigma / math.sqrt(draws)
    bound = closed_form(game, level).success
    best = optimal_attacker(game, level, trials=1500, confidence=0.99999, seed=seed)
    reached = best.estimate.value
    assert reached - leeway(reached, 1500) <= bound
    return min(best.success, bound)


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
