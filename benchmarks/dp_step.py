"""What a differentially private step costs beside a plain SGD step, on one thread.

    python benchmarks/dp_step.py [--rounds 11] [--models tiny mlp cnn] [--out FILE]

A private step is the clipped sum, one noise draw a parameter and the update; `clip` leaves the
noise out. All variants run in every round in turn, the order alternates, and each ratio is the
median over rounds of seconds / seconds of plain SGD in the same round.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from common import RESULTS, load, save
from torch import Tensor, nn

from lethe.mitigations.clipping import ClippingPlan, plan_clipping

Batch = tuple[Tensor, Tensor]


def tiny() -> tuple[nn.Module, tuple[int, ...], int]:
    """An MLP with 6.5k parameters, 256 examples a batch."""
    layers = (nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))
    return nn.Sequential(*layers), (30,), 256


def mlp() -> tuple[nn.Module, tuple[int, ...], int]:
    """An MLP with 0.67M parameters, 256 examples a batch."""
    layers = (nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return nn.Sequential(*layers), (784,), 256


def cnn() -> tuple[nn.Module, tuple[int, ...], int]:
    """A CNN with 61k parameters and group norms, 64 images a batch."""
    first = (nn.Conv2d(1, 16, 5, padding=2), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(16, 32, 5, padding=2), nn.GroupNorm(4, 32), nn.ReLU(), nn.MaxPool2d(2))
    last = (nn.Flatten(), nn.Linear(32 * 49, 30), nn.ReLU(), nn.Linear(30, 10))
    return nn.Sequential(*first, *second, *last), (1, 28, 28), 64


MODELS = {"tiny": (tiny, 2.2, 40), "mlp": (mlp, 1.5, 5), "cnn": (cnn, 1.8, 5)}


def losses(module: nn.Module, batch: Batch) -> Tensor:
    """Cross-entropy of every example."""
    return F.cross_entropy(module(batch[0]), batch[1], reduction="none")


def sgd_step(module: nn.Module, batch: Batch) -> None:
    """One plain step."""
    values = list(module.parameters())
    for value in values:
        value.grad = None
    losses(module, batch).mean().backward()
    with torch.no_grad():
        for value in values:
            value.add_(value.grad, alpha=-1e-3)


def private_step(plan: ClippingPlan, batch: Batch, spare: dict[str, Tensor], noise: bool) -> None:
    """One step from the clipped sum, with or without the noise draw."""
    total, _ = plan.clipped_sum(batch, 1.0)
    with torch.no_grad():
        for name, value in plan.module.named_parameters():
            if noise:
                total[name].add_(spare[name].normal_())
            value.add_(total[name], alpha=-1e-3 / len(batch[0]))


def seconds(step: Callable[[], None], repeats: int) -> float:
    """Seconds of one step."""
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    return (time.perf_counter() - start) / repeats


def main() -> None:
    """Run all rounds, print the ratios, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--out", type=Path, default=RESULTS / "dp_step.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    summary, rounds = {}, {}
    for name in options.models:
        build, target, repeats = MODELS[name]
        torch.manual_seed(0)
        module, shape, count = build()
        batch = (torch.randn(count, *shape), torch.randint(0, 5, (count,)))
        plan = plan_clipping(module, losses, batch)
        spare = {key: torch.empty_like(value) for key, value in module.named_parameters()}
        steps: dict[str, Callable[[], None]] = {
            "sgd": lambda m=module, b=batch: sgd_step(m, b),
            "private": lambda p=plan, b=batch, s=spare: private_step(p, b, s, True),
            "clip": lambda p=plan, b=batch, s=spare: private_step(p, b, s, False),
        }
        for step in steps.values():
            seconds(step, 2)
        done = []
        for number in range(options.rounds):
            order = list(steps) if number % 2 == 0 else list(steps)[::-1]
            done.append({**{one: seconds(steps[one], repeats) for one in order}, "load": load()})
        rounds[name] = done
        ratios = {one: [each[one] / each["sgd"] for each in done] for one in ("private", "clip")}
        summary[name] = {
            "way": plan.way,
            "parameters": sum(value.numel() for value in module.parameters()),
            "batch": count,
            "sgd_ms": 1e3 * statistics.median(each["sgd"] for each in done),
            "private_over_sgd": statistics.median(ratios["private"]),
            "private_over_sgd_range": [min(ratios["private"]), max(ratios["private"])],
            "clip_over_sgd": statistics.median(ratios["clip"]),
            "target": target,
        }
    save({"threads": 1, "rounds_run": options.rounds, **summary, "rounds": rounds}, options.out)


if __name__ == "__main__":
    main()
