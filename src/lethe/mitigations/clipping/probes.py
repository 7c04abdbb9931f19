"""Does one example reach another one? Asked of the model itself, before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lethe.errors import InputError
from lethe.mitigations.clipping.bookkeeping import Loss, check_losses
from lethe.mitigations.clipping.trees import distinct, mapped, size, tensors

_STILL = 1e-6  # relative change of a row that passes for rounding


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The global random stream from a seed, and back to where it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def changed_buffers(module: nn.Module, loss: Loss, batch: Any) -> list[str]:
    """Names of buffers that a forward pass writes; they are put back.

    Running statistics and the like carry what they saw of the records past the noise.

    Args:
        module: the model, in the mode it is trained in.
        loss: losses (B,) of (module, batch).
        batch: examples.
    """
    before = {name: value.clone() for name, value in module.named_buffers()}
    try:
        with torch.enable_grad(), seeded(0):
            loss(module, batch)
        after = dict(module.named_buffers())
        return [
            name for name, value in before.items() if name in after and _moved(value, after[name])
        ] + [name for name in after if name not in before]
    finally:
        now = dict(module.named_buffers())
        with torch.no_grad():
            for name, value in before.items():
                if name in now and now[name].shape == value.shape:
                    now[name].copy_(value)


def _moved(first: Tensor, second: Tensor) -> bool:
    return first.shape != second.shape or not bool(
        torch.allclose(first.double(), second.double(), rtol=0, atol=0, equal_nan=True)
    )


def coarsest(module: nn.Module, loss: Loss, batch: Any) -> torch.dtype | None:
    """The least precise type of an active autocast, asked whenever a layer is called.

    Args:
        module: the model.
        loss: losses (B,) of (module, batch), in which autocast may be switched on.
        batch: examples.

    Returns:
        The type, or None where no autocast is active.
    """
    device = tensors(batch)[0].device.type
    active: set[torch.dtype] = set()

    def note(*_: Any) -> None:
        if torch.is_autocast_enabled(device):
            active.add(torch.get_autocast_dtype(device))

    note()
    handles = [part.register_forward_pre_hook(note) for part in module.modules()]
    try:
        with torch.enable_grad(), seeded(0):
            loss(module, batch)
    finally:
        for handle in handles:
            handle.remove()
    return max(active, key=lambda kind: torch.finfo(kind).eps, default=None)


def leaking_layer(module: nn.Module, loss: Loss, batch: Any) -> str | None:
    """Name of the first layer in which replacing one example changes the others, or None.

    Args:
        module: the model, in the mode it is trained in.
        loss: losses (B,) of (module, batch).
        batch: at least two examples that differ.

    Returns:
        The layer's name, ``the loss function`` where no layer is at fault, or None.

    Raises:
        InputError: the losses are not (B,) or not finite.
    """
    count = size(batch)
    different = distinct(batch)
    for row in {0, count // 2, count - 1}:
        other = next(one for one in different if not _equal_rows(batch, one, row))
        swapped = mapped(batch, partial(_swap, row=row, other=other))
        kept = [one for one in range(count) if one != row]
        found = _compare(module, loss, batch, swapped, kept)
        if found is not None:
            return found
    return None


def _equal_rows(batch: Any, first: int, second: int) -> bool:
    return all(bool(torch.equal(leaf[first], leaf[second])) for leaf in tensors(batch))


def _swap(leaf: Tensor, row: int, other: int) -> Tensor:
    changed = leaf.clone()
    changed[row] = leaf[other]
    return changed


def _compare(
    module: nn.Module, loss: Loss, batch: Any, swapped: Any, kept: list[int]
) -> str | None:
    losses, first = _watched(module, loss, batch)
    others, second = _watched(module, loss, swapped)
    if not bool(torch.isfinite(losses).all()):
        raise InputError("loss is not finite on the example batch; check the model and its inputs.")
    for (name, before, out), (_, before_too, out_too) in zip(first, second, strict=False):
        if _rows_moved(out, out_too, kept, len(losses)) and not _rows_moved(
            before, before_too, kept, len(losses)
        ):
            return name
    if _rows_moved([losses], [others], kept, len(losses)):
        return "the loss function"
    return None


def _rows_moved(first: list[Tensor], second: list[Tensor], kept: list[int], count: int) -> bool:
    for one, two in zip(first, second, strict=False):
        if one.ndim and len(one) == count and one.shape == two.shape and one.is_floating_point():
            scale = float(one[kept].abs().max()) if one[kept].numel() else 0.0
            gap = torch.nan_to_num((one[kept] - two[kept]).abs())
            if gap.numel() and float(gap.max()) > _STILL * scale:
                return True
    return False


Seen = list[tuple[str, list[Tensor], list[Tensor]]]


def _watched(module: nn.Module, loss: Loss, batch: Any) -> tuple[Tensor, Seen]:
    """Losses, and (name, inputs, outputs) of all modules in the order in which they finish."""
    seen: Seen = []

    def hook(name: str) -> Callable[..., None]:
        def keep(part: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            given = [leaf.detach().clone() for leaf in tensors((args, kwargs))]
            seen.append((name, given, [leaf.detach().clone() for leaf in tensors(output)]))

        return keep

    handles = [
        part.register_forward_hook(
            hook(f"{name} ({type(part).__name__})" if name else type(part).__name__),
            with_kwargs=True,
        )
        for name, part in module.named_modules()
    ]
    try:
        with torch.enable_grad(), seeded(0):
            return check_losses(loss(module, batch), size(batch)).detach(), seen
    finally:
        for handle in handles:
            handle.remove()
