"""Real data that ships with scikit-learn: nothing to download, small, well known."""

from __future__ import annotations

import numpy as np

from lethe.loaders.dataset import Dataset, row_names


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
    features = (bunch.data - bunch.data.mean(axis=0)) / bunch.data.std(axis=0)
    return Dataset(
        name="breast-cancer",
        features=features.astype(np.float32),
        labels=bunch.target.astype(np.int64),
        classes=tuple(map(str, bunch.target_names)),
        ids=row_names(range(len(features))),
        feature_names=tuple(map(str, bunch.feature_names)),
        source="Breast Cancer Wisconsin (Diagnostic) (Wolberg, Mangasarian, Street and Street, "
        "UCI 1995), as shipped with scikit-learn",
        notes=("Every feature has mean 0 and standard deviation 1 over all records.",),
    )


def diabetes() -> Dataset:
    """442 patients, 10 measurements each; how far their diabetes went within a year."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    features = (bunch.data - bunch.data.mean(axis=0)) / bunch.data.std(axis=0)
    return Dataset(
        name="diabetes",
        features=features.astype(np.float32),
        labels=bunch.target.astype(np.float64),
        classes=(),
        ids=row_names(range(len(features))),
        feature_names=tuple(map(str, bunch.feature_names)),
        source="Diabetes (Efron, Hastie, Johnstone and Tibshirani, Least Angle Regression, 2004), "
        "disease progression after one year, as shipped with scikit-learn",
        notes=("Every feature has mean 0 and standard deviation 1 over all records.",),
    )


BUILTIN = {"breast-cancer": breast_cancer, "diabetes": diabetes, "digits": digits}
