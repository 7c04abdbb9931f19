"""K models of a plain chain of layers, with the backward pass written out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from lethe.errors import InputError
from lethe.training.networks import layers
from lethe.training.networks.layers import (
    BatchNorm,
    Dropout,
    Elementwise,
    Layer,
    Linear,
    Relu,
    Reshape,
    Trained,
    aten,
)
from lethe.training.networks.parameters import Block, Parameters

# Whether a module is a plain chain of layers, and which layers those are.

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
        leaves: list[nn.Module] = []
        for child in module:
            inner = leaves_of(child)
            if isinstance(inner, str):
                return inner
            leaves += inner
        return leaves
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
    branching = f"the forward method of {name} is no plain chain of layers"
    chain: list[nn.Module] = []
    last: Any = None
    batch: set[Any] = set()
    for node in graphs[0].nodes:
        if node.op == "placeholder":
            if last is not None:
                return f"the forward method of {name} takes several arguments"
            last = node
            continue
        if node.op == "output":
            return chain if node.args == (last,) else branching
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
        chain += layer
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
        arguments = [*rest, *named.values()]
        return [nn.Flatten()] if arguments in ([1], [1, -1]) else None
    if node.target in ("view", "reshape"):
        whole = len(rest) == 2 and rest[0] in batch and rest[1] == -1
        return [nn.Flatten()] if whole and not named else None
    return None


_ACTIVATIONS: dict[type[nn.Module], Callable[[Any], Layer]] = {
    nn.Tanh: lambda _: Elementwise(torch.tanh, aten.tanh_backward, True),
    nn.Sigmoid: lambda _: Elementwise(torch.sigmoid, aten.sigmoid_backward, True),
    nn.SiLU: lambda _: Elementwise(aten.silu, aten.silu_backward, False),
    nn.GELU: lambda module: Elementwise(
        partial(aten.gelu, approximate=module.approximate),
        partial(aten.gelu_backward, approximate=module.approximate),
        False,
    ),
    nn.LeakyReLU: lambda module: Elementwise(
        lambda x: aten.leaky_relu(x, module.negative_slope),
        lambda g, x: aten.leaky_relu_backward(g, x, module.negative_slope, False),
        False,
    ),
}
_TRAINED = (Linear, layers.LayerNorm)
_STACKED = (
    nn.Linear,
    nn.ReLU,
    nn.Dropout,
    nn.Identity,
    nn.Flatten,
    nn.Unflatten,
    nn.LayerNorm,
    nn.BatchNorm1d,
    *_ACTIVATIONS,
)


def why_no_chain(module: nn.Module) -> str | None:
    """Why a module has no written-out form, or None if it has one.

    Only exact types count: a subclass may compute something else.
    """
    leaves = leaves_of(module)
    if isinstance(leaves, str):
        return leaves
    for at, leaf in enumerate(leaves):
        if type(leaf) not in _STACKED:
            return f"layer {at} is {type(leaf).__name__}, which has no stacked form"
        reason = _unusual(leaf)
        if reason is not None:
            return reason
    fields = [field for part in module.modules() for field in vars(part).items()]
    hooked = any("hooks" in name and isinstance(item, dict) and item for name, item in fields)
    if hooked or "forward" in dict(fields):
        return "a layer carries hooks or a forward method of its own"
    parameters = [p for leaf in leaves for p in leaf.parameters()]
    if any(p._backward_hooks for p in parameters):
        return "a parameter carries hooks"
    if {id(p) for p in parameters} != {id(p) for p in module.parameters()}:
        return "a container has parameters of its own"
    if len({id(p) for p in parameters}) != len(parameters):
        return "layers share parameters"
    if not all(p.requires_grad and p.dtype == torch.float32 for p in parameters):
        return "some parameters are frozen or not float32"
    if any(isinstance(leaf, nn.Linear) for leaf in leaves):
        return None
    return "there is no Linear layer"


def _unusual(leaf: nn.Module) -> str | None:
    """Settings of a layer that have no stacked form."""
    if isinstance(leaf, nn.Flatten) and (leaf.start_dim != 1 or leaf.end_dim != -1):
        return "only a Flatten() of everything has a stacked form"
    if isinstance(leaf, nn.Unflatten) and leaf.dim != 1:
        return "only an Unflatten(1, ...) has a stacked form"
    if isinstance(leaf, nn.LayerNorm) and len(leaf.normalized_shape) != 1:
        return "only a LayerNorm over the last axis has a stacked form"
    if isinstance(leaf, nn.BatchNorm1d) and (not leaf.track_running_stats or leaf.momentum is None):
        return "only a BatchNorm with running statistics and a momentum has a stacked form"
    return None


class Chain:
    """K copies of a chain of layers; see `Network`.

    Args:
        modules: K modules of one architecture, for which `why_no_chain` is None.
        dropout: one random stream a model.
    """

    predict_cells = 32768

    def __init__(self, modules: Sequence[nn.Module], dropout: Sequence[torch.Generator]) -> None:
        self.parameters = Parameters(modules, turned=True)
        blocks = {
            id(parameter): block
            for parameter, block in zip(
                modules[0].parameters(), self.parameters.blocks, strict=True
            )
        }
        chains = [leaves for leaves in map(leaves_of, modules) if not isinstance(leaves, str)]
        self.layers: list[Layer] = []
        first: int | None = None
        for same in zip(*chains, strict=True):
            layer = self._translate(same, blocks, dropout)
            if layer is None:
                continue
            self.layers.append(layer)
            if first is None and list(same[0].parameters()):
                first = len(self.layers) - 1
        assert first is not None
        self._first = first  # nothing before it has a gradient to learn from

    def _translate(
        self, same: Sequence[Any], blocks: dict[int, Block], dropout: Sequence[torch.Generator]
    ) -> Layer | None:
        """One layer of all models, given that layer of each."""
        leaf = same[0]

        def block(name: str) -> Block | None:
            parameter = getattr(leaf, name)
            return None if parameter is None else blocks[id(parameter)]

        if isinstance(leaf, nn.Linear):
            weight = block("weight")
            assert weight is not None
            return Linear(weight, block("bias"))
        if isinstance(leaf, nn.LayerNorm):
            width = int(leaf.normalized_shape[0])
            return layers.LayerNorm(width, leaf.eps, block("weight"), block("bias"))
        if isinstance(leaf, nn.BatchNorm1d):
            return BatchNorm(same, block("weight"), block("bias"))
        if isinstance(leaf, nn.Flatten):
            return Reshape((-1,))
        if isinstance(leaf, nn.Unflatten):
            return Reshape(tuple(leaf.unflattened_size))
        if isinstance(leaf, nn.Dropout):
            return Dropout(leaf.p, dropout)
        if isinstance(leaf, nn.ReLU):
            fresh = bool(self.layers) and isinstance(self.layers[-1], Linear | BatchNorm)
            return Relu(overwrite=fresh)
        return None if isinstance(leaf, nn.Identity) else _ACTIVATIONS[type(leaf)](leaf)

    def forward(self, x: Tensor, rows: Sequence[int]) -> Tensor:
        """See `Network`."""
        for layer in self.layers:
            if isinstance(layer, (Dropout, BatchNorm)):
                layer.rows = rows
            x = layer.forward(x, training=True)
        return x

    def backward(self, slope: Tensor) -> None:
        """See `Network`."""
        grad: Tensor | None = slope
        for at in range(len(self.layers) - 1, self._first - 1, -1):
            assert grad is not None
            grad = self.layers[at].backward(grad, need_input=at > self._first)

    def clipped_sum(self, slope: Tensor, factors: Callable[[Tensor], Tensor]) -> None:
        """One backward pass that scales what each row adds to the gradients of its model.

        The norm of a row's gradient over all parameters is added up on the way down from what
        each layer has at hand; the sums are then made from the same stored gradients (book-keeping:
        Bu, Wang, Zha and Karypis 2023).

        Args:
            slope: (K, B, C) gradient of each row's own loss by its outputs, 0 where padded;
                written over.
            factors: from norms (K, B) to factors (K, B), 0 where padded; a row whose norm is not
                finite counts 0 whatever they say.

        Raises InputError: a BatchNorm, which mixes the rows of a batch.
        Guarantee: With factors of at most min(1, C/norm), a row more or less changes the gradients
            of its model by at most C, up to rounding.
        """
        if any(isinstance(layer, BatchNorm) for layer in self.layers):
            raise InputError(
                "BatchNorm mixes the records of a batch, so that clipping each bounds nothing; "
                "put GroupNorm in its place."
            )
        grad = slope
        squares = slope.new_zeros(slope.shape[:2])
        kept: list[tuple[Trained, Tensor]] = []
        for at in range(len(self.layers) - 1, self._first - 1, -1):
            layer = self.layers[at]
            if isinstance(layer, _TRAINED):
                kept.append((layer, grad))
                squares += layer.squares(grad)
                grad = layer.passed(grad) if at > self._first else grad
            else:
                back = layer.backward(grad, need_input=True)
                assert back is not None
                grad = back
        norms = squares.sqrt_()
        scale, bad = factors(norms), ~torch.isfinite(norms)
        if bool(bad.any()):  # 0 times infinity would be no number
            scale = scale.masked_fill(bad, 0.0)
            for layer, grad in kept:
                grad[bad] = 0
                layer.silence(bad)
        for layer, grad in kept:
            layer.collect(grad.mul_(scale.view(*scale.shape, *[1] * (grad.ndim - 2))))

    def predict(self, x: Tensor, shared: bool) -> Tensor:
        """See `Network`."""
        if shared:
            x = x.expand(self.parameters.models, *x.shape)
        for layer in self.layers:
            x = layer.forward(x, training=False)
        return x.clone()  # layers use their memory again

    def tensors(self) -> list[Tensor]:
        """See `Network`."""
        values = [block.value for block in self.parameters.blocks]
        for layer in self.layers:
            if isinstance(layer, BatchNorm):
                values += [layer.mean, layer.variance]
        return values


def quiet_numpy() -> Any:
    """A model that diverges is refused by its signals, not by a warning in the middle."""
    return np.errstate(over="ignore", invalid="ignore")
