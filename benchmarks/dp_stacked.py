"""Stacked DP-SGD against Opacus one model at a time, and against plain stacked SGD, in one run.

    python benchmarks/dp_stacked.py [--models 32] [--steps 200] [--rounds 9] [--out FILE]

Trained is a 30-128-64-5 perceptron on half of 5,000 made-up rows (`table-5000`), Poisson batches of
128 on average, one thread. Each round measures, in turn and in changing order: our stack with
DP-SGD, our stack with plain SGD (as many steps), and Opacus 1.6 one model after another, by hooks
and by ghost clipping, with its own optimiser on index batches (no DataLoader, which would cost it
more). All build their models, take their steps and predict every record. Given are medians over the
rounds of the ratio of seconds a model within a round; `times_opacus` is against the faster of the
two. Needs opacus==1.6.0 in the same Python; without it, only our own two are compared.

Measured (32 models, 11 rounds, AMD EPYC with AVX-512, torch 2.13.0, one thread, idle machine): 8.3
times as fast as the faster of Opacus' ghost and hooks (8.2 to 8.4), 10.3 times as hooks, and twice
a plain stacked step: noise for every parameter, coins and norms. With OPENBLAS_CORETYPE=Haswell,
which halves the vectors of NumPy's products and not of torch's, it is 5.9 times (5.5 to 6.7).
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import RESULTS, load, median_ratio, save
from torch import nn
from workloads import workload

from lethe.mitigations.dp_sgd.method import DpSgd
from lethe.training.design import membership, model_seed
from lethe.training.loop import train_models
from lethe.training.models import mlp
from lethe.training.recipe import Layout, TorchRecipe, Treatment, Work

JOB = workload("table-5000")
NOISE, CLIP, RATE = 1.0, 1.0, 0.1


def ours(models: int, epochs: int, treatment: Treatment) -> float:
    """Seconds a model of a stack."""
    records = len(JOB.labels)
    network = functools.partial(mlp, JOB.widths[0], JOB.widths[1:-1], JOB.widths[-1])
    recipe = TorchRecipe(
        network, epochs=epochs, batch_size=JOB.batch, learning_rate=RATE, optimizer="sgd"
    )
    members, pool = membership(models, records, 0), np.ones(records, bool)
    seeds = [model_seed(0, at) for at in range(models)]
    layout = Layout("chain", models)
    start = time.perf_counter()
    found = list(
        train_models(
            Work(recipe, JOB.features, JOB.labels, members, pool, treatment, seeds, layout)
        )
    )
    assert len(found) == models
    return (time.perf_counter() - start) / models


def opacus(steps: int, ghost: bool) -> float:
    """Seconds of one model."""
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    x, y = torch.from_numpy(JOB.features), torch.from_numpy(JOB.labels)
    own = torch.from_numpy(np.flatnonzero(JOB.half(0)))
    rng = torch.Generator().manual_seed(0)
    start = time.perf_counter()
    plain = mlp(JOB.widths[0], JOB.widths[1:-1], JOB.widths[-1])
    sgd = torch.optim.SGD(plain.parameters(), lr=RATE)
    size = {"expected_batch_size": JOB.batch, "loss_reduction": "mean"}
    loss_of: Any = nn.CrossEntropyLoss()
    if ghost:
        module: Any = GradSampleModuleFastGradientClipping(
            plain, max_grad_norm=CLIP, use_ghost_clipping=True
        )
        optimizer: Any = DPOptimizerFastGradientClipping(
            sgd, noise_multiplier=NOISE, max_grad_norm=CLIP, **size
        )
        loss_of = DPLossFastGradientClipping(module, optimizer, loss_of)
    else:
        module = GradSampleModule(plain)
        optimizer = DPOptimizer(sgd, noise_multiplier=NOISE, max_grad_norm=CLIP, **size)
    for _ in range(steps):
        batch = own[torch.rand(len(own), generator=rng) < JOB.batch / len(own)]
        optimizer.zero_grad()
        loss_of(module(x[batch]), y[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        module(x)
    return time.perf_counter() - start


def main() -> None:
    """Run all rounds, print the ratios, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=32)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=RESULTS / "dp_stacked.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # Opacus on hooks, torch on Opacus
    half = len(JOB.labels) // 2
    private = Treatment(method=DpSgd(NOISE, CLIP, JOB.batch / half, options.steps))
    epochs = max(1, round(options.steps / -(-half // JOB.batch)))
    variants: dict[str, Callable[[], float]] = {
        "dp": lambda: ours(options.models, epochs, private),
        "sgd": lambda: ours(options.models, epochs, Treatment()),
    }
    there = importlib.util.find_spec("opacus") is not None
    if there:
        variants["hooks"] = lambda: opacus(options.steps, False)
        variants["ghost"] = lambda: opacus(options.steps, True)
    else:
        print("opacus is not installed: pip install opacus==1.6.0; only our own are compared.")
    for variant in variants.values():
        variant()
    rounds = []
    for number in range(options.rounds):
        order = list(variants) if number % 2 == 0 else list(variants)[::-1]
        rounds.append({**{name: variants[name]() for name in order}, "load": load()})
    plain_steps = epochs * -(-half // JOB.batch)
    seconds = {name: [one[name] for one in rounds] for name in variants}
    found: dict[str, Any] = {
        "models": options.models,
        "steps": options.steps,
        "plain_steps": plain_steps,
        "batch": JOB.batch,
        "threads": 1,
        "seconds_per_model": {name: statistics.median(of) for name, of in seconds.items()},
        "dp_over_sgd": median_ratio(seconds["dp"], seconds["sgd"]) * plain_steps / options.steps,
    }
    if there:
        best = [min(pair) for pair in zip(seconds["hooks"], seconds["ghost"], strict=True)]
        ratios = [theirs / mine for theirs, mine in zip(best, seconds["dp"], strict=True)]
        found |= {
            "times_opacus": statistics.median(ratios),
            "times_opacus_range": [min(ratios), max(ratios)],
            "times_hooks": median_ratio(seconds["hooks"], seconds["dp"]),
            "times_ghost": median_ratio(seconds["ghost"], seconds["dp"]),
            "target": 8,
        }
    save({**found, "rounds": rounds}, options.out)


if __name__ == "__main__":
    main()
