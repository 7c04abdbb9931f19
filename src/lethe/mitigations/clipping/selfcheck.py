"""Is the bound kept on this very model? Measured before training, on a few real examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lethe.errors import InputError
from lethe.mitigations.clipping.per_example import (
    Factors,
    Loss,
    check_losses,
    distinct,
    looped,
    mapped,
    rows,
    same_rows,
    size,
    tensors,
)

_HUGE = 1e6
_STILL = 1e-6  # relative change of a row that passes for rounding


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """The global random stream from a seed, and back to where it was."""
    with torch.random.fork_rng():
        (torch if torch.accelerator.is_available() else torch.default_generator).manual_seed(seed)
        yield


def refuse_coarse(module: nn.Module, loss: Loss, batch: Any) -> None:
    """Refuse numbers coarser than float32, looked for whenever a layer is called.

    A product rounds a record's gradient by the size of the batch, with bfloat16 by up to 0.4 %: so
    one record more moves the clipped gradients of all others, which the noise does not cover.

    Raises InputError: naming the type.
    """
    device = tensors(batch)[0].device.type
    fine = (torch.float32, torch.float64)
    active = {value.dtype for value in module.parameters() if value.requires_grad} - {*fine}

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
    if active:
        coarse = str(max(active, key=lambda kind: torch.finfo(kind).eps)).removeprefix("torch.")
        raise InputError(
            f"the model computes in {coarse}: its rounding of every record's gradient depends on "
            "who else is in the batch, past the bound that clipping gives. Take float32: no "
            "torch.autocast, module.float()."
        )


def leaking_layer(module: nn.Module, loss: Loss, batch: Any) -> str | None:
    """Name of the first layer in which replacing one example changes the others, or None.

    The name is ``the loss function`` where no layer is at fault; the batch needs two examples that
    differ.

    Raises InputError: the losses are not (B,) or not finite.
    """
    count = size(batch)
    different = distinct(batch)
    for row in {0, count // 2, count - 1}:
        other = next(place for place in different if not same_rows(batch, place, row))
        kept = [place for place in range(count) if place != row]
        for change in (partial(_swap, row=row, other=other), partial(_loud, row=row)):
            try:
                layer = _compare(module, loss, batch, mapped(batch, change), kept)
            except (RuntimeError, ValueError, AssertionError, ArithmeticError):
                if change.func is _swap:
                    raise
                continue  # a model may refuse huge numbers
            if layer is not None:
                return layer
    return None


def _swap(leaf: Tensor, row: int, other: int) -> Tensor:
    changed = leaf.clone()
    changed[row] = leaf[other]
    return changed


def _loud(leaf: Tensor, row: int) -> Tensor:
    """One example with huge numbers: some models mix examples only where one is extreme."""
    changed = leaf.clone()
    if leaf.is_floating_point():
        changed[row] *= _HUGE
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
    for x, y in zip(first, second, strict=False):
        if x.ndim and len(x) == count and x.shape == y.shape and x.is_floating_point():
            scale = float(x[kept].abs().max()) if x[kept].numel() else 0.0
            gap = torch.nan_to_num((x[kept] - y[kept]).abs())
            if gap.numel() and float(gap.max()) > _STILL * scale:
                return True
    return False


Seen = list[tuple[str, list[Tensor], list[Tensor]]]


def _watched(module: nn.Module, loss: Loss, batch: Any) -> tuple[Tensor, Seen]:
    """Losses, and (name, inputs, outputs) of all modules in the order in which they finish."""
    seen: Seen = []

    def hook(name: str) -> Callable[..., None]:
        def keep(part: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            inputs = [leaf.detach().clone() for leaf in tensors((args, kwargs))]
            seen.append((name, inputs, [leaf.detach().clone() for leaf in tensors(output)]))

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


Sum = Callable[[Any, Factors], tuple[dict[str, Tensor], Tensor]]

MOST_CHANGE = 1.0001
"""Largest change of the clipped sum, in units of the clip norm, that passes for rounding."""


@dataclass(frozen=True)
class SelfCheck:
    """What was measured on the example batch.

    Attributes:
        change_over_clip: largest norm of the change of the clipped sum when one example is
            left out, divided by the clip norm; at most 1.0001, or the model is refused.
        relative_error: largest relative error of the clipped sum and of the norms against
            one backward pass an example.
        mode: ``as given``, or ``evaluation`` where the model draws random numbers in
            training, so that two passes can only be compared without them.
    """

    examples: int  # n examples taken
    change_over_clip: float
    relative_error: float
    tolerance: float  # largest relative error that was allowed, see `plan_clipping`
    mode: str


def clip_factors(clip: float, weights: Tensor | None = None) -> Factors:
    """Factors w_j min(1, C/|g_j|) for consecutive parts of one batch.

    Args:
        weights: (B,) w_j, applied after clipping; 1 by default.

    A norm that is not finite has the factor 0 or NaN: that example has to be left out of the sum.
    """
    place = 0

    def factors(norms: Tensor) -> Tensor:
        nonlocal place
        c = clip / norms.clamp_min(clip)
        if weights is not None:
            c = c * weights[place : place + len(norms)].to(c)
        place += len(norms)
        return c

    return factors


def is_random(module: nn.Module, loss: Loss, batch: Any) -> bool:
    """Whether two passes over the same batch with other random numbers differ."""
    with torch.enable_grad():  # reentrant checkpoints complain without
        with seeded(1):
            first = loss(module, batch)
        with seeded(2):
            second = loss(module, batch)
    return not torch.equal(first, second)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put all parts in evaluation mode, and restore each afterwards."""
    before = [(part, part.training) for part in module.modules()]
    module.train(False)
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def measure(
    way: Sum, module: nn.Module, loss: Loss, batch: Any, mode: str, tolerance: float
) -> SelfCheck:
    """Compare a way with one backward pass an example, and leave each example out once.

    One of two clip norms is half the smallest positive norm: there every example reaches the bound,
    and a norm taken too small shows as a change above 1.

    Args:
        way: from (batch, factors) to sums by name and norms (B,).
        batch: at least 2 examples.
        mode, tolerance: for the record.

    Raises InputError: no trained parameter changes the loss.
    """
    count = size(batch)
    _, norms = looped(module, loss, batch, clip_factors(1.0))
    positive = norms[norms > 0]
    if not len(positive):
        raise InputError(
            "no trained parameter changes the loss on the example batch; check requires_grad "
            "and that the loss is not computed under no_grad or with reentrant checkpoints."
        )
    change = error = 0.0
    for clip in (0.5 * float(positive.min()), float(positive.median())):
        right, right_norms = looped(module, loss, batch, clip_factors(clip))
        sums, own_norms = way(batch, clip_factors(clip))
        floor = 1e-6 * float(right_norms.max())
        # In reverse too: a model that sorts its examples looks right on a sorted batch.
        back, back_norms = way(rows(batch, list(reversed(range(count)))), clip_factors(clip))
        for total, made_norms in ((sums, own_norms), (back, back_norms.flip(0))):
            off = ((made_norms - right_norms).abs() / right_norms.clamp_min(floor)).max()
            apart = distance(total, right) / max(_length(right), 1e-6 * clip)
            error = max(error, apart, float(off))
        for row in range(count):
            rest, _ = way(
                rows(batch, [place for place in range(count) if place != row]), clip_factors(clip)
            )
            change = max(change, distance(sums, rest) / clip)
    return SelfCheck(count, change, error, tolerance, mode)


def _length(sums: dict[str, Tensor]) -> float:
    squares = [value.double().square().sum() for value in sums.values()]
    return math.sqrt(float(torch.stack(squares).sum()))


def distance(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
    """Norm of the difference of two sums."""
    return _length({name: first[name].double() - second[name].double() for name in first})
