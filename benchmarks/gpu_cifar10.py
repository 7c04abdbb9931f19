"""Half-data CIFAR-10 (JPEG) models on a GPU: accuracy, seconds, and the share of the peak.

    python examples/cifar10/prepare.py PARQUET cifar10.npz
    python benchmarks/gpu_cifar10.py cifar10.npz [--models 256] [--recipe make] [--peak 989]

Never run on a GPU so far: none was at hand, so there is no results file. The aim is at least 90 %
on records that a model was not trained on, and 256 models within 7 minutes on an H200.

The models are trained through Lethe's engine as an audit trains them: calibration, worker
processes, shards. Calibration and the workers' start are inside the seconds; data loading is not.
Operations are counted by torch.utils.flop_counter on one batch without computing it, and multiplied
by the rows trained on and predicted; a multiplication and an addition count as two. `--peak` is
what the GPU can do, in TFLOP/s without sparsity (H200, bfloat16: 989 by its data sheet).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, save

from lethe.data.tables import load as load_data
from lethe.training.chunks import Spec, chunk_jobs, chunk_width, train_chunk
from lethe.training.engines import settled_layout, train_in_processes
from lethe.training.environment import default_workers
from lethe.training.folder import RunFolder
from lethe.training.models import load_recipe
from lethe.training.recipe import TorchRecipe, Treatment
from lethe.training.shadows import Shadows

RECIPE = Path(__file__).parents[1] / "examples" / "cifar10" / "recipe.py"


def operations(recipe: TorchRecipe, values: int) -> tuple[float, float]:
    """FLOP of a row in training (forward and backward), and in prediction."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    rows = 8
    module = recipe.make_module().to("meta")
    x = torch.empty(rows, values, device="meta")
    with FlopCounterMode(display=False) as training:
        module(x).sum().backward()
    with FlopCounterMode(display=False) as predicting, torch.no_grad():
        module(x)
    return training.get_total_flops() / rows, predicting.get_total_flops() / rows


def run(spec: Spec, recipe: TorchRecipe, models: int, workers: int) -> dict[str, Any]:
    """Train the models; accuracies, seconds and work."""
    with tempfile.TemporaryDirectory() as place, RunFolder(Path(place) / "run", "bench") as folder:
        began = time.perf_counter()
        layout = settled_layout(folder, spec, workers)
        calibrated = time.perf_counter() - began
        jobs = chunk_jobs(spec, folder.path / "shadows", models, chunk_width(models), layout)
        list(train_in_processes(jobs, train_chunk, workers))
        seconds = time.perf_counter() - began
        shadows = Shadows.from_shards(jobs, np.arange(len(spec.labels)).astype(str))
        settled = folder.manifest["layout"]
    assert shadows.correct is not None
    train, predict = operations(recipe, spec.features.shape[1])
    rows = len(spec.labels)
    work = models * (train * recipe.epochs * int(spec.pool.sum()) / 2 + predict * rows)
    out = [shadows.correct[at][~inside].mean() for at, inside in enumerate(shadows.members)]
    return {
        "seconds": seconds,
        "seconds_calibration": calibrated,
        "train_accuracy": float(shadows.correct[shadows.members].mean()),
        "out_accuracy": {"mean": float(np.mean(out)), "lowest": float(min(out))},
        "pflop": work / 1e15,
        "tflop_per_second": work / 1e12 / seconds,
        "layout": settled,
    }


def main() -> None:
    """Train, print, write the JSON file."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, help="the npz of examples/cifar10/prepare.py")
    parser.add_argument("--models", type=int, default=256)
    parser.add_argument("--recipe", default="make", help="function of examples/cifar10/recipe.py")
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--peak", type=float, default=989.0, help="TFLOP/s of the GPU")
    parser.add_argument("--rows", type=int, help="only so many records")
    parser.add_argument("--count", action="store_true", help="only count operations; no GPU needed")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_cifar10.json")
    options = parser.parse_args()
    data = load_data(options.data, rows=options.rows, seed=0)
    recipe = load_recipe(f"{RECIPE}:{options.recipe}", data)
    assert isinstance(recipe, TorchRecipe)
    if options.count:
        train, predict = operations(recipe, data.features.shape[1])
        total = options.models * (train * recipe.epochs * len(data) / 2 + predict * len(data))
        print(json.dumps({"gflop_per_row_trained": train / 1e9, "pflop": total / 1e15}))
        return
    if not torch.cuda.is_available():
        raise SystemExit("there is no GPU; --count only counts the operations.")
    pool = np.ones(len(data), bool)
    spec = Spec(data.features, data.labels, len(data.classes), pool, recipe, Treatment(), seed=0)
    before = load()
    found = run(spec, recipe, options.models, options.workers)
    found["share_of_peak"] = found["tflop_per_second"] / options.peak
    document = {
        "data": "CIFAR-10, JPEG-coded",
        "gpu": torch.cuda.get_device_name(),
        "models": options.models,
        "recipe": recipe.describe(),
        "peak_tflop_per_second": options.peak,
        "load": [before, load()],
        **found,
    }
    save(document, options.out)


if __name__ == "__main__":
    main()
