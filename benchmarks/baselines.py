"""What one model costs without Lethe: the loops people write, with the usual care.

    python benchmarks/baselines.py [--models 3] [--repeats 3] [--out FILE]

Two loops in plain PyTorch, each with 1 and with 2 threads, each setting in a process of its own:

- `dataloader`: `DataLoader(TensorDataset, shuffle=True)` and `torch.optim.Adam`, as in tutorials;
- `tensor-index`: the data stays one tensor, batches are index tensors of `torch.randperm`,
  `Adam(fused=True)`, `zero_grad(set_to_none=True)`: the fast way to write it for small data.

Timed is the training of one model, from making the module to the last step, after one model that
is not counted. Given is the median over the repeats, in seconds of the clock and in seconds of the
processor: the latter says whether the machine was busy with something else. The accuracies show
that both loops train the same model equally well. Speed claims are made against the fastest
setting of `tensor-index`, not against `dataloader`.
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
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset
from workloads import WORKLOADS, Workload, workload

Loop = Callable[[Workload, torch.Tensor, torch.Tensor], nn.Module]
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
        for rows in torch.randperm(len(labels)).split(job.batch):
            optimizer.zero_grad(set_to_none=True)
            cross_entropy(model(features[rows]), labels[rows]).backward()
            optimizer.step()
    return model


LOOPS: dict[str, Loop] = {"dataloader": train_dataloader, "tensor-index": train_tensor_index}


def measure(job: Workload, loop: str, threads: int, models: int, repeats: int) -> dict[str, Any]:
    """Times and accuracies of one setting; to be called in a fresh process."""
    torch.set_num_threads(threads)
    features, labels = torch.from_numpy(job.features), torch.from_numpy(job.labels)
    halves = [torch.from_numpy(job.half(model)) for model in range(models)]
    data = [(features[inside], labels[inside]) for inside in halves]
    train = LOOPS[loop]
    train(job, *data[0])
    wall, busy, accuracies = [], [], []
    for repeat in range(repeats):
        seconds, cpu = 0.0, 0.0
        for number, (inside, half) in enumerate(zip(halves, data, strict=True)):
            torch.manual_seed(number)
            start, start_cpu = time.perf_counter(), time.process_time()
            model = train(job, *half)
            seconds += time.perf_counter() - start
            cpu += time.process_time() - start_cpu
            if repeat == 0:
                with torch.no_grad():
                    right = model(features).argmax(dim=1) == labels
                accuracies.append(
                    (right[inside].double().mean().item(), right[~inside].double().mean().item())
                )
        wall.append(seconds / models)
        busy.append(cpu / models)
    train_accuracy, test_accuracy = zip(*accuracies, strict=True)
    return {
        "workload": job.name,
        "widths": list(job.widths),
        "loop": loop,
        "threads": threads,
        "models": models,
        "repeats": repeats,
        "seconds_per_model": statistics.median(wall),
        "seconds_per_model_all": wall,
        "cpu_seconds_per_model": statistics.median(busy),
        "train_accuracy": _mean_sd(train_accuracy),
        "test_accuracy": _mean_sd(test_accuracy),
    }


def _mean_sd(values: tuple[float, ...]) -> dict[str, float | None]:
    """Mean over the models, and their standard deviation (null for one model)."""
    sd = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "sd": sd}


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    cpu = platform.processor()
    if (info := Path("/proc/cpuinfo")).exists():
        lines = info.read_text().splitlines()
        cpu = next((li.split(":", 1)[1].strip() for li in lines if li.startswith("model name")), cpu)
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
        sys.executable, __file__, "--one", name, loop, str(threads),
        "--models", str(options.models), "--repeats", str(options.repeats),
        "--hidden", str(options.hidden),
    ]  # fmt: skip
    before = _load()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return {**result, "load_average_before": before}


def show(result: dict[str, Any]) -> None:
    """One line of the table."""
    accuracy = "  ".join(
        f"{result[part]['mean']:.4f} ({'-' if result[part]['sd'] is None else format(result[part]['sd'], '.4f')})"  # noqa: E501
        for part in ("train_accuracy", "test_accuracy")
    )
    print(
        f"{result['workload']:<12} {result['loop']:<13} {result['threads']:>7} "
        f"{result['seconds_per_model']:>9.3f} {result['cpu_seconds_per_model']:>9.3f}  {accuracy}",
        flush=True,
    )


def main() -> None:
    """Run every setting, print the table, write the JSON file."""
    parser = argparse.ArgumentParser(description="What one model costs without Lethe.")
    parser.add_argument("--models", type=int, default=3, help="models trained in each repeat")
    parser.add_argument("--repeats", type=int, default=3, help="repeats, of which the median is given")
    parser.add_argument("--hidden", type=int, default=128, help="hidden width of digits")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="JSON file to write")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, loop, threads = options.one
        job = workload(name, options.hidden)
        print(json.dumps(measure(job, loop, int(threads), options.models, options.repeats)))
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
