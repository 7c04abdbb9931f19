"""Real data that ships with scikit-learn: nothing to download, small, well known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lethe.loaders.dataset import Dataset, row_names, subset

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
    features = _standardised(bunch.data)
    return Dataset(
        name="breast-cancer",
        features=features,
        labels=bunch.target.astype(np.int64),
        classes=tuple(map(str, bunch.target_names)),
        ids=row_names(range(len(features))),
        feature_names=tuple(map(str, bunch.feature_names)),
        source="Breast Cancer Wisconsin (Diagnostic) (Wolberg, Mangasarian, Street and Street, "
        "UCI 1995), as shipped with scikit-learn",
        notes=(_SCALED,),
    )


def diabetes() -> Dataset:
    """442 patients, 10 measurements each; how far their diabetes went within a year."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    features = _standardised(bunch.data)
    return Dataset(
        name="diabetes",
        features=features,
        labels=bunch.target.astype(np.float64),
        classes=(),
        ids=row_names(range(len(features))),
        feature_names=tuple(map(str, bunch.feature_names)),
        source="Diabetes (Efron, Hastie, Johnstone and Tibshirani, Least Angle Regression, 2004), "
        "disease progression after one year, as shipped with scikit-learn",
        notes=(_SCALED,),
    )


BUILTIN = {"breast-cancer": breast_cancer, "diabetes": diabetes, "digits": digits}


def builtin(name: str, rows: int | None = None, seed: int = 0) -> Dataset:
    """A built-in set, or some of its records, scaled by themselves as those of a file are.

    Args:
        name: of `BUILTIN`.
        rows: size of a random subset; all records by default.
        seed: of the subset.
    """
    data = subset(BUILTIN[name](), rows, seed)
    if rows is None or _SCALED not in data.notes:
        return data
    return replace(data, features=_standardised(data.features))


def _standardised(values: NDArray[np.floating]) -> NDArray[np.float32]:
    wide: NDArray[np.float64] = values.astype(np.float64)
    centre, spread = wide.mean(axis=0), wide.std(axis=0)
    np.divide(wide - centre, spread, out=wide, where=spread > 0)
    wide[:, spread == 0] = 0
    return wide.astype(np.float32)
