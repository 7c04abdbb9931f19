"""DP-SGD as a candidate of an audit: from a target (epsilon, delta) to a training.

With weights w_j in [0, 1] record j moves the sum by at most w_j C: noise multiplier sigma / w_j.
That is a proof for every record where the weights are fixed without the private data, and none
where they come from its audit. `public_weights` are learnt from held-out records: the more exposed
held-out ones of a difficulty are, the less a record counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.accounting import check_weights, noise_for
from lethe.evidence.dp_statement import TUNING, DpSgdRun, DpStatement, dp_statement
from lethe.evidence.epsilon import RELATIONS
from lethe.evidence.guarantee import Guarantee, check_clip, check_given_delta, empirical_only
from lethe.evidence.of_model import Epsilons
from lethe.mitigations.clipping.selfcheck import MOST_CHANGE
from lethe.mitigations.dp_sgd.method import DpSgd, expected_records, scaled_by_held_out
from lethe.mitigations.mitigation import Measured
from lethe.training.chunks import signal_maker
from lethe.training.design import check_models, membership, model_seed
from lethe.training.loop import default_layout, train_models
from lethe.training.recipe import OPTIMIZERS, TorchRecipe, Treatment, Work

Float = NDArray[np.float64]
TIMES_BATCH, LEAST_BATCH, OPTIMIZER, RATE = 2, 128, "adam", 0.01
_MOST_NOISE = 1e5


@dataclass(frozen=True)
class PrivateTraining(Measured):
    """DP-SGD with the noise that keeps a target; see `lethe.mitigations.mitigation.Mitigation`.

    Noise, rate and steps follow from the size of the data: with n records in the training of one
    model (half of the pool), the rate is q = min(1, batch_size / n), the steps ceil(epochs / q).

    Attributes:
        learning_rate: the highest of the recipe's schedule; None takes the recipe's.
    """

    epsilon: float  # target, > 0
    delta: float | None  # well below 1 / n, or nothing is claimed; it has no default
    epochs: int  # expected passes over the records, >= 1
    batch_size: int  # expected records of a batch, >= 1; all of them where there are fewer
    clip: float = 1.0  # C, largest norm of one record's gradient, > 0
    learning_rate: float | None = None
    optimizer: str | None = None  # ``sgd``, ``adam`` or ``adamw``; None takes the recipe's
    momentum: float | None = None  # of SGD; None takes the recipe's
    relation: str = "add/remove"  # ``add/remove`` or ``replace-one``
    tuning: str = "none"  # how these settings were chosen, see `DpSgdRun`

    def __post_init__(self) -> None:
        check_between("epsilon", self.epsilon, 0, math.inf, open_low=True, open_high=True)
        check_given_delta(self.delta)
        check_clip(self.clip)
        check_at_least("epochs", self.epochs, 1)
        check_at_least("batch_size", self.batch_size, 1)
        check_choice("relation", self.relation, RELATIONS)
        check_choice("tuning", self.tuning, TUNING)
        if self.optimizer is not None:
            check_choice("optimizer", self.optimizer, OPTIMIZERS)

    @property
    def name(self) -> str:
        """See `Mitigation`."""
        return f"dp-sgd-eps{self.epsilon:g}"

    @property
    def title(self) -> str:
        """See `Mitigation`."""
        return (
            "each record's gradient clipped and noise on their sum (DP-SGD), "
            f"epsilon {self.epsilon:g} at delta {self.delta:g}"
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Mitigation`."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    def method(self, records: int) -> DpSgd:
        """The training itself, for n records a model.

        Raises:
            InputError: a target that no noise reaches.
            MissingExtra: dp-accounting is not installed.
        """
        rate = min(1.0, self.batch_size / check_at_least("records", records, 1))
        steps = math.ceil(self.epochs / rate - 1e-9)
        return DpSgd(
            noise_multiplier=_noise(self.epsilon, self.delta, rate, steps, self.relation),
            clip=self.clip,
            sampling_rate=rate,
            steps=steps,
            learning_rate=self.learning_rate,
            optimizer=self.optimizer,
            momentum=self.momentum,
        )

    def treatment(
        self, weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
    ) -> Treatment:
        """See `Mitigation`; weights are not used."""
        everyone = np.ones(len(weights), bool) if pool is None else pool
        return Treatment(method=self.method(expected_records(everyone)))

    def guarantee(self, pool: NDArray[np.bool_] | None = None) -> Guarantee:
        """Return the statement of `dp_statement` on this training on half of the pool."""
        if pool is None:
            return unknown_size()
        return of_an_audit(dp_statement(self.run(expected_records(pool))).guarantee)

    def run(self, records: int) -> DpSgdRun:
        """Describe the training of one model on n records, for its proof."""
        method = self.method(records)
        return DpSgdRun(
            method.noise_multiplier,
            method.sampling_rate,
            method.steps,
            self.delta,
            records,
            MOST_CHANGE,
            relation=self.relation,
            tuning=self.tuning,
            noise_seed="given",
        )


def private_training(
    recipe: TorchRecipe,
    epsilon: float,
    delta: float | None = None,
    *,
    clip: float = 1.0,
    batch_size: int | None = None,
    epochs: int | None = None,
    learning_rate: float | None = None,
    optimizer: str | None = None,
) -> PrivateTraining:
    """DP-SGD for a recipe, with settings that suit small data where none are given.

    Batches are larger than the recipe's, because noise is added once a step (De et al. 2022). Twice
    the batch or 128, and Adam at 0.01, were best or close to it on two small tables, chosen on
    their test records (digits: accuracy 0.95 at epsilon 8 and 0.80 at epsilon 1, 0.97 without
    privacy; five made-up classes).

    Args:
        recipe: gives epochs, batch size and, at training, what is not given here.
        epsilon: target, > 0.
        delta: below 1 / n.
        batch_size: twice the recipe's and at least 128 by default.
        epochs: the recipe's by default.
        clip: as in `PrivateTraining`.
        optimizer, learning_rate: where neither is given, Adam at 0.01; else the recipe's for the
            one that lacks.

    Raises InputError: delta not given, or a value outside its range.

    >>> private_training(TorchRecipe(make_module=lambda: None), 8.0, 1e-5).batch_size
    128
    """
    if learning_rate is None and optimizer is None:
        optimizer, learning_rate = OPTIMIZER, RATE
    larger = max(TIMES_BATCH * recipe.batch_size, LEAST_BATCH)
    return PrivateTraining(
        epsilon=epsilon,
        delta=delta,
        epochs=recipe.epochs if epochs is None else epochs,
        batch_size=larger if batch_size is None else batch_size,
        clip=clip,
        learning_rate=learning_rate,
        optimizer=optimizer,
    )


def of_an_audit(guarantee: Guarantee) -> Guarantee:
    """Add the assumption about the records that an audit holds out, if the guarantee is a proof."""
    if not guarantee.proven:
        return guarantee
    assumption = "the held-out records are public: they decide how records become numbers"
    return replace(guarantee, assumptions=(*guarantee.assumptions, assumption))


def unknown_size() -> Guarantee:
    """The label where nothing is known of the data."""
    return empirical_only(
        "the number of training records was not told, from which noise and steps follow",
        voided_by=("any use as a proof",),
    )


@lru_cache(maxsize=1024)
def _noise(epsilon: float, delta: float | None, rate: float, steps: int, relation: str) -> float:
    """The noise for a target; the search takes up to a second, and an audit asks again and again.

    The clipping bound may be passed by `MOST_CHANGE` through rounding, which is charged here.
    """
    return noise_for(
        epsilon,
        delta,
        sampling_rate=rate,
        steps=steps,
        sensitivity=MOST_CHANGE,
        relation=relation,
        most=_MOST_NOISE,
    )


@dataclass(frozen=True, eq=False)
class IndividualPrivacy:
    """DP-SGD with a weight for each record; see `lethe.mitigations.mitigation.Mitigation`.

    Attributes:
        weights: (N,) in [0, 1], functions of each record alone that were fixed without the private
            data; rounded up to multiples of 1/32, so that each has an epsilon of its own. None
            takes the targeted weights of the audit, which proves nothing.
    """

    training: PrivateTraining  # the noise: its epsilon is that of a record of weight 1
    weights: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        if self.weights is not None:
            levels = np.ceil(check_weights(self.weights) * LEVELS) / LEVELS
            object.__setattr__(self, "weights", levels.astype(np.float32))

    def at_a_bound(self) -> str | None:
        """Why it is no candidate: public weights that are all 1, or all at the floor; else None."""
        if self.weights is None:
            return None
        if (self.weights <= 1 / LEVELS).all():
            return (
                f"all public weights are at most 1/{LEVELS}, so that it delivers far less than "
                f"epsilon {self.training.epsilon:g} to every record and trains on next to nothing; "
                "lower --alpha, or hold out more records"
            )
        if (self.weights >= 1).all():
            return "all public weights are 1, so that it is dp-sgd itself; raise --alpha"
        return None

    @property
    def name(self) -> str:
        kind = "weighted" if self.weights is None else "individual"
        return f"{kind}-dp-eps{self.training.epsilon:g}"

    @property
    def title(self) -> str:
        whose = "targeted weights of private data" if self.weights is None else "public weights"
        return f"clipped gradients times {whose}, noise for epsilon {self.training.epsilon:g}"

    @property
    def settings(self) -> Mapping[str, Any]:
        rule = "targeted" if self.weights is None else "public"
        return {**self.training.settings, "weights": rule}

    @property
    def needs_weights(self) -> bool:
        """See `Mitigation`."""
        return self.weights is None

    def treatment(
        self, weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
    ) -> Treatment:
        plain = self.training.treatment(weights, pool)
        return Treatment(
            weights=weights if self.weights is None else self.weights, method=plain.method
        )

    def guarantee(self, pool: NDArray[np.bool_] | None = None) -> Guarantee:
        """``individual-dp`` with public weights, ``empirical-only`` with those of the audit."""
        return unknown_size() if pool is None else of_an_audit(self.statement(pool).guarantee)

    def statement(self, pool: NDArray[np.bool_]) -> DpStatement:
        """The guarantee, with the epsilon of each record of the pool where there is one.

        Raises InputError: weights of another length than the pool.
        """
        records = int(pool.sum())
        equal = np.ones(records)
        if self.weights is not None:
            if self.weights.shape != pool.shape:
                raise InputError(
                    f"{len(self.weights)} weights do not fit {len(pool)} records: "
                    "give one for each."
                )
            equal = self.weights[pool].astype(np.float64)
        source = "private" if self.weights is None else "public"
        run = self.training.run(expected_records(pool))
        return dp_statement(replace(run, records=records, weights=equal, weights_from=source))

    def details(self, pool: NDArray[np.bool_]) -> Mapping[str, Any]:
        """Return the distribution of epsilon over the records of the pool, where each has one."""
        epsilons = self.statement(pool).epsilons
        return {} if epsilons is None else {"epsilons": epsilon_histogram(epsilons)}


def epsilon_histogram(epsilons: NDArray[np.float64], bins: int = 20) -> Epsilons:
    """Count the records by epsilon.

    Args:
        epsilons: (n,) >= 0, n >= 1.
        bins: >= 1, of equal width from 0 to the largest.

    Returns: its ``edges`` are bins + 1, its ``counts`` bins.

    >>> epsilon_histogram(np.array([0.0, 1.0, 4.0, 4.0]), bins=2).counts
    [2, 2]
    """
    check_at_least("bins", bins, 1)
    check_at_least("n", len(epsilons), 1)
    least, most = float(np.min(epsilons)), float(np.max(epsilons))
    check_between("epsilons", least, 0, np.inf)
    counts, edges = np.histogram(epsilons, bins, (0.0, most or 1.0))
    median = float(np.median(epsilons))
    return Epsilons(edges.tolist(), counts.tolist(), median, least, most, len(epsilons))


# Weights for individual privacy that no private record decides but its own.

LEAST_HELD_OUT = 20
LEVELS = 32
"""Public weights are rounded up to multiples of 1/32, so that each has an epsilon of its own."""


def public_weights(
    features: NDArray[np.floating],
    labels: NDArray[np.int64] | NDArray[np.float64],
    pool: NDArray[np.bool_],
    recipe: TorchRecipe,
    *,
    seed: int = 0,
    models: int = 16,
    alpha: float = 2.0,
    beta: float = 2.0,
) -> NDArray[np.float32]:
    """A weight for every record that depends on that record and on held-out ones alone.

    Models are trained on halves of the held-out records. The difficulty of a record is minus its
    mean signal under models not trained on it; t-scores of held-out records, averaged over
    neighbours in difficulty, predict the exposure of every record; weights are
    `exponential_weights`, scaled by `scaled_weights`.

    Args:
        features: (N, ...) inputs; columns that all records have scaled are scaled anew by the
            held-out ones, see `scaled_by_held_out`.
        labels: (N,) class codes, or targets of a regression.
        pool: (N,) True where a record can be a member; the others are held out, at least 20.
        recipe: how the models are trained, without privacy.
        seed: of everything random.
        models: trained on held-out records, even, at least 4.
        alpha, beta: of the weights, see `exponential_weights`.

    Returns: (N,) weights in [0, 1], lower = more exposed.
    Guarantee: A record that joins or leaves the pool changes no weight but its own, beyond the last
        digits of inputs that it had a part in scaling.
    Assumes: The held-out records are public, or belong to nobody who is to be protected. Models of
        few records differ from those of many, so that the weights are a guess at who is exposed:
        the proof does not rest on it, the benefit does.
    Raises InputError: fewer than 20 held-out records, or a setting outside its range.
    """
    held = np.flatnonzero(~pool)
    if len(held) < LEAST_HELD_OUT:
        raise InputError(
            f"{len(held)} held-out records are too few to learn weights from: hold out at least "
            f"{LEAST_HELD_OUT}, or take the weights from other public data."
        )
    members = np.zeros((check_models(models), len(labels)), bool)
    members[:, held] = membership(len(members), len(held), seed)
    seeds = [model_seed(seed, index) for index in range(len(members))]
    # For these models the held-out records are the pool; no other record has any part in them.
    inputs = scaled_by_held_out(features, pool)
    terms = inputs, labels, members, ~pool, Treatment(), seeds, default_layout(recipe)
    convert = signal_maker(labels, ~pool)
    signals = np.stack(
        [convert(outputs, "logits") for outputs in train_models(Work(recipe, *terms))]
    )
    difficulty = -np.where(members, np.nan, signals.astype(np.float64))
    exposure = predicted(
        np.nanmean(difficulty[:, held], axis=0),
        t_scores(signals[:, held].astype(np.float64), members[:, held]),
        np.nanmean(difficulty, axis=0),
    )
    return scaled_weights(exposure, ~pool, alpha, beta)


def scaled_weights(
    exposure: Float, held: NDArray[np.bool_], alpha: float, beta: float
) -> NDArray[np.float32]:
    """`exponential_weights` on a scale that the held-out records set.

    Where even the least exposed tenth of the held-out records would have a weight below 1, all are
    raised until it has weight 1. Where the most exposed tenth would fall below 1/32, the smallest
    weight with an epsilon of its own, exponents are compressed until it does not.

    Args:
        exposure: (N,) predicted t of all records.
        held: (N,) True for the held-out records, which alone set the scale.
        alpha, beta: of the weights.

    Returns: (N,) weights in [0, 1].

    >>> scaled_weights(np.array([5.0, 6.0, 7.0]), np.array([1, 1, 1], bool), 2, 2).round(2).tolist()
    [1.0, 0.20000000298023224, 0.029999999329447746]
    """
    exponent = beta - alpha * np.asarray(exposure, np.float64)
    most, least = np.quantile(exponent[held], [0.9, 0.1])
    shift = min(float(most), 0.0)
    exponent, least = exponent - shift, float(least) - shift
    smallest = -float(np.log(LEVELS))
    if least < smallest:
        exponent *= smallest / least
    return np.exp(np.minimum(exponent, 0.0)).astype(np.float32)


def t_scores(signals: Float, members: NDArray[np.bool_]) -> Float:
    """(mean IN - mean OUT) / sqrt(variance IN + variance OUT) of each record.

    Args:
        signals: (K, n) higher = better known.
        members: (K, n) True where the record is IN, at least two models on each side.

    Returns: (n,) t, higher = more exposed; 0 where signals do not vary.

    >>> t_scores(np.array([[3.0], [1.0], [0.0], [0.0]]), np.array([[1], [1], [0], [0]], bool))
    array([1.41421356])
    """
    inside, outside = np.where(members, signals, np.nan), np.where(members, np.nan, signals)
    spread = np.sqrt(np.nanvar(inside, axis=0, ddof=1) + np.nanvar(outside, axis=0, ddof=1))
    gap = np.nanmean(inside, axis=0) - np.nanmean(outside, axis=0)
    scores: Float = np.divide(gap, spread, out=np.zeros_like(gap), where=spread > 0)
    return scores


def predicted(known: Float, values: Float, asked: Float, neighbours: int | None = None) -> Float:
    """The mean value of the nearest known points on a line (nearest neighbours).

    Args:
        known: (n,) positions.
        values: (n,) at these.
        asked: (m,) positions.
        neighbours: how many are averaged, >= 1; a tenth of n, but at least 5, by default.

    Returns: (m,) predictions, each from its position and the known points alone.

    >>> predicted(np.array([0.0, 1.0, 9.0]), np.array([2.0, 4.0, 8.0]), np.array([0.4, 8.0]), 2)
    array([3., 6.])
    """
    count = max(5, len(known) // 10) if neighbours is None else neighbours
    count = min(int(check_at_least("neighbours", count, 1)), len(known))
    order = np.argsort(known, kind="stable")
    places, sums = known[order], np.concatenate([[0.0], np.cumsum(values[order])])
    # The nearest of sorted points are a window; it moves on while its next point is nearer.
    first = np.arange(len(known) - count)
    turning = (places[first] + places[first + count]) / 2
    start = np.searchsorted(turning, asked)
    means: Float = (sums[start + count] - sums[start]) / count
    return means
