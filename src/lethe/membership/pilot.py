"""A pilot: the first few shadow models of an audit, timed and weighed.

They are the audit's own models in the audit's own folder, so the audit does not train them again.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lethe.data.dataset import Dataset
from lethe.files import write_whole
from lethe.membership.audit import Show, Trainer, baseline_spec
from lethe.membership.document import Measurement
from lethe.membership.settings import AuditSettings
from lethe.mitigations.obfuscation import BASELINE
from lethe.training.folder import RunFolder
from lethe.training.recipe import Recipe, TorchRecipe
from lethe.training.shadows import ChunkJob, train_chunk
from lethe.training.shards import shard_path

_MOST = 4096


@dataclass(frozen=True)
class Cost:
    """What models take.

    Attributes:
        seconds: wall time of one model in one worker, while all workers are busy; None if the
            models were there already and nobody had timed them.
        worker_bytes: peak memory of a worker process; None likewise.
        own_bytes: peak memory of this process so far.
        model_bytes: on disk, of one model.
        stop_bytes: of them, what it answered on its way; further candidates keep none.
        chunk_bytes: on disk, of a chunk of models, beside those of its models.
        width: models a chunk.
        workers: processes.
        scoring: seconds to measure the pilot.
    """

    seconds: float | None
    worker_bytes: int | None
    own_bytes: int
    model_bytes: int
    chunk_bytes: int
    width: int
    workers: int
    scoring: float
    stop_bytes: int = 0

    def disk(self, models: int, further: int = 0) -> int:
        """Bytes of the shards of the plain models and of so many further candidates."""
        each = models * (self.model_bytes - self.stop_bytes)
        each += -(-models // self.width) * self.chunk_bytes
        return (1 + further) * each + models * self.stop_bytes

    def train(self, models: int) -> float | None:
        """Wall seconds to train so many models; whole chunks, spread over the workers."""
        if self.seconds is None:
            return None
        chunks = -(-models // self.width)
        rounds = -(-chunks // self.workers)
        return rounds * min(self.width, models) * self.seconds


def run_pilot(
    data: Dataset,
    recipe: Recipe,
    settings: AuditSettings,
    folder: RunFolder,
    show: Show,
    workers: int,
    models: int,
) -> tuple[Measurement, Cost]:
    """Train the first models of an audit, if they are not there, and measure them.

    Models that are there beyond `models` are used too, and `models` is rounded up to whole
    chunks, because a part of a chunk would be trained again by the audit.
    """
    spec = baseline_spec(data, recipe, settings)
    plain = replace(settings, models=models, until=())
    train = Trainer(spec, plain, folder, show, workers, data.ids, timed_chunk)
    width = train.width()
    models = max(-(-models // width) * width, train.finished(_MOST))
    train = replace(train, settings=replace(plain, models=models))
    everyone = np.ones(len(data.ids), np.float32)
    jobs = train.jobs(BASELINE, everyone, models, width)
    train([BASELINE], everyone, models)
    began = time.perf_counter()
    measured, _ = train.baseline()
    scoring = time.perf_counter() - began
    costs = [cost for job in jobs for cost in [_read_cost(job)] if cost is not None]
    shard = jobs[0].finished()
    assert shard is not None
    arrays = {name: one for name, one in vars(shard).items() if isinstance(one, np.ndarray)}
    content = sum(array.nbytes for array in arrays.values())
    on_the_way = sum(one.nbytes for name, one in arrays.items() if name.startswith("stop_"))
    size = shard_path(jobs[0].folder, jobs[0].chunk).stat().st_size
    timed = sum(count for _, count, _ in costs)
    return measured, Cost(
        seconds=sum(seconds for seconds, _, _ in costs) / timed if timed else None,
        worker_bytes=max((peak for _, _, peak in costs), default=None),
        own_bytes=_peak(),
        model_bytes=content // jobs[0].models,
        chunk_bytes=size - content,
        width=width,
        workers=workers,
        scoring=scoring,
        stop_bytes=on_the_way // jobs[0].models,
    )


def timed_chunk(job: ChunkJob) -> int:
    """`train_chunk`, with its time and the process's peak memory noted beside the shard."""
    if isinstance(job.spec.recipe, TorchRecipe):
        import torch  # noqa: F401 - loading it is not part of training
    began = time.perf_counter()
    trained = train_chunk(job)
    seconds = time.perf_counter() - began
    if trained:
        noted = {"seconds": seconds, "models": trained, "peak": _peak()}
        write_whole(_cost_path(job), json.dumps(noted).encode())
    return trained


def _cost_path(job: ChunkJob) -> Path:
    return shard_path(job.folder, job.chunk).with_suffix(".cost.json")


def _read_cost(job: ChunkJob) -> tuple[float, int, int] | None:
    """Seconds, models and peak bytes of a chunk, if it was timed."""
    try:
        noted = json.loads(_cost_path(job).read_bytes())
        return float(noted["seconds"]), int(noted["models"]), int(noted["peak"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _peak() -> int:
    """Most memory this process has held, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
