"""A short trial of the real recipe: which way of training is fastest here, and within memory.

Ways that give other last digits than the one which the module's structure suggests must be
clearly faster to be taken, so that the same machine chooses alike from run to run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from lethe.training.batches import dropout_seed
from lethe.training.design import model_seed
from lethe.training.engines import Probe
from lethe.training.loop import Records, default_layout, load_records, make_network
from lethe.training.networks.chain import quiet_numpy
from lethe.training.networks.parameters import Optimizer, loss_slope
from lethe.training.recipe import DEFAULT_WIDTH, Layout, TorchRecipe
from lethe.training.users_code import build_module

_STEPS, _ROUNDS = 3, 3
_SECONDS = {"cpu": 2.0, "cuda": 20.0}
"""No new way is tried after these; a GPU's first steps load its kernels."""
_CLEARLY = 1.25
_TOLERANCE = 1e-3
_WIDTHS = (1, 4, DEFAULT_WIDTH)
_EXACT = (
    nn.Linear,
    nn.ReLU,
    nn.LeakyReLU,
    nn.BatchNorm1d,
    nn.Dropout,
    nn.Flatten,
    nn.Unflatten,
    nn.Identity,
)
"""Layers whose written-out form gives the same bits in a stack of any width."""


def calibrate(trial: Probe) -> dict[str, Any]:
    """Time the ways to train the recipe's models on some of its rows.

    Returns: A `Layout` as plain values, with `seconds`, the time of a step and model of each way
        that was tried, and `bytes`, an estimate of what a model of the stack takes.
    """
    torch.set_num_threads(1)
    recipe = trial.recipe
    device = "cuda" if torch.cuda.is_available() else "cpu"
    first = default_layout(recipe)
    records = load_records(recipe, trial.features, trial.labels, trial.pool, "cpu")
    rows = torch.from_numpy(np.flatnonzero(trial.pool)[: recipe.batch_size])
    module = build_module(recipe.make_module, 0)
    if first.kind == "chain":
        differs = _difference(recipe, records, rows, trial.seed)
        if differs is not None:
            first = Layout("alone", 1, why=differs)
    images = any(isinstance(part, nn.Conv2d) for part in module.modules())
    exact = all(isinstance(part, _EXACT) for part in module.modules() if not list(part.children()))
    per_model = _bytes_of(module, records, rows)
    most = max(1, trial.memory // max(1, trial.workers) // per_model)
    on_gpu = records
    if device == "cuda":
        on_gpu = load_records(recipe, trial.features, trial.labels, trial.pool, device)
    seconds: dict[str, float] = {}
    best, best_time = first, float("inf")
    began = time.perf_counter()
    for layout in _candidates(first, device, int(most), images):
        if seconds and time.perf_counter() - began > _SECONDS[device]:
            break
        data = records if layout.device == "cpu" else on_gpu
        try:
            taken = _time(recipe, data, rows.to(layout.device), layout, trial.seed)
        except RuntimeError as error:  # a module that cannot take images channels-last
            if not layout.images_last:
                raise
            seconds[f"{_name(layout)}: {str(error).splitlines()[0][:80]}"] = float("inf")
            continue
        seconds[_name(layout)] = taken
        same_bits = exact and layout.kind == best.kind == "chain"
        if taken * (1.0 if same_bits else _CLEARLY) < best_time:
            best, best_time = layout, taken
    why = f"{first.why}; {_name(best)} was fastest of {len(seconds)} ways tried"
    chosen = replace(best, why=f"{why}; one thread a worker")
    return {
        **chosen.to_json(),
        "seconds": {name: value for name, value in seconds.items() if np.isfinite(value)},
        "refused": [name for name, value in seconds.items() if not np.isfinite(value)],
        "bytes": per_model,
    }


def _name(layout: Layout) -> str:
    last = ", images channels-last" if layout.images_last else ""
    return f"{layout.kind} of {layout.width} on {layout.device}{last}"


def _candidates(first: Layout, device: str, most: int, images: bool) -> Iterator[Layout]:
    """Ways to try, the one that the structure suggests first; one by one on a GPU where it is."""
    if first.kind == "chain":
        yield replace(first, width=min(first.width, most))
        widths = {min(width, most) for width in _WIDTHS} - {min(first.width, most)}
        yield from (replace(first, width=width) for width in sorted(widths))
    if first.kind != "chain" or device == "cuda":
        yield Layout("alone", 1, device, why=first.why)
        if images:
            yield Layout("alone", 1, device, images_last=True, why=first.why)


def _time(
    recipe: TorchRecipe, records: Records, rows: torch.Tensor, layout: Layout, seed: int
) -> float:
    """Seconds of one step of one model, the best of some rounds."""
    seeds = [model_seed(seed, index) for index in range(layout.width)]
    streams = [torch.Generator(layout.device).manual_seed(dropout_seed(s)) for s in seeds]
    network = make_network(recipe, layout, seeds, streams)
    flat, grad = network.parameters.flat, network.parameters.grad
    optimizer = Optimizer(recipe.optimizer, flat, grad, recipe.momentum, recipe.nesterov)
    truth = records.truth[rows].expand(layout.width, -1)
    share = torch.full(truth.shape, 1 / len(rows), device=layout.device)
    counts = [len(rows)] * layout.width
    taken = []
    with torch.no_grad(), quiet_numpy():
        for steps in (1, *[_STEPS] * _ROUNDS):
            start = time.perf_counter()
            for _ in range(steps):
                x = records.inputs[rows.repeat(layout.width)]
                outputs = network.forward(x.view(*truth.shape, *x.shape[1:]), counts)
                slope = loss_slope(recipe.loss, outputs, truth, share, recipe.label_smoothing)
                network.backward(slope)
                optimizer.step(recipe.learning_rate)
            if layout.device == "cuda":
                torch.cuda.synchronize()
            taken.append((time.perf_counter() - start) / steps / layout.width)
            if taken[-1] * _STEPS * layout.width > _SECONDS[layout.device] / 4:
                break
    return min(taken[1:] or taken)


def _difference(recipe: TorchRecipe, records: Records, rows: torch.Tensor, seed: int) -> str | None:
    """Say how written-out layers differ from autograd on one batch, or None if they agree."""
    runs = []
    for kind in ("chain", "alone"):
        first = model_seed(seed, 0)
        stream = torch.Generator().manual_seed(dropout_seed(first))
        with torch.no_grad(), quiet_numpy():
            try:
                network = make_network(recipe, Layout(kind, 1), [first], [stream])
                outputs = network.forward(records.inputs[rows][None].clone(), [len(rows)])
            except (RuntimeError, ValueError, IndexError) as error:
                if kind == "alone":
                    raise
                return f"written-out layers cannot run it ({str(error).splitlines()[0][:80]})"
            share = torch.full((1, len(rows)), 1 / len(rows))
            truth = records.truth[rows][None]
            outputs = outputs.clone()
            network.backward(loss_slope(recipe.loss, outputs, truth, share, 0.0))
            slopes = [block.slope.flatten() for block in network.parameters.blocks]
            later = network.predict(records.inputs[rows], True)
        runs.append([outputs, torch.cat(slopes), later])
    for what, ours, theirs in zip(("outputs", "gradients", "predictions"), *runs, strict=True):
        if ours.shape != theirs.shape or not torch.allclose(
            ours, theirs, _TOLERANCE, _TOLERANCE * float(theirs.abs().max().clamp(min=1e-6))
        ):
            return f"written-out layers give other {what} than the module"
    return None


def _bytes_of(module: nn.Module, records: Records, rows: torch.Tensor) -> int:
    """Estimate the bytes of one model of a stack: parameters, optimiser, activations, gradients."""
    held = [3 * records.inputs[rows].numel()]

    def count(_module: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor):
            held.append(3 * output.numel())

    for part in module.modules():
        part.register_forward_hook(count)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        module(records.inputs[rows])
    parameters = sum(p.numel() for p in module.parameters())
    return 4 * (5 * parameters + sum(held))
