"""Train the corpus: pairs of data set and recipe, their shadow models and their true rates.

Each pair is one file and is skipped where it exists, so that a run can be stopped and goes on.

    python benchmarks/one_model/make.py --data FOLDER --out FOLDER
"""

from __future__ import annotations

import argparse
import time
import warnings
import zlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sets import HELD_OUT, RECIPES, real_sets, simulated
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from lethe.membership.scoring import score
from lethe.training.shadows import Shadows

ATTACKS = ("lira-online", "lira-ranked", "learned-ratio")
TARGETS = 2
"""Models of a pair that are looked at as the one model of a newcomer."""
SIMULATED = 40
SIZES = (500, 1000, 2000, 3000)


def design(models: int, records: int, seed: int) -> NDArray[np.bool_]:
    """(K, N) each pair of models trains on complementary halves."""
    rng = np.random.default_rng(seed)
    half = rng.permuted(np.tile(np.arange(records) < records // 2, (models // 2, 1)), axis=1)
    return np.stack([half, ~half], 1).reshape(models, records)


def shares(model: Any, features: Any, classes: int) -> NDArray[np.float64]:
    """(N, C) probabilities with a column for each class, also one the model never saw."""
    found = np.zeros((len(features), classes))
    found[:, model.classes_] = model.predict_proba(features)
    return found


def logit(probabilities: NDArray[np.float64], labels: NDArray[np.intp]) -> NDArray[np.float64]:
    """(N,) log odds of the true class, as an audit has them."""
    share = np.clip(probabilities[np.arange(len(labels)), labels], 1e-6, 1 - 1e-6)
    return np.asarray(np.log(share / (1 - share)))


def tpr(member: NDArray[np.bool_], scores: NDArray[np.float64], fpr: float) -> float:
    """Share of members above the threshold that 1 of 1/fpr non-members passes, ties by chance."""
    outside = np.sort(scores[~member])[::-1]
    allowed = fpr * len(outside)
    threshold = outside[min(int(allowed), len(outside) - 1)]
    above, tied = (outside > threshold).sum(), (outside == threshold).sum()
    inside = scores[member]
    return float(
        (inside > threshold).mean() + (inside == threshold).mean() * (allowed - above) / tied
    )


def moved(features: NDArray[np.float32], step: float, seed: int) -> NDArray[np.float32]:
    """The same records with each number moved by ``step`` deviations."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=features.shape) * features.std(0) * step
    return np.asarray(features + noise, np.float32)


def train_pair(job: tuple[str, str, int, Path, Path]) -> str:
    name, recipe, size, data, out = job
    path = out / f"{name}+{recipe.replace(' ', '_')}.npz"
    if path.exists():
        return f"{path.name}: at hand"
    warnings.simplefilter("ignore")
    start, seed = time.perf_counter(), zlib.crc32(f"{name}+{recipe}".encode())
    maker = simulated(int(name[4:])) if name.startswith("sim-") else real_sets(data)[name]
    features, labels = maker(size, seed % 1000)
    kind, make = RECIPES[recipe]
    models = 32 if recipe == "net, long" else 64
    members, classes = design(models, len(labels), seed), int(labels.max()) + 1
    table = np.zeros(members.shape, np.float32)
    right = np.zeros(members.shape, bool)
    kept: list[Any] = []
    for k, inside in enumerate(members):
        model = clone(make(k)).fit(features[inside], labels[inside])
        found = shares(model, features, classes)
        table[k], right[k] = logit(found, labels), found.argmax(1) == labels
        if k % 2 == 0 and len(kept) < TARGETS:
            near = [
                shares(model, moved(features, step, 1 + k), classes) for step in (0.02, 0.1, 0.3)
            ]
            kept.append((k, found, near))
    shadows = Shadows(table, members, np.arange(len(labels)).astype(str), labels, correct=right)
    scores = score(shadows, ATTACKS, "auto", 0)
    truth = {}
    for attack, found in scores.items():
        for fpr in (0.1, 0.01, 0.001):
            truth[f"{attack}@{fpr}"] = tpr(members.ravel(), found.ravel(), fpr)
        truth[f"{attack}@auc"] = float(roc_auc_score(members.ravel(), found.ravel()))
    inside_mean = np.nanmean(np.where(members, table, np.nan), 0)
    outside_mean = np.nanmean(np.where(members, np.nan, table), 0)
    spread = np.nanstd(np.where(members, np.nan, table), 0) + np.nanstd(
        np.where(members, table, np.nan), 0
    )
    exposure = (inside_mean - outside_mean) / (spread / 2 + 0.05)
    temporary = path.with_suffix(".tmp.npz")
    np.savez_compressed(
        temporary,
        features=features,
        labels=labels,
        kind=kind,
        held_out=name in HELD_OUT,
        truth_names=np.array(list(truth)),
        truth=np.array(list(truth.values())),
        exposure=exposure,
        accuracy=np.array([right[members].mean(), right[~members].mean()]),
        target_members=np.stack([members[k] for k, _, _ in kept]),
        outputs=np.stack([found for _, found, _ in kept]).astype(np.float32),
        near=np.stack([np.stack(near) for _, _, near in kept]).astype(np.float32),
    )
    temporary.rename(path)
    best = max(truth[f"{attack}@0.01"] for attack in ATTACKS)
    seconds = time.perf_counter() - start
    return f"{path.name}: n={len(labels)} tpr@0.01 {best:.3f}, {seconds:.0f} s"


def jobs(data: Path, out: Path) -> list[tuple[str, str, int, Path, Path]]:
    """At least 200 pairs to learn from and 45 that are held out; each set has one size."""
    rng, found = np.random.default_rng(0), []
    names = [*real_sets(data), *(f"sim-{number}" for number in range(SIMULATED))]
    for name in names:
        simulation = name.startswith("sim-")
        how_many = 5 if simulation else 10 if name in HELD_OUT else 14
        for recipe in rng.permutation(list(RECIPES))[:how_many]:
            found.append((name, str(recipe), int(rng.choice(SIZES)), data, out))
    return [found[place] for place in rng.permutation(len(found))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    work = jobs(arguments.data, arguments.out)
    with ProcessPoolExecutor(arguments.workers) as pool:
        for number, line in enumerate(pool.map(train_pair, work), 1):
            print(f"{number}/{len(work)} {line}", flush=True)


if __name__ == "__main__":
    main()
