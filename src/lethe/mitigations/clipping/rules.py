"""For every layer that book-keeping covers: gradient norms and weighted sums from one call.

A rule turns (layer, stored input, gradient at the output) into an object with three answers for
each parameter: squared norms a record, a weighted sum over records, and gradients a record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from lethe.mitigations.clipping import attention, recurrent
from lethe.mitigations.clipping.products import (
    Grouped,
    Made,
    Product,
    conv,
    gathered,
    linear,
    transposed_linear,
)


class Slopes(Protocol):
    """The gradients of one recorded call, by the parameter's name inside its layer."""

    def squares(self, name: str) -> Tensor:
        """(B,) squared gradient norms."""

    def weighted(self, name: str, c: Tensor) -> Tensor:
        """Sum over examples of c_b times the gradient, in the parameter's shape."""

    def per_example(self, name: str, chosen: slice) -> Tensor:
        """(b, *shape) gradients of the chosen examples."""


Rule = Callable[[nn.Module, Tensor, Tensor], Slopes]


class Lookups:
    """A call of nn.Embedding: gradients are sums over the positions of equal index.

    Args:
        index: (B, *) looked-up rows.
        g: (B, *, D) gradients at the output.
        shape: (V, D) of the table.
        padding: row that is never trained, or None.
    """

    def __init__(
        self, index: Tensor, g: Tensor, shape: tuple[int, int], padding: int | None
    ) -> None:
        self._index = index.reshape(len(index), -1)
        g = g.reshape(*self._index.shape, shape[1])
        self._g = g if padding is None else g * (self._index != padding)[..., None]
        self._shape = shape

    def squares(self, name: str) -> Tensor:
        """See `Slopes`."""
        count, (table, width) = len(self._index), self._shape
        example = torch.arange(count, device=self._g.device)[:, None]
        keys, place = torch.unique(example * table + self._index, return_inverse=True)
        sums = self._g.new_zeros(len(keys), width)
        sums.index_add_(0, place.reshape(-1), self._g.reshape(-1, width))
        owner = torch.div(keys, table, rounding_mode="floor")
        return self._g.new_zeros(count).index_add_(0, owner, sums.square().sum(1))

    def weighted(self, name: str, c: Tensor) -> Tensor:
        """See `Slopes`."""
        scaled = (self._g * c[:, None, None]).reshape(-1, self._shape[1])
        return self._g.new_zeros(self._shape).index_add_(0, self._index.reshape(-1), scaled)

    def per_example(self, name: str, chosen: slice) -> Tensor:
        """See `Slopes`."""
        index, g = self._index[chosen], self._g[chosen]
        count, (table, width) = len(index), self._shape
        flat = (torch.arange(count, device=g.device)[:, None] * table + index).reshape(-1)
        made = g.new_zeros(count * table, width).index_add_(0, flat, g.reshape(-1, width))
        return made.view(count, table, width)


def _embedding(module: nn.Module, x: Tensor, g: Tensor) -> Lookups:
    assert isinstance(module, nn.Embedding)
    return Lookups(x, g, (module.num_embeddings, module.embedding_dim), module.padding_idx)


def _over_last(module: nn.Module, normal: Tensor, g: Tensor) -> Made:
    kept = module.get_parameter("weight").ndim
    middle = g.shape[1 : g.ndim - kept].numel()
    shape = (len(g), middle, *g.shape[g.ndim - kept :])
    return Made({"weight": (g * normal).reshape(shape).sum(1), "bias": g.reshape(shape).sum(1)})


def _layer_norm(module: nn.Module, x: Tensor, g: Tensor) -> Made:
    assert isinstance(module, nn.LayerNorm)
    return _over_last(module, F.layer_norm(x, module.normalized_shape, None, None, module.eps), g)


def _rms_norm(module: nn.Module, x: Tensor, g: Tensor) -> Made:
    assert isinstance(module, nn.RMSNorm)
    return _over_last(module, F.rms_norm(x, list(module.normalized_shape), None, module.eps), g)


def _other_rms_norm(module: nn.Module, x: Tensor, g: Tensor) -> Made:
    """Any norm whose output is affine in its scale: the slope is what scale 1 adds to scale 0."""
    weight = module.get_parameter("weight")
    with torch.no_grad():
        one, none = (
            functional_call(module, {"weight": fixed}, (x,))
            for fixed in (torch.ones_like(weight), torch.zeros_like(weight))
        )
    return _over_last(module, (one - none).to(g.dtype), g)


def _group_norm(module: nn.Module, x: Tensor, g: Tensor) -> Made:
    assert isinstance(module, nn.GroupNorm)
    normal = F.group_norm(x, module.num_groups, None, None, module.eps)
    shape = (*g.shape[:2], -1)
    return Made({"weight": (g * normal).reshape(shape).sum(2), "bias": g.reshape(shape).sum(2)})


NORMS: tuple[Rule, ...] = (_layer_norm, _rms_norm, _other_rms_norm, _group_norm)
"""Rules whose gradients per example are far smaller than inputs and gradients at the output."""

_RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: linear,
    nn.Conv1d: conv,
    nn.Conv2d: conv,
    nn.Embedding: _embedding,
    nn.LayerNorm: _layer_norm,
    nn.RMSNorm: _rms_norm,
    nn.GroupNorm: _group_norm,
}
# Only types themselves, no subclasses: a subclass may compute something else.


def rule_for(module: nn.Module) -> Rule | str:
    """The rule of a layer, or why there is none."""
    kind = type(module)
    rule = _RULES.get(kind)
    if rule is None and (kind.__module__, kind.__name__) == (
        "transformers.pytorch_utils",
        "Conv1D",
    ):
        rule = transposed_linear
    if rule is None and _is_other_rms_norm(module):
        rule = _other_rms_norm
    if rule is None:
        return f"{kind.__name__} has no rule"
    own = {name for name, value in module.named_parameters(recurse=False) if value.requires_grad}
    if own - {"weight", "bias"} or not isinstance(getattr(module, "weight", None), nn.Parameter):
        return f"{kind.__name__} has a weight that is computed from other parameters"
    if isinstance(module, nn.Conv1d | nn.Conv2d) and module.padding_mode != "zeros":
        return f"{kind.__name__} pads with {module.padding_mode!r}, not with zeros"
    if isinstance(module, nn.Embedding) and (
        module.max_norm is not None or module.scale_grad_by_freq or module.sparse
    ):
        return "Embedding uses max_norm, scale_grad_by_freq or sparse"
    return rule


def _is_other_rms_norm(module: nn.Module) -> bool:
    """A norm of its own class, named so, with one scale and nothing else to learn or to store."""
    name = type(module).__name__
    named = name.endswith("RMSNorm") or name == "T5LayerNorm"
    values, weight = list(module.named_parameters()), getattr(module, "weight", None)
    plain = len(values) == 1 and not list(module.buffers()) and not list(module.children())
    return named and plain and isinstance(weight, nn.Parameter) and weight.ndim == 1


def with_copies(rule: Rule, module: nn.Module, x: Tensor, g: Tensor, copies: int) -> Slopes:
    """The rule of a layer, with gradients added up over consecutive rows of one example.

    Args:
        rule: of the layer.
        module: the layer.
        x: (B copies, ...) inputs.
        g: (B copies, ...) gradients at the outputs.
        copies: rows an example.
    """
    if copies == 1 or rule not in (conv, _group_norm):  # those take any middle dimensions
        return rule(module, gathered(x, copies), gathered(g, copies))
    alone = rule(module, x, g)
    assert isinstance(alone, Product | Made)
    return Grouped(alone, copies, len(g) // copies)


Composite = Callable[..., Any]


def composite_for(module: nn.Module) -> Composite | str | None:
    """The recorded forward of a layer that is built of several products.

    Returns:
        A function of (notes, *arguments of the layer's forward), why there is none, or None
        where the layer is no such layer.
    """
    kind = type(module)
    reason: str | None = None
    run: Composite
    if isinstance(module, nn.MultiheadAttention) and kind is nn.MultiheadAttention:
        reason, run = attention.refused(module), attention.attend
    elif isinstance(module, nn.RNNBase) and kind in (nn.LSTM, nn.GRU, nn.RNN):
        reason, run = recurrent.refused(module), recurrent.recur
    else:
        return None
    own = {name for name, _ in module.named_parameters()}
    if any(name.startswith("parametrizations") or ".parametrizations" in name for name in own):
        reason = f"{kind.__name__} has a weight that is computed from other parameters"
    return reason or run


def dimensions(module: nn.Module) -> tuple[int, int]:
    """Smallest and largest number of input dimensions for which the first one can be examples."""
    if isinstance(module, nn.Conv1d):
        return 3, 3
    if isinstance(module, nn.Conv2d):
        return 4, 4
    if isinstance(module, nn.Embedding):
        return 1, 1000
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        return len(module.normalized_shape) + 1, 1000
    return 2, 1000
