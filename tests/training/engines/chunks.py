"""Shadow models that every engine trains, and jobs of workers, which need not import pytest."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from lethe.errors import InputError
from lethe.training.chunks import ChunkJob, Spec, chunk_jobs, train_chunk
from lethe.training.recipe import CallableRecipe, TorchRecipe, Treatment

MODELS, WIDTH = 10, 4


def softmax_regression(features, labels):
    """Trains by gradient descent; its bits are those of NumPy's linear algebra."""

    def train(rows, weights, seed):
        theta = np.random.default_rng(seed).normal(size=(features.shape[1], 3)) * 0.01
        for _ in range(20):
            scores = np.exp(features[rows] @ theta)
            error = scores / scores.sum(axis=1, keepdims=True) - np.eye(3)[labels[rows]]
            theta -= 0.1 * features[rows].T @ (error * weights[:, None]) / len(rows)
        return lambda wanted: features[wanted] @ theta

    return train


def net():
    from torch import nn

    return nn.Sequential(nn.Linear(70, 32), nn.ReLU(), nn.Linear(32, 3))


def jobs_in(folder: Path, kind: str = "callable") -> list[ChunkJob]:
    """Chunks of 4, 4 and 2 models; the features are large enough to travel apart."""
    rng = np.random.default_rng(5)
    labels = np.arange(301) % 3
    features = (rng.normal(size=(301, 70)) + labels[:, None]).astype(np.float32)
    recipe = (
        CallableRecipe(softmax_regression(features, labels))
        if kind == "callable"
        else TorchRecipe(net, epochs=2, batch_size=32, optimizer="sgd", learning_rate=0.1)
    )
    pool = np.arange(301) % 5 > 0
    spec = Spec(features, labels, 3, pool, recipe, Treatment(), 0)
    return chunk_jobs(spec, folder / f"baseline-{spec.hash()[:8]}", MODELS, WIDTH)


def contents(jobs: list[ChunkJob]) -> dict[str, bytes]:
    """Every file that lies where the shards belong.

    A worker that is killed while it writes leaves a hidden part behind, which nobody reads.
    """
    there = [path for path in sorted(jobs[0].folder.iterdir()) if path.name[0] != "."]
    return {path.name: path.read_bytes() for path in there}


def refuse(job: ChunkJob) -> int:
    raise InputError(f"chunk {job.chunk} cannot be trained; leave it out.")


def kill_once(job: ChunkJob, marks: Path) -> int:
    """The worker of chunk 1 is killed once chunk 0 is there, as by a system short of memory."""
    if job.chunk == 1 and not (marks / "killed").exists():
        while not (marks / "0").exists():
            time.sleep(0.01)
        (marks / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    trained = train_chunk(job)
    with (marks / str(job.chunk)).open("a") as count:
        count.write(f"{trained}\n")
    return trained


def environment(job: ChunkJob, marks: Path) -> int:
    import numpy  # noqa: F401  # loads its linear algebra
    from threadpoolctl import threadpool_info

    found = {library["num_threads"] for library in threadpool_info()}
    (marks / str(job.chunk)).write_text(f"{sorted(found)} {os.environ['OMP_NUM_THREADS']}")
    return train_chunk(job)
