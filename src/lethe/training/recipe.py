"""How one model is trained: a torch module factory, a scikit-learn estimator, or any callable."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.training.fingerprint import hash_array, hash_value

OPTIMIZERS = ("adam", "adamw", "sgd")
OUTPUTS = ("logits", "probabilities")


class Predict(Protocol):
    """A trained model: row numbers in, (n, C) logits (or probabilities, if declared) out."""

    def __call__(self, rows: NDArray[np.int64], /) -> NDArray[np.floating]: ...


class Train(Protocol):
    """Trains one model on some rows of the user's data.

    `rows` are int64 row numbers, `weights` one float32 loss weight a row, `seed` the only
    source of randomness.
    """

    def __call__(
        self, rows: NDArray[np.int64], weights: NDArray[np.float32], seed: int, /
    ) -> Predict: ...


@dataclass(frozen=True)
class Treatment:
    """What a mitigation changes in a training run; the default changes nothing.

    Attributes:
        weights: (N,) float32 factor in [0, 1] on each record's loss, or None. The loss is
            divided by the batch size, not by the sum of weights.
        noise: standard deviation of the Gaussian noise added once a step to every coordinate
            of the *averaged* gradient (not to the sum, which would be `noise` * batch size).
        epochs: train this many epochs instead of the recipe's.
        remove: leave records of weight 0 out of the batches altogether.
    """

    weights: NDArray[np.float32] | None = None
    noise: float = 0.0
    epochs: int | None = None
    remove: bool = False

    def __post_init__(self) -> None:
        check_between("noise", self.noise, 0, float("inf"), open_high=True)
        if self.epochs is not None:
            check_at_least("epochs", self.epochs, 1)
        if self.weights is not None and not (
            np.all(self.weights >= 0) and np.all(self.weights <= 1)
        ):
            raise InputError("weights must lie in [0, 1].")

    def describe(self) -> dict[str, Any]:
        """Plain values that stand for the treatment in a content hash."""
        return {
            "weights": None if self.weights is None else hash_array(self.weights),
            "noise": self.noise,
            "epochs": self.epochs,
            "remove": self.remove,
        }


@dataclass(frozen=True)
class TorchRecipe:
    """A torch module trained with cross-entropy and mini-batches.

    Attributes:
        make_module: builds a fresh module that maps (n, ...) features to (n, C) logits; torch's
            global generator is seeded before each call.
        epochs: passes over the training rows.
        batch_size: rows a step; the last batches of an epoch are evened out.
        learning_rate: constant.
        optimizer: ``adam``, ``adamw`` or ``sgd``.
        momentum: of SGD.
        weight_decay: as in torch.optim.
        nesterov: of SGD.
    """

    make_module: Callable[[], Any]
    epochs: int = 30
    batch_size: int = 64
    learning_rate: float = 1e-3
    optimizer: str = "adam"
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        check_at_least("epochs", self.epochs, 1)
        check_at_least("batch_size", self.batch_size, 1)
        check_between("learning_rate", self.learning_rate, 0, float("inf"), open_low=True)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_between("momentum", self.momentum, 0, 1, open_high=True)
        check_at_least("weight_decay", self.weight_decay, 0)
        if self.nesterov and not (self.optimizer == "sgd" and self.momentum > 0):
            raise InputError("nesterov=True needs optimizer='sgd' and momentum > 0.")

    def describe(self) -> dict[str, Any]:
        """Plain values for findings, without code."""
        return {
            "kind": "torch",
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "optimizer": self.optimizer,
            "momentum": self.momentum,
            "weight_decay": self.weight_decay,
            "nesterov": self.nesterov,
        }

    def code_hash(self) -> str:
        """Hash of the factory's code and of the module that it builds from seed 0."""
        from lethe.training.single import build_module

        return hash_value([self.make_module, build_module(self.make_module, 0)], "make_module")

    def refuses(self, treatment: Treatment) -> str | None:
        """Why a treatment cannot be applied, or None."""
        return None


@dataclass(frozen=True)
class SklearnRecipe:
    """A scikit-learn classifier; it is cloned and re-seeded for every model."""

    estimator: Any

    def __post_init__(self) -> None:
        if not hasattr(self.estimator, "fit") or not (
            hasattr(self.estimator, "predict_proba") or hasattr(self.estimator, "decision_function")
        ):
            raise InputError(
                f"estimator {type(self.estimator).__name__} must be a classifier with fit and "
                "predict_proba or decision_function."
            )

    def describe(self) -> dict[str, Any]:
        """Plain values for findings, without code."""
        # An address in memory would make every process describe another recipe.
        settings = {
            key: re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
            for key, value in self.estimator.get_params().items()
        }
        return {"kind": "scikit-learn", "estimator": type(self.estimator).__name__, **settings}

    def code_hash(self) -> str:
        """Hash of the estimator's class and settings."""
        return hash_value(self.estimator, "estimator")

    def refuses(self, treatment: Treatment) -> str | None:
        """Why a treatment cannot be applied, or None."""
        from sklearn.utils.validation import has_fit_parameter

        if treatment.noise > 0:
            return "gradient noise needs a torch recipe"
        if treatment.epochs is not None:
            return "early stopping by epochs needs a torch recipe"
        weighted = treatment.weights is not None and not treatment.remove
        if weighted and not has_fit_parameter(self.estimator, "sample_weight"):
            return f"{type(self.estimator).__name__}.fit takes no sample_weight"
        return None


@dataclass(frozen=True)
class CallableRecipe:
    """Any training code behind the `Train` protocol; the data live inside it.

    Attributes:
        train: see `Train`.
        outputs: what `Predict` returns, ``logits`` or ``probabilities``.
        version: change it when something changes that no code or value shows, such as a file
            that `train` reads.
    """

    train: Train
    outputs: str = "logits"
    version: str = ""

    def __post_init__(self) -> None:
        check_choice("outputs", self.outputs, OUTPUTS)

    def describe(self) -> dict[str, Any]:
        """Plain values for findings, without code."""
        name = getattr(self.train, "__qualname__", type(self.train).__name__)
        return {"kind": "callable", "train": name, "outputs": self.outputs, "version": self.version}

    def code_hash(self) -> str:
        """Hash of the callable's code and of every value it reaches."""
        return hash_value([self.train, self.version], "train")

    def refuses(self, treatment: Treatment) -> str | None:
        """Why a treatment cannot be applied, or None."""
        if treatment.noise > 0:
            return "gradient noise needs a torch recipe; Train(rows, weights, seed) takes none"
        if treatment.epochs is not None:
            return "early stopping needs a torch recipe; Train(rows, weights, seed) has no epochs"
        return None


Recipe = TorchRecipe | SklearnRecipe | CallableRecipe
