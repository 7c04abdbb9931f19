"""Small real data sets that ship with Lethe, as files for the demonstration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.dataset import Dataset, Preparation, row_names, subset
from lethe.files import whole_file

_SCALED = "Every feature has mean 0 and standard deviation 1 over all records."


def digits() -> Dataset:
    """1,797 handwritten digits, 8 x 8 pixels in [0, 1], ten classes."""
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    return Dataset(
        name="digits",
        features=(features / 16).astype(np.float32),
        labels=labels.astype(np.int64),
        classes=tuple(map(str, range(10))),
        ids=row_names(range(len(labels))),
        feature_names=tuple(f"pixel {row},{column}" for row in range(8) for column in range(8)),
        source="Optical Recognition of Handwritten Digits (Alpaydin and Kaynak, UCI 1998), test "
        "part, as shipped with scikit-learn",
        notes=("Grey levels 0 to 16 divided by 16.",),
    )


def breast_cancer() -> Dataset:
    """569 biopsies, 30 measurements each, malignant or benign."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    source = "Breast Cancer Wisconsin (Diagnostic) (Wolberg, Mangasarian, Street and Street, "
    source += "UCI 1995), as shipped with scikit-learn"
    return _measured("breast-cancer", bunch, tuple(map(str, bunch.target_names)), source)


def diabetes() -> Dataset:
    """442 patients, 10 measurements each; how far their diabetes went within a year."""
    from sklearn.datasets import load_diabetes

    source = "Diabetes (Efron, Hastie, Johnstone and Tibshirani, Least Angle Regression, 2004), "
    source += "disease progression after one year, as shipped with scikit-learn"
    return _measured("diabetes", load_diabetes(scaled=False), (), source)


def _measured(name: str, bunch: Any, classes: tuple[str, ...], source: str) -> Dataset:
    return Dataset(
        name=name,
        features=_standardised(bunch.data),
        labels=bunch.target.astype(np.int64 if classes else np.float64),
        classes=classes,
        ids=row_names(range(len(bunch.data))),
        feature_names=tuple(map(str, bunch.feature_names)),
        source=source,
        notes=(_SCALED,),
    )


BUILTIN = {"breast-cancer": breast_cancer, "diabetes": diabetes, "digits": digits}


def builtin(
    name: str, rows: int | None = None, seed: int = 0, public: Callable[..., Any] | None = None
) -> Dataset:
    """A built-in set, or some of its records, scaled by themselves as those of a file are.

    Args:
        rows: size of a random subset; all records by default.
        public: as of `lethe.data.tables.load`: which records scale all others.
    """
    data = subset(BUILTIN[name](), rows, seed)
    if _SCALED not in data.notes or (rows is None and public is None):
        return data
    if public is None:
        return replace(data, features=_standardised(data.features))
    from lethe.data.preparation import by_public

    held = public(len(data), None, None)
    notes = tuple(note for note in data.notes if note != _SCALED)
    features = by_public(data.features.astype(np.float64), held).astype(np.float32)
    return replace(data, features=features, notes=notes, preparation=Preparation(held))


def _standardised(values: NDArray[np.floating]) -> NDArray[np.float32]:
    wide: NDArray[np.float64] = values.astype(np.float64)
    centre, spread = wide.mean(axis=0), wide.std(axis=0)
    np.divide(wide - centre, spread, out=wide, where=spread > 0)
    wide[:, spread == 0] = 0
    return wide.astype(np.float32)


FILMS = Path(__file__).parent / "samples" / "movietweetings.parquet"
"""800 people and their ratings of films; source and terms stand in the README beside it."""

_WIDTH = 32
_PICTURES = 6  # of each person
_LESSONS = 12  # pictures of each image that the network is trained on


def write_patients(path: Path) -> None:
    """The breast cancer table of scikit-learn: 569 patients, five measurements, the diagnosis."""
    import pyarrow as pa
    from pyarrow import parquet
    from sklearn.datasets import load_breast_cancer

    source = load_breast_cancer()
    names = ["radius", "texture", "perimeter", "area", "smoothness"]
    columns = {name: source.data[:, index] for index, name in enumerate(names)}
    diagnosis = np.where(source.target == 0, "malignant", "benign")
    with whole_file(path) as file:
        parquet.write_table(pa.table({**columns, "diagnosis": diagnosis}), file)


def write_vectors(vectors: Path, head: Path, seed: int = 0) -> None:
    """Representations of digits: a network's hidden layer on six pictures of each "person".

    A person is an image of the test half; a picture is the image moved by up to one pixel, with
    noise. The network was trained on such pictures of the other half: digits below 5 against the
    others, AUC 0.99.

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
    """Move each image by up to one pixel and add noise."""
    square = np.pad(images.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    moved = np.empty((len(images), 8, 8))
    for at, (down, right) in enumerate(rng.integers(0, 3, (len(images), 2))):
        moved[at] = square[at, down : down + 8, right : right + 8]
    return np.clip(moved.reshape(-1, 64) + rng.normal(0, 0.05, images.shape), 0, 1)
