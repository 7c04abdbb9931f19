"""Everything that is measured on a GPU, in one command within ten minutes, into one JSON file.

    python benchmarks/gpu_all.py cifar10.npz [--models 256] [--minutes 9] [--out FILE]
    python benchmarks/gpu_all.py none --device cpu --small      # tries the script, without a GPU

Never run on a GPU so far, so there is no results file. In this order, each part written down when
it is done, so that a run that is cut off keeps what it has:

1. *steps*: a private step, a plain SGD step and, where it is installed, Opacus's two modes, on the
   MLP and the CNN of `dp_step.py` with 16 times their batch; wall seconds, medians over rounds.
2. *ranks*: 280,423 probes among 28,361 people of 64 dimensions, and whether 2,000 of the ranks are
   those of NumPy.
3. *sweep*: the same at 18 levels of noise, 4 draws each.
4. *training*: `gpu_cifar10.py` in the minutes that are left: aim 256 models of at least 90 % on
   records they were not trained on within 7 minutes on an H200 or H100.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dp_step
import numpy as np
import torch
from common import RESULTS, load, save
from sweep import USERS, population

from lethe.reidentification.ranks import ranks
from lethe.reidentification.surface import attack_curve

PROBES, LEVELS, DRAWS = 280_423, np.geomspace(0.02, 4, 18), 4
LARGER = 16


def wall(step: Callable[[], Any], device: str, repeats: int = 1) -> float:
    """Seconds of one call, with all that it left on the device."""
    began = time.perf_counter()
    for _ in range(repeats):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / repeats


def steps(device: str, rounds: int) -> dict[str, Any]:
    """Milliseconds of each kind of step, and of which way the private one is taken."""
    modes = ["ghost", "hooks"] if importlib.util.find_spec("opacus") else []
    found: dict[str, Any] = {}
    for name in ("mlp", "cnn"):
        torch.manual_seed(0)
        module, inputs = dp_step.MODELS[name][0]()
        inputs = inputs.repeat(LARGER, *[1] * (inputs.dim() - 1)).to(device)
        labels = torch.randint(0, 10, (len(inputs),), device=device)
        ways, way = dp_step.variants(module.to(device), (inputs, labels), modes)
        times: dict[str, list[float]] = {kind: [] for kind in ways}
        for step in ways.values():
            wall(step, device, 3)
        for _ in range(rounds):
            for kind, step in ways.items():
                times[kind].append(1e3 * wall(step, device, 5))
        found[name] = {
            "batch": len(inputs),
            "way": way,
            "ms": {kind: statistics.median(each) for kind, each in times.items()},
            "opacus": bool(modes),
        }
    return found


def ranked(device: str, people: int, probes: int) -> dict[str, Any]:
    """Seconds of all ranks, and whether some of them are NumPy's."""
    sample = population(people, probes)

    def all_of(some: slice, backend: str) -> Any:
        return ranks(
            sample.probes[some], sample.gallery, sample.owner[some], backend=backend, device=device
        )

    all_of(slice(1000), "torch")
    seconds = wall(lambda: all_of(slice(None), "torch"), device)
    few = slice(2000)
    same = np.array_equal(all_of(few, "torch").closer, all_of(few, "numpy").closer)
    return {"people": people, "probes": probes, "seconds": seconds, "as_numpy": same}


def swept(device: str, people: int, probes: int) -> dict[str, Any]:
    """Seconds of a sweep, one draw after the other."""
    sample = population(people, probes)

    def attack(noisy: Any) -> Any:
        found = ranks(noisy.probes, noisy.gallery, noisy.owner, backend="torch", device=device)
        return np.bincount(noisy.owner, found.closer == 0, minlength=people)

    def run() -> Any:
        return attack_curve(attack, sample, LEVELS, draws=DRAWS)

    return {"levels": len(LEVELS), "draws": DRAWS, "seconds": wall(run, device)}


def trained(data: Path, models: int, seconds: float, out: Path) -> dict[str, Any]:
    """What `gpu_cifar10.py` finds, if it ends in time."""
    script = Path(__file__).with_name("gpu_cifar10.py")
    command = [sys.executable, str(script), str(data), "--models", str(models), "--out", str(out)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done within {seconds:.0f} s"}
    if done.returncode:
        return {"failed": done.stderr[-2000:]}
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, help="npz of examples/cifar10/prepare.py, or none")
    parser.add_argument("--models", type=int, default=256)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="a hundredth of it, to try the script")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_all.json")
    asked = parser.parse_args()
    if asked.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("there is no GPU; --device cpu --small tries the script.")
    began = time.perf_counter()
    people, probes = (300, 3_000) if asked.small else (USERS, PROBES)
    found: dict[str, Any] = {"device": asked.device, "load": load()}
    if asked.device == "cuda":
        found["gpu"] = torch.cuda.get_device_name()
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "steps": lambda: steps(asked.device, 2 if asked.small else 11),
        "ranks": lambda: ranked(asked.device, people, probes),
        "sweep": lambda: swept(asked.device, people, probes),
    }
    if str(asked.data) != "none":
        parts["training"] = lambda: trained(
            asked.data,
            asked.models,
            60 * asked.minutes - (time.perf_counter() - began),
            asked.out.with_name("gpu_cifar10.json"),
        )
    for name, part in parts.items():
        try:
            found[name] = part()
        except (RuntimeError, ValueError) as error:  # the parts after it are still wanted
            found[name] = {"failed": f"{type(error).__name__}: {error}"}
        save(found, asked.out)


if __name__ == "__main__":
    main()
