"""Norms and clipped sum from one backward pass that stops at the outputs of the layers.

Book-keeping (Bu et al. 2023, arXiv:2210.00038): the forward pass stores the inputs of all layers
with parameters, the backward pass gives the gradients at their outputs and no gradient of a
parameter, and both sums are made from the two. The examples are never separated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from lethe.errors import InputError
from lethe.mitigations.clipping.graph import Zone, uncovered
from lethe.mitigations.clipping.rules import Rule, Slopes, dimensions, rule_for
from lethe.mitigations.clipping.trees import rows, size

Loss = Callable[[nn.Module, Any], Tensor]

_CELLS = 2**24  # most values of gradients per example that are held at once


class NotCovered(Exception):
    """Book-keeping would not give the exact clipped sum; the message says why."""


@dataclass(frozen=True)
class Layer:
    """A layer with trained parameters that has a rule.

    Attributes:
        name: in the module, for messages.
        module: the layer.
        rule: how its gradients follow from a call.
        parameters: trained parameters: name inside the layer to name in the whole module.
        held: their identities (`id`).
        dtype: in which gradients are made.
    """

    name: str
    module: nn.Module
    rule: Rule
    parameters: dict[str, str]
    held: frozenset[int]
    dtype: torch.dtype


@dataclass
class Call:
    """One recorded call of a layer."""

    layer: Layer
    x: Tensor
    version: int
    below: Any
    edge: GradientEdge
    lead: int


class Tape:
    """Records the calls of a module's layers.

    Args:
        module: the model; the parameters with `requires_grad` are the trained ones.

    Raises:
        NotCovered: a layer with trained parameters has no rule.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.trained = {n: value for n, value in module.named_parameters() if value.requires_grad}
        self.names = {id(value): name for name, value in self.trained.items()}
        self.layers: list[Layer] = []
        self.shared: set[str] = set()
        for name, part in module.named_modules():
            trained = {
                inner: value
                for inner, value in part.named_parameters(recurse=False)
                if value.requires_grad
            }
            if trained:
                rule = rule_for(part)
                if isinstance(rule, str):
                    raise NotCovered(f"{name or 'the module itself'}: {rule}")
                own = {inner: self.names[id(value)] for inner, value in trained.items()}
                held = frozenset(id(value) for value in trained.values())
                dtype = next(iter(trained.values())).dtype
                self.layers.append(Layer(name, part, rule, own, held, dtype))

    def fit(self, loss: Loss, batch: Any) -> None:
        """Learn from passes with 2 and 3 examples which layers see all examples at once.

        An embedding that is looked up once for all examples (positions) is repeated for each.

        Args:
            loss: losses (B,) of (module, batch).
            batch: at least two examples.

        Raises:
            NotCovered: calls that the rules do not describe.
        """
        leads: list[list[tuple[Layer, int]]] = []
        for count in (2, 3):
            few = rows(batch, [row % size(batch) for row in range(count)])
            _, calls = self.record(loss, few, spread=False)
            leads.append([(call.layer, call.lead) for call in calls])
        if len(leads[0]) != len(leads[1]):
            raise NotCovered("the number of layer calls depends on the number of examples")
        apart: set[str] = set()
        for (layer, two), (other, three) in zip(*leads, strict=True):
            if layer is not other:
                raise NotCovered("the order of layer calls depends on the number of examples")
            if (two, three) == (2, 3):
                apart.add(layer.name)
            elif two == three and isinstance(layer.module, nn.Embedding):
                self.shared.add(layer.name)
            else:
                raise NotCovered(
                    f"{layer.name} sees a first dimension of {two} and {three} for 2 and 3 examples"
                )
        if apart & self.shared:
            raise NotCovered(f"{min(apart & self.shared)} is called with and without examples")

    def record(self, loss: Loss, batch: Any, spread: bool = True) -> tuple[Tensor, list[Call]]:
        """One forward pass: losses (B,) with their graph, and the calls in order.

        Args:
            loss: losses (B,) of (module, batch).
            batch: B examples.
            spread: repeat what `fit` found to be looked up once for all examples.
        """
        count, calls = size(batch), list[Call]()

        def hook(layer: Layer) -> Callable[..., Tensor | None]:
            def keep(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Tensor | None:
                x = args[0] if args else next(iter(kwargs.values()))
                if not isinstance(output, Tensor) or not output.requires_grad:
                    raise NotCovered(f"{layer.name} ran without recording gradients")
                repeated = None
                if spread and layer.name in self.shared:
                    x, output = _repeat(x, count), _repeat(output, count)
                    repeated = output
                low, high = dimensions(module)
                if not low <= x.ndim <= high:
                    raise NotCovered(f"{layer.name} was called with {x.ndim} dimensions")
                edge = get_gradient_edge(output)
                below = x.grad_fn if x.requires_grad else None
                calls.append(Call(layer, x.detach(), x._version, below, edge, len(x)))
                return repeated

            return keep

        with _hooked(self.layers, hook), torch.enable_grad():
            losses = check_losses(loss(self.module, batch), count)
        return losses, calls

    def clipped_sum(
        self, loss: Loss, batch: Any, factors: Callable[[Tensor], Tensor]
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Sum over examples of factor times gradient, and the norms.

        Args:
            loss: losses (B,) of (module, batch).
            batch: B >= 1 examples.
            factors: from the norms (B,) to what each gradient is multiplied by (B,).

        Returns:
            Sum by parameter name, and norms (B,).

        Raises:
            NotCovered: this pass was not what `fit` saw.
        """
        losses, calls = self.record(loss, batch)
        count = len(losses)
        strange = [call.layer.name for call in calls if call.lead != count]
        if strange:
            raise NotCovered(f"{strange[0]} was not called with {count} examples")
        reason = uncovered(losses, [_zone(call) for call in calls], self.names)
        if reason:
            raise NotCovered(reason)
        at_outputs = torch.autograd.grad(
            losses.sum(), [call.edge for call in calls], allow_unused=True
        )
        uses: dict[str, list[tuple[Slopes, str]]] = defaultdict(list)
        for call, g in zip(calls, at_outputs, strict=True):
            if g is None:
                continue
            if call.x._version != call.version:
                raise NotCovered(f"the input of {call.layer.name} was changed in place later")
            layer = call.layer
            x = call.x.to(layer.dtype) if call.x.is_floating_point() else call.x
            slopes = layer.rule(layer.module, x, g.to(layer.dtype))
            for inner, name in layer.parameters.items():
                uses[name].append((slopes, inner))
        with torch.no_grad():
            squares = [_squares(used, count) for used in uses.values()]
            norms = torch.stack(squares).sum(0).sqrt() if squares else losses.new_zeros(count)
            c = factors(norms)
            sums = {name: _weighted(uses[name], c, value) for name, value in self.trained.items()}
        return sums, norms


def check_losses(losses: Any, count: int) -> Tensor:
    """The losses, if they are one number an example.

    Args:
        losses: what the user's function gave.
        count: B.

    Raises:
        InputError: another type or shape.
    """
    if not isinstance(losses, Tensor) or losses.shape != (count,):
        got = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise InputError(
            f"loss gave {got} for {count} examples; it must give one number each, shape "
            f"({count},). Use reduction='none' and average within an example yourself."
        )
    return losses


def _weighted(used: list[tuple[Slopes, str]], c: Tensor, like: Tensor) -> Tensor:
    if not used:
        return torch.zeros_like(like)
    first, *others = (slopes.weighted(inner, c) for slopes, inner in used)
    return sum(others, start=first)


def _squares(used: list[tuple[Slopes, str]], count: int) -> Tensor:
    """(B,) squared norms of a parameter; gradients of several uses are added up first."""
    if len(used) == 1:
        return used[0][0].squares(used[0][1])
    one = sum(slopes.per_example(inner, slice(0, 1)).numel() for slopes, inner in used)
    step = max(1, _CELLS // one)
    parts = []
    for start in range(0, count, step):
        made = [slopes.per_example(inner, slice(start, start + step)) for slopes, inner in used]
        parts.append(torch.stack(made).sum(0).flatten(1).square().sum(1))
    return torch.cat(parts)


def _repeat(value: Tensor, count: int) -> Tensor:
    whole = value if len(value) == 1 and value.ndim > 1 else value[None]
    return whole.expand(count, *whole.shape[1:])


def _zone(call: Call) -> Zone:
    return Zone(call.layer.name, call.edge, call.below, call.layer.held)


@contextmanager
def _hooked(layers: list[Layer], hook: Callable[[Layer], Any]) -> Iterator[None]:
    handles = [
        layer.module.register_forward_hook(hook(layer), with_kwargs=True) for layer in layers
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
