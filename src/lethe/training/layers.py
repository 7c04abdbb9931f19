"""Layers of many models at once, with their backward passes written out.

Each layer holds K copies of its parameters in one tensor and maps (K, B, d) to (K, B, e) by
batched matrix products. Writing the backward pass out saves autograd's bookkeeping, which
for small networks costs as much as the arithmetic. Gradients are written into a given
buffer, so that one fused optimiser call updates all parameters of all models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

aten = torch.ops.aten


class Layer(Protocol):
    """One stage of a stacked network."""

    def forward(self, x: Tensor, training: bool) -> Tensor:
        """(K, B, d) -> (K, B, e); keeps what `backward` needs when training."""
        ...

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        """Gradient of the output -> gradient of the input (None if not needed)."""
        ...


class Scratch:
    """A tensor that is used again as long as the shape stays.

    Fresh memory for every activation costs more than computing it: the system hands out and
    takes back megabytes page by page.
    """

    def __init__(self) -> None:
        self._kept = torch.empty(0)

    def of(self, *shape: int) -> Tensor:
        """A tensor of that shape with arbitrary content."""
        if self._kept.shape != shape:
            self._kept = torch.empty(shape)
        return self._kept


def _product(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """Batched matrix product into `out`, by NumPy's BLAS.

    On processors that are not Intel's, torch's BLAS reaches half the speed of NumPy's (see
    `engines.worker_environment`).
    """
    np.matmul(left.numpy(), right.numpy(), out=out.numpy())
    return out


class Linear:
    """y = x W' + b for K models; W is (K, out, in) as in torch, b is (K, 1, out) or None."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, d_weight: Tensor, d_bias: Tensor | None
    ) -> None:
        self.weight, self.bias, self.d_weight, self.d_bias = weight, bias, d_weight, d_bias
        self._turned, self._y, self._d_x = Scratch(), Scratch(), Scratch()

    def forward(self, x: Tensor, training: bool) -> Tensor:
        self._x = x
        models, outputs, inputs = self.weight.shape
        # Products of plain matrices are up to twice as fast as those of transposed ones.
        turned = self._turned.of(models, inputs, outputs).copy_(self.weight.transpose(1, 2))
        y = _product(x, turned, self._y.of(*x.shape[:2], outputs))
        return y if self.bias is None else y.add_(self.bias)

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        _product(grad.transpose(1, 2), self._x, self.d_weight)
        if self.d_bias is not None:
            torch.sum(grad, 1, keepdim=True, out=self.d_bias)
        if not need_input:
            return None
        return _product(grad, self.weight, self._d_x.of(*self._x.shape))


class Relu:
    """max(x, 0), overwriting its input where nobody else needs it."""

    def __init__(self, overwrite: bool) -> None:
        self.overwrite = overwrite

    def forward(self, x: Tensor, training: bool) -> Tensor:
        self._y = x.relu_() if self.overwrite else torch.relu(x)
        return self._y

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        if not need_input:
            return None
        # Written over the incoming gradient, which is a scratch tensor of the layer above.
        back: Tensor = aten.threshold_backward.grad_input(grad, self._y, 0, grad_input=grad)
        return back


class Elementwise:
    """An activation, by its forward function and aten's own backward of it."""

    def __init__(
        self,
        forward: Callable[[Tensor], Tensor],
        backward: Callable[[Tensor, Tensor], Tensor],
        from_output: bool,
    ) -> None:
        self._forward, self._backward, self._from_output = forward, backward, from_output

    def forward(self, x: Tensor, training: bool) -> Tensor:
        y: Tensor = self._forward(x)
        self._kept = y if self._from_output else x
        return y

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        return self._backward(grad, self._kept) if need_input else None


class LayerNorm:
    """Normalisation over the last axis; gain and offset are (K, 1, d) or None."""

    def __init__(
        self,
        width: int,
        eps: float,
        gain: Tensor | None,
        offset: Tensor | None,
        d_gain: Tensor | None,
        d_offset: Tensor | None,
    ) -> None:
        self.width, self.eps = width, eps
        self.gain, self.offset, self.d_gain, self.d_offset = gain, offset, d_gain, d_offset

    def forward(self, x: Tensor, training: bool) -> Tensor:
        self._x = x.contiguous()
        y, self._mean, self._rstd = aten.native_layer_norm(
            self._x, [self.width], None, None, self.eps
        )
        self._y = y
        scaled: Tensor = y if self.gain is None else y * self.gain
        return scaled if self.offset is None else scaled + self.offset

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        if self.d_offset is not None:
            torch.sum(grad, 1, keepdim=True, out=self.d_offset)
        if self.gain is not None and self.d_gain is not None:
            torch.sum(grad * self._y, 1, keepdim=True, out=self.d_gain)
            grad = grad * self.gain
        if not need_input:
            return None
        back: Tensor = aten.native_layer_norm_backward(
            grad.contiguous(),
            self._x,
            [self.width],
            self._mean,
            self._rstd,
            None,
            None,
            [True, False, False],
        )[0]
        return back


class Dropout:
    """Dropout with one random stream a model, so that a mask depends on its model alone."""

    def __init__(self, p: float, generators: Sequence[torch.Generator]) -> None:
        self.p, self.generators = p, generators
        # Rows of each model that are not padding; padding depends on the stack, draws must not.
        self.rows: Sequence[int] | None = None

    def forward(self, x: Tensor, training: bool) -> Tensor:
        if not training or self.p == 0:
            self._mask = None
            return x
        mask = torch.zeros_like(x)
        for model, stream in enumerate(self.generators):
            rows = x.shape[1] if self.rows is None else self.rows[model]
            mask[model, :rows].bernoulli_(1 - self.p, generator=stream)
        self._mask = mask.div_(1 - self.p) if self.p < 1 else mask
        dropped: Tensor = x * self._mask
        return dropped

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        return grad if self._mask is None else grad * self._mask


def _gelu(approximate: str) -> Layer:
    return Elementwise(
        lambda x: aten.gelu(x, approximate=approximate),
        lambda g, x: aten.gelu_backward(g, x, approximate=approximate),
        False,
    )


def _leaky(slope: float) -> Layer:
    return Elementwise(
        lambda x: aten.leaky_relu(x, slope),
        lambda g, x: aten.leaky_relu_backward(g, x, slope, False),
        False,
    )


_ACTIVATIONS: dict[type[nn.Module], Callable[[Any], Layer]] = {
    nn.Tanh: lambda module: Elementwise(torch.tanh, aten.tanh_backward, True),
    nn.Sigmoid: lambda module: Elementwise(torch.sigmoid, aten.sigmoid_backward, True),
    nn.SiLU: lambda module: Elementwise(aten.silu, aten.silu_backward, False),
    nn.GELU: lambda module: _gelu(module.approximate),
    nn.LeakyReLU: lambda module: _leaky(module.negative_slope),
}
STACKABLE = (nn.Linear, nn.ReLU, nn.LayerNorm, nn.Dropout, nn.Identity, nn.Flatten, *_ACTIVATIONS)


def flatten_module(module: nn.Module) -> list[nn.Module]:
    """The leaves of nested `nn.Sequential`s in order; any other container stays one leaf."""
    if type(module) is nn.Sequential:
        return [leaf for child in module for leaf in flatten_module(child)]
    return [module]


def reason_not_stackable(module: nn.Module) -> str | None:
    """Why a module must be trained by itself, or None if it can be stacked.

    Only exact types count: a subclass may compute something else.
    """
    leaves = flatten_module(module)
    for at, leaf in enumerate(leaves):
        if type(leaf) not in STACKABLE:
            return f"layer {at} is {type(leaf).__name__}, which has no stacked form"
        if isinstance(leaf, nn.Flatten) and (at > 0 or leaf.start_dim != 1 or leaf.end_dim != -1):
            return "only a Flatten() at the start has a stacked form"
        if isinstance(leaf, nn.LayerNorm) and len(leaf.normalized_shape) != 1:
            return "only a LayerNorm over the last axis has a stacked form"
    if any(_is_altered(part) for part in module.modules()):
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


def _is_altered(part: nn.Module) -> bool:
    """Whether a module does more than its class says."""
    hooked = any(
        "hooks" in name and item for name, item in vars(part).items() if isinstance(item, dict)
    )
    return hooked or "forward" in vars(part)


def stack_layers(
    module: nn.Module,
    take: Callable[[tuple[int, ...]], tuple[Tensor, Tensor]],
    dropout: Sequence[torch.Generator],
) -> list[Layer]:
    """Translate one module into stacked layers.

    Args:
        module: a stackable module; only its structure is read.
        take: hands out the next parameter block of a given per-model shape and its gradient
            block, in the order of `module.parameters()`.
        dropout: one random stream a model.
    """
    layers: list[Layer] = []
    for leaf in flatten_module(module):
        if isinstance(leaf, nn.Linear):
            weight, d_weight = take((leaf.out_features, leaf.in_features))
            bias, d_bias = (None, None)
            if leaf.bias is not None:
                bias, d_bias = take((1, leaf.out_features))
            layers.append(Linear(weight, bias, d_weight, d_bias))
        elif isinstance(leaf, nn.LayerNorm):
            width = int(leaf.normalized_shape[0])
            gain, d_gain = take((1, width)) if leaf.weight is not None else (None, None)
            offset, d_offset = take((1, width)) if leaf.bias is not None else (None, None)
            layers.append(LayerNorm(width, leaf.eps, gain, offset, d_gain, d_offset))
        elif isinstance(leaf, nn.Dropout):
            layers.append(Dropout(leaf.p, dropout))
        elif isinstance(leaf, nn.ReLU):
            layers.append(Relu(overwrite=bool(layers) and isinstance(layers[-1], Linear)))
        elif type(leaf) in _ACTIVATIONS:
            layers.append(_ACTIVATIONS[type(leaf)](leaf))
    return layers
