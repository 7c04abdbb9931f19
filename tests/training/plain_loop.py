"""One model by torch's own optimisers, losses, schedulers and clipping: what all ways must match.

Only the batches, held-back rows, noise and mixtures come from Lethe's streams.
"""

import numpy as np
import torch
from torch.nn import functional
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel

from lethe.training.batches import Mixer, Shuffler, dropout_seed, noise_seed, plan, validation_rows
from lethe.training.recipe import TorchRecipe, Treatment
from lethe.training.users_code import build_module


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


def optimizer_of(recipe: TorchRecipe, parameters: list, decay: float) -> torch.optim.Optimizer:
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(
            parameters,
            lr=recipe.learning_rate,
            momentum=recipe.momentum,
            weight_decay=decay,
            nesterov=recipe.nesterov,
        )
    kind = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, lr=recipe.learning_rate, weight_decay=decay)


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
    decay = recipe.weight_decay if treatment.weight_decay is None else treatment.weight_decay
    optimizer = optimizer_of(recipe, parameters, decay)
    schedule = scheduler_of(recipe, optimizer, course.steps * course.schedule)
    noise = torch.Generator().manual_seed(noise_seed(seed))
    best, waited, kept_state = float("inf"), 0, None
    smoothing = treatment.label_smoothing
    smoothing = recipe.label_smoothing if smoothing is None else smoothing
    mixer = None if treatment.mixup is None else Mixer(shuffler.sizes, seed, treatment.mixup)
    total, taken = course.steps * course.epochs, 0
    first = None
    if treatment.average is not None:
        first = total - max(1, round(treatment.average * total))
    averaged = AveragedModel(module, use_buffers=True)

    def between(out: torch.Tensor, rows: torch.Tensor, smoothing: float) -> torch.Tensor:
        if regression:
            return functional.mse_loss(out[:, 0], truth[rows], reduction="none")
        return functional.cross_entropy(
            out, truth[rows], reduction="none", label_smoothing=smoothing
        )

    def loss_of(rows: torch.Tensor, smoothing: float) -> torch.Tensor:
        return between(module(inputs[rows]), rows, smoothing)

    with torch.random.fork_rng():
        torch.manual_seed(dropout_seed(seed))
        for _ in range(course.epochs):
            module.train()
            order, _ = shuffler.epoch(int(shuffler.sizes.max()))
            partners, shares = [None] * len(order), [None] * len(order)
            if mixer is not None:
                partners, shares = mixer.epoch(int(shuffler.sizes.max()))
            for size, batch, partner, own in zip(
                shuffler.sizes, order, partners, shares, strict=True
            ):
                optimizer.zero_grad(set_to_none=False)
                at = torch.from_numpy(batch[:size])
                if size > 0 and mixer is not None:
                    to = at[torch.from_numpy(partner[:size])]
                    part = torch.from_numpy(own[:size])
                    wide = part.view(-1, *[1] * (inputs.ndim - 1))
                    out = module(wide * inputs[at] + (1 - wide) * inputs[to])
                    losses = part * weights[at] * between(out, at, smoothing)
                    losses = losses + (1 - part) * weights[to] * between(out, to, smoothing)
                    (losses.sum() / int(size)).backward()
                elif size > 0:
                    losses = loss_of(at, smoothing)
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
                taken += 1
                if first is not None and taken > first:
                    averaged.update_parameters(module)
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
    if first is not None:
        module = averaged.module
    module.eval()
    with torch.no_grad():
        return module(inputs).numpy() * scale + centre
