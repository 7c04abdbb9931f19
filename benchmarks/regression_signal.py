"""Which signal of a regression leaks most: minus the squared error, or minus the absolute error?

    python benchmarks/regression_signal.py [--models 32] [--seeds 3] [--out FILE]

Trains regressors on complementary halves of scikit-learn's diabetes data (442 records) through
Lethe's engine and attacks the same predictions with both signals; every record is a member of half
of the models. One score alone tells no more with either: both order the records alike.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, save, spec_with
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from lethe.data.shipped import diabetes
from lethe.membership.measure import risk_change, run_attacks
from lethe.training.chunks import chunk_jobs, chunk_width, train_chunk
from lethe.training.recipe import SklearnRecipe
from lethe.training.shadows import Shadows

ESTIMATORS = {
    "forest": RandomForestRegressor(50, n_jobs=1),
    "boosted trees": GradientBoostingRegressor(),
    "network": make_pipeline(
        StandardScaler(),
        MLPRegressor(hidden_layer_sizes=(32,), solver="lbfgs", alpha=0.1, max_iter=200, tol=1e-3),
    ),
    "least squares, 65 features": make_pipeline(
        PolynomialFeatures(2, include_bias=False), StandardScaler(), LinearRegression()
    ),
}
ATTACKS = ("lira-online", "lira-offline")
FPR = 0.01


def trained(name: str, models: int, seed: int) -> Shadows:
    """The shadow models of one kind and seed, with the absolute error as signal."""
    data = diabetes()
    spec = spec_with(data.features, data.labels, 0, SklearnRecipe(ESTIMATORS[name]))
    with tempfile.TemporaryDirectory() as folder:
        width = chunk_width(models)
        jobs = chunk_jobs(replace(spec, seed=seed), Path(folder), models, width)
        for job in jobs:
            train_chunk(job)
        return Shadows.from_shards(jobs, data.ids)


def compare(shadows: Shadows) -> dict[str, dict[str, Any]]:
    """Each attack's strength with both signals and the paired change, with 95 % intervals."""
    squared = replace(shadows, signals=-(shadows.signals**2))
    found: dict[str, dict[str, Any]] = {}
    for variance in ("per-record", "pooled"):
        before, after = (
            run_attacks(one, ATTACKS, (FPR,), 0.95, variance) for one in (squared, shadows)
        )
        for name in ATTACKS:
            for fpr in (None, FPR):
                metric = f"{name} {variance} {'auc' if fpr is None else f'tpr@{fpr:g}'}"
                change = risk_change({name: after[name]}, {name: before[name]}, fpr, 0.95)
                found[metric] = {
                    "squared": limits(before[name].metric(fpr)),
                    "absolute": limits(after[name].metric(fpr)),
                    "change": limits(change),
                }
    return found


def limits(estimate: Any) -> list[float]:
    """Value, lower and upper limit."""
    return [round(float(x), 4) for x in (estimate.value, estimate.low, estimate.high)]


def summed_up(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the seeds, and in how many of them the limits of the change exclude 0."""
    told = {}
    for metric in rounds[0]:
        changes = np.array([one[metric]["change"] for one in rounds])
        told[metric] = {
            signal: round(float(np.mean([one[metric][signal][0] for one in rounds])), 4)
            for signal in ("squared", "absolute")
        }
        told[metric]["clearly_more"] = int((changes[:, 1] > 0).sum())
        told[metric]["clearly_less"] = int((changes[:, 2] < 0).sum())
    return told


def main() -> None:
    """Train, attack, print means over the seeds, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "regression_signal.json")
    options = parser.parse_args()
    rounds = {
        name: [compare(trained(name, options.models, seed)) for seed in range(options.seeds)]
        for name in ESTIMATORS
    }
    document = {
        "data": "diabetes",
        "records": len(diabetes()),
        "models": options.models,
        "seeds": options.seeds,
        "mean": {name: summed_up(found) for name, found in rounds.items()},
        "rounds": rounds,
    }
    save(document, options.out)


if __name__ == "__main__":
    main()
