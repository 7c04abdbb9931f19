"""What a differentially private step costs beside a plain SGD step and Opacus, on one thread.

    python benchmarks/dp_step.py [--rounds 11] [--models tiny mlp cnn small large] [--out FILE]

A private step is the clipped sum, one noise draw a parameter and the update; `clip` leaves the
noise out. All variants run in every round in turn, the order alternates, and each ratio is the
median over rounds of the ratio of seconds within a round. Seconds are processor seconds of the
process, which on an idle machine are those of the clock, as one thread runs. Memory is the peak
of tensor bytes allocated in one step above what is held before it (model and batch), from torch's
profiler; scratch memory of the matrix libraries is not in it. Opacus runs in its modes ghost and
hooks, through make_private and its own optimizer.
"""

from __future__ import annotations

import argparse
import copy
import gc
import importlib
import importlib.metadata
import importlib.util
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from common import RESULTS, load, save
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, TensorDataset

from lethe.mitigations.clipping.plan import ClippingPlan, plan_clipping

HOW = (
    "Opacus is not installed; its columns are left out. To have them: python -m venv /tmp/opacus "
    "&& /tmp/opacus/bin/pip install -c constraints.txt -e '.[train,dp]' opacus==1.6.0, and run "
    "this file with that Python."
)

Batch = tuple[Tensor, Tensor]
Step = Callable[[], None]


class Block(nn.Module):
    """A transformer block from layers that Opacus covers too."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, width) to the same."""
        parts = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts.unbind(0))
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Transformer(nn.Module):
    """Words to five classes."""

    def __init__(self, words: int, width: int, blocks: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.blocks = nn.Sequential(*(Block(width, width // 32) for _ in range(blocks)))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        """(B, 64) words to logits; Opacus needs positions for every example."""
        places = torch.arange(x.shape[1]).repeat(len(x), 1)
        return self.head(self.last(self.blocks(self.words(x) + self.places(places))).mean(1))


def tiny() -> tuple[nn.Module, Tensor]:
    """An MLP with 6.5k parameters, 256 examples a batch."""
    layers = (nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))
    return nn.Sequential(*layers), torch.randn(256, 30)


def mlp() -> tuple[nn.Module, Tensor]:
    """An MLP with 0.67M parameters, 256 examples a batch."""
    layers = (nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return nn.Sequential(*layers), torch.randn(256, 784)


def cnn() -> tuple[nn.Module, Tensor]:
    """A CNN with 61k parameters and group norms, 64 images a batch."""
    first = (nn.Conv2d(1, 16, 5, padding=2), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(16, 32, 5, padding=2), nn.GroupNorm(4, 32), nn.ReLU(), nn.MaxPool2d(2))
    last = (nn.Flatten(), nn.Linear(32 * 49, 30), nn.ReLU(), nn.Linear(30, 10))
    return nn.Sequential(*first, *second, *last), torch.randn(64, 1, 28, 28)


def small() -> tuple[nn.Module, Tensor]:
    """A transformer with 0.66M parameters, 32 texts of 64 words a batch."""
    return Transformer(500, 128, 3), torch.randint(0, 500, (32, 64))


def large() -> tuple[nn.Module, Tensor]:
    """A transformer with 10.2M parameters, 16 texts of 64 words a batch."""
    return Transformer(1000, 320, 8), torch.randint(0, 1000, (16, 64))


# Model, most private / SGD, most private / ghost, steps a round.
MODELS: dict[str, tuple[Callable[[], tuple[nn.Module, Tensor]], float, float, int]] = {
    "tiny": (tiny, 2.2, 0.75, 40),
    "mlp": (mlp, 1.5, 0.75, 5),
    "cnn": (cnn, 1.8, 0.85, 5),
    "small": (small, 1.5, 0.75, 2),
    "large": (large, 1.35, 0.75, 1),
}
MOST_MEMORY = 1.15  # private / ghost


def losses(module: nn.Module, batch: Batch) -> Tensor:
    """Cross-entropy of every example."""
    return F.cross_entropy(module(batch[0]), batch[1], reduction="none")


def sgd_step(module: nn.Module, values: list[nn.Parameter], batch: Batch) -> None:
    """One plain step."""
    losses(module, batch).mean().backward()
    with torch.no_grad():
        for value in values:
            value.add_(value.grad, alpha=-1e-3)
            value.grad = None


def private_step(
    plan: ClippingPlan, values: dict[str, nn.Parameter], batch: Batch, noise: bool
) -> None:
    """One step from the clipped sum, with or without the noise draw."""
    total, _ = plan.clipped_sum(batch, 1.0)
    with torch.no_grad():
        most = max(value.numel() for value in total.values()) if noise else 0
        spare = next(iter(total.values())).new_empty(most)
        for name, value in values.items():
            if noise:
                total[name].add_(spare[: value.numel()].normal_().view_as(value))
            value.add_(total[name], alpha=-1e-3 / len(batch[0]))


def opacus_step(module: nn.Module, batch: Batch, mode: str) -> Step:
    """A step of Opacus in one of its modes, on a copy of the module."""
    module = copy.deepcopy(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(*batch), batch_size=len(batch[0]))
    criterion: Any = nn.CrossEntropyLoss()
    made = (
        importlib.import_module("opacus")
        .PrivacyEngine()
        .make_private(
            module=module,
            optimizer=optimizer,
            data_loader=loader,
            criterion=criterion,
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            poisson_sampling=False,
            grad_sample_mode=mode,
        )
    )
    wrapped, private = made[:2]
    criterion = made[2] if mode == "ghost" else criterion

    def step() -> None:
        criterion(wrapped(batch[0]), batch[1]).backward()
        private.step()
        private.zero_grad()

    return step


def seconds(step: Step, repeats: int) -> float:
    """Processor seconds of one step."""
    start = time.process_time()
    for _ in range(repeats):
        step()
    return (time.process_time() - start) / repeats


def peak_bytes(step: Step) -> int:
    """Most tensor bytes held at once during a step, above those held before it."""
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    events = [one for one in seen.profiler.kineto_results.events() if one.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda one: one.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def variants(module: nn.Module, batch: Batch, modes: list[str]) -> tuple[dict[str, Step], str]:
    """A step by name, and the way that the plan took."""
    mine = copy.deepcopy(module)
    plan = plan_clipping(mine, losses, batch)
    plain, named = list(module.parameters()), dict(mine.named_parameters())
    steps: dict[str, Step] = {
        "sgd": lambda: sgd_step(module, plain, batch),
        "private": lambda: private_step(plan, named, batch, True),
        "clip": lambda: private_step(plan, named, batch, False),
    }
    return {**steps, **{mode: opacus_step(module, batch, mode) for mode in modes}}, plan.way


def summary(done: list[dict[str, float]], memory: dict[str, int]) -> dict[str, Any]:
    """Medians over rounds of ratios within a round, and memory in MB."""
    out: dict[str, Any] = {"sgd_ms": 1e3 * statistics.median(each["sgd"] for each in done)}
    for above, below in (
        *(("private", "sgd"), ("clip", "sgd"), ("ghost", "sgd"), ("hooks", "sgd")),
        *(("private", "ghost"), ("private", "hooks")),
    ):
        if above in memory and below in memory:
            ratios = [each[above] / each[below] for each in done]
            out[f"{above}_over_{below}"] = statistics.median(ratios)
            out[f"{above}_over_{below}_range"] = [min(ratios), max(ratios)]
    out["peak_extra_mb"] = {name: value / 1e6 for name, value in memory.items()}
    if "ghost" in memory:
        out["memory_over_ghost"] = memory["private"] / memory["ghost"]
    return out


def main() -> None:
    """Run all rounds, print the ratios, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--out", type=Path, default=RESULTS / "dp_step.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # Opacus on hooks and secure mode
    modes = ["ghost", "hooks"] if importlib.util.find_spec("opacus") else []
    version = importlib.metadata.version("opacus") if modes else HOW
    if not modes:
        print(HOW, flush=True)
    results, rounds = {}, {}
    for name in options.models:
        build, target, beside_ghost, repeats = MODELS[name]
        torch.manual_seed(0)
        module, x = build()
        steps, way = variants(module, (x, torch.randint(0, 5, (len(x),))), modes)
        for step in steps.values():
            seconds(step, 2)
        memory = {one: peak_bytes(step) for one, step in steps.items()}
        done = []
        for number in range(options.rounds):
            order = list(steps) if number % 2 == 0 else list(steps)[::-1]
            done.append({**{one: seconds(steps[one], repeats) for one in order}, "load": load()})
        rounds[name] = done
        results[name] = {
            "way": way,
            "parameters": sum(value.numel() for value in module.parameters()),
            "batch": len(x),
            **summary(done, memory),
            "targets": {"sgd": target, "ghost": beside_ghost, "memory": MOST_MEMORY},
        }
        print(name, results[name], flush=True)
    document = {"threads": 1, "rounds_run": options.rounds, "opacus": version, **results}
    save({**document, "rounds": rounds}, options.out)


if __name__ == "__main__":
    main()
