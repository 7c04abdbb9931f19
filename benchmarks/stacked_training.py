"""Stacked shadow training against the loops people write, in one run.

    python benchmarks/stacked_training.py [--models 64] [--rounds 3] [--out FILE]

Each round measures, one after the other on an otherwise idle machine: the plain DataLoader loop and
the tensor-index loop (`baselines.py`, each with 1 and 2 threads in a fresh process), and Lethe's
engine: all models of the workload in two worker processes, shards hashed and written, every model
evaluated on every record. Workers are started and warmed first, as in an audit they live long.
Given are medians over the rounds of wall seconds a model, and of the ratios within a round; the
accuracies show that all train the same model equally well. A machine whose environment presets
OPENBLAS_CORETYPE keeps it, and with it slower products: run with `env -u OPENBLAS_CORETYPE`.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
from pathlib import Path
from typing import Any

from baselines import LOOPS, fresh, machine
from common import engine, spec_with, torch_recipe
from workloads import WORKLOADS, Workload, workload

from lethe.training.chunks import Spec
from lethe.training.models import mlp


def spec_of(job: Workload) -> Spec:
    """The workload as a spec of shadow models; no record is held out."""
    network = functools.partial(mlp, job.widths[0], job.widths[1:-1], job.widths[-1])
    recipe = torch_recipe(network, job.epochs, job.batch, job.learning_rate)
    return spec_with(job.features, job.labels, job.widths[-1], recipe)


def main() -> None:
    """Run all rounds, print ratios, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "stacked_training.json"
    )
    options = parser.parse_args()
    options.repeats, options.hidden, options.limit = 1, 128, 60
    baseline = argparse.Namespace(models=3, repeats=1, hidden=128, limit=60)
    results = []
    for name in options.workloads:
        rounds = []
        for _ in range(options.rounds):
            loops = {
                loop: [fresh(name, loop, threads, baseline) for threads in (1, 2)] for loop in LOOPS
            }
            ours = engine(spec_of(workload(name)), options.models, options.width)
            rounds.append({"loops": loops, "lethe": ours, "load": os.getloadavg()[0]})
        results.append({"workload": name, "rounds": rounds, **summary(rounds)})
        print(json.dumps({"workload": name, **summary(rounds)}, indent=1), flush=True)
    document = {
        "machine": machine(),
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", "not set"),
        "models": options.models,
        "width": options.width,
        "results": results,
    }
    options.out.write_text(json.dumps(document, indent=1) + "\n")


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds, and the ratio to the better thread count of each loop."""
    ours = [one["lethe"]["seconds_per_model"] for one in rounds]
    found: dict[str, Any] = {
        "lethe_seconds_per_model": statistics.median(ours),
        "lethe_test_accuracy": rounds[0]["lethe"]["test_accuracy"],
        "lethe_train_accuracy": rounds[0]["lethe"]["train_accuracy"],
        "all_rounds_quiet": all(
            row["quiet"] for one in rounds for rows in one["loops"].values() for row in rows
        ),
    }
    for loop in LOOPS:
        best = [min(row["seconds_per_model"] for row in one["loops"][loop]) for one in rounds]
        found[f"{loop}_seconds_per_model"] = statistics.median(best)
        found[f"times_{loop}"] = statistics.median(
            theirs / mine for theirs, mine in zip(best, ours, strict=True)
        )
        found[f"{loop}_test_accuracy"] = rounds[0]["loops"][loop][0]["test_accuracy"]["mean"]
    return found


if __name__ == "__main__":
    main()
