"""Layers of many models at once, with their backward passes written out.

Each layer holds K copies of its parameters in one tensor and maps (K, B, d) to (K, B, e). Backward
passes are written out to save autograd's bookkeeping, which for small networks costs as much as the
arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from lethe.training.environment import wide_vectors
from lethe.training.networks.parameters import Block

aten = torch.ops.aten


class Layer(Protocol):
    """One stage of a stacked network."""

    def forward(self, x: Tensor, training: bool) -> Tensor:
        """(K, B, d) -> (K, B, e); keeps what `backward` needs when training."""
        ...

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        """Gradient of the output -> gradient of the input (None if not needed)."""
        ...


class Trained(Layer, Protocol):
    """A stage with parameters, whose backward pass can be taken in its parts.

    Each row's part is linear in its gradient of the output: rows that are scaled there are scaled
    in the sum.
    """

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        self.collect(grad)
        return self.passed(grad) if need_input else None

    def squares(self, grad: Tensor) -> Tensor:
        """Gradient of the output -> (K, B) squared norm of what each row adds."""
        ...

    def collect(self, grad: Tensor) -> None:
        """Gradient of the output -> gradients of the parameters, summed over rows."""
        ...

    def passed(self, grad: Tensor) -> Tensor:
        """Gradient of the output -> gradient of the input, in memory of its own."""
        ...

    def silence(self, rows: Tensor) -> None:
        """Forget what `collect` would use of some rows, (K, B) True."""
        ...


class Scratch:
    """Memory that is used again as long as it is large enough."""

    def __init__(self) -> None:
        self._kept = torch.empty(0)

    def of(self, *shape: int) -> Tensor:
        """A tensor of that shape with arbitrary content."""
        cells = math.prod(shape)
        if len(self._kept) < cells:
            self._kept = torch.empty(cells)
        return self._kept[:cells].view(shape)


def _product(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """Batched matrix product into `out`, by NumPy's BLAS.

    On processors that are not Intel's, torch's BLAS reaches half the speed of NumPy's (see
    `engines.worker_environment`).
    """
    np.matmul(left.numpy(), right.numpy(), out=out.numpy())
    return out


_LOST = 2.0**-63
"""Squares of smaller numbers are not normal numbers in single precision, and may become 0."""


def lengths(x: Tensor) -> Tensor:
    """(..., d) -> (...) norms, never below the true ones by the squares that became 0.

    So products of a tiny and a huge one are no less than they are; others do not change.
    """
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return norms.add_(_LOST * math.sqrt(x.shape[-1]))


class Linear(Trained):
    """y = x W' + b for K models; W is (K, out, in), lying transposed; b is (K, out) or None."""

    def __init__(self, weight: Block, bias: Block | None) -> None:
        self.weight, self.d_weight = weight.value.transpose(1, 2), weight.slope.transpose(1, 2)
        # (K, 1, d) from (K, d), to go with (K, B, d)
        self.bias = None if bias is None else bias.value[:, None]
        self.d_bias = None if bias is None else bias.slope[:, None]
        self._y, self._d_x, self._turned = Scratch(), Scratch(), Scratch()

    def forward(self, x: Tensor, training: bool) -> Tensor:
        self._x = x
        y = _product(x, self.weight, self._y.of(*x.shape[:2], self.weight.shape[2]))
        return y if self.bias is None else y.add_(self.bias)

    def squares(self, grad: Tensor) -> Tensor:
        # Lengths before squares: the square of one factor may be 0 or infinite, the product not.
        x = lengths(self._x)
        inputs = x if self.d_bias is None else torch.hypot(x, torch.ones_like(x))
        return lengths(grad).mul_(inputs).square_()

    def collect(self, grad: Tensor) -> None:
        _product(self._x.transpose(1, 2), grad, self.d_weight)
        if self.d_bias is not None:
            torch.sum(grad, 1, keepdim=True, out=self.d_bias)

    def silence(self, rows: Tensor) -> None:
        self._x[rows] = 0

    def passed(self, grad: Tensor) -> Tensor:
        turned = self.weight.transpose(1, 2)
        if wide_vectors():
            # With 512-bit kernels, products of plain matrices are up to twice as fast.
            turned = self._turned.of(*turned.shape).copy_(turned)
        return _product(grad, turned, self._d_x.of(*self._x.shape))


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


class LayerNorm(Trained):
    """Normalisation over the last axis of (K, B, ..., d); gain and offset are (K, d) or None."""

    def __init__(self, width: int, eps: float, gain: Block | None, offset: Block | None) -> None:
        self.width, self.eps, self.gain, self.offset = width, eps, gain, offset

    def forward(self, x: Tensor, training: bool) -> Tensor:
        self._x = x.contiguous()
        y, self._mean, self._rstd = aten.native_layer_norm(
            self._x, [self.width], None, None, self.eps
        )
        self._y = y
        scaled: Tensor = y if self.gain is None else y * _along(self.gain.value, y)
        return scaled if self.offset is None else scaled + _along(self.offset.value, y)

    def squares(self, grad: Tensor) -> Tensor:
        norms = grad.new_zeros(grad.shape[:2])
        if self.offset is not None:
            norms += lengths(_over_places(grad)).square_()
        if self.gain is not None:
            norms += lengths(_over_places(grad * self._y)).square_()
        return norms

    def collect(self, grad: Tensor) -> None:
        if self.offset is not None:
            torch.sum(grad.flatten(1, -2), 1, out=self.offset.slope)
        if self.gain is not None:
            torch.sum((grad * self._y).flatten(1, -2), 1, out=self.gain.slope)

    def silence(self, rows: Tensor) -> None:
        self._y[rows] = 0

    def passed(self, grad: Tensor) -> Tensor:
        if self.gain is not None:
            grad = grad * _along(self.gain.value, grad)
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


def _along(table: Tensor, like: Tensor) -> Tensor:
    """(K, d) with as many axes as (K, B, ..., d)."""
    return table.view(len(table), *[1] * (like.ndim - 2), table.shape[1])


def _over_places(x: Tensor) -> Tensor:
    """(K, B, ..., d) -> (K, B, d), summed over what lies between."""
    return x if x.ndim == 3 else x.flatten(2, -2).sum(2)


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


class Reshape:
    """Flatten or Unflatten: the rows stay, what belongs to a row changes shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def forward(self, x: Tensor, training: bool) -> Tensor:
        self._before = x.shape
        return x.reshape(*x.shape[:2], *self.shape)

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        return grad.reshape(self._before) if need_input else None


class BatchNorm:
    """nn.BatchNorm1d with statistics of each model's own; padding counts for nothing.

    Attributes:
        mean: (K, C) running mean.
        variance: (K, C) running variance.
    """

    def __init__(self, modules: Sequence[Any], gain: Block | None, offset: Block | None) -> None:
        self.momentum, self.eps = modules[0].momentum, modules[0].eps
        self.gain, self.offset = gain, offset
        self.mean = torch.stack([module.running_mean for module in modules])
        self.variance = torch.stack([module.running_var for module in modules])
        self.rows: Sequence[int] | None = None

    def _own(self, model: int) -> tuple[Tensor | None, Tensor | None]:
        gain = None if self.gain is None else self.gain.value[model]
        offset = None if self.offset is None else self.offset.value[model]
        return gain, offset

    def forward(self, x: Tensor, training: bool) -> Tensor:
        self._kept: list[Any] = []
        out = torch.zeros_like(x)
        for model, inputs in enumerate(x):
            rows = len(inputs) if self.rows is None or not training else self.rows[model]
            part = inputs[:rows].contiguous()
            moments = self.mean[model], self.variance[model]
            if rows:
                y, mean, rstd = aten.native_batch_norm(
                    part, *self._own(model), *moments, training, self.momentum, self.eps
                )
                out[model, :rows] = y
                self._kept.append((part, mean, rstd))
            else:
                self._kept.append(None)
        return out

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        back = torch.zeros_like(grad)
        wanted = [True, self.gain is not None, self.offset is not None]
        for model, kept in enumerate(self._kept):
            if kept is None:
                slopes: Any = (None, 0.0, 0.0)
            else:
                normed, mean, rstd = kept
                slopes = aten.native_batch_norm_backward(
                    grad[model, : len(normed)].contiguous(),
                    normed,
                    self._own(model)[0],
                    self.mean[model],
                    self.variance[model],
                    mean,
                    rstd,
                    True,
                    self.eps,
                    wanted,
                )
                back[model, : len(normed)] = slopes[0]
            for block, slope in zip((self.gain, self.offset), slopes[1:], strict=True):
                if block is not None:
                    block.slope[model] = slope
        return back
