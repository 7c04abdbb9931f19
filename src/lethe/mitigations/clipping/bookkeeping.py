"""Norms and clipped sum from one backward pass that stops at the outputs of the layers.

Book-keeping (Bu et al. 2023, arXiv:2210.00038): the forward pass stores the inputs of all layers
with parameters, the backward pass gives the gradients at their outputs, and both sums are made from
the two.

Whether every use of every parameter was recorded is read from the autograd graph. The zone of a
recorded call lies between its output and its stored input: all gradient accumulators must be met
inside zones, once a call, and a zone entered only through its output.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from lethe.mitigations.clipping.per_example import Loss, check_losses, combined, rows, size
from lethe.mitigations.clipping.rules import (
    Rule,
    Slopes,
    dimensions,
    rule_for,
    with_copies,
)


@dataclass(frozen=True)
class Zone:
    """What the graph must show of one recorded call."""

    layer: str  # its name, for messages
    output: GradientEdge  # edge at the output
    below: Any  # node that made the input, or None where the input has no gradient
    parameters: frozenset[int]  # identities (`id`) of the parameters that the call is to cover


def uncovered(losses: Tensor, zones: Sequence[Zone], names: dict[int, str]) -> str | None:
    """Why the recorded calls do not determine all gradients, or None when they do.

    Args:
        losses: (B,) losses with their graph.
        zones: one a recorded call.
        names: name of every trained parameter by its `id`.
    """
    inside: dict[Any, bool] = {}
    for zone in zones:
        met = _walk_zone(zone, inside, names)
        if isinstance(met, str):
            return met
    outputs = {zone.output.node for zone in zones}
    seen = {losses.grad_fn}
    waiting: list[Any] = [losses.grad_fn]
    while waiting:
        node = waiting.pop()
        within = node in inside
        for child, _ in node.next_functions:
            if child is None:
                continue
            if not within:
                variable = getattr(child, "variable", None)
                if isinstance(variable, nn.Parameter):
                    name = names.get(id(variable), "a parameter that is new since the plan")
                    return f"{name} is also used outside the layer that holds it"
                if child in inside and child not in outputs:
                    return "a layer's output was changed in place through a view"
            if child not in seen:
                seen.add(child)
                waiting.append(child)
    return None


def _nodes(zone: Zone) -> list[Any]:
    """List the nodes of a zone except accumulators and what lies below the input."""
    start: Any = zone.output.node
    if start is zone.below:
        return []
    seen, waiting = {start}, [start]
    while waiting:
        for child, _ in waiting.pop().next_functions:
            if (
                child is not None
                and child is not zone.below
                and child not in seen
                and not hasattr(child, "variable")
            ):
                seen.add(child)
                waiting.append(child)
    return list(seen)


def _walk_zone(zone: Zone, inside: dict[Any, bool], names: dict[int, str]) -> str | None:
    met: list[int] = []
    for node in _nodes(zone):
        inside[node] = True
        for child, _ in node.next_functions:
            variable = getattr(child, "variable", None)
            if isinstance(variable, nn.Parameter):
                met.append(id(variable))
    strange = [
        names.get(tensor, "a new parameter") for tensor in met if tensor not in zone.parameters
    ]
    if strange:
        return f"{strange[0]} is used inside {zone.layer}, which does not hold it"
    if len(met) != len(set(met)):
        return f"{zone.layer} uses a parameter twice in one call"
    if len(met) != len(zone.parameters):
        return f"{zone.layer} was called without its own parameters"
    return None


_CELLS = 2**24  # most values of gradients per example that are held at once


class NotCovered(Exception):
    """Book-keeping would not give the exact clipped sum; the message says why."""


class NotFinite(Exception):
    """Some norms are not finite; `rows` (B,) is True for these examples."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__("gradients are not finite")
        self.rows = rows


@dataclass(frozen=True)
class Layer:
    """A layer with trained parameters that has a rule.

    Attributes:
        parameters: trained parameters: name inside the layer to name in the whole module.
        between: least and most input dimensions for which the first can be the examples.
    """

    name: str  # in the module, for messages
    module: nn.Module  # the layer
    rule: Rule  # how its gradients follow from a call
    parameters: dict[str, str]
    held: frozenset[int]  # their identities (`id`)
    dtype: torch.dtype  # in which gradients are made
    between: tuple[int, int]


@dataclass(frozen=True)
class Call:
    """One recorded call of a layer."""

    layer: Layer  # that was called
    lead: int  # first dimension, or number of examples, that it saw
    edge: GradientEdge  # at the output, where the gradient is wanted
    stored: Tensor  # input
    version: int  # that the input had
    below: Any  # node that made the input, or None

    def slopes(self, g: Tensor, copies: int) -> Slopes:
        """Gradients of all trained parameters of the layer, from that at its output."""
        layer, x = self.layer, self.stored
        if x.dtype != layer.dtype and x.is_floating_point():
            x = x.to(layer.dtype)
        g = g if g.dtype == layer.dtype else g.to(layer.dtype)
        return with_copies(layer.rule, layer.module, x, g, copies)


class Tape:
    """Records the calls of a module's layers.

    Args:
        module: the model; the parameters with `requires_grad` are the trained ones.

    Raises NotCovered: a layer with trained parameters has no rule.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.trained = {n: value for n, value in module.named_parameters() if value.requires_grad}
        self.names = {id(value): name for name, value in self.trained.items()}
        self.layers: list[Layer] = []
        self.shared: set[str] = set()
        for name, part in module.named_modules():
            direct = part.named_parameters(recurse=False)
            trained = {inner: value for inner, value in direct if value.requires_grad}
            if not trained:
                continue
            rule = rule_for(part)
            if isinstance(rule, str):
                raise NotCovered(f"{name or 'the module itself'}: {rule}")
            inner_names = {inner: self.names[id(value)] for inner, value in trained.items()}
            held = frozenset(id(value) for value in trained.values())
            dtype = next(iter(trained.values())).dtype
            self.layers.append(Layer(name, part, rule, inner_names, held, dtype, dimensions(part)))

    def fit(self, loss: Loss, batch: Any) -> None:
        """Learn from passes with 2 and 3 examples which layers see all examples at once.

        An embedding that is looked up once for all examples (positions) is repeated for each.

        Raises NotCovered: calls that the rules do not describe.
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
            loss, batch: see `per_example`.
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
                if not layer.between[0] <= x.ndim <= layer.between[1]:
                    raise NotCovered(f"{layer.name} was called with {x.ndim} dimensions")
                edge = get_gradient_edge(output)
                below = x.grad_fn if x.requires_grad else None
                calls.append(Call(layer, x.shape[0], edge, x.detach(), x._version, below))
                return repeated

            return keep

        with _hooked(self.layers, hook), torch.enable_grad():
            losses = check_losses(loss(self.module, batch), count)
        return losses, calls

    def clipped_sum(
        self, loss: Loss, batch: Any, factors: Callable[[Tensor], Tensor], copies: int = 1
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Sum over examples of factor times gradient by parameter name, and the norms (B,).

        Raises NotCovered: this pass was not what `fit` saw.
        Raises NotFinite: of some examples; their numbers may have reached the others' in products
            over the batch, as 0 times infinity.
        """
        losses, calls = self.record(loss, batch)
        lines = losses.shape[0]
        strange = [call.layer.name for call in calls if call.lead != lines]
        if strange:
            raise NotCovered(f"{strange[0]} was not called with {lines} examples")
        zones = [Zone(c.layer.name, c.edge, c.below, c.layer.held) for c in calls]
        reason = uncovered(losses, zones, self.names)
        if reason:
            raise NotCovered(reason)
        uses = _uses(losses, calls, copies)
        del calls
        with torch.no_grad():
            return self._summed(uses, losses.new_zeros(lines // copies), factors)

    def _summed(
        self, uses: Uses, zeros: Tensor, factors: Callable[[Tensor], Tensor]
    ) -> tuple[dict[str, Tensor], Tensor]:
        squares = [_squares(used, len(zeros)) for used in uses.values()]
        norms = torch.stack(squares).sum(0).sqrt() if squares else zeros
        if not math.isfinite(float(norms.sum())) and not bool(torch.isfinite(norms).all()):
            raise NotFinite(~torch.isfinite(norms))
        c, sums = factors(norms), dict[str, Tensor]()
        for name, value in self.trained.items():  # what was summed is let go: memory
            sums[name] = _weighted(uses.pop(name, []), c, value)
        return sums, norms


Uses = dict[str, list[tuple[Slopes, str]]]


def _uses(losses: Tensor, calls: list[Call], copies: int) -> Uses:
    """The backward pass: for each parameter, the gradients of all calls that use it."""
    edges = [call.edge for call in calls]
    total = losses.sum() if copies == 1 else losses.sum() / copies
    gradients = torch.autograd.grad(total, edges, allow_unused=True)
    uses: Uses = defaultdict(list)
    with torch.no_grad():
        for call, gradient in zip(calls, gradients, strict=True):
            if call.stored._version != call.version:
                raise NotCovered(f"the input of {call.layer.name} was changed in place later")
            if gradient is not None:
                slopes = call.slopes(gradient, copies)
                for inner, name in call.layer.parameters.items():
                    uses[name].append((slopes, inner))
    return uses


def _weighted(used: list[tuple[Slopes, str]], c: Tensor, like: Tensor) -> Tensor:
    if not used:
        return torch.zeros_like(like, requires_grad=False)
    if len(used) == 1:
        return used[0][0].weighted(used[0][1], c)
    total = torch.zeros_like(like, requires_grad=False)
    for part, grads in _added(used, len(c)):  # whose norm was taken: uses may cancel
        total += combined(c[part], grads)
    return total


def _squares(used: list[tuple[Slopes, str]], count: int) -> Tensor:
    """(B,) squared norms of a parameter; gradients of several uses are added up first."""
    if len(used) == 1:
        return used[0][0].squares(used[0][1])
    return torch.cat([grads.flatten(1).square().sum(1) for _, grads in _added(used, count)])


def _added(used: list[tuple[Slopes, str]], count: int) -> Iterator[tuple[slice, Tensor]]:
    """Gradients (b, *shape) of a parameter over all its uses, a part of the examples at a time."""
    size = sum(slopes.per_example(inner, slice(0, 1)).numel() for slopes, inner in used)
    step = max(1, _CELLS // size)
    for start in range(0, count, step):
        part = slice(start, start + step)
        yield part, torch.stack([slopes.per_example(inner, part) for slopes, inner in used]).sum(0)


def _repeat(value: Tensor, count: int) -> Tensor:
    whole = value if len(value) == 1 and value.ndim > 1 else value[None]
    return whole.expand(count, *whole.shape[1:])


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
