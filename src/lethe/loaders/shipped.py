"""Small real data that ship along, as the files that a user would have: for the demonstration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lethe.errors import require
from lethe.files import whole_file

FILMS = Path(__file__).parent / "samples" / "movietweetings.parquet"
"""800 people and their ratings of films; source and terms stand in the README beside it."""

_WIDTH = 32
_PICTURES = 6  # of each person
_LESSONS = 12  # pictures of each image that the network is trained on


def write_patients(path: Path) -> None:
    """The breast cancer table of scikit-learn: 569 patients, five measurements, the diagnosis.

    Args:
        path: .parquet.
    """
    from sklearn.datasets import load_breast_cancer

    arrow = require("pyarrow", "tables")
    parquet = require("pyarrow.parquet", "tables")
    given = load_breast_cancer()
    names = ["radius", "texture", "perimeter", "area", "smoothness"]
    columns = {name: given.data[:, at] for at, name in enumerate(names)}
    found = np.where(given.target == 0, "malignant", "benign")
    with whole_file(path) as file:
        parquet.write_table(arrow.table({**columns, "diagnosis": found}), file)


def write_vectors(vectors: Path, head: Path, seed: int = 0) -> None:
    """Representations of digits: a network's hidden layer on six pictures of each "person".

    A person is an image of the test half; a picture of it is the image moved by up to one pixel,
    with noise. The network, trained on such pictures of the other half, tells digits below 5 from
    the others: AUC 0.99 on the people.

    Args:
        vectors: .npz with `representations`, `user_ids`, `labels`.
        head: .npz with `w`, `b`.
        seed: of split, training and pictures.
    """
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    images, digit = load_digits(return_X_y=True)
    images, label = images / 16, (digit >= 5).astype(np.int64)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(images))
    taught, people = order[: len(images) // 2], order[len(images) // 2 :]
    net = MLPClassifier((_WIDTH,), learning_rate_init=0.003, early_stopping=True, random_state=seed)
    lessons = np.concatenate([_picture(images[taught], rng) for _ in range(_LESSONS)])
    net.fit(lessons, np.tile(label[taught], _LESSONS))
    shown = np.concatenate([_picture(images[people], rng) for _ in range(_PICTURES)])
    hidden = np.maximum(shown @ net.coefs_[0] + net.intercepts_[0], 0)
    names = np.tile(np.arange(len(people)), _PICTURES)
    by_person = np.argsort(names, kind="stable")
    with whole_file(vectors) as file:
        np.savez(
            file,
            representations=hidden[by_person].astype(np.float32),
            user_ids=names[by_person],
            labels=np.tile(label[people], _PICTURES)[by_person],
        )
    with whole_file(head) as file:
        np.savez(file, w=net.coefs_[1][:, 0], b=net.intercepts_[1])


def _picture(images: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Each image moved by up to one pixel, with noise."""
    square = np.pad(images.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    moved = np.empty((len(images), 8, 8))
    for at, (down, right) in enumerate(rng.integers(0, 3, (len(images), 2))):
        moved[at] = square[at, down : down + 8, right : right + 8]
    return np.clip(moved.reshape(-1, 64) + rng.normal(0, 0.05, images.shape), 0, 1)
