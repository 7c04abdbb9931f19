"""From a look at one model to the rate that an attack with 64 shadow models would reach.

The file beside this one holds regression trees and what limits them, fitted by
`benchmarks/one_model/fit.py` on models whose true rates are known; it holds numbers alone, no code.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from scipy.special import expit

from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.membership.one_model.looks import FEWEST, look

FILE = Path(__file__).with_name("trees.safetensors")

KINDS = ("linear", "tree", "forest", "boosting", "neighbours", "net")

CONFIDENCE = 0.9
"""Of the interval, over models of data sets that the trees did not see."""

FARTHEST = 10.0
"""Deviations in one column beyond which it counts no more, so that none decides alone."""

UNKNOWN = "unknown"
"""Kind of a function or of a class that no word below names: the widest interval is taken."""

_WORDS = {
    "boosting": ("boost", "lgbm", "xgb"),
    "forest": ("forest", "extratrees", "bagging"),
    "tree": ("tree",),
    "neighbours": ("neighbor",),
    "net": ("mlp", "neuralnet", "keras", "sequential"),
    "linear": ("logistic", "linear", "ridge", "sgd", "naive", "nb", "discriminant", "perceptron"),
}


@dataclass(frozen=True)
class Predictor:
    """Trees, each a walk from a root to a value, and how far their sum can be trusted.

    Attributes:
        names: of the values that a look must have, in the order of the columns.
        arrays: the trees as in the file: `roots` (T,) and `weights` (T,); for each node `column`
            (-1 at a leaf), `threshold`, `left`, `right`, `value`; for the distance `centre`,
            `scale` (D,) and `corpus` (models, D).
        levels: log odds between which `spreads` hold, ascending.
        spreads: mean absolute error in log odds at each level, on data sets that the trees did not
            see; one more than there are levels.
        errors: by kind of model, the 90 % quantile of such errors over the spread of their level.
        start: what all trees are added to.
        farthest: distance to the corpus beyond which nothing is said.
        models: in the corpus.
    """

    names: tuple[str, ...]
    arrays: dict[str, NDArray[Any]]
    levels: list[float]
    spreads: list[float]
    errors: dict[str, float]
    start: float
    farthest: float
    models: int

    def log_odds(self, values: NDArray[np.float64]) -> float:
        """Log odds of the rate for a look's values (D,)."""
        trees = self.arrays
        node = trees["roots"].astype(np.int64)
        while (inner := trees["column"][node] >= 0).any():
            column = trees["column"][node]
            below = values[column].astype(np.float32) <= trees["threshold"][node]
            further = np.where(below, trees["left"][node], trees["right"][node])
            node = np.where(inner, further, node)
        return float(self.start + (trees["weights"] * trees["value"][node]).sum())

    def error(self, log_odds: float, kind: str) -> float:
        """Half of the interval's width in log odds; of an unknown kind the widest."""
        spread = self.spreads[int(np.searchsorted(self.levels, log_odds))]
        return spread * self.errors.get(kind, max(self.errors.values()))

    def distance(self, values: NDArray[np.float64]) -> float:
        """Mean distance by column, in deviations, to the nearest model of the corpus."""
        scaled = (values - self.arrays["centre"]) / self.arrays["scale"]
        apart = np.minimum(np.abs(self.arrays["corpus"] - scaled), FARTHEST)
        return float(apart.mean(1).min())


@functools.cache
def predictor() -> Predictor:
    """The predictor that comes with Lethe."""
    with safe_open(str(FILE), "numpy") as file:
        settings = json.loads(file.metadata()["predictor"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return Predictor(tuple(settings.pop("names")), arrays, **settings)


def kind_of(model: Any) -> str:
    """Which of `KINDS` a fitted model is, by the name of its last step; else "unknown"."""
    while hasattr(model, "steps") or hasattr(model, "best_estimator_"):
        model = model.steps[-1][1] if hasattr(model, "steps") else model.best_estimator_
    if hasattr(model, "state_dict"):
        return "net"
    name = type(model).__name__.lower()
    return next((kind for kind in _WORDS if any(word in name for word in _WORDS[kind])), UNKNOWN)


def estimated(
    model: Any,
    outputs: NDArray[np.floating] | None,
    labels: NDArray[Any],
    members: NDArray[np.bool_],
    features: NDArray[np.floating],
) -> Measured:
    """The TPR at 1 % FPR that an online attack with 64 shadow models would reach.

    Guarantee: empirical-only. The interval held for 90 % of models on data sets that the trees had
    not seen; nothing is proven for another.
    Assumes: members and others are drawn at random from the same people.

    Args:
        model: whose kind is read off its class name; see `kind_of`.
        outputs: (N, C) its probabilities; None where it gives none.
        labels: (N,) true classes, 0 to C - 1.
        members: (N,) whether it was trained on the record.
        features: (N, ...) the records in numbers.

    Returns: a share, higher = more is revealed; or why nothing is said.
    """
    if outputs is None:
        return Refusal("an estimate needs probabilities of classes")
    few = min(int(members.sum()), int((~members).sum()))
    if few < FEWEST:
        return Refusal(f"an estimate needs {FEWEST} members and as many others; one side has {few}")
    trees, looked = predictor(), look(outputs, labels, members, features)
    values = np.array([looked.values.get(name, 0.0) for name in trees.names])
    distance = trees.distance(values)
    if distance > trees.farthest:
        return Refusal(
            f"the model is unlike those that the estimate was made from (distance {distance:.2f}, "
            f"at most {trees.farthest:.2f})"
        )
    kind = kind_of(model)
    middle = trees.log_odds(values)
    error = trees.error(middle, kind)
    low, value, high = expit(middle + np.array([-error, 0.0, error]))
    said = f"trees fitted on {trees.models} models of known rates; conformal by data set ({kind})"
    return Estimate(float(value), float(low), float(high), CONFIDENCE, said, len(looked.rows))
