"""Whether a module is a plain chain of layers, and which layers those are."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

_FUNCTIONS: dict[Any, Callable[[], nn.Module]] = {
    functional.relu: nn.ReLU,
    torch.relu: nn.ReLU,
    "relu": nn.ReLU,
    functional.tanh: nn.Tanh,
    torch.tanh: nn.Tanh,
    "tanh": nn.Tanh,
    functional.sigmoid: nn.Sigmoid,
    torch.sigmoid: nn.Sigmoid,
    "sigmoid": nn.Sigmoid,
    functional.silu: nn.SiLU,
    functional.gelu: nn.GELU,
}


def leaves_of(module: nn.Module) -> list[nn.Module] | str:
    """The layers of a module in the order they are applied, or why it is no chain of layers.

    Nested `nn.Sequential`s are taken apart; of any other container the forward method is traced.
    Functions such as `relu` or `flatten` become the layer that does the same.
    """
    if type(module) is nn.Sequential:
        found: list[nn.Module] = []
        for child in module:
            inner = leaves_of(child)
            if isinstance(inner, str):
                return inner
            found += inner
        return found
    if type(module).__module__.startswith("torch.nn"):
        return [module]
    return _traced(module)


def _traced(module: nn.Module) -> list[nn.Module] | str:
    name = type(module).__name__
    graphs = []
    mode = module.training
    try:
        for training in (True, False):
            module.train(training)
            graphs.append(torch.fx.Tracer().trace(module))
    except Exception as error:  # a user's forward may raise anything when traced
        return f"the forward method of {name} is more than a chain ({type(error).__name__})"
    finally:
        module.train(mode)
    if str(graphs[0]) != str(graphs[1]):
        return f"{name} computes differently in training, beyond its layers"
    return _chain(module, graphs[0], name)


def _chain(module: nn.Module, graph: torch.fx.Graph, name: str) -> list[nn.Module] | str:
    branching = f"the forward method of {name} is no plain chain of layers"
    found: list[nn.Module] = []
    last: Any = None
    batch: set[Any] = set()
    for node in graph.nodes:
        if node.op == "placeholder":
            if last is not None:
                return f"the forward method of {name} takes several arguments"
            last = node
            continue
        if node.op == "output":
            return found if node.args == (last,) else branching
        if _is_batch_size(node, last):
            batch.add(node)
            continue
        if not node.args or node.args[0] is not last:
            return branching
        layer = _layer(module, node, batch)
        if layer is None:
            return f"{name} calls {getattr(node.target, '__name__', node.target)}"
        if isinstance(layer, str):
            return layer
        found += layer
        last = node
    return branching


def _is_batch_size(node: Any, last: Any) -> bool:
    """x.size(0), or x.shape[0] in its two steps."""
    if node.op == "call_method" and node.target == "size":
        return bool(node.args == (last, 0))
    if node.op == "call_function" and node.target is getattr:
        return bool(node.args == (last, "shape"))
    if node.op == "call_function" and node.target is operator.getitem:
        source = node.args[0]
        return bool(getattr(source, "target", None) is getattr and node.args[1] == 0)
    return False


def _layer(module: nn.Module, node: Any, batch: set[Any]) -> list[nn.Module] | str | None:
    """The layers that a node of the graph stands for; None if there are none."""
    if node.op == "call_module":
        if len(node.args) > 1 or node.kwargs:
            return None
        return leaves_of(module.get_submodule(node.target))
    rest, named = list(node.args[1:]), dict(node.kwargs)
    if node.target in _FUNCTIONS:
        named.pop("inplace", None)
        return None if rest or named else [_FUNCTIONS[node.target]()]
    if node.target in (torch.flatten, "flatten"):
        given = [*rest, *named.values()]
        return [nn.Flatten()] if given in ([1], [1, -1]) else None
    if node.target in ("view", "reshape"):
        whole = len(rest) == 2 and rest[0] in batch and rest[1] == -1
        return [nn.Flatten()] if whole and not named else None
    if node.target in (functional.max_pool2d, torch.max_pool2d, functional.avg_pool2d):
        pool = nn.AvgPool2d if node.target is functional.avg_pool2d else nn.MaxPool2d
        allowed = inspect.signature(pool).parameters
        if named.pop("return_indices", False) or len(rest) > 2 or not set(named) <= set(allowed):
            return None
        return [pool(*rest, **named)]
    return None
