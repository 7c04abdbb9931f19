"""How much of one core's best matrix product the engine's training keeps: MLP 446-512-256-30.

    python benchmarks/sgemm.py [--rounds 5] [--seconds 0.3] [--out FILE]

On one core, each in a fresh process of one thread, with the environment as it is (`preset`) and as
Lethe starts its workers (`worker`, see `engines.worker_environment`): every product of a training
step at batch 128 (forward, gradient of the weights, gradient of the input) and a square of 2048,
by torch.mm, NumPy and oneDNN (through torch; left out if its log shows that it was not reached).
Then a loop of fused multiply-adds in registers, compiled on the spot where there is a C compiler:
what the core can do at most. Then Lethe's training of the network: FLOP of all products of the
steps over the seconds of forward, backward and update (two lengths of training are subtracted, so
that set-up and prediction drop out). Its share is taken of the fastest library on the step's own
products (`share_of_best_sgemm`) and on the square (`share_of_square`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from workloads import workload

BATCH, SQUARE, STACK = 128, 2048, 16
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
LIBRARIES = ("torch", "numpy", "onednn")
FMA = """
#include <stdio.h>
#include <time.h>
typedef float wide __attribute__((vector_size(WIDTH)));
int main(void) {
    enum { CHAINS = 12, LANES = WIDTH / 4 };
    wide sum[CHAINS], factor, shift;
    for (int lane = 0; lane < LANES; lane++) { factor[lane] = 0.5f; shift[lane] = 1.0f; }
    for (int chain = 0; chain < CHAINS; chain++) sum[chain] = shift * (float)chain;
    const long turns = 40000000;
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (long turn = 0; turn < turns; turn++) {
#pragma GCC unroll 12
        for (int chain = 0; chain < CHAINS; chain++) sum[chain] = sum[chain] * factor + shift;
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    double seconds = end.tv_sec - begin.tv_sec + 1e-9 * (end.tv_nsec - begin.tv_nsec);
    printf("%.6g\\n", 2.0 * turns * CHAINS * LANES / seconds);
    for (int chain = 1; chain < CHAINS; chain++) sum[0] += sum[chain];
    return sum[0][0] < 0;  /* so that the sums are needed */
}
"""


def products(widths: tuple[int, ...]) -> dict[str, tuple[int, int, int]]:
    """(m, k, n) of every product of a training step; the first layer's input needs no gradient."""
    found = {}
    for at, (inputs, outputs) in enumerate(zip(widths, widths[1:], strict=False)):
        found[f"forward {inputs}-{outputs}"] = (BATCH, inputs, outputs)
        found[f"weights {inputs}-{outputs}"] = (outputs, BATCH, inputs)
        if at:
            found[f"input {inputs}-{outputs}"] = (BATCH, outputs, inputs)
    return found


def multiply(library: str, left: Any, right: Any) -> Callable[[], Any]:
    """A call that multiplies two float32 arrays, its output allocated where the library allows."""
    if library == "numpy":
        out = np.empty((len(left), right.shape[1]), np.float32)
        return lambda: np.matmul(left, right, out=out)
    import torch

    a, b = torch.from_numpy(left), torch.from_numpy(right)
    if library == "torch":
        result = torch.empty(len(left), right.shape[1])
        return lambda: torch.mm(a, b, out=result)
    weight = b.T.contiguous().to_mkldnn()
    return lambda: torch.ops.mkldnn._linear_pointwise(a, weight, None, "none", [], "")


def flops(library: str, seconds: float) -> dict[str, float]:
    """FLOP a second of each product and of all of a step (`step`); for a fresh process."""
    shapes = {**products(workload("mlp-446").widths), "square": (SQUARE, SQUARE, SQUARE)}
    rng, found, spent, work = np.random.default_rng(0), {}, 0.0, 0
    for name, (m, k, n) in shapes.items():
        left, right = (rng.random(shape, np.float32) for shape in ((m, k), (k, n)))
        call = multiply(library, left, right)
        call()
        best, until = float("inf"), time.perf_counter() + seconds
        while time.perf_counter() < until:
            repeats = 1 if name == "square" else 20
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            best = min(best, (time.perf_counter() - start) / repeats)
        found[name] = 2 * m * k * n / best
        if name != "square":
            spent, work = spent + best, work + 2 * m * k * n
    return {**found, "step": work / spent}


def engine_flops() -> dict[str, float]:
    """FLOP a second of Lethe's training on this one thread; for a fresh process."""
    import torch
    from stacked_training import spec_of

    from lethe.training.loop import default_layout, train_models
    from lethe.training.recipe import Work

    torch.set_num_threads(1)
    job = workload("mlp-446")
    members = np.stack([job.half(model) for model in range(STACK)])

    def train(epochs: int) -> float:
        spec = spec_of(replace(job, epochs=epochs))
        layout = default_layout(spec.recipe)
        start = time.perf_counter()
        for _ in train_models(
            Work(
                spec.recipe,
                spec.features,
                spec.labels,
                members,
                spec.pool,
                spec.treatment,
                range(STACK),
                layout,
            )
        ):
            pass
        return time.perf_counter() - start

    train(1)
    seconds = train(5) - train(1)
    a_row = sum(2 * m * k * n for m, k, n in products(job.widths).values()) / BATCH
    return {"step": 4 * a_row * float(members.sum()) / seconds}


def fma_flops() -> float | None:
    """FLOP a second of fused multiply-adds in registers; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    cpu = Path("/proc/cpuinfo")
    if compiler is None or not cpu.exists():
        return None
    width = 64 if "avx512f" in cpu.read_text() else 32
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder) / "fma.c", Path(folder) / "fma"
        source.write_text(FMA)
        options = ["-O3", "-march=native", "-ffp-contract=fast", f"-DWIDTH={width}"]
        try:
            subprocess.run([compiler, *options, str(source), "-o", str(binary)], check=True)
            return max(float(subprocess.check_output([str(binary)])) for _ in range(3))
        except (OSError, subprocess.CalledProcessError):
            return None


def child(what: str, worker: bool, seconds: float) -> dict[str, float] | None:
    """A measurement in a process of its own on one core; None where it does not work."""
    from lethe.training.environment import worker_environment

    environment = {**os.environ, **ONE_THREAD, **(worker_environment() if worker else {})}
    if what == "onednn":
        environment["ONEDNN_VERBOSE"] = "1"
        if ",cpu,matmul" not in (probe := _text(["probe"], environment)) and (
            ",cpu,inner_product" not in probe
        ):
            return None
        del environment["ONEDNN_VERBOSE"]
    text = _text([what, str(seconds)], environment)
    return json.loads(text) if text else None


def _text(arguments: list[str], environment: dict[str, str]) -> str:
    command = [sys.executable, __file__, "--one", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    return done.stdout if done.returncode == 0 else ""


def one(arguments: list[str]) -> None:
    """What a child does."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if arguments[0] == "probe":
        multiply("onednn", np.ones((8, 8), np.float32), np.ones((8, 8), np.float32))()
    elif arguments[0] == "lethe":
        print(json.dumps(engine_flops()))
    else:
        print(json.dumps(flops(arguments[0], float(arguments[1]))))


def main() -> None:
    """Run the rounds, print shares, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="spent on each product")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one)
        return
    from common import RESULTS, load, save

    rounds = []
    for _ in range(options.rounds):
        found: dict[str, Any] = {"fma": fma_flops(), "load": load()}
        for name in (*LIBRARIES, "lethe"):
            for setting in ("preset", "worker"):
                found[f"{name}, {setting}"] = child(name, setting == "worker", options.seconds)
        libraries = [v for k, v in found.items() if k.split(",")[0] in LIBRARIES and v]
        ours = found["lethe, worker"]["step"]
        found["share_of_best_sgemm"] = ours / max(one["step"] for one in libraries)
        found["share_of_square"] = ours / max(one["square"] for one in libraries)
        found["share_of_fma"] = None if found["fma"] is None else ours / found["fma"]
        rounds.append(found)
    summary: dict[str, Any] = {"target_share": 0.6}
    for name in ("share_of_best_sgemm", "share_of_square", "share_of_fma", "fma"):
        values = [one[name] for one in rounds if one[name] is not None]
        summary[name] = statistics.median(values) if values else None
    for name in (key for key, value in rounds[0].items() if isinstance(value, dict)):
        summary[name] = {
            part: statistics.median(one[name][part] for one in rounds)
            for part in ("step", "square")
            if part in rounds[0][name]
        }
    save({**summary, "rounds": rounds}, options.out or RESULTS / "sgemm.json")


if __name__ == "__main__":
    main()
