"""Attacks that need more than one score a record: what do they add?

    [LETHE_DATA=...] python benchmarks/extra_attacks.py [SET...] [--models 32] [--out FILE]

SET: digits, breast-cancer (both by default), or credit, a table of real size under LETHE_DATA.
Trains small networks on complementary halves through Lethe's engine, a fifth of the records held
out. Every record goes with 8 changed copies, which no model trains on. Every model is attacked, all
attacks on the same cells; 95 % intervals are two-way (targets x records).

Not a fresh test of everything: the noise of the digits' copies was chosen after three others (of
these one moved the digits by a pixel) were seen here.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, save

import lethe
from lethe.data.dataset import Dataset
from lethe.membership.attacks.quantile import quantile_scores
from lethe.membership.attacks.simple import gap_scores, robustness_scores
from lethe.membership.leave_one_out import scored_cells
from lethe.membership.measure import measure_scores
from lethe.membership.scoring import score
from lethe.training.answers import noisy_copies
from lethe.training.chunks import Spec, chunk_jobs, train_chunk
from lethe.training.design import holdout
from lethe.training.recipe import TorchRecipe, Treatment
from lethe.training.shadows import Shadows

COPIES = 8
EPOCHS = 40
FPRS = (0.1, 0.01)
PARTS = ("lira-online", "lira-offline", "rmia-online", "loss-threshold")


def credit() -> Dataset:
    """4,000 rows of the credit default table."""
    place = Path(os.environ["LETHE_DATA"]) / "credit_default"
    return lethe.load(str(next(place.glob("*.parquet"))), "default payment", rows=4000, seed=0)


SETS: dict[str, Callable[[], Dataset]] = {
    "digits": lambda: lethe.load("digits"),
    "breast-cancer": lambda: lethe.load("breast-cancer"),
    "credit": credit,
}


def copies_of(data: Dataset) -> Any:
    """(A, N, D) copies with noise of 0.3 deviations of a digit's pixel, or 0.2 of a column."""
    return noisy_copies(data.features, COPIES, 0.3 if data.name == "digits" else 0.2, seed=0)


def trained(data: Dataset, models: int) -> Shadows:
    """The shadow models; the held-out records and then all copies are their population."""

    def network() -> Any:
        from torch import nn

        return nn.Sequential(
            nn.Linear(data.features.shape[1], 128), nn.ReLU(), nn.Linear(128, len(data.classes))
        )

    pool = ~holdout(data.labels, 0.2, 0)
    features = np.concatenate([data.features, *copies_of(data)])
    labels = np.tile(data.labels, COPIES + 1)
    spec = Spec(
        features,
        labels,
        len(data.classes),
        np.concatenate([pool, np.zeros(COPIES * len(pool), bool)]),
        TorchRecipe(network, epochs=EPOCHS, batch_size=32),
        Treatment(),
        seed=0,
    )
    with tempfile.TemporaryDirectory() as folder:
        jobs = chunk_jobs(spec, Path(folder), models, 16)
        for job in jobs:
            train_chunk(job)
        return Shadows.from_shards(jobs, np.arange(len(labels)).astype(str))


def scores(data: Dataset, models: int) -> tuple[Shadows, dict[str, Any], dict[str, float]]:
    """The models, all scores and the seconds that they took."""
    everything = trained(data, models)
    pool = ~holdout(data.labels, 0.2, 0)
    held = int((~pool).sum())

    def of_copies(table: Any) -> Any:
        """(K, N, A) of the copies of records that may be members."""
        return table[:, held:].reshape(models, COPIES, len(pool))[:, :, pool].transpose(0, 2, 1)

    shadows = replace(
        everything,
        population=everything.population[:, :held],
        population_correct=everything.population_correct[:, :held],
        population_labels=everything.population_labels[:held],
    )
    queries = replace(shadows, queries=of_copies(everything.population))
    right = of_copies(everything.population_correct)

    def quantile() -> Any:
        return quantile_scores(
            shadows.signals,
            shadows.population,
            data.features[pool],
            data.features[~pool],
            data.labels[pool],
            data.labels[~pool],
        )

    found, seconds = dict(score(replace(shadows, population_correct=None), PARTS)), {}
    runs: dict[str, Callable[[], Any]] = {
        "gap": lambda: gap_scores(shadows.correct),
        "robustness": lambda: robustness_scores(right),
        "multi-query": lambda: score(queries, ("lira-queries",))["lira-queries"],
        "quantile": quantile,
    }
    for name, run in runs.items():
        start = time.perf_counter()
        found[name] = run()
        seconds[name] = round(time.perf_counter() - start, 2)
    return shadows, found, seconds


def strength(name: str, models: int) -> dict[str, Any]:
    """Every attack on one set, with intervals; printed, the strongest at 1 % FPR first."""
    data = SETS[name]()
    shadows, found, seconds = scores(data, models)
    cells = scored_cells(shadows.members)
    for score_table in found.values():
        cells &= np.isfinite(score_table)
    results = measure_scores(shadows, list(found), found.__getitem__, cells, FPRS)
    rows = {
        attack: {
            "auc": result.auc.to_json(),
            "tpr": {f"{fpr:g}": rate.to_json() for fpr, rate in result.tpr.items()},
            "seconds": seconds.get(attack),
        }
        for attack, result in results.items()
    }
    for attack, row in sorted(rows.items(), key=lambda item: -(item[1]["auc"]["value"])):
        rates = "  ".join(
            f"tpr@{fpr} {rate['value']:.4f} ({rate['low']:.4f} to {rate['high']:.4f})"
            for fpr, rate in row["tpr"].items()
            if rate.get("value") is not None
        )
        auc = row["auc"]
        area = f"{auc['value']:.4f} ({auc['low']:.4f} to {auc['high']:.4f})"
        print(f"{name:14} {attack:24} auc {area}  {rates}  {row['seconds']} s", flush=True)
    return {
        "records": shadows.records,
        "scores": int(cells.sum()),
        "held_out": shadows.population.shape[1],
        "models": models,
        "seed": 0,
        "load": load(),
        "attacks": rows,
    }


def main() -> None:
    """Measure the sets asked for and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", nargs="*", default=["digits", "breast-cancer"], metavar="SET")
    parser.add_argument("--models", type=int, default=32)
    parser.add_argument("--out", type=Path, default=RESULTS / "extra_attacks.json")
    options = parser.parse_args()
    save({"rounds": {name: strength(name, options.models) for name in options.sets}}, options.out)


if __name__ == "__main__":
    main()
