"""Shadow models of CIFAR-10 (JPEG) on one GPU, as many as fit in the minutes that are there.

    python benchmarks/gpu_cifar10.py PARQUET FOLDER --plain 300 --weighted 150
    python benchmarks/gpu_cifar10.py PARQUET FOLDER --check              # speed and bits, a minute
    python benchmarks/gpu_cifar10.py PARQUET FOLDER --device cpu --rows 500 --width 8 --epochs 1

`PARQUET` has the columns `image` (bytes of a JPEG) and `label`. The first 1 % of the records are
canaries, whose labels are drawn anew among the nine others. Each model trains on half of all
records, through Lethe's engine as an audit trains them: calibration, worker processes, shards.

*plain* is the recipe of `examples/cifar10`; *weighted* the same with the weights and the gradient
noise of Forgotten by Design, where the weights come from the t-scores of all plain models, as in
an audit; plain models that lie in FOLDER already are not trained again. FOLDER gets
`plain-0.npz`, ... and `weighted-0.npz`, ... (signals, members, queries) and `run.json` (seconds,
accuracies, operations); `gpu_tables.py FOLDER` attacks them on any machine.

Operations are counted by torch.utils.flop_counter on one batch without computing it, and multiplied
by the rows trained on and predicted; a multiplication and an addition count as two.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import load, save

from lethe.membership.exposure import expose
from lethe.mitigations.mitigation import exponential_weights
from lethe.training.chunks import Shard, Spec, chunk_jobs, train_chunk
from lethe.training.engines import settled_layout
from lethe.training.engines.processes import run_in_processes, stop_processes
from lethe.training.folder import RunFolder
from lethe.training.recipe import Layout, TorchRecipe, Treatment
from lethe.training.shadows import Shadows

sys.path.append(str(Path(__file__).parents[1] / "examples" / "cifar10"))
from prepare import decode  # noqa: E402
from recipe import make  # noqa: E402

CANARIES = 0.01
MODELS_OF_A_FILE = 32
ALPHA, BETA = 2.0, 2.0


def records_of(parquet: Path, rows: int) -> tuple[Any, Any, Any]:
    """Pixels (N, 3072) float32 in [0, 1], labels with canaries, and which records are canaries."""
    from pyarrow import parquet as reader

    table = reader.read_table(parquet, columns=["image", "label"])
    chosen = np.sort(np.random.default_rng(7).permutation(table.num_rows)[:rows])
    images = table.column("image").take(chosen).to_pylist()
    with multiprocessing.Pool() as pool:
        pixels = np.stack(pool.map(decode, images, chunksize=500))
    labels = table.column("label").take(chosen).to_numpy().astype(np.int64)
    canary = np.arange(rows) < round(CANARIES * rows)
    shift = np.random.default_rng(8).integers(1, 10, rows)
    labels = np.where(canary, (labels + shift) % 10, labels)
    return pixels.reshape(rows, -1).astype(np.float32) / 255, labels, canary


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


def train(
    spec: Spec, folder: Path, layout: Layout | None, seconds: float, most: int, workers: int
) -> tuple[list[Shard], float]:
    """Pairs of models until the seconds are over; the shards in order, and seconds to the last."""
    jobs = chunk_jobs(spec, folder, most, 2, layout)
    folder.mkdir(parents=True, exist_ok=True)
    began = last = time.perf_counter()
    running = run_in_processes(jobs, train_chunk, workers)
    with contextlib.closing(running):
        for _ in running:
            last = time.perf_counter()
            if last - began > seconds:
                break
    stop_processes()
    shards = [shard for job in jobs if (shard := job.finished()) is not None]
    return shards, last - began


def write(shards: list[Shard], folder: Path, name: str) -> None:
    """Signals, members and queries of all models in files of a few megabytes."""
    step = MODELS_OF_A_FILE // 2
    for at in range(0, len(shards), step):
        part = shards[at : at + step]
        queries = {}
        if part[0].queries is not None:
            queries["queries"] = np.concatenate([s.queries for s in part]).astype(np.float16)  # type: ignore[misc]
        np.savez_compressed(
            folder / f"{name}-{at // step}.npz",
            signals=np.concatenate([shard.signals for shard in part]),
            members=np.packbits(np.concatenate([shard.members for shard in part]), axis=1),
            **queries,
        )


def written(folder: Path, name: str) -> tuple[Any, Any, list[Any]]:
    """(K, N) signals and members, and (K, A, N) queries by file, as `write` left them."""
    files = [np.load(path) for path in sorted(folder.glob(f"{name}-*.npz"))]
    signals = np.concatenate([file["signals"] for file in files])
    packed = np.concatenate([file["members"] for file in files])
    members = np.unpackbits(packed, axis=1, count=signals.shape[1]).astype(bool)
    return signals, members, [file["queries"] for file in files if "queries" in file]


def figures(
    shards: list[Shard], seconds: float, recipe: TorchRecipe, rows: int, queries: int
) -> dict[str, Any]:
    """Accuracies of the models, seconds and operations."""
    correct = np.concatenate([shard.correct for shard in shards if shard.correct is not None])
    members = np.concatenate([shard.members for shard in shards]).astype(bool)
    outside = [float(c[~m].mean()) for c, m in zip(correct, members, strict=True)]
    training, predicting = operations(recipe, 3072)
    work = training * recipe.epochs * rows / 2 + predicting * rows * (1 + queries)
    models = len(members)
    return {
        "models": models,
        "seconds": seconds,
        "models_an_hour": 3600 * models / seconds,
        "accuracy_in": float(correct[members].mean()),
        "accuracy_out": {"mean": float(np.mean(outside)), "lowest": min(outside)},
        "tflop_a_model": work / 1e12,
        "tflop_a_second": models * work / 1e12 / seconds,
    }


def checked(spec: Spec, folder: Path, layout: Layout | None) -> dict[str, Any]:
    """Whether two trainings agree in every bit, and what workers beside each other gain."""
    short = Spec(spec.features, spec.labels, 10, spec.pool, spec.recipe, spec.treatment, spec.seed)
    found: dict[str, Any] = {}
    first: list[Shard] = []
    for workers in (1, 2, 4):
        shards, seconds = train(short, folder / f"w{workers}", layout, 600, 4, workers)
        found[f"seconds_of_4_with_{workers}_workers"] = seconds
        first = first or shards
        equal = [np.array_equal(a.signals, b.signals) for a, b in zip(first, shards, strict=True)]
        found[f"as_before_with_{workers}"] = all(equal)
    return found


def main() -> None:
    """Train, write the tables and what they cost."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parquet", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--queries", type=int, default=2, help="changed copies of each record")
    parser.add_argument("--plain", type=float, default=10, help="seconds of plain models")
    parser.add_argument("--weighted", type=float, default=0, help="seconds of weighted models")
    parser.add_argument("--most", type=int, default=256, help="models of a kind")
    parser.add_argument("--noise", type=float, default=1e-4, help="deviation on the mean gradient")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--check", action="store_true", help="only speed of ways and equal bits")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("there is no GPU; --device cpu with few --rows tries the script.")
    before = load()
    features, labels, canary = records_of(options.parquet, options.rows)
    data = argparse.Namespace(classes=range(10))
    recipe: TorchRecipe = make(data, options.width, options.epochs)
    pool = np.ones(len(labels), bool)
    options.folder.mkdir(parents=True, exist_ok=True)

    def spec_of(treatment: Treatment, queries: int) -> Spec:
        return Spec(features, labels, 10, pool, recipe, treatment, seed=0, queries=queries)

    spec = spec_of(Treatment(), options.queries)
    runs, report = options.folder / "run", options.folder / "run.json"
    document: dict[str, Any] = json.loads(report.read_text()) if report.exists() else {}
    if "plain" not in document:
        with RunFolder(runs, "bench") as folder:
            began = time.perf_counter()
            settled_layout(folder, spec, options.workers)
            document = {
                "data": f"CIFAR-10, JPEG-coded, {options.rows} records",
                "canaries": int(canary.sum()),
                "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
                "recipe": recipe.describe(),
                "seconds_calibration": time.perf_counter() - began,
                "layout": folder.manifest["layout"],
                "load": before,
            }
        save(document, report)
    layout = Layout.from_json(document["layout"])
    if options.check:
        document["check"] = checked(spec, runs, layout)
        save(document, report)
        print(json.dumps(document["check"]))
        return
    if "plain" not in document:
        shards, seconds = train(
            spec, runs / "plain", layout, options.plain, options.most, options.workers
        )
        document["plain"] = figures(shards, seconds, recipe, options.rows, options.queries)
        document["plain"]["workers"] = options.workers
        write(shards, options.folder, "plain")
        save(document, report)
    if options.weighted:
        signals, members, _ = written(options.folder, "plain")
        t = expose(
            Shadows(signals, members, np.arange(len(labels)).astype(str), labels)
        ).all_models.t
        weights = exponential_weights(t, ALPHA, BETA)
        treatment = Treatment(weights=weights, noise=options.noise)
        shards, seconds = train(
            spec_of(treatment, 0),
            runs / "weighted",
            layout,
            options.weighted,
            options.most,
            options.workers,
        )
        document["weighted"] = {
            **figures(shards, seconds, recipe, options.rows, 0),
            "workers": options.workers,
            "alpha": ALPHA,
            "beta": BETA,
            "noise": options.noise,
            "mean_weight": float(weights.mean()),
            "below_half": float((weights < 0.5).mean()),
        }
        write(shards, options.folder, "weighted")
    save(document, report)


if __name__ == "__main__":
    main()
