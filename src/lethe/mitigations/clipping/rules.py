"""For every layer that book-keeping covers: gradient norms and weighted sums from one call.

A rule turns (layer, stored input, gradient at the output) into an object with three answers for
each parameter: squared norms a record, a weighted sum over records, and gradients a record.

Where the weight gradient is a product, that of example b is the sum over positions t of
g_bt x_bt', with x the stored inputs and g the loss gradients at the outputs. Its norm needs no
gradient per example: with one position it is |x| |g| (Goodfellow 2015, arXiv:1510.01799), with
few positions the Gram matrices of x and g give it (Li et al. 2022, arXiv:2110.05679, section 4);
otherwise the product is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from lethe.mitigations.clipping.per_example import combined
from lethe.training.networks.layers import lengths

# Below this share of the largest possible value, rounding in the Gram form could show in the norm.
_CANCELLED = 1e-3
_CELLS = 2**17  # values of patches that are held at once
_ROWS = 2**24  # values of gradients that are held at once


class Product:
    """One recorded call of a layer with gradients g' x, in groups.

    Args:
        x: (B, G, T, I) inputs at T positions, I values each, in G groups.
        g: (B, G, T, O) gradients of the summed loss at the outputs.
        transposed: the weight is stored (I, O) instead of (O, I).
    """

    def __init__(
        self, x: Tensor, g: Tensor, shape: Sequence[int], transposed: bool = False
    ) -> None:
        self._x, self._g = x, g
        self._shape, self._transposed = tuple(shape), transposed
        self._made: Tensor | None = None
        self._summed: Tensor | None = None

    def squares(self, name: str) -> Tensor:
        """(B,) squared gradient norms of `name`, which is ``weight`` or ``bias``."""
        if name == "bias":
            return _square_norms(self._bias())
        positions, wide = self._x.shape[2], self._x.shape[3] * self._g.shape[3]
        if 2 * positions**2 < wide:
            small = self._gram_squares()
            if small is not None:
                return small
        self._made = self.per_example("weight", slice(None))
        return _square_norms(self._made)

    def weighted(self, name: str, c: Tensor) -> Tensor:
        """Sum over examples of c_b times the gradient of `name`; c is (B,)."""
        if name == "bias":
            return combined(c, self._bias())
        if self._made is not None:
            return combined(c, self._made)
        g, x = _scaled(self._g, self._x, c[:, None, None, None])
        groups = x.shape[1]
        if groups == 1:
            g, x = g.reshape(-1, g.shape[3]), x.reshape(-1, x.shape[3])
            total = x.T @ g if self._transposed else g.T @ x
        else:
            g, x = (part.transpose(0, 1).flatten(1, 2) for part in (g, x))
            total = g.transpose(1, 2) @ x
        return total.reshape(self._shape)

    def per_example(self, name: str, chosen: slice) -> Tensor:
        """(b, *shape) gradients of the chosen examples."""
        if name == "bias":
            return self._bias()[chosen]
        g, x = self._g[chosen].flatten(0, 1), self._x[chosen].flatten(0, 1)
        first, second = (x, g) if self._transposed else (g, x)
        return torch.bmm(first.transpose(1, 2), second).reshape(-1, *self._shape)

    def _bias(self) -> Tensor:
        if self._summed is None:
            self._summed = self._g.sum(2).flatten(1)
        return self._summed

    def _gram_squares(self) -> Tensor | None:
        x, g = (part.flatten(0, 1) for part in (self._x, self._g))
        # Both factors of a position as long as each other: the product of their squares is normal.
        ratio = (lengths(g).sqrt_() / lengths(x).sqrt_())[..., None]
        x, g = x * ratio, g / ratio
        of_x, of_g = torch.bmm(x, x.transpose(1, 2)), torch.bmm(g, g.transpose(1, 2))
        squares: Tensor = (of_x * of_g).sum((1, 2))
        diagonal = partial(torch.diagonal, dim1=1, dim2=2)
        largest = (diagonal(of_x) * diagonal(of_g)).clamp_min(0).sqrt().sum(1).square()
        if bool((squares < _CANCELLED * largest).any()):
            return None
        return squares.view(self._x.shape[:2]).sum(1)


class Made:
    """Gradients small enough to hold for every example: scales of norms, kernels.

    Args:
        grads: by parameter name, (B, *shape).
    """

    def __init__(self, grads: dict[str, Tensor]) -> None:
        self._grads = grads

    def squares(self, name: str) -> Tensor:
        return self._grads[name].flatten(1).square().sum(1)

    def weighted(self, name: str, c: Tensor) -> Tensor:
        return combined(c, self._grads[name])

    def per_example(self, name: str, chosen: slice) -> Tensor:
        return self._grads[name][chosen]


class Flat:
    """One recorded call of a Linear with one position an example, where |x g'| = |x| |g|.

    Args:
        x: (B, I) inputs.
        g: (B, O) gradients of the summed loss at the outputs.
        transposed: the weight is stored (I, O) instead of (O, I).
    """

    def __init__(self, x: Tensor, g: Tensor, transposed: bool) -> None:
        self._x, self._g, self._transposed = x, g, transposed
        self._of_g = lengths(g)

    def squares(self, name: str) -> Tensor:
        # Lengths before squares: the square of one factor may be 0 or infinite, the product not.
        if name == "bias":
            return self._of_g.square()
        return lengths(self._x).mul_(self._of_g).square_()

    def weighted(self, name: str, c: Tensor) -> Tensor:
        if name == "bias":
            return c @ self._g
        g, x = _scaled(self._g, self._x, c[:, None])
        return x.T @ g if self._transposed else g.T @ x

    def per_example(self, name: str, chosen: slice) -> Tensor:
        x, g = self._x[chosen], self._g[chosen]
        if name == "bias":
            return g
        first, second = (x, g) if self._transposed else (g, x)
        return first[:, :, None] * second[:, None, :]


def _scaled(g: Tensor, x: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Factors on the smaller one of the two."""
    return (g * c, x) if g.numel() <= x.numel() else (g, x * c)


def _square_norms(grads: Tensor) -> Tensor:
    return grads.flatten(1).square().sum(1)


def linear(module: nn.Module, x: Tensor, g: Tensor, transposed: bool = False) -> Product | Flat:
    """A call of a linear layer, with any number of middle dimensions.

    Args:
        transposed: the weight is stored as (inputs, outputs), as GPT-2's is.
    """
    if x.ndim == 2:
        return Flat(x, g, transposed)
    shape = module.get_parameter("weight").shape
    return Product(_positions(x), _positions(g), shape, transposed)


def gathered(values: Tensor, copies: int) -> Tensor:
    """(B copies, ...) as (B, copies, ...), unchanged for one copy."""
    return values if copies == 1 else values.reshape(-1, copies, *values.shape[1:])


class Grouped:
    """Another call's gradients, added up over consecutive rows that belong to one example.

    Args:
        alone: gradients of every row.
    """

    def __init__(self, alone: Product | Flat | Made, copies: int, count: int) -> None:
        self._alone, self._copies, self._count = alone, copies, count

    def _parts(self, name: str) -> list[slice]:
        size = self.per_example(name, slice(0, 1)).numel()
        step = max(1, _ROWS // (size * self._copies))
        return [slice(start, start + step) for start in range(0, self._count, step)]

    def squares(self, name: str) -> Tensor:
        return torch.cat(
            [_square_norms(self.per_example(name, part)) for part in self._parts(name)]
        )

    def weighted(self, name: str, c: Tensor) -> Tensor:
        # The very sums whose norm was taken: copies that cancel would round apart.
        totals = [combined(c[part], self.per_example(name, part)) for part in self._parts(name)]
        return sum(totals[1:], start=totals[0])

    def per_example(self, name: str, chosen: slice) -> Tensor:
        first, last, _ = chosen.indices(self._count)
        rows = slice(first * self._copies, last * self._copies)
        return gathered(self._alone.per_example(name, rows), self._copies).sum(1)


def _positions(values: Tensor) -> Tensor:
    count = values[0, ..., 0].numel()
    return values.reshape(len(values), 1, count, values.shape[-1])


def conv(module: nn.Module, x: Tensor, g: Tensor) -> Product | Made:
    """A call of nn.Conv1d or nn.Conv2d with zero padding; patches become positions."""
    assert isinstance(module, nn.Conv1d | nn.Conv2d)
    weight, groups = module.weight, module.groups
    size, step = tuple(module.kernel_size), tuple(module.stride)
    spread, pads = tuple(module.dilation), _pads(module)
    x = F.pad(x, pads)
    if x.ndim == 3:
        x, size, step, spread = x[:, :, None], (1, *size), (1, *step), (1, *spread)
    slopes = g.reshape(len(g), groups, g.shape[1] // groups, -1).transpose(2, 3)

    def part(chosen: slice) -> Product:
        split = _patches(x[chosen], size, step, spread, groups).transpose(2, 3)
        return Product(split, slopes[chosen], weight.shape)

    positions, wide = slopes.shape[2], weight[0].numel()
    if 2 * positions**2 < wide * slopes.shape[3]:
        return part(slice(None))
    # A few examples at a time: patches are many times larger than images and leave the cache.
    few = max(1, _CELLS // (groups * positions * wide))
    parts = [slice(start, start + few) for start in range(0, len(x), few)]
    grads = torch.cat([part(chosen).per_example("weight", slice(None)) for chosen in parts])
    return Made({"weight": grads, "bias": slopes.sum(2).flatten(1)})


def _patches(
    x: Tensor, size: tuple[int, ...], step: tuple[int, ...], spread: tuple[int, ...], groups: int
) -> Tensor:
    """(B, G, I, T) patches; one strided copy is about three times as fast as F.unfold."""
    count, channels, *space = x.shape
    out = [
        (have - gap * (wide - 1) - 1) // stride + 1
        for have, wide, stride, gap in zip(space, size, step, spread, strict=True)
    ]
    of_example, of_channel, of_row, of_column = x.stride()
    view = x.as_strided(
        (count, channels, *size, *out),
        (
            *(of_example, of_channel),
            *(of_row * spread[0], of_column * spread[1]),
            *(of_row * step[0], of_column * step[1]),
        ),
        x.storage_offset(),
    )
    return view.reshape(count, groups, -1, out[0] * out[1])


def _pads(module: nn.Conv1d | nn.Conv2d) -> list[int]:
    """Left and right zeros a dimension, last dimension first, as F.pad wants them."""
    pads: list[int] = []
    for axis in reversed(range(len(module.kernel_size))):
        if module.padding == "same":
            total = module.dilation[axis] * (module.kernel_size[axis] - 1)
            pads += [total // 2, total - total // 2]
        elif module.padding == "valid":
            pads += [0, 0]
        else:
            pads += [int(module.padding[axis])] * 2
    return pads


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
        self._made: tuple[Tensor, Tensor] | None = None

    def _sums(self) -> tuple[Tensor, Tensor]:
        """Keys (example times rows of the table + row) and gradients of all looked-up rows."""
        if self._made is None:
            table, width = self._shape
            example = torch.arange(len(self._index), device=self._g.device)[:, None]
            keys, place = torch.unique(example * table + self._index, return_inverse=True)
            sums = self._g.new_zeros(len(keys), width)
            self._made = keys, sums.index_add_(0, place.reshape(-1), self._g.reshape(-1, width))
        return self._made

    def squares(self, name: str) -> Tensor:
        keys, sums = self._sums()
        owner = torch.div(keys, self._shape[0], rounding_mode="floor")
        count = len(self._index)
        return self._g.new_zeros(count).index_add_(0, owner, sums.square().sum(1))

    def weighted(self, name: str, c: Tensor) -> Tensor:
        # The very rows whose norm was taken: added up in another order they would round apart.
        keys, sums = self._sums()
        owner = torch.div(keys, self._shape[0], rounding_mode="floor")
        return self._g.new_zeros(self._shape).index_add_(
            0, keys % self._shape[0], sums * c[owner][:, None]
        )

    def per_example(self, name: str, chosen: slice) -> Tensor:
        index, g = self._index[chosen], self._g[chosen]
        count, (table, width) = len(index), self._shape
        flat = (torch.arange(count, device=g.device)[:, None] * table + index).reshape(-1)
        summed = g.new_zeros(count * table, width).index_add_(0, flat, g.reshape(-1, width))
        return summed.view(count, table, width)


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
        rule = partial(linear, transposed=True)
    if rule is None and _is_other_rms_norm(module):
        rule = _other_rms_norm
    if rule is None:
        return f"{kind.__name__} has no rule"
    names = {name for name, value in module.named_parameters(recurse=False) if value.requires_grad}
    if names - {"weight", "bias"} or not isinstance(getattr(module, "weight", None), nn.Parameter):
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
    """The rule of a layer, with gradients added up over the `copies` rows of one example."""
    if copies == 1 or rule not in (conv, _group_norm):  # those take any middle dimensions
        return rule(module, gathered(x, copies), gathered(g, copies))
    alone = rule(module, x, g)
    assert isinstance(alone, Product | Made)
    return Grouped(alone, copies, len(g) // copies)


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
