"""What the engine costs beside training: hashing, storing, checking, gathering.

    python benchmarks/overhead.py [--models 64] [--rounds 5] [--out FILE]

Training alone runs the same trainer on the same chunks in the same worker processes and drops the
outputs. The full engine also hashes data and code, looks for finished shards, makes signals, writes
shards and gathers them. Both begin with warm workers; the order within a round alternates.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from common import RESULTS, WORKERS, load, save, warm
from stacked_training import spec_of
from workloads import WORKLOADS, workload

from lethe.training.chunks import ChunkJob, Spec, chunk_jobs, train_chunk
from lethe.training.design import membership, model_seed
from lethe.training.engines.processes import run_in_processes
from lethe.training.outputs import outputs_of
from lethe.training.shadows import Shadows


def train_alone(job: ChunkJob) -> int:
    """Train and predict the models of a chunk, keep nothing."""
    spec, last = job.spec, job.first + job.models
    members = membership(last, len(spec.labels), spec.seed)[job.first : last]
    seeds = [model_seed(spec.seed, index) for index in range(job.first, last)]
    return sum(1 for _ in outputs_of(spec.work(members, seeds, job.layout)))


def alone(spec: Spec, models: int, width: int) -> float:
    """Seconds of training and predicting."""
    jobs = [
        ChunkJob(spec, "", Path(), chunk, first, min(width, models - first))
        for chunk, first in enumerate(range(0, models, width))
    ]
    start = time.perf_counter()
    list(run_in_processes(jobs, train_alone, WORKERS))
    return time.perf_counter() - start


def full(spec: Spec, models: int, width: int) -> float:
    """Seconds of everything up to the gathered signals."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        jobs = chunk_jobs(spec, Path(folder), models, width)
        missing = [job for job in jobs if job.finished() is None]
        list(run_in_processes(missing, train_chunk, WORKERS))
        Shadows.from_shards(jobs, np.arange(len(spec.labels)).astype(str))
        return time.perf_counter() - start


def main() -> None:
    """Run all rounds, print the overhead, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--workloads", nargs="+", choices=WORKLOADS, default=["digits", "table-5000"]
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "overhead.json")
    options = parser.parse_args()
    summary, rounds = {}, {}
    for name in options.workloads:
        spec = spec_of(workload(name))
        warm(spec)
        alone(spec, 2 * WORKERS, 2)
        done = []
        for number in range(options.rounds):
            steps = {"alone": alone, "full": full}
            order = list(steps) if number % 2 == 0 else list(steps)[::-1]
            seconds = {step: steps[step](spec, options.models, options.width) for step in order}
            done.append({**seconds, "load": load()})
        rounds[name] = done
        summary[name] = {
            "overhead": statistics.median(one["full"] / one["alone"] - 1 for one in done),
            "alone_seconds": statistics.median(one["alone"] for one in done),
            "target": 0.03,
        }
    save(
        {"models": options.models, "width": options.width, **summary, "rounds": rounds}, options.out
    )


if __name__ == "__main__":
    main()
