"""Limits on every attacker: how often anybody can name the owner of a released vector.

The game: the attacker knows every clean row of each of G users; one row is picked by its weight
and M noisy draws of it are released; the attacker names k users. No attack that plays this game
does better than the limits here, beyond the confidence they state.

1. `optimal_attacker` plays it with the best decoder there is and limits its success by counting.
2. `closed_form` bounds every decoder without playing.
3. `noise_dp` and `pair_limits` are differential privacy of the released vector.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from lethe.errors import InputError, check_at_least, check_between
from lethe.evidence.estimate import Estimate
from lethe.evidence.gdp import gdp_delta, gdp_epsilon
from lethe.evidence.guarantee import Guarantee, from_seeded_noise
from lethe.reidentification.known import Known
from lethe.reidentification.vectors import (
    Float,
    check_sigma,
    check_vectors,
    effective_sigma,
    geometric_median,
)

_HALVINGS = 200
KNOWS = (
    "the attacker knows the clean rows, their chances and the law of the noise, and sees "
    "nothing else"
)
MORE = "further draws or rows of the same person, and side knowledge beyond the chances given"


@dataclass(frozen=True, eq=False)
class Limit:
    """An upper limit on Top-k success, and what was proven with it.

    Attributes:
        top: k, how many users the attacker may name.
        success: upper limit on P(the owner is among them), in [0, 1].
        guarantee: of kind ``identification-bound``.
        estimate: success of the best decoder as it was counted; None for a bound in closed form.
    """

    top: int
    success: float
    guarantee: Guarantee
    estimate: Estimate | None = None


def identification_bound(
    success: float, top: int, users: int, assumed: tuple[str, ...], **parameters: float
) -> Guarantee:
    """The label of a limit on Top-k success."""
    return Guarantee(
        "identification-bound",
        {"success": success, "top": top, "users": users, **parameters},
        "none",
        "vector",
        (KNOWS, *assumed),
        (MORE,),
    )


def closed_form(
    game: Known, sigma: float, draws: int = 1, top: int = 1, centre: ArrayLike | None = None
) -> Limit:
    """An upper bound on Top-k of every attacker, without simulation.

    Decision regions cover each point at most k times, so their chances q_u under N(c, sigma^2/M)
    sum to at most k, and by Neyman and Pearson user u is named with at most Phi(Phi^-1(q_u) + m_u),
    m_u = sqrt(M) max_j ||r_uj - c|| / sigma. The maximum over q is concave; its Lagrange dual
    k lambda + sum_u max_q (pi_u Phi(Phi^-1(q) + m_u) - lambda q) is an upper bound at *every*
    lambda > 0, so the root-find below costs tightness at worst, never truth.

    Guarantee: no attacker in the game exceeds `success`. It is at most 1 and at least the sum of
        the k largest prior chances.

    Args:
        game: see `known`.
        sigma: noise of one draw, >= 0.
        draws: M >= 1.
        top: k >= 1.
        centre: (d,) any point; None takes the better of mean and geometric median.

    Raises:
        InputError: an argument outside its range, or a centre of another dimension.

    >>> from lethe.reidentification.known import known
    >>> round(closed_form(known([[-1.0], [1.0]]), sigma=2.0).success, 4)  # Phi(1/2)
    0.6915
    """
    check_at_least("top", top, 1)
    spread = effective_sigma(sigma, draws)
    if centre is None:
        # The rows' own weights: for the best mean m_u the likely users matter most.
        tried = [game.weight @ game.rows, geometric_median(game.rows)]
    else:
        tried = [check_vectors("centre", np.atleast_2d(centre), game.rows.shape[1])[0]]
    success = min(_best_sum(_shifts(game, point, spread), game.prior, top) for point in tried)
    label = identification_bound(
        success, top, game.users, ("isotropic noise",), sigma=sigma, draws=draws
    )
    return Limit(top, success, from_seeded_noise(label) if sigma > 0 else label)


def _shifts(game: Known, centre: Float, spread: float) -> Float:
    away = np.linalg.norm(game.rows - centre, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.where(away > 0, away / spread, 0.0)
    return game.by_user(shift, np.maximum)


def _best_sum(shift: Float, prior: Float, top: int) -> float:
    """max sum_u pi_u Phi(Phi^-1(q_u) + m_u) over 0 <= q_u <= 1, sum q_u <= k, from above."""
    if top >= len(prior):
        return 1.0
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
            at = -(log_price - np.log(moving)) / m - m / 2
        q = float(ndtr(at).sum() + (still > price).sum())
        gain = float((moving * ndtr(at + m) - price * ndtr(at)).sum())
        return q, price * top + gain + float(np.maximum(still - price, 0.0).sum())

    # Below `low` everybody is bought, above `high` nobody; the dual is convex between.
    low, high = -745.0, 700.0
    best = 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        q, bound = spent(middle)
        best = min(best, certain + bound)
        low, high = (middle, high) if q > top else (low, middle)
    return best


@dataclass(frozen=True)
class PairLimits:
    """How well two known vectors at one distance are told apart from noisy draws.

    Attributes:
        mu: sqrt(M) distance / sigma; the test is N(0, 1) against N(mu, 1), exactly.
    """

    mu: float

    @property
    def auc(self) -> float:
        """Phi(mu / sqrt 2): the AUC of the best test."""
        return float(ndtr(self.mu / math.sqrt(2)))

    @property
    def total_variation(self) -> float:
        """2 Phi(mu / 2) - 1: the most that the chance of any event differs."""
        return math.erf(self.mu / 2 / math.sqrt(2))

    def tpr(self, fpr: float) -> float:
        """Phi(mu + Phi^-1(fpr)): the largest TPR at a false positive rate in [0, 1]."""
        check_between("fpr", fpr, 0, 1)
        return float(ndtr(self.mu + ndtri(fpr)))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at delta in (0, 1) (analytic Gaussian mechanism)."""
        return gdp_epsilon(self.mu, delta)

    def delta(self, epsilon: float) -> float:
        """The smallest delta at epsilon >= 0."""
        return gdp_delta(self.mu, epsilon)


def pair_limits(distance: ArrayLike, sigma: float, draws: int = 1) -> PairLimits:
    """Limits on telling two known vectors apart, or two persons by several rows each.

    mu = sqrt(M sum_k d_k^2) / sigma: for rows seen together their distances add in squares.

    Guarantee: exact for two *given* vectors; not for arbitrary inputs, see `noise_dp`.
    Assumes: isotropic Gaussian noise, drawn anew for each draw and row.

    Args:
        distance: L2 distance, or the (n,) distances of n rows released together, >= 0.
        sigma: noise of one draw, > 0.
        draws: M >= 1.

    >>> pair = pair_limits(1.0, sigma=1.0)
    >>> round(pair.auc, 3), round(pair.total_variation, 3), round(pair.tpr(0.01), 3)
    (0.76, 0.383, 0.092)
    """
    apart = np.atleast_1d(np.asarray(distance, np.float64))
    if not ((apart >= 0).all() and np.isfinite(apart).all() and apart.size):
        raise InputError("distance must be one or more finite numbers >= 0.")
    check_sigma(sigma, positive=True)
    return PairLimits(float(np.linalg.norm(apart)) / effective_sigma(sigma, draws))


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


def noise_dp(
    diameter: float, sigma: float, draws: int = 1, delta: float = 1e-5, source: str = ""
) -> Guarantee:
    """Differential privacy of M noisy draws of one vector, for arbitrary inputs.

    mu = sqrt(M) D / sigma (Gaussian DP), converted by the analytic Gaussian mechanism (Balle and
    Wang 2018).

    Guarantee: whatever the vector was, the M draws are mu-GDP under its replacement by any other.

    Args:
        diameter: D, the most that any two vectors differ in L2, known without the data.
        sigma: noise of one draw, > 0.
        draws: M >= 1 over the life of the release.
        delta: in (0, 1), for the epsilon that is printed.
        source: why D holds, in words (``clipped to norm 2``).

    >>> round(noise_dp(14.6, sigma=1.0).parameters["epsilon"])
    168
    """
    check_between("diameter", diameter, 0, math.inf, open_high=True)
    check_sigma(sigma, positive=True)
    mu = diameter / effective_sigma(sigma, draws)
    label = Guarantee(
        "gdp",
        {
            "mu": mu,
            "epsilon": gdp_epsilon(mu, delta),
            "delta": delta,
            "sigma": sigma,
            "draws": draws,
            "diameter": diameter,
        },
        "replace-one",
        "vector",
        (
            f"any two vectors differ by at most {diameter:g}" + (f": {source}" if source else ""),
            f"at most {draws} draws of one vector are ever released",
            "the encoder is taken as fixed: what its training tells is not covered",
        ),
        ("a diameter read off the data", "further rows of the same person, which add up"),
    )
    return from_seeded_noise(label)
