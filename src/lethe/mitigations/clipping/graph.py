"""Is every use of every parameter one that was recorded? Read from the autograd graph.

A parameter enters the graph through its gradient accumulator. The zone of a recorded call is
what lies between its output and its stored input. All accumulators must be met inside zones,
once a call, and a zone may be entered only through its output: then the gradients at the
recorded outputs determine the gradients of all parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import GradientEdge


@dataclass(frozen=True)
class Zone:
    """What the graph must show of one recorded call.

    Attributes:
        layer: its name, for messages.
        output: edge at the output.
        below: node that made the input, or None where the input has no gradient.
        parameters: identities (`id`) of the parameters that the call is to cover.
    """

    layer: str
    output: GradientEdge
    below: Any
    parameters: frozenset[int]


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


def reached(losses: Tensor) -> set[Any]:
    """All nodes that the losses depend on."""
    seen = {losses.grad_fn}
    waiting: list[Any] = [losses.grad_fn]
    while waiting:
        for child, _ in waiting.pop().next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append(child)
    return seen


def _nodes(zone: Zone) -> list[Any]:
    """All nodes of a zone except accumulators and what lies below the input."""
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
    strange = [names.get(one, "a new parameter") for one in met if one not in zone.parameters]
    if strange:
        return f"{strange[0]} is used inside {zone.layer}, which does not hold it"
    if len(met) != len(set(met)):
        return f"{zone.layer} uses a parameter twice in one call"
    if len(met) != len(zone.parameters):
        return f"{zone.layer} was called without its own parameters"
    return None
