"""Epsilon of DP-SGD: what noise, sampling and steps prove together, and the way back.

DP-SGD releases, at each step, the sum of clipped gradients of a batch plus Gaussian noise (Abadi
et al. 2016). With Poisson sampling the steps are composed by privacy loss distributions, rounded
against us (Koskela, Jalko and Honkela 2020; Doroshenko et al. 2022), in dp-accounting. Without it
the exact curve of the Gaussian mechanism is used and sampling earns nothing.

Two words decide every number here. `sensitivity` is the largest norm of what one record puts into
the sum, in units of the clipping bound: 1 after clipping, under either relation. `relation` says
whether a neighbour lacks that record (``add/remove``) or holds another in its place
(``replace-one``), which moves the sum twice as far; the doubling is done here, never by the caller.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import InputError, check_at_least, check_between, check_choice, require
from lethe.evidence.epsilon import RELATIONS
from lethe.evidence.gdp import gdp_epsilon, gdp_mu
from lethe.evidence.guarantee import check_given_delta

SAMPLINGS = ("poisson", "shuffled", "fixed-size")
GRID = 1e-4  # width of the cells of a privacy loss distribution

_ROUNDING = 2.0**-52  # per step, on delta: ten times what Fourier transforms were seen to lose
_TOO_MUCH = 5e5  # of mu: an epsilon of 1e11
_ABOVE = 1 + 1e-12  # the exact curve is inverted from below


def dp_sgd_epsilon(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float | None = None,
    sensitivity: float,
    relation: str = "add/remove",
    sampling: str = "poisson",
    grid: float = GRID,
    slack: float = 1e-4,
) -> float:
    """An upper bound on epsilon of DP-SGD at this delta.

    Args:
        noise_multiplier: sd of the noise on the *sum*, divided by the clipping bound, > 0.
        sampling_rate: in (0, 1]: probability of a record to be in a batch; batch / records for
            batches of one size.
        steps: noisy steps, of all trainings that are charged, >= 1.
        delta: in (0, 1), well below 1 / records; there is no default.
        sensitivity: largest norm of one record's part of the sum / clipping bound, > 0.
        relation: ``add/remove`` or ``replace-one``.
        sampling: ``poisson`` (each record by its own coin), ``shuffled`` (each epoch a new order,
            cut into batches) or ``fixed-size`` (each batch drawn anew, without replacement).
        grid: smallest cell width; less is slower, and tighter where epsilon is below about 0.05.
        slack: share of epsilon, in [0, 0.1], that may be given away for speed by wider cells.

    Returns:
        Epsilon >= 0; lower is better for the records.

    Guarantee:
        The steps together are (epsilon, delta)-DP under `relation`. Shuffled and fixed-size batches
        get the bound without amplification by sampling, see `unamplified_mu`.

    Assumes:
        A sum with no other path from a record to the output, divided by a number that does not
        depend on the batch drawn; noise as of real numbers. The rounding of the Fourier transforms
        is met by a margin of steps * 2^-52 on delta, which is measured, not proven.

    Raises:
        InputError: an argument outside its range, or a delta within that rounding.

    >>> round(dp_sgd_epsilon(noise_multiplier=1.0, sampling_rate=0.01, steps=1000,
    ...                      delta=1e-5, sensitivity=1.0), 3)
    1.828
    """
    delta = check_given_delta(delta)
    check_between("sampling_rate", sampling_rate, 0, 1, open_low=True)
    check_choice("sampling", sampling, SAMPLINGS)
    check_at_least("steps", steps, 1)
    if steps != int(steps):
        raise InputError(f"steps={steps!r} must be a whole number.")
    check_choice("relation", relation, RELATIONS)
    for name, value in (("noise_multiplier", noise_multiplier), ("sensitivity", sensitivity)):
        check_between(name, value, 0, math.inf, open_low=True, open_high=True)
    check_between("grid", grid, 1e-7, 1e-2)
    check_between("slack", slack, 0, 0.1)
    sigma = noise_multiplier / sensitivity
    mu = unamplified_mu(
        noise_multiplier=sigma,
        sampling_rate=sampling_rate,
        steps=steps,
        relation=relation,
        sampling=sampling,
    )
    if mu > _TOO_MUCH:
        raise InputError(
            f"noise_multiplier={noise_multiplier:g} is too little to prove anything over {steps} "
            "steps: take more noise or fewer steps."
        )
    free = gdp_epsilon(mu, delta) * _ABOVE
    if sampling != "poisson" or sampling_rate == 1 or free == 0:
        return free
    margin = steps * _ROUNDING
    if margin > delta / 20:
        raise InputError(
            f"delta={delta:g} is lost in rounding after {steps} steps: "
            f"take delta >= {20 * margin:.1g}, or fewer steps."
        )
    rough = _pld_epsilon(sigma, sampling_rate, steps, delta - margin, relation, _widest(mu, sigma))
    if rough == 0:
        return 0.0
    cell = max(grid, 1e-6 * _widest_step(sigma), _cell(min(rough, free), delta, steps, slack))
    return min(free, _pld_epsilon(sigma, sampling_rate, steps, delta - margin, relation, cell))


def unamplified_mu(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    relation: str = "add/remove",
    sampling: str = "poisson",
) -> float:
    """The mu of Gaussian DP of these steps when the choice of batches is taken to be known.

    Poisson: a record takes part in each of T steps at most: mu^2 = T/sigma^2 under add/remove and
    4T/sigma^2 under replace-one. Shuffled: once in each of E epochs: 4E/sigma^2 under replace-one;
    under add/remove the last record of the order fills the gap, which maps random orders onto
    random orders: (4 + 1)E/sigma^2. Fixed-size: the gap is filled by a random record from outside
    the batch: 4T/sigma^2 under both.

    Assumes: Shuffled: every batch of an epoch is used and the number of steps does not depend on
        the number of records.
    Returns: mu > 0 for a sensitivity of 1; the steps are mu-GDP.

    >>> unamplified_mu(noise_multiplier=5.0, sampling_rate=1.0, steps=25)
    1.0
    """
    turns = epochs_of(steps, sampling_rate) if sampling == "shuffled" else steps
    if sampling_rate == 1:  # every batch is the whole: no gap is filled
        sampling = "poisson"
    squares = 1 if sampling == "poisson" else 5 if sampling == "shuffled" else 4
    if relation == "replace-one":
        squares = 4
    return math.sqrt(squares * turns) / noise_multiplier


def epochs_of(steps: int, sampling_rate: float) -> int:
    """Return the most shuffled epochs that these steps fall in, the last one counted as whole.

    >>> epochs_of(101, 0.1)
    11
    """
    return math.ceil(steps / steps_per_epoch(sampling_rate))


def steps_per_epoch(sampling_rate: float) -> int:
    """Full batches in one shuffled epoch."""
    return math.floor(1 / sampling_rate + 1e-9)


def _widest(mu: float, sigma: float) -> float:
    """A cell for a first look: ten thousand of them span what one step can lose."""
    return max(1e-2, 1e-4 * _widest_step(sigma), 1e-6 * (0.5 * mu**2 + 10 * mu))


def _widest_step(sigma: float) -> float:
    return 0.5 / sigma**2 + 10 / sigma


def _cell(epsilon: float, delta: float, steps: int, slack: float) -> float:
    """The widest cell that costs about this share of epsilon.

    Cells of width h add up to h^2/4 to the variance of the loss of a step, so that epsilon of a
    mu-GDP curve grows by steps * h^2 * (1/2 + z/mu)/4 or so, with z below 5 at usual deltas.
    """
    mu = gdp_mu(epsilon, delta) if epsilon > 0 else 0.0
    return math.sqrt(slack * epsilon / (steps * (1 + 1 / mu))) if mu > 0 else 0.0


@functools.lru_cache(maxsize=1024)  # candidates of one audit often have the same noise
def _pld_epsilon(
    sigma: float, rate: float, steps: int, delta: float, relation: str, cell: float
) -> float:
    accounting = require("dp_accounting", "dp")
    # REPLACE_ONE compares sums moved to opposite sides, so `sensitivity` stays that of one record.
    neighbours = "REPLACE_ONE" if relation == "replace-one" else "ADD_OR_REMOVE_ONE"
    losses = accounting.pld.privacy_loss_distribution.from_gaussian_mechanism(
        standard_deviation=sigma,
        sensitivity=1.0,
        pessimistic_estimate=True,
        value_discretization_interval=cell,
        sampling_prob=rate,
        neighboring_relation=accounting.NeighboringRelation[neighbours],
    )
    return float(losses.self_compose(int(steps)).get_epsilon_for_delta(delta))


# The noise that meets a target epsilon, and the steps that fit into one.
#
# Both search on `dp_sgd_epsilon` and return a setting at which it was seen to be within the target.

LEAST_NOISE = 0.01
_CLOSE = 1e-3  # the search ends this share below the target
_ROUNDS = 100


def noise_for(
    epsilon: float,
    delta: float | None = None,
    *,
    sampling_rate: float,
    steps: int,
    sensitivity: float,
    relation: str = "add/remove",
    most: float = 1000.0,
) -> float:
    """The smallest noise multiplier that keeps these steps within (epsilon, delta).

    Args:
        epsilon: target, > 0.
        delta: in (0, 1), well below 1 / records.
        sampling_rate, steps, sensitivity, relation: as in `dp_sgd_epsilon`.
        most: the largest noise that is tried, > 0.01.

    Returns:
        A noise multiplier in [0.01, `most`] with epsilon at most 0.1 % below the target; 0.01 where
        even that much less noise would do.

    Guarantee:
        `dp_sgd_epsilon` at the noise returned is at most `epsilon`.

    Raises:
        InputError: a target that `most` does not reach, or an argument outside its range.

    >>> round(noise_for(3.0, 1e-5, sampling_rate=0.01, steps=10, sensitivity=1.0), 2)
    0.57
    """
    check_between("epsilon", epsilon, 0, math.inf, open_low=True, open_high=True)
    check_between("most", most, LEAST_NOISE, math.inf, open_low=True, open_high=True)

    epsilon_at = functools.partial(
        dp_sgd_epsilon,
        sampling_rate=sampling_rate,
        steps=steps,
        delta=delta,
        sensitivity=sensitivity,
        relation=relation,
    )
    return _least_noise(lambda noise: epsilon_at(noise_multiplier=noise), epsilon, most)


def _least_noise(epsilon_at: Callable[[float], float], epsilon: float, most: float) -> float:
    """False position (Illinois rule) on ln epsilon against ln noise, which is nearly a line."""

    def height(noise: float) -> float:
        return math.log(max(epsilon_at(noise), 1e-300) / epsilon)

    enough = min(1.0, most)
    above = height(enough)
    while above > 0:
        if enough == most:
            raise InputError(
                f"epsilon={epsilon:g} is not reached with noise_multiplier <= {most:g}, which "
                f"gives {epsilon * math.exp(above):.4g}: take a larger epsilon or delta, "
                "fewer steps (epochs), smaller batches or a larger `most`."
            )
        little, below, enough = enough, above, min(2 * enough, most)
        above = height(enough)
    if enough == min(1.0, most):
        while above <= 0:
            little, below = enough, above
            if enough == LEAST_NOISE:
                return LEAST_NOISE
            enough = max(enough / 2, LEAST_NOISE)
            above = height(enough)
        little, below, enough, above = enough, above, little, below
    return _between(height, little, below, enough, above)


def _between(
    height: Callable[[float], float], little: float, below: float, enough: float, above: float
) -> float:
    """Narrow a bracket: `little` breaks the target (`below` > 0), `enough` keeps it."""
    close = math.log1p(-_CLOSE)
    aim = close / 2  # the middle of what is close enough: rounding ends on the safe side
    left, right, side = below - aim, above - aim, 0
    for _ in range(_ROUNDS):
        if above >= close or enough <= little * (1 + 1e-9):
            break
        share = min(max(left / (left - right), 0.01), 0.99)
        tried = little * (enough / little) ** share
        seen = height(tried)
        if seen > 0:
            little, left = tried, seen - aim
            right = right / 2 if side < 0 else right
            side = -1
        else:
            enough, above, right = tried, seen, seen - aim
            left = left / 2 if side > 0 else left
            side = 1
    return enough


# An epsilon for every record, where records enter the sum with weights of their own.
#
# A record whose clipped gradient is multiplied by w in [0, 1] moves the sum by w times the clipping
# bound, so for it the noise multiplier is sigma / w (Feldman and Zrnic 2021, with weights fixed in
# advance in place of a filter).

Float = NDArray[np.float64]

_SLACK = 2e-3  # of epsilon, given away for speed
_FINE = 0.01  # neighbouring nodes need not be closer than this share of epsilon


def individual_epsilons(
    weights: ArrayLike,
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float | None = None,
    sensitivity: float,
    relation: str = "add/remove",
    sampling: str = "poisson",
    nodes: int = 128,
) -> Float:
    """An upper bound on epsilon for each record, at one delta for all.

    Epsilon is computed at up to `nodes` of the weights, the largest among them; they are put where
    epsilon changes most. Any other record gets the value of the next larger of these weights.

    Args:
        weights: (n,) in [0, 1]; 0 leaves the record out of every step.
        noise_multiplier, sampling_rate, steps, delta, sensitivity, relation, sampling: as in
            `dp_sgd_epsilon`, for a record of weight 1.
        nodes: >= 2; with fewer different weights each has its own value.

    Returns: (n,) epsilons, >= 0 and not decreasing in the weight; 0 where the weight is 0.
    Guarantee: The output with record j and without it (or with another in its place, of its weight)
        is (epsilon_j, delta)-indistinguishable.
    Assumes: The weights were fixed without the private data, so that they stay as they are when a
        record goes or comes; and what `dp_sgd_epsilon` assumes.
    Raises InputError: weights outside [0, 1], NaN or none; shuffled or fixed-size batches under
        add/remove, where the gap of one record is filled by another of another weight.

    >>> individual_epsilons([0.0, 0.5, 1.0], noise_multiplier=5.0, sampling_rate=1.0, steps=1,
    ...                     delta=1e-5, sensitivity=1.0).round(3)
    array([0.   , 0.341, 0.726])
    """
    factors = check_weights(weights)
    check_at_least("nodes", nodes, 2)
    if sampling != "poisson" and relation == "add/remove":
        raise InputError(
            f"sampling={sampling!r} has no epsilon of one record under add/remove: "
            "sample by Poisson, or take relation='replace-one'."
        )

    def epsilon_at(weight: float) -> float:
        return dp_sgd_epsilon(
            noise_multiplier=noise_multiplier / weight,
            sampling_rate=sampling_rate,
            steps=steps,
            delta=delta,
            sensitivity=sensitivity,
            relation=relation,
            sampling=sampling,
            slack=_SLACK,
        )

    epsilon_at(1.0)  # says what is wrong with the settings even where all weights are 0
    levels = np.unique(factors[factors > 0])
    if not levels.size:
        return np.zeros(factors.shape)
    points, values = _nodes(levels, epsilon_at, nodes)
    upper = np.searchsorted(points, factors)  # the first node that is not below the weight
    epsilons: Float = np.where(factors > 0, values[upper], 0.0)
    return epsilons


def check_weights(weights: ArrayLike) -> Float:
    """Return the weights as numbers if they are one row of values in [0, 1].

    Raises InputError: another shape, no weights, or one outside [0, 1].
    """
    array = np.asarray(weights, dtype=float)
    if array.ndim != 1 or not array.size:
        raise InputError(f"weights of shape {array.shape} must be one row of one or more numbers.")
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        first = int(np.argmax(bad))
        raise InputError(
            f"weights[{first}]={array[first]:g} must be in [0, 1] for a proven epsilon"
            + (f", as must {others} more" if (others := int(bad.sum()) - 1) else "")
            + ": divide all by the largest, or clip them."
        )
    return array


def _nodes(levels: Float, epsilon_at: Callable[[float], float], count: int) -> tuple[Float, Float]:
    """Some of the increasing levels, the last among them, and epsilon there."""
    last = len(levels) - 1
    known = {0: epsilon_at(float(levels[0])), last: epsilon_at(float(levels[last]))}
    floor = _FINE * known[last]
    # Gaps between nodes, the widest first: what is lost there, in shares of epsilon.
    gaps: list[tuple[float, int, int]] = []

    def push(left: int, right: int) -> None:
        if right - left > 1:
            loss = (known[right] - known[left]) / (known[left] + floor) if floor > 0 else 0.0
            heapq.heappush(gaps, (-loss, left, right))

    push(0, last)
    while gaps and len(known) < count:
        if len(levels) > count and -gaps[0][0] <= _FINE:
            break
        _, left, right = heapq.heappop(gaps)
        aim = (levels[left] + levels[right]) / 2
        middle = int(np.clip(np.searchsorted(levels, aim), left + 1, right - 1))
        known[middle] = epsilon_at(float(levels[middle]))
        push(left, middle)
        push(middle, right)
    order = np.array(sorted(known))
    # Cells of unequal width may put a value a hair above its right neighbour.
    values = np.maximum.accumulate([known[int(index)] for index in order])
    return levels[order], values
