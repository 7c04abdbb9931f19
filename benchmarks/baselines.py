"""What one model costs without Lethe: the loops people write, with the usual care.

    python benchmarks/baselines.py [--models 3] [--repeats 3] [--limit 60] [--out FILE]

Two loops in plain PyTorch, each with 1 and with 2 threads, each setting in a process of its own:

- `dataloader`: `DataLoader(TensorDataset, shuffle=True)` and `torch.optim.Adam`, as in tutorials;
- `tensor-index`: the data stays one tensor, batches are index tensors of `torch.randperm`,
  `Adam(fused=True)`, `zero_grad(set_to_none=True)`: the fast way to write it for small data.

Timed is the training of one model, from making the module to the last step, after one epoch that
is not counted. Given is the median over the repeats, in seconds of the clock and of the processor.
The accuracies show that both loops train the same model equally well. Speed claims are made against
the fastest setting of `tensor-index`, not against `dataloader`.

Measured (3 models x 3 repeats, seeds 0 to 2, torch 2.13.0, AMD EPYC, 2 cores; seconds a model, 1
and 2 threads, quiet rows only; all in results/baselines.json):

    digits      dataloader 0.344, 0.347   tensor-index 0.148, 0.147
    adult-size  dataloader 0.657, 0.630   tensor-index 0.300, 0.255
    table-5000  dataloader 0.784, -       tensor-index 0.326, -

Rows marked `*` are not to be quoted: other processes wanted the cores that the setting needs. Two
threads suffer most (seen: 0.15 s became 68 s), presumably because each waits, spinning, for the
other at the end of every small operation and so keeps it from a core that is shared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset
from workloads import WORKLOADS, Workload, workload

Loop = Callable[[Workload, torch.Tensor, torch.Tensor], nn.Module]
QUIET = 0.1  # cores that others may use beyond those left over
DEFAULT_OUT = Path(__file__).parent / "results" / "baselines.json"


def mlp(widths: tuple[int, ...]) -> nn.Sequential:
    """Linear layers with ReLU between, initialised as PyTorch does."""
    layers: list[nn.Module] = []
    for inputs, outputs in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train_dataloader(job: Workload, features: torch.Tensor, labels: torch.Tensor) -> nn.Module:
    """The tutorial's loop."""
    model = mlp(job.widths)
    batches = DataLoader(
        TensorDataset(features, labels), batch_size=job.batch, shuffle=True, num_workers=0
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=job.learning_rate)
    for _ in range(job.epochs):
        for x, y in batches:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
    return model


def train_tensor_index(job: Workload, features: torch.Tensor, labels: torch.Tensor) -> nn.Module:
    """The loop of someone who has profiled it."""
    model = mlp(job.widths)
    optimizer = torch.optim.Adam(model.parameters(), lr=job.learning_rate, fused=True)
    for _ in range(job.epochs):
        for rows in torch.split(torch.randperm(len(labels)), job.batch):
            optimizer.zero_grad(set_to_none=True)
            loss = cross_entropy(model(features[rows]), labels[rows])
            loss.backward()
            optimizer.step()
    return model


LOOPS: dict[str, Loop] = {"dataloader": train_dataloader, "tensor-index": train_tensor_index}


def measure(
    job: Workload, loop: str, threads: int, models: int, repeats: int, limit: float
) -> dict[str, Any]:
    """Times and accuracies of one setting; to be called in a fresh process.

    Once `limit` seconds have passed no further model is begun; what was done is counted.
    """
    torch.set_num_threads(threads)
    features, labels = torch.from_numpy(job.features), torch.from_numpy(job.labels)
    halves = [torch.from_numpy(job.half(model)) for model in range(models)]
    data = [(features[inside], labels[inside]) for inside in halves]
    train = LOOPS[loop]
    train(replace(job, epochs=1), *data[0])
    clock: list[list[float]] = [[] for _ in range(repeats)]
    cpu, accuracies = [], []
    began, busy = time.perf_counter(), _machine_cpu_seconds()
    own = time.process_time()
    for number in range(models * repeats):
        repeat, which = divmod(number, models)
        if number and time.perf_counter() - began > limit:
            break
        torch.manual_seed(which)
        start, start_cpu = time.perf_counter(), time.process_time()
        model = train(job, *data[which])
        clock[repeat].append(time.perf_counter() - start)
        cpu.append(time.process_time() - start_cpu)
        if repeat == 0:
            inside = halves[which]
            with torch.no_grad():
                right = (model(features).argmax(dim=1) == labels).double()
            accuracies.append((right[inside].mean().item(), right[~inside].mean().item()))
    elapsed = time.perf_counter() - began
    others = None
    if busy is not None and (after := _machine_cpu_seconds()) is not None:
        others = round(max(0.0, after - busy - (time.process_time() - own)) / elapsed, 2)
    train_accuracy, test_accuracy = zip(*accuracies, strict=True)
    seconds = [statistics.fmean(done) for done in clock if done]
    return {
        "workload": job.name,
        "widths": list(job.widths),
        "loop": loop,
        "threads": threads,
        "models": len(accuracies),
        "repeats": len(seconds),
        "seconds_per_model": statistics.median(seconds),
        "seconds_per_model_by_repeat": seconds,
        "cpu_seconds_per_model": statistics.median(cpu),
        "cores_used_by_others": others,
        "quiet": others is not None and others + threads <= (os.cpu_count() or 1) + QUIET,
        "train_accuracy": _mean_sd(train_accuracy),
        "test_accuracy": _mean_sd(test_accuracy),
    }


def _machine_cpu_seconds() -> float | None:
    """Processor time spent by all processes since boot; None where the system does not say."""
    try:
        user, nice, system = Path("/proc/stat").read_text().split()[1:4]
    except (OSError, ValueError):
        return None
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def _mean_sd(values: tuple[float, ...]) -> dict[str, float | None]:
    """Mean over the models, and their standard deviation (null for one model)."""
    sd = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "sd": sd}


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    cpu = platform.processor()
    if (info := Path("/proc/cpuinfo")).exists():
        named = [li for li in info.read_text().splitlines() if li.startswith("model name")]
        cpu = named[0].split(":", 1)[1].strip() if named else cpu
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "load_average": _load(),
    }


def _load() -> list[float]:
    return [round(value, 2) for value in os.getloadavg()]


def fresh(name: str, loop: str, threads: int, options: argparse.Namespace) -> dict[str, Any]:
    """`measure` in a process of its own, so that no setting inherits another's threads."""
    command = [
        sys.executable,
        __file__,
        "--one",
        name,
        loop,
        str(threads),
        "--models",
        str(options.models),
        "--repeats",
        str(options.repeats),
        "--hidden",
        str(options.hidden),
        "--limit",
        str(options.limit),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return {**result, "load_average_after": _load()}


def show(result: dict[str, Any]) -> None:
    """One line of the table."""
    parts = (result["train_accuracy"], result["test_accuracy"])
    accuracy = "  ".join(
        f"{part['mean']:.4f} ({'-' if part['sd'] is None else format(part['sd'], '.4f')})"
        for part in parts
    )
    print(
        f"{result['workload']:<12} {result['loop']:<13} {result['threads']:>7} "
        f"{result['seconds_per_model']:>9.3f}{' ' if result['quiet'] else '*'}"
        f"{result['cpu_seconds_per_model']:>9.3f}  {accuracy}",
        flush=True,
    )


def main() -> None:
    """Run every setting, print the table, write the JSON file."""
    parser = argparse.ArgumentParser(description="What one model costs without Lethe.")
    parser.add_argument("--models", type=int, default=3, help="models trained in each repeat")
    parser.add_argument("--repeats", type=int, default=3, help="of which the median is given")
    parser.add_argument("--hidden", type=int, default=128, help="hidden width of digits")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--limit", type=float, default=60, help="seconds a setting may take")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="JSON file to write")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, loop, threads = options.one
        job = workload(name, options.hidden)
        result = measure(job, loop, int(threads), options.models, options.repeats, options.limit)
        print(json.dumps(result))
        return
    described = machine()
    print(f"{described['cpu']}, {described['cores']} cores, torch {described['torch']}")
    print("workload     loop          threads   s/model     cpu s  train (sd)       test (sd)")
    results = []
    for name in options.workloads:
        for loop in LOOPS:
            for threads in options.threads:
                results.append(fresh(name, loop, threads, options))
                show(results[-1])
    document = {"machine": described, "results": results}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
