"""Data sets and recipes of the corpus: real samples, simulated ones, and those that are held out.

`HELD_OUT` was written down before the first model of the corpus was fitted: no set in it is ever
seen by a predictor that is judged on it.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, make_classification
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

COMPAS_LATER = (
    *("id", "is_recid", "r_charge_degree", "r_days_from_arrest", "r_offense_date"),
    *("r_charge_desc", "r_jail_in", "r_jail_out", "violent_recid", "is_violent_recid"),
    *("vr_charge_degree", "vr_offense_date", "vr_charge_desc", "in_custody", "out_custody"),
    *("c_jail_in", "c_jail_out", "c_offense_date", "c_arrest_date", "screening_date"),
    *("compas_screening_date", "v_screening_date", "start", "end", "event"),
)
"""Columns that tell what happened afterwards, and dates."""

Table = tuple[NDArray[np.float32], NDArray[np.intp]]

HELD_OUT = ("mnist", "credit", "acs", "injuries", "digits")
"""Sets that no predictor is fitted on."""


def _sample(features: Any, labels: Any, size: int, seed: int) -> Table:
    """At most ``size`` rows, without classes of fewer than 20 records."""
    labels = np.unique(np.asarray(labels), return_inverse=True)[1]
    often = np.bincount(labels)[labels] >= 20
    rows = np.flatnonzero(often)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(rows)[:size]
    kept = np.unique(labels[rows], return_inverse=True)[1]
    return np.asarray(features, np.float32)[rows], kept


def _frame(frame: pandas.DataFrame, label: str, size: int, seed: int) -> Table:
    """Numbers as they are, the 12 commonest values of a text column as columns of 0 and 1."""
    frame = frame.sample(min(len(frame), 4 * size), random_state=seed)
    columns = []
    for name in frame.columns.drop(label):
        column = frame[name]
        number = pandas.to_numeric(column, errors="coerce")
        if number.notna().mean() > 0.8:
            columns.append(number.fillna(number.median()).to_numpy(float))
            continue
        for value in column.astype(str).value_counts().index[:12]:
            columns.append((column.astype(str) == value).to_numpy(float))
    return _sample(np.stack(columns, 1), frame[label].astype(str), size, seed)


def _pictures(folder: Path, size: int, seed: int) -> Table:
    from PIL import Image

    frame = pandas.read_parquet(folder / "cifar10_jpeg/cifar10_jpeg.parquet")
    frame = frame.sample(size, random_state=seed)
    column = next(name for name in frame.columns if isinstance(frame[name].iloc[0], (bytes, dict)))
    cells = [cell["bytes"] if isinstance(cell, dict) else cell for cell in frame[column]]
    pixels = [
        np.asarray(Image.open(io.BytesIO(cell)).convert("RGB").resize((8, 8))) for cell in cells
    ]
    return _sample(np.stack(pixels).reshape(size, -1) / 255.0, frame["label"], size, seed)


def _texts(folder: Path, size: int, seed: int) -> Table:
    frame = pandas.read_parquet(next((folder / "osha_sir").glob("*.parquet")))
    common = frame["NatureTitle"].value_counts().index[:8]
    frame = frame[frame["NatureTitle"].isin(common)].sample(size, random_state=seed)
    words = TfidfVectorizer(max_features=2000).fit_transform(frame["Final Narrative"].astype(str))
    return _sample(
        TruncatedSVD(80, random_state=seed).fit_transform(words), frame["NatureTitle"], size, seed
    )


def _films(folder: Path, size: int, seed: int) -> Table:
    """Whether a rating is 4 or more, from the film's genres and the means of person and film."""
    ratings = pandas.read_parquet(folder / "movielens_latest_small/ratings_2018.parquet")
    films = pandas.read_parquet(folder / "movielens_latest_small/movies_2018.parquet")
    ratings.columns = [name.lower() for name in ratings.columns]
    films.columns = [name.lower() for name in films.columns]
    table = ratings.merge(films, on="movieid")
    genres = table["genres"].str.get_dummies("|").to_numpy(float)
    extra = [
        table.groupby("userid")["rating"].transform("mean"),
        table.groupby("movieid")["rating"].transform("size"),
        table["timestamp"],
    ]
    features = np.column_stack([genres, *extra])
    return _sample(features, table["rating"] >= 4, size, seed)


def real_sets(folder: Path) -> dict[str, Callable[[int, int], Table]]:
    """Makers of samples, by name: number of rows and seed."""

    def sklearn_set(load: Callable[..., Any]) -> Callable[[int, int], Table]:
        return lambda size, seed: _sample(*load(return_X_y=True), size, seed)

    def parquet(place: str, label: str, drop: tuple[str, ...] = ()) -> Callable[[int, int], Table]:
        def make(size: int, seed: int) -> Table:
            frame = pandas.read_parquet(folder / place).drop(columns=list(drop), errors="ignore")
            return _frame(frame[frame[label].notna()], label, size, seed)

        return make

    def diabetes(size: int, seed: int) -> Table:
        features, target = load_diabetes(return_X_y=True)
        return _sample(features, target > np.median(target), size, seed)

    def mnist(size: int, seed: int) -> Table:
        held = np.load(folder / "mnist/mnist.npz")
        pictures, labels = held["x_train"], held["y_train"]
        rows = np.random.default_rng(seed).permutation(len(labels))[:size]
        small = pictures[rows].reshape(size, 14, 2, 14, 2).mean((2, 4)).reshape(size, -1) / 255.0
        return _sample(small, labels[rows], size, seed)

    return {
        "breast-cancer": sklearn_set(load_breast_cancer),
        "diabetes": diabetes,
        "adult": parquet("adult/adult.parquet", "income", ("split",)),
        "compas": parquet("compas/compas-scores-two-years.parquet", "two_year_recid", COMPAS_LATER),
        "hospital": parquet(
            "diabetes130/diabetic_data.parquet", "readmitted", ("encounter_id", "patient_nbr")
        ),
        "pictures": lambda size, seed: _pictures(folder, size, seed),
        "films": lambda size, seed: _films(folder, size, seed),
        # Held out
        "digits": sklearn_set(load_digits),
        "mnist": mnist,
        "credit": parquet("credit_default/credit-card-clients.parquet", "default payment"),
        "acs": parquet("acs_nist_national2019/national2019.parquet", "EDU", ("PWGTP", "WGTP")),
        "injuries": lambda size, seed: _texts(folder, size, seed),
    }


def simulated(number: int) -> Callable[[int, int], Table]:
    """One of many worlds: classes, columns, noise in the labels, clusters and tails drawn."""

    def make(size: int, seed: int) -> Table:
        rng = np.random.default_rng([number, 7])
        classes = int(rng.choice([2, 2, 3, 5, 10]))
        columns = int(rng.choice([8, 20, 40, 100, 200]))
        informative = max(
            int(np.ceil(np.log2(2 * classes))) + 1, int(columns * rng.uniform(0.1, 0.6))
        )
        features, labels = make_classification(
            size,
            columns,
            n_informative=min(informative, columns - 2),
            n_redundant=0,
            n_classes=classes,
            n_clusters_per_class=int(rng.integers(1, 3)),
            class_sep=float(rng.uniform(0.4, 2.0)),
            flip_y=float(rng.choice([0.0, 0.02, 0.1, 0.3, 0.6])),
            weights=list(rng.dirichlet(np.full(classes, 8.0))),
            random_state=seed + 1000 * number,
        )
        if rng.random() < 0.3:  # heavy tails
            features = np.sign(features) * np.abs(features) ** 1.8
        if rng.random() < 0.3:  # few values a column, so that rows are alike
            features = np.round(features)
        return _sample(features, labels, size, seed)

    return make


RECIPES: dict[str, tuple[str, Callable[[int], Any]]] = {
    "logistic, C=0.1": ("linear", lambda _: _scaled(LogisticRegression(C=0.1, max_iter=200))),
    "logistic, C=1": ("linear", lambda _: _scaled(LogisticRegression(C=1, max_iter=300))),
    "logistic, C=1000": ("linear", lambda _: _scaled(LogisticRegression(C=1000, max_iter=400))),
    "naive Bayes": ("linear", lambda _: _scaled(GaussianNB(var_smoothing=1e-2))),
    "tree": ("tree", lambda seed: DecisionTreeClassifier(random_state=seed)),
    "tree, depth 5": ("tree", lambda seed: DecisionTreeClassifier(max_depth=5, random_state=seed)),
    "tree, leaves of 10": (
        "tree",
        lambda seed: DecisionTreeClassifier(min_samples_leaf=10, random_state=seed),
    ),
    "forest": ("forest", lambda seed: RandomForestClassifier(60, random_state=seed)),
    "forest, leaves of 3": (
        "forest",
        lambda seed: RandomForestClassifier(60, min_samples_leaf=3, random_state=seed),
    ),
    "forest, depth 5": (
        "forest",
        lambda seed: RandomForestClassifier(60, max_depth=5, random_state=seed),
    ),
    "extra trees": ("forest", lambda seed: ExtraTreesClassifier(60, random_state=seed)),
    "boosting": (
        "boosting",
        lambda seed: HistGradientBoostingClassifier(max_iter=60, random_state=seed),
    ),
    "boosting, small": (
        "boosting",
        lambda seed: HistGradientBoostingClassifier(
            max_iter=30, max_leaf_nodes=6, random_state=seed
        ),
    ),
    "neighbours, 5": ("neighbours", lambda _: _scaled(KNeighborsClassifier(5))),
    "neighbours, 15": ("neighbours", lambda _: _scaled(KNeighborsClassifier(15))),
    "net": (
        "net",
        lambda seed: _scaled(
            MLPClassifier((64,), max_iter=40, learning_rate_init=3e-3, random_state=seed)
        ),
    ),
    "net, long": (
        "net",
        lambda seed: _scaled(
            MLPClassifier((64,), max_iter=150, learning_rate_init=3e-3, random_state=seed)
        ),
    ),
    "net, decay": (
        "net",
        lambda seed: _scaled(
            MLPClassifier((48,), max_iter=60, alpha=3.0, learning_rate_init=3e-3, random_state=seed)
        ),
    ),
}
"""Name: kind of model and what makes it from a seed."""


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)
