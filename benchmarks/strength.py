"""How strong each attack is at each budget, on real data.

    LETHE_DATA=... python benchmarks/strength.py SET... [--runs DIR] [--out FILE]

SET: credit (on which settings were fixed), adult, mnist, diabetes130, cifar10. Shadow models are
trained as `lethe audit model` does, and kept in DIR. The last 32 of them (16 complementary pairs)
are the targets; of the others the first 4, 8, 16, ... are what the attacker has. Every attack is
run on the same targets with the same references. Intervals are two-way (targets x records), and
the difference to the better of LiRA and RMIA at 1 % FPR (better: chosen by the point estimate on
the very same targets, which favours them) is paired.
"""

from __future__ import annotations

import argparse
import io
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, save

import lethe
from lethe.data.dataset import Dataset
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.audit import Silent, Trainer, baseline_spec
from lethe.membership.measure import FPRS, AttackRates, measure_scores
from lethe.membership.scoring import score
from lethe.membership.settings import AuditSettings
from lethe.mitigations.mitigation import BASELINE
from lethe.training.folder import RunFolder
from lethe.training.recipe import Recipe
from lethe.training.shadows import Shadows

BUDGETS = (4, 8, 16, 32, 64, 128)
MOST = {"cifar10": 64}
TARGETS = 32
LIRA = ("lira-online", "lira-offline")
RMIA = ("rmia-online", "rmia-offline")


def table(name: str, label: str, rows: int, **options: Any) -> tuple[Dataset, Recipe]:
    """A table with Lethe's default recipe."""
    path = next((Path(os.environ["LETHE_DATA"]) / name).glob(options.pop("file", "*.parquet")))
    data = lethe.load(str(path), label, rows=rows, seed=0, **options)
    width = int(data.features[0].size)
    return data, lethe.default_recipe(len(data), width, len(data.classes))


def cifar(rows: int) -> tuple[Dataset, Recipe]:
    """Small convolutional networks on JPEG-coded CIFAR-10."""
    import pyarrow.parquet
    from PIL import Image

    from lethe.data.dataset import Dataset
    from lethe.training.recipe import TorchRecipe

    path = Path(os.environ["LETHE_DATA"]) / "cifar10_jpeg" / "cifar10_jpeg.parquet"
    found = pyarrow.parquet.read_table(path, columns=["image", "label", "split"])
    train = np.flatnonzero(found["split"].to_numpy() == "train")
    chosen = np.sort(np.random.default_rng(0).choice(train, rows, replace=False))
    found = found.take(chosen)
    images = np.stack(
        [
            np.asarray(Image.open(io.BytesIO(one)).convert("RGB"))
            for one in found["image"].to_pylist()
        ]
    )
    features = (images.transpose(0, 3, 1, 2).astype(np.float32) / 255 - 0.47) / 0.25
    data = Dataset(
        "cifar10",
        features.reshape(rows, -1),
        found["label"].to_numpy().astype(np.int64),
        tuple(map(str, range(10))),
        np.arange(rows).astype(str),
        tuple(f"value{at}" for at in range(features[0].size)),
        "CIFAR-10, JPEG-coded",
    )
    recipe = TorchRecipe(
        small_cnn,
        epochs=12,
        batch_size=64,
        optimizer="sgd",
        learning_rate=0.02,
        momentum=0.9,
        schedule="cosine",
    )
    return data, recipe


def small_cnn() -> Any:
    """Two convolutions and two linear layers."""
    from torch import nn

    return nn.Sequential(
        nn.Unflatten(1, (3, 32, 32)),
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 8 * 8, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


SETS: dict[str, Callable[[], tuple[Dataset, Recipe]]] = {
    "credit": lambda: table("credit_default", "default payment", 10_000),
    "adult": lambda: table("adult", "income", 10_000, drop=["split"]),
    "mnist": lambda: table("mnist", "y_train", 10_000, file="mnist.npz"),
    "diabetes130": lambda: table(
        "diabetes130",
        "readmitted",
        10_000,
        file="diabetic_data.parquet",
        drop=["encounter_id"],
        group="patient_nbr",
    ),
    "cifar10": lambda: cifar(5_000),
}


def trained(name: str, models: int, runs: Path) -> Shadows:
    """Shadow models of the plain recipe, trained unless they are there."""
    data, recipe = SETS[name]()
    settings = AuditSettings(models=models, mitigations=("none",))
    spec = baseline_spec(data, recipe, settings)
    with RunFolder(runs / name, spec.hash()) as folder:
        trainer = Trainer(spec, settings, folder, Silent(), 2, data.ids)
        everyone = np.ones(len(data), np.float32)
        shadows = trainer([BASELINE], everyone, models)[BASELINE.name]
    pool = spec.pool
    return replace(shadows, features=data.features[pool], population_features=data.features[~pool])


def part(shadows: Shadows, rows: slice) -> Shadows:
    """Some of the models."""
    return replace(
        shadows,
        signals=shadows.signals[rows],
        members=shadows.members[rows],
        correct=None if shadows.correct is None else shadows.correct[rows],
        population=shadows.population[rows],
        population_correct=None,
    )


def budget(references: Shadows, targets: Shadows, names: tuple[str, ...]) -> dict[str, Any]:
    """Every attack with these references on these targets."""
    start = time.perf_counter()
    found = score(references, names, targets=targets)
    seconds = time.perf_counter() - start
    scored = np.ones(targets.members.shape, bool)
    results = measure_scores(targets, list(found), found.__getitem__, scored)
    best = {kind: max(kind, key=lambda name: rate(results[name])) for kind in (LIRA, RMIA)}
    anchor = max(best.values(), key=lambda name: rate(results[name]))
    return {
        "seconds": seconds,
        "better_of_lira_and_rmia": anchor,
        "attacks": {
            name: {
                "auc": result.auc.to_json(),
                "tpr": {f"{fpr:g}": result.tpr[fpr].to_json() for fpr in FPRS},
                "gain_tpr_0.01": gain(result, results[anchor]),
            }
            for name, result in results.items()
        },
    }


def rate(result: AttackRates) -> float:
    """TPR at 1 % FPR."""
    found = result.metric(0.01)
    assert isinstance(found, lethe.Estimate) and found.value is not None
    return found.value


def gain(one: AttackRates, other: AttackRates) -> dict[str, float]:
    """TPR at 1 % FPR less that of another attack, with a paired 95 % interval."""
    place = one.place(0.01)
    spread = (one.influence - other.influence).spread(place)
    value, half = rate(one) - rate(other), spread.quantile(0.95) * spread.deviation
    return {"value": value, "low": value - half, "high": value + half}


def show(name: str, models: int, found: dict[str, Any]) -> None:
    """One budget as lines of text, the strongest attack first."""
    print(f"{name}, {models} shadow models; anchor {found['better_of_lira_and_rmia']}")
    ordered = sorted(found["attacks"].items(), key=lambda item: -item[1]["tpr"]["0.01"]["value"])
    for attack, row in ordered:
        tpr, more = row["tpr"]["0.01"], row["gain_tpr_0.01"]
        low = row["tpr"]["0.001"]
        print(
            f"  {attack:18} auc {row['auc']['value']:.3f}  tpr@.01 {100 * tpr['value']:5.2f} "
            f"({100 * tpr['low']:.2f} to {100 * tpr['high']:.2f})  "
            f"tpr@.001 {100 * low['value']:.2f}  gain {100 * more['value']:+.2f} "
            f"({100 * more['low']:+.2f} to {100 * more['high']:+.2f})",
            flush=True,
        )


def main() -> None:
    """Train, attack, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("sets", nargs="+", choices=SETS)
    parser.add_argument("--runs", type=Path, default=Path("runs/strength"))
    parser.add_argument("--most", type=int, default=128)
    parser.add_argument("--attacks", nargs="+", default=list(ATTACKS), choices=ATTACKS)
    parser.add_argument("--out", type=Path, default=RESULTS / "strength.json")
    options = parser.parse_args()
    document: dict[str, Any] = {"targets": TARGETS, "seed": 0, "load": load()}
    for name in options.sets:
        start = time.perf_counter()
        most = min(options.most, MOST.get(name, options.most))
        shadows = trained(name, most + TARGETS, options.runs)
        print(f"{name}: {shadows.records} records, {time.perf_counter() - start:.0f} s", flush=True)
        targets = part(shadows, slice(most, None))
        row: dict[str, Any] = {"records": shadows.records}
        for models in (budget for budget in BUDGETS if budget <= most):
            # What asks no reference model is the same at every budget.
            names = [
                each
                for each in options.attacks
                if models == BUDGETS[0] or not ATTACKS[each].reference_free
            ]
            row[str(models)] = budget(part(shadows, slice(0, models)), targets, tuple(names))
            show(name, models, row[str(models)])
        document[name] = row
        save({"rounds": document}, options.out)


if __name__ == "__main__":
    main()
