"""A whole audit of the plain model from the command line: table-5000, 64 models, to the report.

    python benchmarks/whole_audit.py [--models 64] [--rounds 5] [--out FILE]

Seconds from the start of the process to its end, report on disk, into a fresh folder each time:
start-up, loading, calibration, training on all cores, attacks, intervals, checks, report. 20 % of
the records are held out, as in any audit. The first round also pays for cold files, and is kept.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, save
from workloads import Workload, workload

RECIPE = """
import functools
from lethe.training.models import mlp
from lethe.training.recipe import TorchRecipe

def recipe():
    return TorchRecipe(
        functools.partial(mlp, {first}, {hidden}, {last}), epochs={epochs}, batch_size={batch},
        learning_rate={rate}, optimizer="adam",
    )
"""


def prepare(job: Workload, folder: Path) -> list[str]:
    """Write the data and the recipe; the arguments that name them."""
    np.savez(folder / "table.npz", X=job.features, y=job.labels)
    text = RECIPE.format(
        first=job.widths[0],
        hidden=job.widths[1:-1],
        last=job.widths[-1],
        epochs=job.epochs,
        batch=job.batch,
        rate=job.learning_rate,
    )
    (folder / "own.py").write_text(text)
    return [str(folder / "table.npz"), "--recipe", f"{folder / 'own.py'}:recipe"]


def one_run(arguments: list[str], models: int) -> dict[str, Any]:
    """One run in a fresh folder."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        command = [
            sys.executable,
            "-m",
            "lethe",
            "audit",
            "model",
            *arguments,
            "--models",
            str(models),
            "--mitigations",
            "none",
            "--out",
            str(out),
            "--quiet",
        ]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if done.returncode or not (out / "report.html").exists():
            raise SystemExit(done.stdout + done.stderr)
        findings = json.loads((out / "findings.json").read_text())
        manifest = json.loads((out / "manifest.json").read_text())
    baseline = findings["candidates"][0]
    return {
        "seconds": seconds,
        "load": load(),
        "layout": manifest.get("layout"),
        "accuracy": baseline["utility"]["value"],
        "strongest": baseline["strongest_attack"],
        "auc": baseline["attacks"][baseline["strongest_attack"]]["auc"]["value"],
    }


def main() -> None:
    """Run the rounds, print the median, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "whole_audit.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arguments = prepare(workload("table-5000"), Path(folder))
        rounds = [one_run(arguments, options.models) for _ in range(options.rounds)]
    document = {
        "models": options.models,
        "seconds": statistics.median(one["seconds"] for one in rounds),
        "target_seconds": 10,
        "auc": rounds[0]["auc"],
        "rounds": rounds,
    }
    save(document, options.out)


if __name__ == "__main__":
    main()
