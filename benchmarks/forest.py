"""Random forests: Lethe's engine against the joblib loop one would write.

    python benchmarks/forest.py [--models 64] [--trees 100] [--rounds 5] [--out FILE]

The loop clones, fits and predicts each forest on all records, two at a time with joblib, one
thread each: all that a shadow model needs. Both sides train the same forests on the same halves;
Lethe also hashes, stores and resumes. Workers of both are warm. The ratio (loop / Lethe) within
each round says what that costs: 1 is nothing.
"""

from __future__ import annotations

import argparse
import functools
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, WORKERS, engine, save, side_by_side, spec_with
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from workloads import workload

from lethe.training.design import membership, model_seed
from lethe.training.recipe import SklearnRecipe


def one_forest(forest: Any, features: Any, labels: Any, rows: Any, seed: int) -> Any:
    """Fit on some rows, predict all."""
    model = clone(forest).set_params(random_state=seed % 2**32)
    return model.fit(features[rows], labels[rows]).predict_proba(features)


def loop(forest: Any, features: Any, labels: Any, models: int) -> dict[str, Any]:
    """Seconds a model of the plain loop, and accuracies IN and OUT."""
    members = membership(models, len(labels), seed=0)
    seeds = [model_seed(0, index) for index in range(models)]
    rows = [np.flatnonzero(row) for row in members]
    work = delayed(one_forest)
    warm = (work(forest, features, labels, rows[0], 0) for _ in range(WORKERS))
    Parallel(n_jobs=WORKERS)(warm)
    start = time.perf_counter()
    outputs = Parallel(n_jobs=WORKERS)(
        work(forest, features, labels, chosen, seed)
        for chosen, seed in zip(rows, seeds, strict=True)
    )
    seconds = time.perf_counter() - start
    right = np.array([table.argmax(axis=1) == labels for table in outputs])
    return {
        "seconds_per_model": seconds / models,
        "train_accuracy": float(right[members].mean()),
        "test_accuracy": float(right[~members].mean()),
    }


def main() -> None:
    """Run all rounds on both tables, print ratios, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=16, help="models a chunk")
    parser.add_argument("--out", type=Path, default=RESULTS / "forest.json")
    options = parser.parse_args()
    forest = RandomForestClassifier(n_estimators=options.trees, n_jobs=1)
    summary, rounds = {}, {}
    for name in ("digits", "table-5000"):
        job = workload(name)
        spec = spec_with(job.features, job.labels, job.widths[-1], SklearnRecipe(forest))
        rounds[name], times, accuracies = side_by_side(
            functools.partial(loop, forest, job.features, job.labels, options.models),
            functools.partial(engine, spec, options.models, options.width),
            options.rounds,
        )
        summary[name] = {"times_loop": times, "target": 0.95, "test_accuracy": accuracies}
    save(
        {"models": options.models, "trees": options.trees, **summary, "rounds": rounds}, options.out
    )


if __name__ == "__main__":
    main()
