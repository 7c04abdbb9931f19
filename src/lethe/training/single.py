"""Training one model after another: for whatever cannot be stacked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, require
from lethe.training.batches import Shuffler, dropout_seed, noise_seed, plan
from lethe.training.recipe import CallableRecipe, SklearnRecipe, TorchRecipe, Treatment

PREDICT_ROWS = 4096


def build_module(make_module: Callable[[], Any], seed: int) -> Any:
    """A fresh module whose initial weights are a function of `seed` alone."""
    torch = require("torch", "train")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = make_module()
    if not isinstance(module, torch.nn.Module):
        raise InputError(
            f"make_module returned {type(module).__name__}, expected a torch.nn.Module."
        )
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise InputError("make_module returned a module without trainable parameters.")
    return module


def make_optimizer(recipe: TorchRecipe, parameters: Any) -> Any:
    """The torch optimiser that a recipe names, fused where there is a fused kernel."""
    torch = require("torch", "train")
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(
            parameters,
            lr=recipe.learning_rate,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
            nesterov=recipe.nesterov,
            fused=True,
        )
    kind = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay, fused=True)


def train_torch(
    recipe: TorchRecipe,
    features: NDArray[np.floating],
    labels: NDArray[np.int64],
    rows: NDArray[np.int64],
    pool: int,
    treatment: Treatment,
    seed: int,
) -> NDArray[np.float32]:
    """Train one torch module and return its logits for all records.

    Args:
        features: (N, ...) inputs.
        labels: (N,) class codes.
        rows: the records it trains on.
        pool: see `batches.plan`.
        treatment: the mitigation.
        seed: of this model.

    Returns:
        (N, C) logits in evaluation mode.
    """
    torch = require("torch", "train")
    inputs = torch.from_numpy(np.ascontiguousarray(features, np.float32))
    truth = torch.from_numpy(labels)
    course, kept = plan(len(labels), pool, recipe.batch_size, recipe.epochs, treatment)
    weights = torch.from_numpy(course.weights)
    shuffler = Shuffler(rows[kept[rows]], seed, course.steps)
    module = build_module(recipe.make_module, seed)
    parameters = [p for p in module.parameters() if p.requires_grad]
    optimizer = make_optimizer(recipe, parameters)
    noise = torch.Generator().manual_seed(noise_seed(seed))
    flat = torch.empty(sum(p.numel() for p in parameters))
    width = int(shuffler.sizes.max())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(dropout_seed(seed))
        module.train()
        for _ in range(course.epochs):
            order, _ = shuffler.epoch(width)
            for size, batch in zip(shuffler.sizes, order, strict=True):
                optimizer.zero_grad()
                if size > 0:
                    at = torch.from_numpy(batch[:size])
                    loss = torch.nn.functional.cross_entropy(
                        module(inputs[at]), truth[at], reduction="none"
                    )
                    ((loss * weights[at]).sum() / int(size)).backward()
                # No rows, or a parameter that the loss does not reach: a gradient of zero, so
                # that noise, momentum and decay go on as they do in a stack.
                for parameter in parameters:
                    if parameter.grad is None:
                        parameter.grad = torch.zeros_like(parameter)
                if treatment.noise > 0:
                    flat.normal_(generator=noise)
                    place = 0
                    for parameter in parameters:
                        part = flat[place : place + parameter.numel()].view_as(parameter)
                        parameter.grad.add_(part, alpha=treatment.noise)
                        place += parameter.numel()
                optimizer.step()
    module.eval()
    with torch.no_grad():
        logits = [module(part) for part in inputs.split(PREDICT_ROWS)]
    out: NDArray[np.float32] = torch.cat(logits).float().numpy()
    return out


def train_sklearn(
    recipe: SklearnRecipe,
    features: NDArray[np.floating],
    labels: NDArray[np.int64],
    rows: NDArray[np.int64],
    classes: int,
    treatment: Treatment,
    seed: int,
) -> NDArray[np.float64]:
    """Fit a clone of the estimator and return (N, C) probabilities.

    A class that the training rows lack gets probability 0, as the model would give it.
    """
    from sklearn.base import clone

    reason = recipe.refuses(treatment)
    if reason:
        raise InputError(f"this treatment cannot be applied: {reason}.")
    estimator = clone(recipe.estimator)
    seeded = {
        name: int(seed % 2**31)
        for name in estimator.get_params()
        if name == "random_state" or name.endswith("__random_state")
    }
    estimator.set_params(**seeded)
    extra = {}
    if treatment.weights is not None:
        if treatment.remove:
            rows = rows[treatment.weights[rows] > 0]
        else:
            extra["sample_weight"] = treatment.weights[rows]
    if len(np.unique(labels[rows])) < 2:
        raise InputError("a training split holds a single class; add records or merge classes.")
    flat = features.reshape(len(features), -1)
    estimator.fit(flat[rows], labels[rows], **extra)
    known = np.asarray(estimator.classes_, dtype=np.int64)
    scores = np.zeros((len(flat), classes))
    if hasattr(estimator, "predict_proba"):
        scores[:, known] = estimator.predict_proba(flat)
        return scores
    from scipy.special import softmax

    margin = np.asarray(estimator.decision_function(flat), dtype=np.float64)
    if margin.ndim == 1:
        margin = np.stack([np.zeros_like(margin), margin], axis=1)
    if margin.shape[1] != len(known):
        raise InputError(
            f"decision_function of {type(estimator).__name__} returned {margin.shape[1]} columns "
            f"for {len(known)} classes; use one column a class (decision_function_shape='ovr')."
        )
    scores[:, known] = softmax(margin, axis=1)
    return scores


def train_callable(
    recipe: CallableRecipe,
    records: int,
    rows: NDArray[np.int64],
    treatment: Treatment,
    seed: int,
) -> NDArray[np.floating]:
    """Call the user's training code and return its outputs (N, C) for all records."""
    reason = recipe.refuses(treatment)
    if reason:
        raise InputError(f"this treatment cannot be applied: {reason}.")
    chosen = treatment.weights
    if chosen is not None and treatment.remove:
        rows = rows[chosen[rows] > 0]
    weights = np.ones(len(rows), np.float32) if chosen is None else chosen[rows]
    predict = recipe.train(rows, weights, seed)
    everyone = np.arange(records, dtype=np.int64)
    outputs = np.asarray(predict(everyone))
    if outputs.ndim != 2 or len(outputs) != records:
        raise InputError(
            f"Predict returned shape {outputs.shape} for {records} rows, "
            f"expected ({records}, classes)."
        )
    return outputs
