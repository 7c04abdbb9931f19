"""Batches of any shape, and the gradient of every example by itself.

A batch is a tensor, or tuples, lists and mappings of tensors, examples first. `vmapped` and
`looped` are right for any model without cross-example terms; they are slower than book-keeping
and hungrier for memory, as every example's gradient is made in full.

Throughout `loss` gives the losses (B,) of (module, batch), a batch holds B >= 1 examples, each in
`copies` consecutive rows whose mean is its gradient, and `factors` turn norms (b,) of consecutive
examples into their multipliers, (b,).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from lethe.errors import InputError


def tensors(tree: Any) -> list[Tensor]:
    """List the tensors of a nested value in a fixed order; anything else is passed over."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, list | tuple):
        return [leaf for value in tree for leaf in tensors(value)]
    if isinstance(tree, Mapping):
        return [leaf for value in tree.values() for leaf in tensors(value)]
    return []


def mapped(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Change every tensor of a nested value; other values are kept."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, Mapping):
        return {key: mapped(value, change) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return tuple(mapped(value, change) for value in tree)
    return tree


def size(batch: Any) -> int:
    """Number of examples B: the first dimension, the same in every tensor.

    Raises InputError: there is no tensor, or the first dimensions differ.
    """
    lengths = {leaf.shape[0] if leaf.ndim else -1 for leaf in tensors(batch)}
    if len(lengths) != 1 or -1 in lengths:
        shapes = [tuple(leaf.shape) for leaf in tensors(batch)]
        raise InputError(
            f"batch has tensors of shapes {shapes}; each must have the examples as its first "
            "dimension. Pass what is common to all examples inside the loss function."
        )
    return lengths.pop()


def rows(batch: Any, chosen: list[int]) -> Any:
    """The chosen examples of a batch, in the order given."""
    at = torch.tensor(chosen, dtype=torch.long)  # of no rows, torch would make it floating point
    return mapped(batch, lambda leaf: leaf[at.to(leaf.device)])


def distinct(batch: Any) -> list[int]:
    """Positions of examples that differ from all earlier ones in some tensor."""
    seen: list[int] = []
    for row in range(size(batch)):
        if all(not same_rows(batch, row, other) for other in seen):
            seen.append(row)
    return seen


def same_rows(batch: Any, first: int, second: int) -> bool:
    """Whether two examples of a batch are equal in every tensor."""
    return all(bool(torch.equal(leaf[first], leaf[second])) for leaf in tensors(batch))


def stand_ins(data: Any, count: int = 16) -> Any:
    """Made-up examples with the shapes and types of some data, and none of its values.

    Numbers are uniform in [0, 1), whole numbers and booleans are 0 or 1; where there are several to
    an example the first is 1, so that no mask is empty.

    >>> inputs, labels = stand_ins((torch.zeros(5, 2), torch.tensor([7, 8, 9, 7, 7])), 3)
    >>> inputs.shape, bool(((labels == 0) | (labels == 1)).all())
    (torch.Size([3, 2]), True)
    """
    stream = torch.Generator().manual_seed(0)

    def drawn(leaf: Tensor) -> Tensor:
        shape = (count, *leaf.shape[1:])
        if leaf.is_floating_point() or leaf.is_complex():
            return torch.rand(shape, generator=stream).to(leaf)
        whole = torch.randint(0, 2, shape, generator=stream)
        if whole.ndim > 1 and whole.numel():
            whole[..., 0] = 1
        return whole.to(leaf)

    return mapped(data, drawn)


_CELLS = 2**25  # most gradient values that are held at once

Factors = Callable[[Tensor], Tensor]
Loss = Callable[[nn.Module, Any], Tensor]


def check_losses(losses: Any, count: int) -> Tensor:
    """The losses, if they are one number an example.

    Raises InputError: another type or shape.
    """
    if not isinstance(losses, Tensor) or losses.shape != (count,):
        got = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise InputError(
            f"loss gave {got} for {count} examples; it must give one number each, shape "
            f"({count},). Use reduction='none' and average within an example yourself."
        )
    return losses


def combined(c: Tensor, grads: Tensor) -> Tensor:
    """Sum over examples of c_b times its gradient: (B,) factors and (B, *shape) gradients."""
    total: Tensor = torch.tensordot(c, grads, 1)
    return total


class _Whole(nn.Module):
    """The loss as a module, so that its parameters can be handed in."""

    def __init__(self, module: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model, self._loss = module, loss

    def forward(self, batch: Any) -> Tensor:
        return check_losses(self._loss(self.model, batch), size(batch)).mean()


def _trained(module: nn.Module) -> dict[str, Tensor]:
    return {name: value for name, value in module.named_parameters() if value.requires_grad}


def _add(sums: dict[str, Tensor], grads: dict[str, Tensor], factors: Factors) -> Tensor:
    """Add clipped gradients to the sums; returns the norms. A norm that is not finite counts 0."""
    squares = [grad.flatten(1).square().sum(1) for grad in grads.values()]
    norms = torch.stack(squares).sum(0).sqrt()
    c, good = factors(norms), torch.isfinite(norms)
    if not bool(good.all()):  # 0 times infinity would be no number
        if not bool(good.any()):
            return norms
        c, grads = c[good], {name: value[good] for name, value in grads.items()}
    for name, total in sums.items():
        if len(c) == 1:
            total.add_(grads[name][0] * c)
        else:
            total.add_(combined(c, grads[name]))
    return norms


def vmapped(
    module: nn.Module,
    loss: Loss,
    batch: Any,
    factors: Factors,
    copies: int = 1,
    passed: Callable[[], object] = lambda: None,
) -> tuple[dict[str, Tensor], Tensor]:
    """Compute by ``torch.func.vmap(grad)``, a part of the batch at a time.

    Args:
        passed: called after each part.

    Returns: Sum by parameter name, and norms (B,).
    """
    whole = _Whole(module, loss)
    parameters = {f"model.{name}": value.detach() for name, value in _trained(module).items()}

    def alone(values: dict[str, Tensor], *leaves: Tensor) -> Tensor:
        given = iter(leaves)
        example = mapped(batch, lambda leaf: next(given))
        return torch.as_tensor(functional_call(whole, values, (example,)))

    count = size(batch) // copies
    leaves = [leaf.reshape(count, copies, *leaf.shape[1:]) for leaf in tensors(batch)]
    every = vmap(grad(alone), (None, *(0 for _ in leaves)), randomness="different")
    step = max(1, _CELLS // max(1, sum(value.numel() for value in parameters.values())))
    sums = {n: torch.zeros_like(p, requires_grad=False) for n, p in _trained(module).items()}
    norms = []
    for start in range(0, count, step):
        with warnings.catch_warnings():  # an operation without a batched form is looped over
            warnings.filterwarnings("ignore", message="There is a performance drop")
            gradients = every(parameters, *(leaf[start : start + step] for leaf in leaves))
        with torch.no_grad():
            named = {name.removeprefix("model."): value for name, value in gradients.items()}
            norms.append(_add(sums, named, factors))
        passed()
    return sums, torch.cat(norms)


def looped(
    module: nn.Module,
    loss: Loss,
    batch: Any,
    factors: Factors,
    copies: int = 1,
    passed: Callable[[], object] = lambda: None,
    *,
    skip: bool = False,
) -> tuple[dict[str, Tensor], Tensor]:
    """Compute by one forward and backward pass an example: right by construction, and slow.

    Args:
        passed: called after each example.
        skip: an example whose pass raises an error counts 0 and has the norm NaN.

    The `.grad` fields are left as they were; returns as `vmapped`.
    """
    trained = _trained(module)
    before = {name: value.grad for name, value in trained.items()}
    sums = {n: torch.zeros_like(p, requires_grad=False) for n, p in trained.items()}
    norms = []
    try:
        for row in range(0, size(batch), copies):
            for value in trained.values():
                value.grad = None
            example = rows(batch, list(range(row, row + copies)))
            try:
                with torch.enable_grad():
                    own_loss = check_losses(loss(module, example), copies).mean()
                # Not autograd.grad: activation checkpointing may refuse that.
                torch.autograd.backward(own_loss)
            except (MemoryError, torch.OutOfMemoryError):
                raise
            except Exception:
                if not skip:
                    raise
                for value in trained.values():
                    value.grad = torch.full_like(value, torch.nan)
            with torch.no_grad():
                grads = {
                    name: (torch.zeros_like(value) if value.grad is None else value.grad)[None]
                    for name, value in trained.items()
                }
                norms.append(_add(sums, grads, factors))
            passed()
    finally:
        for name, value in trained.items():
            value.grad = before[name]
    return sums, torch.cat(norms)
