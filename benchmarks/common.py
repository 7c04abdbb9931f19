"""What the benchmarks share: timing Lethe's engine on a spec, ratios over rounds, the JSON file."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from baselines import machine

from lethe.training.chunks import Spec, chunk_jobs, train_chunk
from lethe.training.engines import settled_layout
from lethe.training.engines.processes import run_in_processes
from lethe.training.folder import RunFolder
from lethe.training.recipe import Layout, Recipe, TorchRecipe, Treatment
from lethe.training.shadows import Shadows

RESULTS = Path(__file__).parent / "results"
WORKERS = 2


def spec_with(features: Any, labels: Any, classes: int, recipe: Recipe) -> Spec:
    """A spec in which no record is held out."""
    pool = np.ones(len(labels), bool)
    return Spec(features, labels, classes, pool, recipe, Treatment(), seed=0)


def torch_recipe(make_module: Any, epochs: int, batch: int, rate: float = 1e-3) -> TorchRecipe:
    """Adam at a constant rate, as the baselines have it."""
    return TorchRecipe(
        make_module, epochs=epochs, batch_size=batch, learning_rate=rate, optimizer="adam"
    )


def calibrated(spec: Spec) -> Layout | None:
    """How an audit of this spec would train its models."""
    with tempfile.TemporaryDirectory() as place, RunFolder(Path(place) / "run", "bench") as folder:
        return settled_layout(folder, spec, WORKERS)


def warm(spec: Spec, layout: Layout | None = None) -> None:
    """Start the worker processes and let each train once, as in an audit they live long."""
    recipe = spec.recipe
    short = replace(recipe, epochs=1) if isinstance(recipe, TorchRecipe) else recipe
    with tempfile.TemporaryDirectory() as folder:
        spec = replace(spec, recipe=short)
        jobs = chunk_jobs(spec, Path(folder), 2 * WORKERS, 2, layout)
        list(run_in_processes(jobs, train_chunk, WORKERS))


def engine(spec: Spec, models: int, width: int, layout: Layout | None = None) -> dict[str, Any]:
    """Seconds a model of the whole engine, and accuracies IN and OUT."""
    warm(spec, layout)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        jobs = chunk_jobs(spec, Path(folder), models, width, layout)
        list(run_in_processes(jobs, train_chunk, WORKERS))
        seconds = time.perf_counter() - start
        shadows = Shadows.from_shards(jobs, np.arange(len(spec.labels)).astype(str))
    assert shadows.correct is not None
    return {
        "seconds_per_model": seconds / models,
        "train_accuracy": float(shadows.correct[shadows.members].mean()),
        "test_accuracy": float(shadows.correct[~shadows.members].mean()),
    }


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Median over the rounds of the ratio within a round."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def side_by_side(
    loop: Callable[[], dict[str, Any]], ours: Callable[[], dict[str, Any]], rounds: int
) -> tuple[list[dict[str, Any]], float, list[float]]:
    """Measure a loop and the engine in turn.

    Returns:
        the rounds, how many times faster a model of ours is, and the accuracies of both.
    """
    done = [{"loop": loop(), "lethe": ours(), "load": load()} for _ in range(rounds)]
    seconds = ([one[side]["seconds_per_model"] for one in done] for side in ("loop", "lethe"))
    accuracies = [done[0][side]["test_accuracy"] for side in ("loop", "lethe")]
    return done, median_ratio(*seconds), accuracies


def load() -> float:
    """Load average of the last minute, to be kept beside every round."""
    return round(os.getloadavg()[0], 2)


def save(document: dict[str, Any], out: Path) -> None:
    """Print the summaries, write everything with the machine that it was measured on."""
    everything = {
        "machine": machine(),
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE", "not set"),
        **document,
    }
    print(json.dumps({k: v for k, v in document.items() if k != "rounds"}, indent=1), flush=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(everything, indent=1) + "\n")
