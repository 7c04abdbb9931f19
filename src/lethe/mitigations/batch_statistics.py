"""Running statistics of batch normalisation for drawn or averaged parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lethe.errors import InputError

Forward = Callable[[nn.Module, Any], object]


def forward_batch(module: nn.Module, batch: Any) -> object:
    """Call a module on one batch of a loader.

    Args:
        module: the model.
        batch: a mapping (its entries go in by name; those that `forward` does not take are left
            out), a tuple or list (its first element goes in), or a tensor.
    """
    if isinstance(batch, Mapping):
        taken = inspect.signature(module.forward).parameters
        if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values()):
            return module(**batch)
        known = {str(name): value for name, value in batch.items() if name in taken}
        if not known:
            raise InputError(
                f"no entry of the batch ({', '.join(map(str, batch))}) is an argument of the "
                "model's forward; give forward=, a function of (module, batch)."
            )
        return module(**known)
    if isinstance(batch, tuple | list) and batch:
        return module(batch[0])
    if isinstance(batch, Tensor):
        return module(batch)
    raise InputError(
        f"a batch is {type(batch).__name__}, not a mapping, a non-empty tuple or list, or a "
        "tensor; give forward=, a function of (module, batch)."
    )


@torch.no_grad()
def recalculate_statistics(
    module: nn.Module, batches: Iterable[Any], forward: Forward = forward_batch
) -> int:
    """Recompute running means and variances of all batch-normalisation layers over a loader.

    A draw's own statistics are needed, since those of training belong to other parameters (Maddox
    et al. 2019, section 3.2). Batches count by their size; all other layers, dropout too, stay in
    evaluation mode. Statistics of layers that no batch reaches are reset.

    Guarantee: none. This step reads its records with full weight, whatever weight they had in
        training, and no accounting counts it: a model released afterwards tells about them beyond
        any claim for its parameters. Use public records, or a model with LayerNorm or GroupNorm.

    Args:
        module: the model with the drawn parameters; only its running statistics change.
        batches: at least one batch; mappings as from text loaders, tuples, lists or tensors.
        forward: how to call the model on a batch.

    Returns:
        Layers that were recomputed; 0 means that nothing was read and nothing was needed.

    Raises:
        InputError: no batch.
    """
    layers = [
        layer
        for layer in module.modules()
        if isinstance(layer, _BatchNorm) and layer.running_mean is not None
    ]
    if not layers:
        return 0
    modes = [(part, part.training) for part in module.modules()]
    momenta = [layer.momentum for layer in layers]
    seen = dict.fromkeys(layers, 0)

    def weigh(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        assert isinstance(layer, _BatchNorm)
        values = inputs[0]
        rows = values.numel() // values.shape[1]
        seen[layer] += rows
        layer.momentum = rows / seen[layer]

    hooks = [layer.register_forward_pre_hook(weigh) for layer in layers]
    module.train(False)
    count = 0
    try:
        for layer in layers:
            layer.reset_running_stats()
            layer.train()
        for batch in batches:
            forward(module, batch)
            count += 1
    finally:
        for hook in hooks:
            hook.remove()
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        for part, mode in modes:
            part.training = mode
    if count == 0:
        raise InputError("batches is empty; statistics need at least one batch.")
    return len(layers)
