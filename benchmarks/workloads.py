"""The training jobs that all speed claims are measured on.

`digits` is real (scikit-learn, 1,797 records); the others are synthetic, of the size of a real
table, made from a fixed seed with NumPy alone so that they are the same everywhere. Labels come
from a random teacher network and a share of them is replaced by another class, so that a network
of the size given fits its half better than the other half, as audits need it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Workload:
    """One model's training job; models differ in their half of the records and in their seed.

    Attributes:
        name: of the workload.
        features: float32 (records, features).
        labels: int64 (records,).
        widths: layers of the multilayer perceptron, from features to classes, ReLU between.
        batch: records a step; the last batch of an epoch may be smaller.
        epochs: passes over the half.
        learning_rate: of Adam, its other settings as PyTorch has them.
    """

    name: str
    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    widths: tuple[int, ...]
    batch: int
    epochs: int
    learning_rate: float = 1e-3

    def half(self, model: int) -> NDArray[np.bool_]:
        """Which records model number `model` is trained on: half of them, rounded down."""
        records = len(self.labels)
        inside = np.zeros(records, dtype=np.bool_)
        chosen = np.random.default_rng([7, model]).choice(records, records // 2, replace=False)
        inside[chosen] = True
        return inside


def digits(hidden: int = 128) -> Workload:
    """Half of 1,797 digits, 64-hidden-10."""
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    return Workload(
        "digits",
        (features / 16).astype(np.float32),
        labels.astype(np.int64),
        (64, hidden, 10),
        batch=64,
        epochs=60,
    )


def adult_size() -> Workload:
    """Half of 16,000 rows of 108 features, two classes, 10 % of the labels replaced."""
    features, labels = _taught(16_000, 108, classes=2, informative=12, noise=0.10, seed=1)
    return Workload("adult-size", features, labels, (108, 128, 64, 2), batch=128, epochs=15)


def table_5000() -> Workload:
    """Half of 5,000 rows of 30 features, five classes, 15 % of the labels replaced."""
    features, labels = _taught(5_000, 30, classes=5, informative=10, noise=0.15, seed=2)
    return Workload("table-5000", features, labels, (30, 128, 64, 5), batch=128, epochs=60)


def digits_logistic() -> Workload:
    """Logistic regression on half of the digits, 64-10."""
    return replace(digits(), name="digits-logistic", widths=(64, 10))


def digits_hidden() -> Workload:
    """A small hidden layer on half of the digits, 64-32-10."""
    return replace(digits(32), name="digits-hidden")


def mlp_446() -> Workload:
    """Half of 5,000 rows of 446 features, thirty classes: products of some size."""
    features, labels = _taught(5_000, 446, classes=30, informative=60, noise=0.10, seed=3)
    return Workload("mlp-446", features, labels, (446, 512, 256, 30), batch=128, epochs=5)


WORKLOADS = {
    "digits": digits,
    "digits-logistic": digits_logistic,
    "digits-hidden": digits_hidden,
    "adult-size": adult_size,
    "table-5000": table_5000,
    "mlp-446": mlp_446,
}


def workload(name: str, hidden: int = 128) -> Workload:
    """The workload of that name; `hidden` is the width of the hidden layer of `digits`."""
    return digits(hidden) if name == "digits" else WORKLOADS[name]()


def _taught(
    records: int, width: int, *, classes: int, informative: int, noise: float, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Normal features; the class a random tanh network finds most likely, with label noise."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((records, width))
    first = rng.standard_normal((informative, 16)) / (2 * np.sqrt(informative))  # mostly linear
    second = rng.standard_normal((16, classes))
    logits = np.tanh(features[:, :informative] @ first) @ second
    logits -= np.median(logits, axis=0)  # classes of similar size
    labels = logits.argmax(axis=1)
    wrong = rng.choice(records, round(noise * records), replace=False)
    labels[wrong] = (labels[wrong] + rng.integers(1, classes, len(wrong))) % classes
    return features.astype(np.float32), labels.astype(np.int64)
