"""The quantile-regression attack: one model, no shadow models.

Bertran et al., NeurIPS 2023 ("Scalable membership inference attacks via quantile regression",
section 3), the Gaussian variant: a regression of phi on known non-members gives the mean and the
standard deviation that phi would have if the record were none.

Both are kernel ridge regressions. Kernels are of the records alone, so one decomposition serves all
models under attack, and what leaving a record out would do is known without fitting again
(Golub, Heath, Wahba, Technometrics 21, 1979): it chooses width and ridge of each model by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.membership.attacks.attack import Attack, Trial, check_table, check_varies
from lethe.training.environment import one_thread

FEWEST = 50
"""Non-members below which no distribution is fitted."""

MOST = 2000
"""Non-members that a kernel is made of; of more a random part is taken."""

WIDEST = 256
"""Columns up to which the features are taken as they are."""

COMPONENTS = 64
"""Principal components that stand for wider features, such as pixels."""

_WIDTHS = (0.35, 0.7, 1.4, 2.8)  # of the kernel, in median distances between records
_RIDGES = tuple(10.0 ** np.arange(-3, 2.01, 0.5))
_CELLS = 1 << 24  # kernel entries at a time

Float = NDArray[np.float64]


def quantile_scores(
    signals: NDArray[np.floating],
    population: NDArray[np.floating],
    features: NDArray[np.floating],
    population_features: NDArray[np.floating],
    labels: NDArray[Any] | None = None,
    population_labels: NDArray[Any] | None = None,
    seed: int = 0,
) -> Float:
    """Standard deviations that each signal lies above what a non-member's would be.

    Inputs of more than 256 columns are replaced by their first 64 principal components.

    Assumes: the population are no members and like the records to be scored.

    Args:
        signals: (K, N) phi, finite.
        population: (K, H) phi of records that are members of no model, H >= 50; those farther from
            the median than twice the range of the middle 90 % are moved there.
        features: (N, ...) the records, finite.
        population_features: (H, ...) of the others.
        labels: (N,) class codes, or targets of a regression, which join the features.
        population_labels: (H,) the same of the others; both or neither.
        seed: of the components, and of the part of a large population.

    Returns: (K, N) higher = member, comparable over records and models; each model by itself.
    Raises InputError: shapes differ, a number is not finite, fewer than 50
        population points, or all signals of a model are the same.
    """
    check_table("signals", signals, ("models", "records"))
    check_table("population", population, ("models", "population points"))
    models, records = signals.shape
    others = population.shape[1]
    if len(population) != models:
        raise InputError(f"population has {len(population)} models and signals {models}.")
    if others < FEWEST:
        raise InputError(
            f"population holds {others} non-members; a quantile regression needs at least "
            f"{FEWEST}: hold out more records."
        )
    for model, row in enumerate(population):
        check_varies(f"population of model {model}", row)
    inside = _flat("features", features, records)
    outside = _flat("population_features", population_features, others)
    if inside.shape[1] != outside.shape[1]:
        raise InputError(
            f"features have {inside.shape[1]} columns and those of the non-members "
            f"{outside.shape[1]}; give the same columns."
        )
    if (labels is None) != (population_labels is None):
        raise InputError("labels and population_labels must both be given, or neither.")
    with one_thread(None):
        components = 0
        if outside.shape[1] > WIDEST:  # before labels join: they must not drown among pixels
            from sklearn.decomposition import PCA

            components = min(COMPONENTS, others - 1)
            pca = PCA(components, svd_solver="randomized", random_state=seed).fit(outside)
            inside, outside = (
                np.asarray(pca.transform(rows), np.float64) for rows in (inside, outside)
            )
        if labels is not None and population_labels is not None:
            inside, outside = with_labels(inside, labels, outside, population_labels)
        part = np.arange(others)
        if others > MOST:
            part = np.sort(np.random.default_rng([seed, 47]).permutation(others)[:MOST])
        kernels = _Kernels.of(outside[part], components)
        signal = np.asarray(population, np.float64)
        low, middle, high = np.quantile(signal, [0.05, 0.5, 0.95], axis=1, keepdims=True)
        reach = np.where(low == high, np.inf, 2 * (high - low))
        signal = np.clip(signal, middle - reach, middle + reach)[:, part]  # extremes moved in
        mean, deviation = kernels.distributions(signal, inside)
        return np.asarray((np.asarray(signals, np.float64) - mean) / deviation)


@dataclass(frozen=True)
class _Kernels:
    """Gaussian kernels of some widths between records, decomposed.

    Attributes:
        inputs: (H, D) records in units of their columns.
        centre, unit: (D,) of these columns.
        median: squared distance between two of the records.
        parts: eigenvalues (H,) and eigenvectors (H, H) for each width.
    """

    inputs: Float
    centre: Float
    unit: Float
    median: float
    parts: tuple[tuple[Float, Float], ...]

    @classmethod
    def of(cls, inputs: NDArray[np.floating], components: int) -> _Kernels:
        """Of records whose first `components` columns are principal components, in one unit."""
        table = np.asarray(inputs, np.float64)
        centre, unit = table.mean(axis=0), table.std(axis=0)
        unit[:components] = unit[:components].max(initial=0.0)
        unit = np.where(unit > 1e-9, unit, 1.0)
        table = (table - centre) / unit
        apart = _squared_distances(table, table)
        median = float(np.median(apart[np.triu_indices(len(table), 1)])) or 1.0
        parts = []
        for width in _WIDTHS:
            values, vectors = np.linalg.eigh(np.exp(-apart / (2 * width**2 * median)))
            parts.append((np.maximum(values, 0.0), vectors))
        return cls(table, centre, unit, median, tuple(parts))

    def distributions(self, signal: Float, rows: NDArray[np.floating]) -> tuple[Float, Float]:
        """Mean and standard deviation of a non-member's signal at some records.

        The logarithm of a squared residual is regressed, so that deviations are positive; their
        level is the one at which the residuals of left-out records have variance 1.

        Args:
            signal: (T, H) of the records that the kernels are of.
            rows: (N, D).

        Returns: (T, N) each.
        """
        mean, left_out = self._fit(signal)
        square = (signal - left_out) ** 2
        usual = square.mean(axis=1, keepdims=True)
        logs = np.log(np.maximum(square, 1e-3 * usual))
        spread, expected = self._fit(logs)
        level = np.log((square / np.exp(expected)).mean(axis=1, keepdims=True))
        low, high = logs.min(axis=1, keepdims=True), logs.max(axis=1, keepdims=True)
        log_spread = np.clip(self._at(rows, spread), low, high)
        return self._at(rows, mean), np.exp((log_spread + level) / 2)

    def _fit(self, targets: Float) -> tuple[tuple[Float, NDArray[np.intp], Float], Float]:
        """Each row of (T, H) by itself: its regression, and what it is when left out (T, H).

        A regression is weights (T, H), the number of its width (T,), and what is added (T, 1).
        """
        added = targets.mean(axis=1, keepdims=True)
        least = np.full(len(targets), np.inf)
        weights, left = np.zeros_like(targets), np.zeros_like(targets)
        widths = np.zeros(len(targets), np.intp)
        for number, (values, vectors) in enumerate(self.parts):
            along, square = (targets - added) @ vectors, vectors**2
            for ridge in _RIDGES:
                inverse = 1 / (values + ridge)
                alpha = (along * inverse) @ vectors.T
                wrong = alpha / (square @ inverse)
                error = (wrong**2).mean(axis=1)
                better = error < least
                least[better], widths[better] = error[better], number
                weights[better], left[better] = alpha[better], wrong[better]
        return (weights, widths, added), targets - left

    def _at(
        self, rows: NDArray[np.floating], regression: tuple[Float, NDArray[np.intp], Float]
    ) -> Float:
        """(T, N) predictions; rows far from all records are taken to be at ten units."""
        weights, widths, added = regression
        values = np.empty((len(weights), len(rows)))
        step = max(1, _CELLS // len(self.inputs))
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            table = (np.asarray(rows[block], np.float64) - self.centre) / self.unit
            apart = _squared_distances(np.clip(table, -10, 10), self.inputs)
            for number in np.unique(widths):
                kernel = np.exp(-apart / (2 * _WIDTHS[number] ** 2 * self.median))
                values[widths == number, block] = weights[widths == number] @ kernel.T
        return values + added


def _squared_distances(left: Float, right: Float) -> Float:
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T
    return np.asarray(np.maximum(squares, 0.0))


def with_labels(
    features: NDArray[np.floating],
    labels: NDArray[Any],
    population_features: NDArray[np.floating],
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
    all_labels = np.concatenate([labels, population_labels])
    if all_labels.dtype.kind == "f":
        check_table("labels", all_labels, ("records",))
        columns = all_labels[:, None].astype(np.float64)
    else:
        columns = np.asarray(all_labels[:, None] == np.unique(all_labels), np.float64)
    parts = np.split(columns, [len(labels)])
    first, second = (np.hstack([rows, part]) for (rows, _), part in zip(sides, parts, strict=True))
    return first, second


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
        trial.seed,
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
