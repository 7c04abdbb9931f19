"""A lower bound on epsilon from one training: how many canaries' coins its scores guess right.

Each of m canaries went into the training data by its own fair coin. Of one trained model's scores
the highest are guessed IN and the lowest OUT, r guesses in all, r fixed beforehand. A model that is
(epsilon, delta)-DP makes many right guesses unlikely:

* ``binomial``: with q = e^epsilon/(1 + e^epsilon), P[V >= v] <= P[Bin(r, q) >= v] + 2 m delta
  max over 1 <= i <= v of P[v > Bin(r, q) >= v - i]/i (Steinke, Nasr and Jagielski 2023,
  theorem 5.2);
* ``tradeoff``: the same claim through its whole trade-off curve (see `refuted`);
* ``gdp``: the curve of a mechanism declared to be Gaussian DP.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, gammaln, ndtr, ndtri, xlogy

from lethe.errors import InputError, NotMeasurable, check_at_least, check_between, check_choice
from lethe.evidence.epsilon import (
    CONSTANT,
    NOTHING,
    EpsilonBound,
    check_claim,
    claim_sentence,
    gaussian,
)
from lethe.evidence.estimate import Estimate
from lethe.evidence.gdp import (
    check_delta,
    last_true,
)
from lethe.evidence.rules import UNDECIDED
from lethe.evidence.sight import Plant
from lethe.evidence.thresholds import check_scores

FORMS = ("binomial", "tradeoff", "gdp")
_LOTS = 20
"""Orders among tied scores: of all of them a planted leak must be seen."""
_UNFAIR = 1e-9
"""Coins less likely than this under fairness are refused: they were not fair coins."""


# How often a private mechanism's coins can be guessed, from its whole trade-off curve.
#
# Mahloujifar, Melis and Chaudhuri ("Auditing f-Differential Privacy in One Run", 2024) bound the
# number V of right guesses through every event V >= k at once. Their argument, for exactly r
# guesses about m fair coins: look at "coin i is guessed, and k - 1 or more of the others are
# right". Whether the guess of i is right depends on its coin alone, so with F(x) the most that a
# probability x under one of two neighbours can be under the other, concavity of F over coins and
# values gives
#
#     (1/m) sum_{j >= k} j P[V = j]  <=  F( (1/m) sum_{j >= k-1} (r - j) P[V = j] ).
#
# Write t_k = P[V >= k] and S_k = t_k + t_{k+1} + ... + t_r. The left side is ((k-1) t_k + S_k)/m,
# and with G the inverse of F the inequality says
#
#     t_{k-1} >= (S_k + m G(((k - 1) t_k + S_k)/m)) / (r - k + 1).
#
# Both sides grow with every t, so going down from t_v = alpha with equality gives the least
# possible t_0. If that is above 1, P[V >= v] >= alpha was impossible, and v right guesses refute
# the curve at level alpha: the v that do so are all v from some v on, and their probability is
# below alpha.

Float = NDArray[np.float64]
Inverse = Callable[[Float, Float], Float]
"""G(parameter, y): the least x with F(x) >= y, for many parameters (epsilons or mus) at once."""

_AT_ONCE = 33  # parameters of one sweep; five sweeps reach 1e-7 of the first range
_ROUNDS = 5


def gaussian_inverse(mu: Float, y: Float) -> Float:
    """G of mu-GDP: Phi(Phi^-1(y) - mu)."""
    return np.asarray(ndtr(ndtri(y) - mu))


def approximate_inverse(delta: float) -> Inverse:
    """G of (epsilon, delta)-DP: max(0, e^-epsilon (y - delta), 1 - delta - e^epsilon (1 - y))."""

    def inverse(epsilon: Float, y: Float) -> Float:
        ratio = np.exp(np.minimum(epsilon, 700.0))
        return np.maximum(np.maximum((y - delta) / ratio, 1 - delta - ratio * (1 - y)), 0.0)

    return inverse


def refuted(
    parameters: Float, canaries: int, guesses: int, right: int, level: float, inverse: Inverse
) -> NDArray[np.bool_]:
    """Say for each parameter whether `right` of `guesses` refute its curve at `level`.

    Args:
        parameters: (p,) epsilons or mus, >= 0.
        canaries: m, coins in all.
        level: probability that a true curve is refuted, in (0, 1).
    """
    below = np.full(len(parameters), level)  # t_k, and the sum S_k of those above
    total = below.copy()
    for k in range(right, 0, -1):
        share = np.minimum(((k - 1) * below + total) / canaries, 1.0)
        least = (total + canaries * inverse(parameters, share)) / (guesses - k + 1)
        grows = least > below
        if not grows.any() or (below > 1).all():
            break  # what stops growing never grows again: share stays as it is
        below = np.where(grows, least, below)
        total = total + below
    return below > 1


def largest_refuted(
    canaries: int, guesses: int, right: int, level: float, inverse: Inverse
) -> float:
    """The largest parameter whose curve is refuted, to within 1e-6; 0 if none is."""

    def test(parameters: Float) -> NDArray[np.bool_]:
        return refuted(parameters, canaries, guesses, right, level, inverse)

    if not test(np.zeros(1))[0]:
        return 0.0
    low, high = 0.0, 4.0
    while test(np.array([high]))[0]:
        low, high = high, 2 * high
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _AT_ONCE)
        last = int(np.flatnonzero(~test(grid))[0])  # the upper end is never refuted
        low, high = float(grid[last - 1]), float(grid[last])
    return low


@dataclass(frozen=True)
class Guesses:
    """How many guesses are made, fixed before the scores are seen.

    Several shares each get their part of the level: the best of several numbers of guesses without
    correction reports an epsilon above 0 on pure noise in a third of the audits.

    Attributes:
        shares: of all canaries that are guessed, each in (0, 1]; several are corrected for.
    """

    shares: tuple[float, ...] = (0.2,)

    def __post_init__(self) -> None:
        if not self.shares:
            raise InputError("shares=() must name at least one share of the canaries.")
        for share in self.shares:
            check_between("share of guesses", share, 0, 1, open_low=True)

    def counts(self, canaries: int) -> tuple[int, ...]:
        """Numbers of guesses for this many canaries, each at least 1."""
        return tuple(max(1, round(share * canaries)) for share in self.shares)


def right_guesses(score: ArrayLike, inserted: ArrayLike, guesses: int, seed: int = 0) -> int:
    """Count the right of r guesses: the half of highest scores guessed IN, of lowest OUT.

    Args:
        score: (m,) one score a canary, higher = more likely IN; ties are broken by the seed.
        inserted: (m,) bool, the coins.
        guesses: r, in [1, m].
        seed: of the order among tied scores.

    >>> right_guesses([3.0, 2.0, 1.0, 0.0], [True, False, True, False], 2)
    2
    """
    scores, coins = _canaries(score, inserted)
    check_between("guesses", guesses, 1, len(scores))
    # Not the order of the file, which may hold the IN canaries first.
    order = np.lexsort((np.random.default_rng([seed, 3]).random(len(scores)), scores))
    low = guesses // 2
    return int((~coins[order[:low]]).sum() + coins[order[len(order) - (guesses - low) :]].sum())


def one_run_p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The most that P[V >= v] can be under (epsilon, delta)-DP: the binomial form.

    Args:
        canaries: m >= r.
        guesses: r, fixed beforehand.
        right: v, in [0, r].
        delta: in [0, 1).

    >>> one_run_p_value(4, 4, 4, 0.0, 0.0)
    0.0625
    """
    _check_counts(canaries, guesses, right)
    check_at_least("epsilon", epsilon, 0)
    check_delta(delta)
    if right == 0:
        return 1.0
    # 1/(1 + e^-epsilon), and 1 minus it without loss.
    q, rest = 1 / (1 + math.exp(-epsilon)), math.exp(-epsilon) / (1 + math.exp(-epsilon))
    tail = float(betainc(right, guesses - right + 1, q))
    if delta == 0:
        return tail
    # The best window ends where the probabilities fall below their mean: above 12 deviations
    # below the centre, whatever v is.
    floor = min(right - 1, math.floor(guesses * q - 12 * math.sqrt(guesses * q * rest) - 12))
    values = np.arange(right - 1, max(floor, 0) - 1, -1, dtype=np.float64)
    logs = xlogy(values, q) + xlogy(guesses - values, rest) - gammaln(values + 1)
    logs += gammaln(guesses + 1) - gammaln(guesses - values + 1)
    window = np.cumsum(np.exp(logs)) / np.arange(1, len(values) + 1)
    return min(1.0, tail + 2 * canaries * delta * float(window.max()))


@functools.lru_cache(maxsize=4096)
def one_run_epsilon(
    canaries: int,
    guesses: int,
    right: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    form: str = "binomial",
) -> float:
    """The largest epsilon refuted by v right of r guesses about m coins; 0 if none is.

    Args:
        delta: in [0, 1).
        form: ``binomial`` or ``tradeoff``; ``gdp`` gives the largest mu refuted instead (delta is
            not used).

    >>> round(one_run_epsilon(100, 100, 80), 3)
    0.958
    """
    _check_counts(canaries, guesses, right)
    check_delta(delta)
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    level = 1 - confidence
    if check_choice("form", form, FORMS) == "binomial":
        return last_true(
            lambda epsilon: one_run_p_value(canaries, guesses, right, epsilon, delta) <= level
        )
    inverse = gaussian_inverse if form == "gdp" else approximate_inverse(delta)
    return largest_refuted(canaries, guesses, right, level, inverse)


def one_run_bound(
    score: ArrayLike,
    inserted: ArrayLike,
    delta: float = 0.0,
    *,
    guesses: Guesses | None = None,
    confidence: float = 0.95,
    form: str = "binomial",
    seed: int = 0,
) -> EpsilonBound:
    """Lower bound on epsilon from the canaries of one training.

    Args:
        score: (m,) one score a canary, higher = more likely IN, a function of the trained model and
            of nothing that knows the coins.
        inserted: (m,) bool, the coins as they fell.
        delta: in [0, 1); for ``gdp`` above 0.
        guesses: how many; default a fifth of the canaries, half IN and half OUT.
        form: ``binomial``, ``tradeoff`` or ``gdp``.
        seed: breaks ties among scores; fixed beforehand.

    Returns: The bound, under add/remove; 0 and a note where the scores say nothing.
    Guarantee: With probability >= `confidence` over coins and training, the bound is at most the
        true epsilon at this delta; for ``gdp`` only if the mechanism is Gaussian DP.
    Assumes: Independent fair coins (not a balanced draw), one for each canary; number of guesses,
        form and seed fixed before the scores were seen. One run with m canaries tells less than
        many runs with one: canaries hide each other (Keinan, Shenfeld and Ligett 2025).

    Raises:
        InputError: scores are NaN, lengths differ, all coins are equal, or fell as fair coins
            hardly ever do; delta outside its range.
        NotMeasurable: too few guesses for any bound above 0.

    >>> coins = [True] * 20 + [False] * 20
    >>> one_run_bound(coins, coins, guesses=Guesses((1.0,))).low > 2
    True
    """
    scores, coins = _canaries(score, inserted)
    check_choice("form", form, FORMS)
    check_delta(delta)
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    if form == "gdp":
        check_between("delta", delta, 0, 1, open_low=True, open_high=True)
    plan = Guesses() if guesses is None else guesses
    m = len(scores)
    level = 1 - (1 - confidence) / len(plan.shares)
    best, right, wrong = -1.0, 0, 0
    for r in plan.counts(m):
        if one_run_epsilon(m, r, r, 0.0 if form == "gdp" else delta, level, form) == 0:
            raise NotMeasurable(
                f"{r} guesses about {m} canaries at delta={delta:g}: even if all were right no "
                "epsilon would be shown; use more canaries or a larger share of guesses."
            )
        v = right_guesses(scores, coins, r, seed)
        low = one_run_epsilon(m, r, v, delta, level, form)
        if low > best:
            best, right, wrong = low, v, r - v
    method = (
        f"one run, {form} form, {right} of {right + wrong} guesses right, {len(plan.shares)} number"
        f"{'s' * (len(plan.shares) > 1)} of guesses fixed beforehand, one-sided"
    )
    constant = bool((scores == scores[0]).all())
    if constant:
        best = 0.0  # the guesses were coins of ours
    note = CONSTANT if constant else "" if best > 0 else NOTHING
    if form == "gdp":
        mu = Estimate(None, best, None, confidence, method, m)
        return replace(gaussian(mu, delta, "add/remove"), note=note)
    odds = None if constant or not wrong else max(0.0, math.log(max(right, 1) / wrong))
    return EpsilonBound(Estimate(odds, best, None, confidence, method, m), delta, note=note)


def judged_claim(
    bound: EpsilonBound, epsilon: float, delta: float, doubt: str, gdp: bool = False
) -> tuple[str, str]:
    """Verdict on a claimed (epsilon, delta) and its sentence.

    Args:
        doubt: why a larger epsilon may have been overlooked; then a claim that is not contradicted
            is not "consistent" but ``not-enough-evidence``.
    """
    verdict = check_claim(bound, epsilon, delta, gdp=gdp)
    words = claim_sentence(bound, epsilon, delta, gdp=gdp)
    if verdict == "contradicts" or not doubt:
        return verdict, words
    return UNDECIDED, (
        f"There is not enough evidence about the claimed ({epsilon:g}, {delta:g})-DP: {doubt}."
    )


def score_plant(
    score: ArrayLike,
    inserted: ArrayLike,
    delta: float = 0.0,
    *,
    guesses: Guesses | None = None,
    confidence: float = 0.95,
    form: str = "binomial",
    kinds: ArrayLike | None = None,
    seed: int = 0,
) -> Plant:
    """The largest leak that scores of these values can carry, and the bound that they then give.

    The scores are handed out anew: of each kind, the inserted canaries get the highest. Where
    scores are tied or constant, little is seen. The other arguments are those of `one_run_bound`.
    """
    scores, coins = _canaries(score, inserted)
    kind = np.zeros(len(scores)) if kinds is None else np.asarray(kinds)
    lot, planted = np.random.default_rng([seed, 4]).random(len(scores)), scores.copy()
    for name in np.unique(kind):
        rows = np.flatnonzero(kind == name)
        planted[rows[np.lexsort((lot[rows], coins[rows]))]] = np.sort(scores[rows])

    def low(values: ArrayLike, lot: int) -> float:
        return one_run_bound(
            values, coins, delta, guesses=guesses, confidence=confidence, form=form, seed=lot
        ).low

    worst, largest = min(low(planted, seed + offset) for offset in range(_LOTS)), low(coins, seed)
    read = Estimate(worst, worst, worst, confidence, "plant", len(scores))
    words = "canaries with the highest scores"
    return Plant(words, {"epsilon-lower": largest}, {"epsilon-lower": read})


def met(score: ArrayLike, inserted: ArrayLike, seed: int = 0) -> bool:
    """Whether scores show beyond doubt (p = 0.001) that a training met the inserted canaries."""
    half = Guesses((0.5,))
    try:
        return one_run_bound(score, inserted, guesses=half, confidence=0.999, seed=seed).low > 0
    except NotMeasurable:
        return False


def _canaries(score: ArrayLike, inserted: ArrayLike) -> tuple[Float, NDArray[np.bool_]]:
    scores = check_scores("score", score)
    coins = check_coins(inserted)
    if coins.shape != scores.shape:
        raise InputError(f"{len(scores)} scores for {coins.size} canaries; give one for each.")
    return scores, coins


def check_coins(inserted: ArrayLike) -> NDArray[np.bool_]:
    """The coins as bool (m,), if independent fair coins may have fallen so.

    Raises InputError: not 0 or 1, all equal, or as lopsided as one in 10^9 fair draws.
    """
    coins = np.asarray(inserted)
    if coins.ndim != 1 or not np.isin(coins, (0, 1)).all():
        raise InputError(
            f"inserted has shape {coins.shape} and dtype {coins.dtype}, it must be one True or "
            "False a canary."
        )
    flags = coins.astype(bool)
    m, inside = len(flags), int(flags.sum())
    if inside in (0, m):
        which = "none" if inside == 0 else "all"
        raise InputError(
            f"{which} of the {m} canaries were inserted; fair coins must decide, so that some are "
            "in the training data and some are not."
        )
    fewer = min(inside, m - inside)
    if 2 * float(betainc(m - fewer, fewer + 1, 0.5)) < _UNFAIR:
        raise InputError(
            f"{inside} of {m} canaries were inserted, as fair coins hardly ever fall; insert each "
            "with probability one half."
        )
    return flags


def _check_counts(canaries: int, guesses: int, right: int) -> None:
    if not 0 <= right <= guesses <= canaries or guesses < 1:
        raise InputError(
            f"right={right} of guesses={guesses} about canaries={canaries} must satisfy "
            "0 <= right <= guesses <= canaries and guesses >= 1."
        )
