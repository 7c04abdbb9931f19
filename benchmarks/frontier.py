"""The frontier of serious defences on real data: is tuned DP-SGD better than what is only measured?

    LETHE_DATA=... python benchmarks/frontier.py SET... [--short] [--runs DIR] [--models 16]

SET: adult, mnist, diabetes130, cifar10. 5,000 records each, cut from a larger draw. The settings
of private training (rate, batch, passes; clip 1) are tuned for every epsilon on 5,000 *other*
records of the same set, so that tuning does not void the guarantee. Every candidate is attacked by
shadow models that carry it. Written down: TPR at 1 % and 0.1 % FPR, AUC, accuracy, all with
intervals; the Pareto set, the knee, and for every defence without a proof the private training of
equal or better accuracy that leaks least (Aerni et al. 2024: it dominates).
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, save
from strength import cifar, table

import lethe
from lethe.data.dataset import Dataset
from lethe.membership.audit import Silent, audit_model, baseline_spec
from lethe.membership.settings import AuditSettings
from lethe.mitigations.dp_sgd.candidate import IndividualPrivacy, PrivateTraining, public_weights
from lethe.mitigations.mitigation import Mitigation
from lethe.training.folder import RunFolder
from lethe.training.loop import default_layout, train_models
from lethe.training.recipe import TorchRecipe, Work

RECORDS, MODELS, DELTA = 5_000, 16, 1e-5
EPSILONS = (1.0, 4.0, 8.0, 50.0, 500.0)
RATES = (0.25, 1.0, 4.0)
BATCHES = (256, 1024)
PASSES = (20, 60)
FPR = ("0.01", "0.001")


def drawn(name: str) -> tuple[Dataset, Dataset, TorchRecipe]:
    """The records to audit, others to tune on, and the plain recipe."""
    if name == "cifar10":
        data, recipe = cifar(2 * RECORDS)
    else:
        options: dict[str, dict[str, Any]] = {
            "adult": {"label": "income", "drop": ["split"]},
            "mnist": {"label": "y_train", "file": "mnist.npz"},
            "diabetes130": {
                "label": "readmitted",
                "file": "diabetic_data.parquet",
                "drop": ["encounter_id", "patient_nbr"],
            },
        }
        data, recipe = table(name, rows=2 * RECORDS, **options[name])
        recipe = lethe.default_recipe(RECORDS, int(data.features[0].size), len(data.classes))
    # Images are scaled by constants; columns of tables by statistics of all records drawn.
    done = (np.abs(data.features.std(axis=0) - 1) < 1e-3) & (name != "cifar10")
    order = np.random.default_rng(1).permutation(len(data))
    parts = [part(data, np.sort(rows)) for rows in (order[:RECORDS], order[RECORDS:])]
    assert isinstance(recipe, TorchRecipe)
    # Each part by its own statistics, as if it had been loaded alone.
    return scaled(parts[0], done), scaled(parts[1], done), recipe


def scaled(data: Dataset, columns: Any) -> Dataset:
    """Mean 0 and standard deviation 1 in some columns."""
    features = np.array(data.features, np.float32)
    own = features[:, columns].astype(np.float64)
    spread = own.std(axis=0)
    features[:, columns] = (own - own.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return dataclasses.replace(data, features=features)


def part(data: Dataset, rows: Any) -> Dataset:
    """Some of the records."""
    return dataclasses.replace(
        data, features=data.features[rows], labels=data.labels[rows], ids=data.ids[rows]
    )


def accuracy(data: Dataset, recipe: TorchRecipe, one: PrivateTraining, models: int = 2) -> float:
    """Mean accuracy of some models on records that they were not trained on."""
    rng = np.random.default_rng(2)
    pool = np.zeros(len(data), bool)
    pool[rng.permutation(len(data))[: int(0.8 * len(data))]] = True
    members = np.zeros((models, len(data)), bool)
    for row in members:
        own = rng.permutation(np.flatnonzero(pool))
        row[own[: len(own) // 2]] = True
    treatment = one.treatment(np.ones(len(data), np.float32), pool)
    labels = data.labels.astype(np.int64)
    outputs = train_models(
        Work(
            recipe,
            data.features,
            labels,
            members,
            pool,
            treatment,
            list(range(models)),
            default_layout(recipe),
        )
    )
    return float(np.mean([(out.argmax(1) == labels)[~pool].mean() for out in outputs]))


def tuned(data: Dataset, recipe: TorchRecipe, epsilon: float) -> tuple[PrivateTraining, list[Any]]:
    """The best settings for an epsilon on these other records, and everything that was tried."""
    tried = []
    for rate, batch, passes in itertools.product(RATES, BATCHES, PASSES):
        one = PrivateTraining(
            epsilon,
            DELTA,
            passes,
            batch,
            learning_rate=rate,
            optimizer="sgd",
            momentum=0.0,
            tuning="public",
        )
        tried.append((accuracy(data, recipe, one), one))
    best = max(tried, key=lambda entry: entry[0])[1]
    return best, [
        {
            "accuracy": found,
            "rate": one.learning_rate,
            "batch": one.batch_size,
            "passes": one.epochs,
        }
        for found, one in tried
    ]


def row(candidate: dict[str, Any]) -> dict[str, Any]:
    """What is written down of a candidate."""
    best = candidate["attacks"][candidate["strongest_attack"]]
    return {
        "name": candidate["name"],
        "attack": candidate["strongest_attack"],
        "auc": best["auc"],
        "tpr": {fpr: best["tpr"][fpr] for fpr in FPR},
        "accuracy": candidate["utility"],
        "accuracy_lost": candidate["utility_loss"],
        "risk_change": candidate["risk_change"],
        "guarantee": candidate["guarantee"],
        "settings": candidate["settings"],
    }


def dominated(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """For every defence without a proof: the private training that is at least as accurate."""

    def told(one: dict[str, Any]) -> tuple[float, float]:
        return one["accuracy"]["value"], one["tpr"]["0.01"].get("value") or 0.0

    private = [one for one in rows if one["guarantee"]["proven"]]
    answers = {}
    for one in rows[1:]:
        if one["guarantee"]["proven"]:
            continue
        merit, risk = told(one)
        better = [other for other in private if told(other)[0] >= merit]
        best = min(better, key=lambda other: told(other)[1], default=None)
        answers[one["name"]] = {
            "accuracy": merit,
            "tpr": risk,
            "private": None if best is None else best["name"],
            "its_tpr": None if best is None else told(best)[1],
            "dominated": best is not None and told(best)[1] <= risk,
        }
    return answers


def untuned(epsilon: float) -> tuple[PrivateTraining, list[Any]]:
    """Settings that nobody chose by looking at data of this kind."""
    one = PrivateTraining(epsilon, DELTA, 12, 256, learning_rate=0.5, optimizer="sgd", momentum=0.0)
    return one, []


def measured(name: str, models: int, runs: Path, short: bool) -> dict[str, Any]:
    """Tune on other records, audit, compare."""
    start, before = time.perf_counter(), load()
    data, others, recipe = drawn(name)
    if short:
        found = {epsilon: untuned(epsilon) for epsilon in (8.0, 50.0)}
    else:
        found = {epsilon: tuned(others, recipe, epsilon) for epsilon in EPSILONS}
    print(f"{name}: tuned in {time.perf_counter() - start:.0f} s", flush=True)
    private = [one for one, _ in found.values()]
    cheap = ("l2", "label-smoothing", "mixup", "model-averaging", "label-only")
    settings = AuditSettings(
        models=models,
        mitigations=(
            "uniform-noise",
            "weighted",
            "weighted-noise",
            "removal",
            "early-stopping",
            *(() if short else (*cheap, "swag-ppm")),
        ),
        local_epsilon=None if short else 4.35,
    )
    pool = baseline_spec(data, recipe, settings).pool
    extra: list[Mitigation] = [*private]
    if not short:
        weights = public_weights(data.features, data.labels, pool, recipe, seed=settings.seed)
        extra += [IndividualPrivacy(found[8.0][0], given) for given in (None, weights)]
    spec = baseline_spec(data, recipe, settings)
    with RunFolder(runs / name, spec.hash()) as folder:
        findings = audit_model(data, recipe, settings, folder, Silent(), extra=extra)
        folder.write("findings.json", findings.to_bytes())
    rows = [row(candidate) for candidate in findings.candidates]
    return {
        "set": name,
        "records": len(data),
        "models": models,
        "seed": settings.seed,
        "seconds": time.perf_counter() - start,
        "load": [before, load()],
        "pareto": findings.frontier["pareto"],
        "knee": findings.frontier["knee"],
        "dominated": dominated(rows),
        "rows": rows,
        "tuning": {f"{epsilon:g}": tried for epsilon, (_, tried) in found.items()},
    }


def main() -> None:
    """Run the sets one after another and write each when it is done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="+", choices=["adult", "mnist", "diabetes130", "cifar10"])
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--runs", type=Path, default=Path("runs/frontier"))
    parser.add_argument("--short", action="store_true", help="fewer candidates, nothing tuned")
    parser.add_argument("--out", type=Path, default=RESULTS / "frontier.json")
    given = parser.parse_args()
    done = []
    for name in given.sets:
        done.append(measured(name, given.models, given.runs, given.short))
        save({"rounds": done, "sets": [one["set"] for one in done]}, given.out)
        for one in done[-1]["rows"]:
            tpr = one["tpr"]["0.01"]
            print(
                f"{name:12} {one['name']:18} accuracy {100 * one['accuracy']['value']:5.2f}  "
                f"tpr@.01 {100 * (tpr.get('value') or 0):5.2f}  auc {one['auc']['value']:.3f}"
            )
        print(f"{name}: {done[-1]['seconds']:.0f} s, Pareto {done[-1]['pareto']}", flush=True)


if __name__ == "__main__":
    main()
