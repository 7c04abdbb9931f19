"""The quantile-regression attack: one model, no shadow models.

Bertran et al., NeurIPS 2023 ("Scalable membership inference attacks via quantile regression",
section 3), the Gaussian variant: a regression of phi on known non-members gives the mean and the
standard deviation that phi would have if the record were none.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_choice, require
from lethe.membership.attacks.attack import Attack, Trial, check_table, check_varies
from lethe.training.environment import one_thread
from lethe.training.users_code import build_module

LEARNERS = ("boosting", "net")

FEWEST = 50
"""Non-members below which no distribution is fitted."""

WIDEST = 256
"""Columns up to which the features are taken as they are."""

COMPONENTS = 64
"""Principal components that stand for wider features, such as pixels."""

MOST_TARGETS = 8

Float = NDArray[np.float64]
Heads = Callable[[NDArray[np.floating]], tuple[Float, Float]]


@dataclass(frozen=True)
class QuantileModel:
    """The distribution of a non-member's signal, given the record."""

    heads: Heads  # (n, D) inputs to (n,) means and (n,) standard deviations > 0

    def score(self, features: NDArray[np.floating], phi: NDArray[np.floating]) -> Float:
        """Standard deviations that phi lies above what a non-member would have.

        Args:
            phi: (n,) their signals under the attacked model.

        Returns: (n,) higher = member, comparable over records and models.
        """
        check_table("phi", phi, ("records",))
        mean, deviation = self.heads(_flat("features", features, len(phi)))
        return np.asarray((np.asarray(phi, np.float64) - mean) / deviation)


def fit_quantile(
    features_out: NDArray[np.floating],
    phi_out: NDArray[np.floating],
    learner: str = "boosting",
    seed: int = 0,
) -> QuantileModel:
    """Fit the signal's distribution on records that the model did not train on.

    ``boosting`` is two histogram gradient boostings of scikit-learn: of the mean, and of the
    squared residuals of five cross-fitted means. ``net`` is a perceptron with both heads, by
    likelihood and with early stopping. Inputs of more than 256 columns are replaced by their
    first 64 principal components among `features_out`.

    Assumes: the records of `features_out` are no members and like those to be scored.

    Args:
        features_out: (H, ...) of non-members, finite; labels belong in, see `with_labels`.
        phi_out: (H,) their signals, H >= 50; those farther from the median than twice the
            range of the middle 90 % are moved there.
        learner: ``boosting`` or ``net`` (needs torch).
        seed: of the folds, the components and the net.

    Raises InputError: shapes differ, a number is not finite, fewer than 50 records, or all signals
        are the same.
    """
    check_choice("learner", learner, LEARNERS)
    check_table("phi_out", phi_out, ("records",))
    check_varies("phi_out", phi_out)
    if len(phi_out) < FEWEST:
        raise InputError(
            f"phi_out holds {len(phi_out)} non-members; a quantile regression needs at least "
            f"{FEWEST}: hold out more records."
        )
    inputs = _flat("features_out", features_out, len(phi_out))
    narrow = _narrower(inputs, seed)
    signal = _without_extremes(np.asarray(phi_out, np.float64))
    centre, spread = float(signal.mean()), float(signal.std())
    fit = _boosted_heads if learner == "boosting" else fit_normal_net
    heads = fit(narrow(inputs), (signal - centre) / spread, seed)

    def rescaled(features: NDArray[np.floating]) -> tuple[Float, Float]:
        _check_columns(features, inputs.shape[1])
        mean, deviation = heads(narrow(features))
        return centre + spread * mean, spread * deviation

    return QuantileModel(rescaled)


def quantile_scores(
    signals: NDArray[np.floating],
    population: NDArray[np.floating],
    features: NDArray[np.floating],
    population_features: NDArray[np.floating],
    labels: NDArray[Any] | None = None,
    population_labels: NDArray[Any] | None = None,
    targets: Sequence[int] | None = None,
    learner: str = "boosting",
    seed: int = 0,
    population_members: NDArray[np.bool_] | None = None,
) -> Float:
    """Attack some models, each by itself, with what it says about records that no model saw.

    Args:
        population: (K, H) phi of records that are members of no model.
        population_features: (H, ...) of the others.
        population_labels: (H,) the same of the others; both or neither.
        targets: models to attack; None for up to 8, evenly spaced.
        seed: see `fit_quantile`; the target's number is added to it.
        population_members: (K, H) membership where known, to be refused if any is True.

    Returns: (K, N) higher = member; NaN in the rows of models that are not attacked.
    Raises InputError: shapes differ, a number is not finite, a population point is a member, a
        target is no model or stands twice, or what `fit_quantile` refuses.
    """
    check_table("signals", signals, ("models", "records"))
    check_table("population", population, ("models", "population points"))
    models, records = signals.shape
    others = population.shape[1]
    if len(population) != models:
        raise InputError(f"population has {len(population)} models and signals {models}.")
    if population_members is not None:
        _refuse_members(population_members, population.shape)
    chosen = evenly_spaced(models) if targets is None else [int(target) for target in targets]
    if len(set(chosen)) < max(len(chosen), 1) or not set(chosen) <= set(range(models)):
        raise InputError(f"targets={chosen} must be distinct models from 0 to {models - 1}.")
    inside = _flat("features", features, records)
    outside = _flat("population_features", population_features, others)
    _check_columns(inside, outside.shape[1])
    narrow = _narrower(outside, seed)  # before labels join: they must not drown among pixels
    inside, outside = narrow(inside), narrow(outside)
    if (labels is None) != (population_labels is None):
        raise InputError("labels and population_labels must both be given, or neither.")
    if labels is not None and population_labels is not None:
        inside, outside = with_labels(inside, labels, outside, population_labels)
    score = np.full(signals.shape, np.nan)
    with one_thread():
        for target in chosen:
            model = fit_quantile(outside, population[target], learner, seed + target)
            score[target] = model.score(inside, signals[target])
    return score


def evenly_spaced(models: int, most: int = MOST_TARGETS) -> list[int]:
    """Up to `most` of the models, from the first to the last.

    >>> evenly_spaced(64)
    [0, 9, 18, 27, 36, 45, 54, 63]
    """
    return [int(at) for at in np.linspace(0, models - 1, min(models, most)).round()]


def with_labels(
    features: Float,
    labels: NDArray[Any],
    population_features: Float,
    population_labels: NDArray[Any],
) -> tuple[Float, Float]:
    """Labels as further columns: one for each class, or the number itself in regression.

    Args:
        population_features: (H, D).
        population_labels: (H,) as `labels`.
    """
    sides = [(features, labels), (population_features, population_labels)]
    for rows, values in sides:
        if values.shape != (len(rows),):
            raise InputError(f"labels have shape {values.shape}; it must be ({len(rows)},).")
    both = np.concatenate([labels, population_labels])
    if both.dtype.kind == "f":
        check_table("labels", both, ("records",))
        columns = both[:, None].astype(np.float64)
    else:
        columns = np.asarray(both[:, None] == np.unique(both), np.float64)
    parts = np.split(columns, [len(labels)])
    first, second = (np.hstack([rows, part]) for (rows, _), part in zip(sides, parts, strict=True))
    return first, second


def _boosted_heads(inputs: Float, signal: Float, seed: int) -> Heads:
    from sklearn.ensemble import HistGradientBoostingRegressor

    def boosting(loss: str, rounds: int, leaves: int) -> Any:
        return HistGradientBoostingRegressor(
            loss=loss,
            learning_rate=0.05,
            max_iter=rounds,
            max_leaf_nodes=leaves,
            min_samples_leaf=min(20, len(signal) // 10),
            early_stopping=False,
            random_state=seed,
        )

    # Residuals of the rows a mean was fitted on would make the deviations too small.
    part = np.random.default_rng([seed, 47]).permutation(len(signal)) % 5
    square = np.empty_like(signal)
    for own in range(5):
        mean = boosting("squared_error", 120, 16).fit(inputs[part != own], signal[part != own])
        square[part == own] = (signal[part == own] - mean.predict(inputs[part == own])) ** 2
    centre = boosting("squared_error", 120, 16).fit(inputs, signal)
    # Gamma deviance with a log link is the likelihood of a normal variance.
    spread = boosting("gamma", 60, 8).fit(inputs, np.maximum(square, 1e-3 * square.mean()))
    return lambda rows: (centre.predict(rows), np.sqrt(spread.predict(rows)))


def _narrower(inputs: NDArray[np.floating], seed: int) -> Callable[[NDArray[np.floating]], Float]:
    """Float64, and the principal components of wide inputs."""
    if inputs.shape[1] <= WIDEST:
        return lambda rows: np.asarray(rows, np.float64)
    from sklearn.decomposition import PCA

    count = min(COMPONENTS, len(inputs) - 1)
    components = PCA(count, svd_solver="randomized", random_state=seed).fit(inputs)
    return lambda rows: np.asarray(components.transform(rows), np.float64)


def _without_extremes(signal: Float) -> Float:
    low, middle, high = np.quantile(signal, [0.05, 0.5, 0.95])
    if low == high:
        return signal
    return np.clip(signal, middle - 2 * (high - low), middle + 2 * (high - low))


def _check_columns(features: NDArray[np.floating], columns: int) -> None:
    if features.shape[1] != columns:
        raise InputError(
            f"features have {features.shape[1]} columns and those of the non-members {columns}; "
            "give the same columns."
        )


def _flat(name: str, features: NDArray[np.floating], records: int) -> NDArray[np.floating]:
    if features.ndim < 2 or len(features) != records:
        raise InputError(
            f"{name} has shape {features.shape}; it must be ({records}, ...), a row a record."
        )
    flat = features.reshape(records, -1)
    if flat.dtype.kind != "f":
        flat = flat.astype(np.float64)
    check_table(name, flat, ("records", "columns"))
    return flat


def _refuse_members(members: NDArray[np.bool_], shape: tuple[int, ...]) -> None:
    if members.shape != shape:
        raise InputError(f"population_members has shape {members.shape}; it must be {shape}.")
    wrong = np.argwhere(members)
    if len(wrong):
        raise InputError(
            f"population point {wrong[0][1]} is a member of model {wrong[0][0]}; population points "
            "must be OUT of every model: hold them out of the training."
        )


HIDDEN = 64
BATCH = 256
EPOCHS = 300
PATIENCE = 25
VALIDATION = 0.2
RATE = 3e-3
DECAY = 1e-3


def fit_normal_net(
    inputs: Float, signal: Float, seed: int
) -> Callable[[NDArray[np.floating]], tuple[Float, Float]]:
    """Fit mean and log deviation by the normal likelihood, with early stopping.

    Two hidden layers of 64 units; inputs are standardised; a fifth of the rows decides when to
    stop, after 25 epochs without a better likelihood, and the best state is taken.

    Args:
        inputs: (n, D).
        signal: (n,) with a mean of about 0 and a deviation of about 1.
        seed: of the split, the first weights and the batches.

    Returns: A function of (m, D) inputs that gives (m,) means and (m,) deviations, in [0.02, 50].
    """
    torch = require("torch", "train")
    centre, spread = inputs.mean(axis=0), inputs.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)

    def tensor(table: NDArray[np.floating]) -> Any:
        return torch.from_numpy(np.ascontiguousarray(table, np.float32))

    def standard(rows: NDArray[np.floating]) -> Any:
        # Rows far from all that were fitted would be extrapolated without end.
        return tensor(np.clip((rows - centre) / spread, -10, 10))

    def make() -> Any:
        return torch.nn.Sequential(
            torch.nn.Linear(inputs.shape[1], HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, 2),
        )

    def loss(rows: Any, truth: Any) -> Any:
        mean, log_sd = net(rows).unbind(1)
        log_sd = log_sd.clamp(-4, 4)
        return (log_sd + 0.5 * ((truth - mean) * torch.exp(-log_sd)) ** 2).mean()

    rng = np.random.default_rng([seed, 53])
    order = rng.permutation(len(signal))
    held, used = np.split(order, [max(1, round(VALIDATION * len(signal)))])
    net = build_module(make, seed)
    rows, truth = standard(inputs), tensor(signal)
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    best, waited, kept = np.inf, 0, copy.deepcopy(net.state_dict())
    with torch.enable_grad():
        for _ in range(EPOCHS):
            for batch in np.array_split(rng.permutation(used), -(-len(used) // BATCH)):
                optimizer.zero_grad()
                loss(rows[batch], truth[batch]).backward()
                optimizer.step()
            with torch.no_grad():
                now = float(loss(rows[held], truth[held]))
            waited += 1
            if now < best:
                best, waited, kept = now, 0, copy.deepcopy(net.state_dict())
            if waited >= PATIENCE:
                break
    net.load_state_dict(kept)

    def heads(new: NDArray[np.floating]) -> tuple[Float, Float]:
        with torch.no_grad():
            mean, log_sd = net(standard(new)).unbind(1)
            sd = torch.exp(log_sd.clamp(-4, 4))
        return mean.numpy().astype(np.float64), sd.numpy().astype(np.float64)

    return heads


def _regressed(trial: Trial) -> Float:
    targets = trial.targets
    assert targets.features is not None and targets.population_features is not None
    known = targets.labels is not None and targets.population_labels is not None
    return quantile_scores(
        targets.signals,
        targets.population,
        targets.features,
        targets.population_features,
        targets.labels if known else None,
        targets.population_labels if known else None,
        list(range(targets.models)),
        seed=trial.seed,
    )


ATTACKS = (
    Attack(
        "quantile",
        "Quantile regression on records outside",
        "Bertran et al., Scalable Membership Inference Attacks via Quantile Regression, "
        "NeurIPS 2023",
        "the attacker has no other model, but records that were not trained on",
        _regressed,
        population=True,
        reference_free=True,
        needs=("features", "population_features"),
        by_formula=False,
        log_ratio=False,
    ),
)
