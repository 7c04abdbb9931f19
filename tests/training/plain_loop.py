"""One model by torch's own optimisers, losses, schedulers and clipping: what all ways must match.

Only the batches, held-back rows and noise come from Lethe's streams.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional
from torch.optim import lr_scheduler

from lethe.training.batches import Shuffler, dropout_seed, noise_seed, plan, validation_rows
from lethe.training.modules import build_module
from lethe.training.recipe import TorchRecipe, Treatment


def scheduler_of(recipe: TorchRecipe, optimizer: torch.optim.Optimizer, steps: int):
    if recipe.schedule == "one-cycle":
        return lr_scheduler.OneCycleLR(
            optimizer, recipe.learning_rate, total_steps=steps, cycle_momentum=False
        )
    rising = round(recipe.warmup * steps)
    parts: list = []
    if rising:
        parts.append(lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / rising))
    if recipe.schedule == "cosine":
        parts.append(lr_scheduler.CosineAnnealingLR(optimizer, max(steps - rising, 1)))
    else:
        parts.append(lr_scheduler.ConstantLR(optimizer, 1.0))
    if len(parts) == 1:
        return parts[0]
    return lr_scheduler.SequentialLR(optimizer, parts, [rising])


def optimizer_of(recipe: TorchRecipe, parameters: list) -> torch.optim.Optimizer:
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(
            parameters,
            lr=recipe.learning_rate,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
            nesterov=recipe.nesterov,
        )
    kind = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)


def train_plainly(
    recipe: TorchRecipe,
    features: np.ndarray,
    labels: np.ndarray,
    member: np.ndarray,
    pool: np.ndarray,
    treatment: Treatment,
    seed: int,
) -> np.ndarray:
    inputs = torch.from_numpy(features)
    regression = recipe.loss == "squared-error"
    centre, scale = (labels[pool].mean(), labels[pool].std()) if regression else (0.0, 1.0)
    truth = torch.from_numpy(
        ((labels - centre) / scale).astype(np.float32) if regression else labels
    )
    course, kept = plan(
        len(labels), int(pool.sum()), recipe.batch_size, recipe.epochs, treatment, recipe.held_back
    )
    weights = torch.from_numpy(course.weights)
    rows = np.flatnonzero(member & kept)
    held = validation_rows(rows, seed, recipe.held_back)
    shuffler = Shuffler(np.setdiff1d(rows, held), seed, course.steps)
    module = build_module(recipe.make_module, seed)
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimizer = optimizer_of(recipe, parameters)
    schedule = scheduler_of(recipe, optimizer, course.steps * course.epochs)
    noise = torch.Generator().manual_seed(noise_seed(seed))
    best, waited, kept_state = float("inf"), 0, None

    def loss_of(rows: torch.Tensor, smoothing: float) -> torch.Tensor:
        out = module(inputs[rows])
        if regression:
            return functional.mse_loss(out[:, 0], truth[rows], reduction="none")
        return functional.cross_entropy(
            out, truth[rows], reduction="none", label_smoothing=smoothing
        )

    with torch.random.fork_rng():
        torch.manual_seed(dropout_seed(seed))
        for _ in range(course.epochs):
            module.train()
            order, _ = shuffler.epoch(int(shuffler.sizes.max()))
            for size, batch in zip(shuffler.sizes, order, strict=True):
                optimizer.zero_grad(set_to_none=False)
                at = torch.from_numpy(batch[:size])
                if size > 0:
                    losses = loss_of(at, recipe.label_smoothing)
                    ((losses * weights[at]).sum() / int(size)).backward()
                for p in parameters:
                    p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                if recipe.clip_norm is not None:
                    torch.nn.utils.clip_grad_norm_(parameters, recipe.clip_norm)
                if treatment.noise > 0:
                    flat = torch.empty(sum(p.numel() for p in parameters))
                    flat.normal_(generator=noise)
                    for p, part in zip(
                        parameters, flat.split([p.numel() for p in parameters]), strict=True
                    ):
                        p.grad += treatment.noise * part.view_as(p)
                optimizer.step()
                schedule.step()
            if recipe.patience is not None:
                module.eval()
                with torch.no_grad():
                    loss = float(loss_of(torch.from_numpy(held), 0.0).mean())
                if loss < best:
                    best, waited = loss, 0
                    kept_state = {k: v.clone() for k, v in module.state_dict().items()}
                else:
                    waited += 1
                if waited >= recipe.patience:
                    break
    if kept_state is not None:
        module.load_state_dict(kept_state)
    module.eval()
    with torch.no_grad():
        return module(inputs).numpy() * scale + centre
