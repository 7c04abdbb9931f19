"""The best decoder there is, played: an upper limit on every attacker's success by counting.

Under known clean rows, chances and noise nobody names the owner more often than by the largest
posterior chance. So its success, with an exact upper confidence limit, limits everybody's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from lethe.errors import InputError, check_at_least, check_between
from lethe.evidence.estimate import Estimate
from lethe.evidence.guarantee import from_seeded_noise
from lethe.reidentification.certificates import Limit, identification_bound
from lethe.reidentification.known import Known
from lethe.reidentification.vectors import Float

_CELLS = 1 << 23  # scores held at once


def optimal_attacker(
    game: Known,
    sigma: ArrayLike,
    draws: int = 1,
    top: int = 1,
    *,
    trials: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Limit:
    """Play the maximum a posteriori decoder and put a one-sided limit on its success.

    Each trial picks an owner, a row and noise anew, so hits are independent and the limit is
    Clopper-Pearson's, exact for this count. The sufficient statistics of M draws are drawn
    directly: their mean, and for noise levels that differ between users their spread as well.

    Guarantee: with probability >= `confidence` over the trials, no attacker in the game exceeds
        `success`.

    Args:
        game: see `known`; one row a user of equal chance makes it the nearest vector in L2.
        sigma: noise of one draw, >= 0; or (G,) > 0 for each user in sorted order (adaptive noise,
            whose size gives the user away).
        draws: M >= 1.
        top: k >= 1 names.
        trials: plays; the limit is about z / sqrt(trials) above a middling success.
        confidence: one-sided.
        seed: of the plays.

    Raises:
        InputError: an argument outside its range.

    >>> from lethe.reidentification.known import known
    >>> limit = optimal_attacker(known([[-1.0], [1.0]]), sigma=1.0, trials=1000)
    >>> limit.success > 0.8413  # Phi(1)
    True
    """
    check_at_least("draws", draws, 1)
    check_at_least("top", top, 1)
    check_at_least("trials", trials, 1)
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    level = _levels(sigma, game.users)
    if np.ndim(sigma) == 0 and level[0] == 0:
        return exact_limit(game, game.rows, top)
    play = np.random.default_rng([seed, 1])
    coins = np.random.default_rng([seed, 2])
    hits = 0
    step = max(1, _CELLS // len(game.rows))
    # Centred, because differences of large squares lose what separates close vectors.
    rows = game.rows - game.rows.mean(axis=0)
    for at in range(0, trials, step):
        count = min(step, trials - at)
        picked = play.choice(len(rows), count, p=game.weight)
        true = game.owner[picked]
        noise = play.standard_normal((count, rows.shape[1]))
        mean = rows[picked] + (level[true] / np.sqrt(draws))[:, None] * noise
        spread = np.zeros(count)
        if draws > 1 and np.ndim(sigma) == 1:
            spread = level[true] ** 2 * play.chisquare((draws - 1) * rows.shape[1], count)
        score = _log_joint(game, rows, mean, spread, level, draws)
        hits += int(_named(score, true, top, coins).sum())
    high = 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, confidence))
    assumed = ("isotropic noise", f"the limit fails with chance {1 - confidence:.3g}")
    noise_of = {"sigma": float(level[0])} if np.ndim(sigma) == 0 else {}
    return Limit(
        top,
        high,
        from_seeded_noise(
            identification_bound(
                high, top, game.users, assumed, confidence=confidence, draws=draws, **noise_of
            )
        ),
        Estimate(
            hits / trials,
            None,
            high,
            confidence,
            "one-sided Clopper-Pearson over independent plays of the best decoder",
            trials,
        ),
    )


def exact_limit(game: Known, outputs: ArrayLike, top: int = 1) -> Limit:
    """What the best attacker reaches on a release without noise, exactly.

    Of the rows that give the same output only k users can be named: the sum over distinct outputs
    of the k largest chances. It serves vectors as they are, the logit alone and the label alone.

    Guarantee: no attacker in the game exceeds `success`, and the best one reaches it.

    Args:
        game: see `known`.
        outputs: (R,) or (R, c) what would be released for each of ``game.rows``.
        top: k >= 1 names.

    Raises:
        InputError: another number of outputs, or top < 1.

    >>> from lethe.reidentification.known import known
    >>> exact_limit(known([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]).success
    0.5
    """
    check_at_least("top", top, 1)
    given = np.asarray(outputs)
    if len(given) != len(game.rows):
        raise InputError(f"{len(given)} outputs must be {len(game.rows)}, one for each row.")
    place = np.unique(given.reshape(len(given), -1), axis=0, return_inverse=True)[1].ravel()
    pair, at = np.unique(place * game.users + game.owner, return_inverse=True)
    chance = np.bincount(at, game.weight)
    output = pair // game.users
    order = np.lexsort([-chance, output])
    first = np.searchsorted(output, output)  # pairs are sorted by output
    named = np.arange(len(pair)) - first < top
    success = min(1.0, float(chance[order][named].sum()))
    return Limit(
        top,
        success,
        identification_bound(success, top, game.users, ("the output is a function of the row",)),
    )


def _levels(sigma: ArrayLike, users: int) -> Float:
    """(G,) noise of each user."""
    given = np.asarray(sigma, np.float64)
    if given.ndim not in (0, 1) or (given.ndim == 1 and len(given) != users):
        raise InputError(f"sigma of shape {given.shape} must be a number or ({users},).")
    if not (np.isfinite(given).all() and (given >= 0).all()):
        raise InputError("sigma must be finite and >= 0.")
    if given.ndim == 1 and not (given > 0).all():
        raise InputError("sigma of each user must be above 0: a user without noise is named.")
    return np.broadcast_to(given, (users,))


def _log_joint(
    game: Known, rows: Float, mean: Float, spread: Float, level: Float, draws: int
) -> Float:
    """(T, G) log chance of each user and what was seen, up to what all users share."""
    inverse = draws / (2 * level[game.owner] ** 2)
    score = 2 * inverse * (mean @ rows.T) - inverse * (rows**2).sum(axis=1)
    with np.errstate(divide="ignore"):
        score += np.log(game.weight)
    if level.min() < level.max():
        seen = (mean**2).sum(axis=1) + spread / draws
        score -= seen[:, None] * inverse + draws * rows.shape[1] * np.log(level[game.owner])
    if len(rows) == game.users:
        return np.asarray(score)
    # Each user's own largest term: one for all would let the unlikely users fall together at 0.
    largest = np.maximum(game.by_user(score, np.maximum), -1e300)
    parts = np.exp(score - largest[:, game.owner])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(game.by_user(parts)) + largest)


def _named(
    score: Float, true: NDArray[np.intp], top: int, coins: np.random.Generator
) -> NDArray[np.bool_]:
    """(T,) whether the true user is among the k best; ties by coin."""
    own = score[np.arange(len(score)), true][:, None]
    better = (score > own).sum(axis=1)
    tied = (score == own).sum(axis=1)  # with the true user
    return np.asarray(better + np.floor(coins.random(len(score)) * tied) < top)
