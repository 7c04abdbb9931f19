"""Is the bound kept on this very model? Measured before training, on a few real examples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lethe.errors import InputError
from lethe.mitigations.clipping.bookkeeping import Loss
from lethe.mitigations.clipping.fallback import Factors, looped
from lethe.mitigations.clipping.probes import seeded
from lethe.mitigations.clipping.trees import rows, size

Sum = Callable[[Any, Factors], tuple[dict[str, Tensor], Tensor]]

MOST_CHANGE = 1.0001
"""Largest change of the clipped sum, in units of the clip norm, that passes for rounding."""


@dataclass(frozen=True)
class SelfCheck:
    """What was measured on the example batch.

    Attributes:
        examples: n examples taken.
        change_over_clip: largest norm of the change of the clipped sum when one example is
            left out, divided by the clip norm; at most 1.0001, or the model is refused.
        relative_error: largest relative error of the clipped sum and of the norms against
            one backward pass an example.
        tolerance: largest relative error that was allowed, see `plan_clipping`.
        unused: trained parameters whose gradient was zero for all these examples.
        mode: ``as given``, or ``evaluation`` where the model draws random numbers in
            training, so that two passes can only be compared without them.
    """

    examples: int
    change_over_clip: float
    relative_error: float
    tolerance: float
    unused: tuple[str, ...]
    mode: str


def clip_factors(clip: float, weights: Tensor | None = None) -> Factors:
    """Factors w_j min(1, C/|g_j|) for consecutive parts of one batch.

    Args:
        clip: C > 0.
        weights: (B,) w_j, applied after clipping; 1 by default.

    Raises:
        InputError: (when called) a gradient norm is not finite.
    """
    place = 0

    def factors(norms: Tensor) -> Tensor:
        nonlocal place
        if not math.isfinite(float(norms.sum())):
            bad = int((~torch.isfinite(norms)).sum())
            raise InputError(
                f"{bad} of {len(norms)} gradients are not finite and cannot be clipped; "
                "use a smaller learning rate or check the inputs."
            )
        c = clip / norms.clamp_min(clip)
        if weights is not None:
            c = c * weights[place : place + len(norms)].to(c)
        place += len(norms)
        return c

    return factors


def is_random(module: nn.Module, loss: Loss, batch: Any) -> bool:
    """Whether two passes over the same batch with other random numbers differ.

    Args:
        module: the model, in its present mode.
        loss: losses (B,) of (module, batch).
        batch: examples.
    """
    with torch.enable_grad():  # reentrant checkpoints complain without
        with seeded(1):
            first = loss(module, batch)
        with seeded(2):
            second = loss(module, batch)
    return not torch.equal(first, second)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """All parts in evaluation mode, and afterwards each as it was."""
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

    Half the smallest positive norm is one of two clip norms: there every example reaches the
    bound, and a norm that was taken too small shows as a change above 1.

    Args:
        way: from (batch, factors) to sums by name and norms (B,).
        module: the model, deterministic in its present mode.
        loss: losses (B,) of (module, batch).
        batch: n examples, at least 2.
        mode: for the record.
        tolerance: for the record.

    Raises:
        InputError: no trained parameter changes the loss.
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
    unused: tuple[str, ...] = ()
    for clip in (0.5 * float(positive.min()), float(positive.median())):
        right, right_norms = looped(module, loss, batch, clip_factors(clip))
        sums, own_norms = way(batch, clip_factors(clip))
        unused = tuple(name for name, value in right.items() if not bool(value.any()))
        floor = 1e-6 * float(right_norms.max())
        # In reverse too: a model that sorts its examples looks right on a sorted batch.
        back, back_norms = way(rows(batch, list(reversed(range(count)))), clip_factors(clip))
        for made, made_norms in ((sums, own_norms), (back, back_norms.flip(0))):
            off = ((made_norms - right_norms).abs() / right_norms.clamp_min(floor)).max()
            apart = _distance(made, right) / max(_length(right), 1e-6 * clip)
            error = max(error, apart, float(off))
        for row in range(count):
            rest, _ = way(
                rows(batch, [one for one in range(count) if one != row]), clip_factors(clip)
            )
            change = max(change, _distance(sums, rest) / clip)
    return SelfCheck(count, change, error, tolerance, unused, mode)


def _length(sums: dict[str, Tensor]) -> float:
    squares = [value.double().square().sum() for value in sums.values()]
    return math.sqrt(float(torch.stack(squares).sum()))


def _distance(first: dict[str, Tensor], second: dict[str, Tensor]) -> float:
    return _length({name: first[name].double() - second[name].double() for name in first})
