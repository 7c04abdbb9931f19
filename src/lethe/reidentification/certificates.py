"""Limits on every attacker: how often anyone can name the owner of a released vector.

The game: the attacker knows every clean row of each of G users; a row is picked by its weight and M
noisy draws of it are released; the attacker names k users. No attack in this game exceeds the
limits here, beyond the confidence they state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtr

from lethe.errors import InputError, check_at_least, check_between
from lethe.evidence.estimate import Estimate
from lethe.evidence.gdp import gdp_epsilon
from lethe.evidence.guarantee import Guarantee, from_seeded_noise
from lethe.reidentification.vectors import Float, check_sigma, check_vectors, geometric_median

# An upper limit on the success of every attacker, by running the best decoder and counting.
#
# With known clean rows, chances and noise, no attacker names the owner more often than by the
# largest posterior chance. So an exact upper confidence limit of its success limits all attackers.

# The attacker's knowledge before the release: the owner and the chance of each row.

_SUM = 1e-9  # how far a distribution may be from 1


@dataclass(frozen=True, eq=False)
class Known:
    """All clean rows of all users, sorted by user; one row is released."""

    rows: Float  # (R, d) the exact rows, grouped by user
    starts: NDArray[np.intp]  # (G,) where the rows of each user begin
    owner: NDArray[np.intp]  # (R,) user 0..G-1 of each row
    weight: Float  # (R,) P(this row is the one released); they sum to 1

    @property
    def users(self) -> int:
        """G, the number of people that the attacker chooses from."""
        return len(self.starts)

    @property
    def prior(self) -> Float:
        """(G,) P(the released row is this user's)."""
        return np.asarray(np.add.reduceat(self.weight, self.starts))

    def by_user(self, values: Float, how: np.ufunc = np.add) -> Float:
        """Reduce the last axis from rows to users."""
        if len(self.rows) == self.users:
            return values
        return np.asarray(how.reduceat(values, self.starts, axis=-1))


def known(
    rows: ArrayLike, users: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Known:
    """The game: a row is picked by its weight and released with noise; the attacker names its user.

    n rows of one person released together are one row of n d numbers, in a fixed order.

    Args:
        rows: (R, d) the exact vectors that may be released, never means of them.
        users: (R,) whose row each is; None if each is its own user.
        weights: (R,) chance of each row, summing to 1. None: users are equally likely, and so are
            the rows of one user. Probe shares as a prior: 1 / R each.

    Raises InputError: fewer than 2 users, or weights that are no distribution.

    >>> known([[0.0], [1.0], [2.0]], ["a", "b", "a"]).weight
    array([0.25, 0.25, 0.5 ])
    """
    table = check_vectors("rows", rows)
    names = np.arange(len(table)) if users is None else np.asarray(users)
    if names.shape != (len(table),):
        raise InputError(f"users of shape {names.shape} must be ({len(table)},), one for each row.")
    place = np.unique(names, return_inverse=True)[1]
    order = np.argsort(place, kind="stable")
    owner = place[order]
    counts = np.bincount(owner)
    if len(counts) < 2:
        raise InputError("identification needs at least 2 users, got 1.")
    if weights is None:
        weight = 1 / (len(counts) * counts[owner])
    else:
        weight = np.asarray(weights, np.float64)
        if weight.shape != (len(table),) or not (weight >= 0).all():
            raise InputError("weights must be one number >= 0 for each row.")
        if not abs(float(weight.sum()) - 1) <= _SUM:
            raise InputError(f"weights sum to {weight.sum():g}; divide them by their sum.")
        weight = weight[order] / weight.sum()
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.intp)
    return Known(table[order], starts, np.asarray(owner, np.intp), weight)


_HALVINGS = 200
KNOWS = (
    "the attacker knows the clean rows, their chances and the law of the noise, and sees "
    "nothing else"
)
MORE = "further draws or rows of the same person, and side knowledge beyond the chances given"


@dataclass(frozen=True, eq=False)
class Limit:
    """An upper limit on Top-1 success, and what was proven with it.

    Attributes:
        estimate: success of the best decoder as it was counted; None for a bound in closed form.
    """

    success: float  # upper limit on P(the attacker names the owner), in [0, 1]
    guarantee: Guarantee  # of kind ``identification-bound``
    estimate: Estimate | None = None


def identification_bound(
    success: float, users: int, assumed: tuple[str, ...], **parameters: float
) -> Guarantee:
    """The label of a limit on Top-1 success."""
    return Guarantee(
        "identification-bound",
        {"success": success, "top": 1, "users": users, **parameters},
        "none",
        "vector",
        (KNOWS, *assumed),
        (MORE,),
    )


def closed_form(game: Known, sigma: float, centre: ArrayLike | None = None) -> Limit:
    """An upper bound on Top-1 of every attacker, without simulation.

    Decision regions are disjoint, so their chances q_u under N(c, sigma^2) sum to at most 1, and by
    Neyman and Pearson user u is named with at most Phi(Phi^-1(q_u) + m_u),
    m_u = max_j ||r_uj - c|| / sigma. The Lagrange dual lambda + sum_u max_q (pi_u
    Phi(Phi^-1(q) + m_u) - lambda q) is an upper bound at *every* lambda > 0: the root-find costs
    tightness, never truth.

    Guarantee: no attacker in the game exceeds `success`. It is at most 1 and at least the largest
        prior chance.

    Args:
        sigma: noise of the draw, >= 0; sigma / sqrt(M) of M draws.
        centre: (d,) any point; None takes the better of mean and geometric median.

    Raises InputError: an argument outside its range, or a centre of another dimension.

    >>> from lethe.reidentification.certificates import known
    >>> round(closed_form(known([[-1.0], [1.0]]), sigma=2.0).success, 4)  # Phi(1/2)
    0.6915
    """
    spread = check_sigma(sigma)
    if centre is None:
        # The rows' own weights: for the best mean m_u the likely users matter most.
        tried = [game.weight @ game.rows, geometric_median(game.rows)]
    else:
        tried = [check_vectors("centre", np.atleast_2d(centre), game.rows.shape[1])[0]]
    success = min(_best_sum(_shifts(game, point, spread), game.prior) for point in tried)
    label = identification_bound(success, game.users, ("isotropic noise",), sigma=sigma, draws=1)
    return Limit(success, from_seeded_noise(label) if sigma > 0 else label)


def _shifts(game: Known, centre: Float, spread: float) -> Float:
    away = np.linalg.norm(game.rows - centre, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where(away > 0, away / spread, 0.0)
    return game.by_user(shift, np.maximum)


def _best_sum(shift: Float, prior: Float) -> float:
    """max sum_u pi_u Phi(Phi^-1(q_u) + m_u) over 0 <= q_u <= 1, sum q_u <= 1, from above."""
    lost = ~np.isfinite(shift) | (shift > 1e150)  # named for nothing
    certain = float(prior[lost].sum())
    prior, shift = prior[~lost], shift[~lost]
    near = shift <= 0
    still, moving, m = prior[near], prior[~near], shift[~near]
    moving, m = moving[moving > 0], m[moving > 0]

    def spent(log_price: float) -> tuple[float, float]:
        """Sum of q at a price lambda, and the dual there."""
        price = math.exp(log_price)
        with np.errstate(over="ignore"):  # a user very near the centre: all or nothing
            cut = -(log_price - np.log(moving)) / m - m / 2
        q = float(ndtr(cut).sum() + (still > price).sum())
        gain = float((moving * ndtr(cut + m) - price * ndtr(cut)).sum())
        return q, price + gain + float(np.maximum(still - price, 0.0).sum())

    # Below `low` everybody is bought, above `high` nobody; the dual is convex between.
    low, high = -745.0, 700.0
    best = 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        q, bound = spent(middle)
        best = min(best, certain + bound)
        low, high = (middle, high) if q > 1 else (low, middle)
    return best


def clip_diameter(norm: float) -> float:
    """D = 2C: the most that two vectors clipped to norm C can differ."""
    return 2 * check_between("norm", norm, 0, math.inf, open_low=True, open_high=True)


def layer_norm_diameter(gain: ArrayLike) -> float:
    """The most that two outputs of a LayerNorm can differ, for any inputs whatsoever.

    D = 2 sqrt(d) sqrt(lambda_max(P diag(g^2) P)), P the centring projection: normalised vectors
    have mean 0 and norm at most sqrt(d), then each coordinate is scaled; the offset cancels.

    Assumes: the LayerNorm is the very last operation of the encoder.

    Args:
        gain: (d,) its weight, read off the checkpoint; all ones where it has none.

    >>> round(layer_norm_diameter([1.0] * 64), 6)
    16.0
    """
    g = check_vectors("gain", np.atleast_2d(np.asarray(gain, np.float64)))[0]
    if len(g) < 2:
        raise InputError("a LayerNorm over 1 dimension gives its offset alone.")
    centring = np.eye(len(g)) - 1 / len(g)
    largest = float(np.linalg.eigvalsh(centring @ np.diag(g**2) @ centring)[-1])
    return 2 * math.sqrt(len(g)) * math.sqrt(max(largest, 0.0))


def noise_dp(diameter: float, sigma: float, delta: float = 1e-5, source: str = "") -> Guarantee:
    """Differential privacy of one noisy draw of one vector, for arbitrary inputs.

    mu = D / sigma (Gaussian DP), converted by the analytic Gaussian mechanism (Balle and Wang
    2018).

    Guarantee: whatever the vector was, the draw is mu-GDP under its replacement by any other.

    Args:
        diameter: D, the most that any two vectors differ in L2, known without the data.
        sigma: noise of the draw, > 0; sigma / sqrt(M) where M are drawn over its life.
        delta: in (0, 1), for the epsilon that is printed.
        source: why D holds, in words (``clipped to norm 2``).

    >>> round(noise_dp(14.6, sigma=1.0).parameters["epsilon"])
    168
    """
    check_between("diameter", diameter, 0, math.inf, open_high=True)
    check_sigma(sigma, positive=True)
    mu = diameter / sigma
    label = Guarantee(
        "gdp",
        {
            "mu": mu,
            "epsilon": gdp_epsilon(mu, delta),
            "delta": delta,
            "sigma": sigma,
            "draws": 1,
            "diameter": diameter,
        },
        "replace-one",
        "vector",
        (
            f"any two vectors differ by at most {diameter:g}" + (f": {source}" if source else ""),
            "one draw of each vector is ever released; M draws are one of sigma / sqrt(M)",
            "the encoder is taken as fixed: what its training tells is not covered",
        ),
        ("a diameter read off the data", "further rows of the same person, which add up"),
    )
    return from_seeded_noise(label)


_CLOSE = 1e4  # distance from the mean over sigma, up to which products err by less than 1e-6
_CELLS, _CACHED = 1 << 23, 1 << 18  # scores whose plays are drawn at once, and computed at once


def optimal_attacker(
    game: Known, sigma: ArrayLike, *, trials: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> Limit:
    """Run the maximum a posteriori decoder and compute a one-sided limit on its success.

    Trials are independent (owner, row and noise), so the limit is Clopper-Pearson's.

    Guarantee: with probability >= `confidence` over the trials, no attacker in the game exceeds
        `success`.

    Args:
        game: see `known`; with a row a user and equal chances it names the nearest vector in L2.
        sigma: noise of the draw, >= 0; or (G,) > 0 for each user in sorted order (adaptive noise,
            whose size reveals the user). M draws at one sigma for all equal a draw at
            sigma / sqrt(M); of several sigmas they reveal more.
        trials: number of runs; the limit is about z / sqrt(trials) above a success of one half.
        confidence: one-sided.

    Raises InputError: an argument outside its range.

    >>> from lethe.reidentification.certificates import known
    >>> limit = optimal_attacker(known([[-1.0], [1.0]]), sigma=1.0, trials=1000)
    >>> limit.success > 0.8413  # Phi(1)
    True
    """
    check_at_least("trials", trials, 1)
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    level = _levels(sigma, game.users)
    if np.ndim(sigma) == 0 and level[0] == 0:
        return exact_limit(game, game.rows)
    play = np.random.default_rng([seed, 1])
    coins = np.random.default_rng([seed, 2])
    hits = 0
    step = max(1, _CELLS // len(game.rows))
    # Centred, because products of large numbers lose what separates close vectors.
    rows = game.rows - game.rows.mean(axis=0)
    with np.errstate(over="ignore"):
        close = math.sqrt((rows**2).sum(axis=1).max()) <= _CLOSE * level.min()
    for start in range(0, trials, step):
        count = min(step, trials - start)
        picked = play.choice(len(rows), count, p=game.weight)
        true = game.owner[picked]
        noise = level[true][:, None] * play.standard_normal((count, rows.shape[1]))
        for some in np.array_split(np.arange(count), min(count, 1 + count * len(rows) // _CACHED)):
            if close:
                score = _products(game, rows, rows[picked[some]] + noise[some], level)
            else:
                score = _differences(game, picked[some], noise[some], level)
            score = _log_joint(game, score, level)
            hits += int(_named(score, true[some], coins).sum())
    high = 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, confidence))
    assumed = ("isotropic noise", f"the limit fails with chance {1 - confidence:.3g}")
    noise_of = {"sigma": float(level[0])} if np.ndim(sigma) == 0 else {}
    label = identification_bound(
        high, game.users, assumed, confidence=confidence, draws=1, **noise_of
    )
    return Limit(
        high,
        from_seeded_noise(label),
        Estimate(
            hits / trials,
            None,
            high,
            confidence,
            "one-sided Clopper-Pearson over independent plays of the best decoder",
            trials,
        ),
    )


def exact_limit(game: Known, outputs: ArrayLike) -> Limit:
    """Exact success of the best attacker on a release without noise.

    It is the sum over distinct outputs of the largest chance of a user, since only one user can be
    named for all rows with the same output. Outputs are compared bit by bit: -0.0 is not 0.0.

    Guarantee: no attacker in the game exceeds `success`, and the best one reaches it.

    Args:
        outputs: (R,) or (R, c) the output for each of ``game.rows``.

    Raises InputError: another number of outputs, or objects.

    >>> from lethe.reidentification.certificates import known
    >>> exact_limit(known([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]).success
    0.5
    """
    table = np.asarray(outputs)
    if len(table) != len(game.rows):
        raise InputError(f"{len(table)} outputs must be {len(game.rows)}, one for each row.")
    if table.dtype.hasobject:
        raise InputError("outputs of Python objects cannot be compared bit by bit; give an array.")
    rows = np.ascontiguousarray(table.reshape(len(table), -1))
    place = np.unique(rows.view(f"V{rows[0].nbytes}"), return_inverse=True)[1].ravel()
    pair, cell = np.unique(place * game.users + game.owner, return_inverse=True)
    chance = np.bincount(cell, game.weight)
    output = pair // game.users
    starts = np.flatnonzero(np.diff(output, prepend=-1))  # pairs are sorted by output
    success = min(1.0, float(np.maximum.reduceat(chance, starts).sum()))
    label = identification_bound(success, game.users, ("the output is a function of the row",))
    return Limit(success, label)


def _levels(sigma: ArrayLike, users: int) -> Float:
    """(G,) noise of each user."""
    level = np.asarray(sigma, np.float64)
    if level.ndim not in (0, 1) or (level.ndim == 1 and len(level) != users):
        raise InputError(f"sigma of shape {level.shape} must be a number or ({users},).")
    if not (np.isfinite(level).all() and (level >= 0).all()):
        raise InputError("sigma must be finite and >= 0.")
    if level.ndim == 1 and not (level > 0).all():
        raise InputError("sigma of each user must be above 0: a user without noise is named.")
    return np.broadcast_to(level, (users,))


def _products(game: Known, rows: Float, seen: Float, level: Float) -> Float:
    """(T, R) exponent of each row's normal density, by products: fast, for rows that lie close."""
    inverse = 1 / (2 * level[game.owner] ** 2)
    score = np.asarray(seen @ rows.T) * (2 * inverse)
    score -= inverse * (rows**2).sum(axis=1)
    if level.min() < level.max():
        score -= (seen**2).sum(axis=1)[:, None] * inverse
    return score


def _differences(game: Known, picked: NDArray[np.intp], noise: Float, level: Float) -> Float:
    """(T, R) the same by sums of squared differences: exact to rounding at any scale."""
    score = np.empty((len(picked), len(game.rows)))
    spread = level[game.owner][:, None]
    with np.errstate(over="ignore"):
        for place, (row, drift) in enumerate(zip(picked, noise, strict=True)):
            away = (game.rows[row] - game.rows + drift) / spread
            score[place] = (away**2).sum(axis=1) / -2
    return score


def _log_joint(game: Known, score: Float, level: Float) -> Float:
    """(T, G) joint log chance of each user and the observation, up to a common constant."""
    with np.errstate(divide="ignore"):
        score += np.log(game.weight)
    if level.min() < level.max():
        score -= game.rows.shape[1] * np.log(level[game.owner])
    if len(game.rows) == game.users:
        return np.asarray(score)
    # Scaled by the largest term of each user: a common scale would round unlikely users to 0.
    largest = np.maximum(game.by_user(score, np.maximum), -1e300)
    score -= largest[:, game.owner]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(game.by_user(np.exp(score, out=score))) + largest)


def _named(score: Float, true: NDArray[np.intp], coins: np.random.Generator) -> NDArray[np.bool_]:
    """(T,) whether the true user has the best score; ties are broken at random."""
    true_score = score[np.arange(len(score)), true][:, None]
    better = (score > true_score).any(axis=1)
    tied = (score == true_score).sum(axis=1)  # with the true user
    return np.asarray(~better & (np.floor(coins.random(len(score)) * tied) < 1))
