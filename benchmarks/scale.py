"""An audit of many models and records: peak memory and time of everything after training.

    python benchmarks/scale.py [--models 900] [--records 50000] [--limit 4] [--out FILE]

Writes the shards that training would have left (normal signals; every record has a level and a
gain from membership of its own; the balanced complementary design; a quarter as many records held
out), then measures the baseline in a fresh process as the command does: gather, attack, measure,
check, compose, write the table of records and the report. The parent samples the child's
proportional set size every 20 ms; the child also gives the peak that the system kept for it.
Workers of the measurement are threads of that process, so nothing is left out.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WIDTH = 16
HELD_PER_RECORD = 0.25
DEFAULT_OUT = Path(__file__).parent / "results" / "scale.json"


def audit_jobs(folder: Path, models: int, records: int) -> list[Any]:
    """The chunks of a synthetic audit, `records` of them in the pool."""
    from lethe.training.chunks import Spec, chunk_jobs
    from lethe.training.recipe import CallableRecipe, Treatment

    everybody = records + round(HELD_PER_RECORD * records)
    pool = np.zeros(everybody, bool)
    pool[np.random.default_rng(1).choice(everybody, records, replace=False)] = True
    labels = np.arange(everybody) % 10
    features = np.zeros((everybody, 1), np.float32)
    recipe = CallableRecipe(not_trained)
    spec = Spec(features, labels, 10, pool, recipe, Treatment(), seed=0)
    return chunk_jobs(spec, folder / "shadows", models, WIDTH)


def not_trained(rows: Any, weights: Any, seed: int) -> Any:
    """No model is needed where the shards are there."""
    raise RuntimeError("a shard is missing")


def make(folder: Path, models: int, records: int) -> None:
    """Write all shards."""
    from lethe.training.chunks import Shard, shard_path, write_shard
    from lethe.training.design import membership

    jobs = audit_jobs(folder, models, records)
    pool = jobs[0].spec.pool
    everybody = len(pool)
    rng = np.random.default_rng(2)
    level = rng.normal(3, 2, everybody)
    gain = rng.gamma(0.5, 1.0, everybody)
    design = membership(models, records, seed=0)
    for job in jobs:
        rows = slice(job.first, job.first + job.models)
        members = np.zeros((job.models, everybody), bool)
        members[:, pool] = design[rows]
        signals = rng.standard_normal(members.shape, np.float32) + level + gain * members
        shard = Shard(
            job.first,
            signals.astype(np.float32),
            members.astype(np.uint8),
            (signals[:, ~pool] > 0).mean(axis=1).astype(np.float32),
            np.arange(job.first, job.first + job.models),
            (signals > 0).astype(np.uint8),
        )
        write_shard(shard_path(job.folder, job.chunk), shard, job.spec_hash)


class Phases:
    """Seconds spent in named steps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        """The same step, its time added up under a name."""

        @functools.wraps(step)
        def wrapped(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return step(*arguments, **options)
            finally:
                spent = time.perf_counter() - start
                self.seconds[name] = self.seconds.get(name, 0.0) + spent

        return wrapped


def measure_all(folder: Path, models: int, records: int) -> dict[str, Any]:
    """Everything after training, in this process."""
    start = time.perf_counter()
    from lethe import report
    from lethe.membership import audit
    from lethe.membership.records import write_records
    from lethe.membership.settings import AuditSettings
    from lethe.mitigations.mitigation import BASELINE
    from lethe.training.folder import RunFolder
    from lethe.training.shadows import Shadows

    phases = Phases()
    phases.seconds["import"] = time.perf_counter() - start
    jobs = audit_jobs(folder, models, records)
    ids = np.arange(len(jobs[0].spec.labels)).astype(str)
    settings = AuditSettings(models=models, keep_records=True)
    inside = ("run_attacks", "risk_rate", "expose", "self_checked", "utility", "train_utility")
    for name in (name for name in inside if hasattr(audit, name)):
        setattr(audit, name, phases.timed(f"measure: {name}", getattr(audit, name)))
    with RunFolder(folder / "run", jobs[0].spec_hash) as run:
        shadows = phases.timed("gather", Shadows.from_shards)(jobs, ids)
        measured = phases.timed("measure", audit.measure)(shadows, BASELINE, None, settings)
        phases.timed("records", write_records)(run, measured, None)
        findings = phases.timed(
            "compose", audit.ModelSubject("scale", [measured], [], settings).findings
        )()
        phases.timed("report", report.write)(findings, run.path / "report.html")
        report_bytes = (run.path / "report.html").stat().st_size
    best = measured.results[measured.best]
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time(),
        "phases": phases.seconds,
        "peak_rss_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "strongest": measured.best,
        "auc": best.auc.value,
        "tpr": {f"{fpr:g}": rate.to_json() for fpr, rate in best.tpr.items()},
        "report_bytes": report_bytes,
        "records_with_t": int(np.isfinite(measured.exposure.all_models.t).sum()),
    }


def proportional(pid: int) -> int:
    """Proportional set size of a process in bytes; 0 where the system does not say."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


def fresh(step: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """A step in a process of its own, its memory watched."""
    command = [
        sys.executable,
        __file__,
        "--step",
        step,
        str(folder),
        "--models",
        str(options.models),
        "--records",
        str(options.records),
    ]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, text=True)
        peak = 0
        while process.poll() is None:
            peak = max(peak, proportional(process.pid))
            time.sleep(0.02)
        if process.returncode:
            raise SystemExit(process.returncode)
        output.seek(0)
        text = output.read()
    return {**(json.loads(text) if text else {}), "peak_pss_bytes": peak}


def main() -> None:
    """Make the shards, measure, print and write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=900)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--limit", type=float, default=4, help="GB that the peak may reach")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        step, folder = options.step[0], Path(options.step[1])
        if step == "make":
            make(folder, options.models, options.records)
        else:
            print(json.dumps(measure_all(folder, options.models, options.records)))
        return
    from baselines import machine  # brings torch, which the measurement does not need

    with tempfile.TemporaryDirectory() as folder:
        fresh("make", Path(folder), options)
        load = os.getloadavg()[0]
        result = fresh("measure", Path(folder), options)
    result["within_limit"] = result["peak_rss_bytes"] <= options.limit * 1e9
    document = {
        "machine": machine(),
        "load_before": round(load, 2),
        "models": options.models,
        "records": options.records,
        "limit_gb": options.limit,
        **result,
    }
    print(json.dumps(document, indent=1))
    options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
