"""What a GPU does besides training shadow models: private steps, ranks, a sweep of noise.

    python benchmarks/gpu_all.py [--parts steps ranks sweep] [--out FILE]
    python benchmarks/gpu_all.py --device cpu --small      # tries the script, without a GPU

Each part is written down when it is done, so that a run that is cut off keeps what it has:

1. *steps*: a private step, a plain SGD step and, where it is installed, Opacus's two modes, on the
   MLP and the CNN of `dp_step.py` with 16 times their batch; wall seconds, medians over rounds.
2. *ranks*: 280,423 probes among 28,361 people of 64 dimensions, and whether 2,000 of the ranks are
   those of NumPy.
3. *sweep*: the same at 18 levels of noise, 4 draws each; over 40 seconds on an H100.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="a hundredth of it, to try the script")
    parser.add_argument("--parts", nargs="+", choices=("steps", "ranks", "sweep"))
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_all.json")
    asked = parser.parse_args()
    if asked.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("there is no GPU; --device cpu --small tries the script.")
    people, probes = (300, 3_000) if asked.small else (USERS, PROBES)
    found: dict[str, Any] = {"device": asked.device, "load": load()}
    if asked.device == "cuda":
        found["gpu"] = torch.cuda.get_device_name()
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "steps": lambda: steps(asked.device, 2 if asked.small else 11),
        "ranks": lambda: ranked(asked.device, people, probes),
        "sweep": lambda: swept(asked.device, people, probes),
    }
    for name in asked.parts or parts:
        part = parts[name]
        try:
            found[name] = part()
        except (RuntimeError, ValueError) as error:  # the parts after it are still wanted
            found[name] = {"failed": f"{type(error).__name__}: {error}"}
        save(found, asked.out)


if __name__ == "__main__":
    main()
