"""Layers on images of many models, (K, B, channels, height, width), channels-last in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lethe.training.networks.layers import Trained, aten
from lethe.training.networks.parameters import Block

# Norms of the gradient that each image alone gives the kernels of a convolution.

_CELLS = 2**22  # values that are held at once: 16 MB


def kernel_squares(
    x: Tensor,
    grad: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Squared norm of each example's gradient of the kernels.

    With the D values under a kernel at each of L places as columns X (D, L) and the output's
    gradient G (O, L), the gradient is G X'; where places are few, its squared norm is the sum of
    (X'X) * (G'G) (ghost clipping: Bu, Mao and Xu 2022).

    Args:
        x: (B, C, h, w) input.
        grad: (B, O, h', w') gradient of the output.
        size, stride, padding, dilation: of height and width.

    Returns: (B,) squared norms.
    """
    outputs, places = grad.shape[1] // groups, grad.shape[2] * grad.shape[3]
    inputs = x.shape[1] // groups * size[0] * size[1]
    by_places = places * (inputs + outputs) < inputs * outputs
    made = places * places if by_places else inputs * outputs
    count = max(1, _CELLS // (groups * (inputs * places + made)))
    parts = []
    how = tuple(size), tuple(dilation), tuple(padding), tuple(stride)
    for own, slope in zip(torch.split(x, count), torch.split(grad, count), strict=True):
        columns = torch.nn.functional.unfold(own, *how)
        columns = columns.view(len(own), groups, inputs, places)
        slopes = slope.reshape(len(own), groups, outputs, places)
        if by_places:
            near = columns.transpose(2, 3) @ columns
            squares = near.mul_(slopes.transpose(2, 3) @ slopes)
        else:
            squares = (slopes @ columns.transpose(2, 3)).square_()
        parts.append(squares.flatten(1).sum(1))
    return torch.cat(parts)


def channels_last(x: Tensor) -> Tensor:
    """(n, C, h, w) with the channels next to each other in memory."""
    if x.shape[1] == 1 and x.is_contiguous():
        # One channel lies either way; only its stride tells the convolution which was meant.
        return x.as_strided(x.shape, (x.stride(0), 1, x.stride(2), x.stride(3)))
    x = x.contiguous(memory_format=torch.channels_last)
    # The stride of a single image says nothing, but some kernels read the layout from it.
    return x if len(x) != 1 else x.as_strided(x.shape, (x.numel(), *x.stride()[1:]))


def _merge(x: Tensor) -> Tensor:
    """(K, B, C, h, w) -> (K * B, C, h, w)."""
    return channels_last(x.flatten(0, 1))


def _collect(parts: Sequence[Tensor]) -> Tensor:
    """K tensors (B, C, h, w) as one (K, B, C, h, w), channels-last."""
    if len(parts) == 1:
        return parts[0].unsqueeze(0)
    return torch.stack([part.permute(0, 2, 3, 1) for part in parts]).permute(0, 1, 4, 2, 3)


class Reshape:
    """Flatten or Unflatten: the rows stay, what belongs to a row changes shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def forward(self, x: Tensor, training: bool) -> Tensor:
        """See `Layer`."""
        self._before = x.shape
        return x.reshape(*x.shape[:2], *self.shape)

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        """See `Layer`."""
        return grad.reshape(self._before) if need_input else None


class Convolution:
    """nn.Conv2d; kernels (K, O, C, h, w), bias (K, O) or None."""

    def __init__(self, module: nn.Conv2d, weight: Block, bias: Block | None) -> None:
        self.weight, self.bias = weight, bias
        self.outputs = module.out_channels
        self._how: list[Any] = [
            list(module.stride),
            list(module.padding),
            list(module.dilation),
            False,
            [0, 0],
            module.groups,
        ]

    def forward(self, x: Tensor, training: bool) -> Tensor:
        self._x = [channels_last(one) for one in x]
        bias = [None] * len(x) if self.bias is None else list(self.bias.value)
        return _collect(
            [
                aten.convolution(one, kernel, offset, *self._how)
                for one, kernel, offset in zip(self._x, self.weight.value, bias, strict=True)
            ]
        )

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        return self._back(grad, need_input, True)

    def _back(self, grad: Tensor, need_input: bool, need_sums: bool) -> Tensor | None:
        wanted = [need_input, need_sums, need_sums and self.bias is not None]
        back = []
        for model, (one, kernel) in enumerate(zip(self._x, self.weight.value, strict=True)):
            d_x, d_weight, d_bias = aten.convolution_backward(
                channels_last(grad[model]), one, kernel, [self.outputs], *self._how, wanted
            )
            if need_sums:
                self.weight.slope[model].copy_(d_weight)
            if wanted[2] and self.bias is not None:
                self.bias.slope[model].copy_(d_bias)
            back.append(d_x)
        return _collect(back) if need_input else None

    def squares(self, grad: Tensor) -> Tensor:
        """See `Trained`."""
        stride, padding, dilation, *_, groups = self._how
        size = self.weight.value.shape[3:]
        found = [
            kernel_squares(x, g, size, stride, padding, dilation, groups)
            for x, g in zip(self._x, grad, strict=True)
        ]
        squares = torch.stack(found)
        return squares if self.bias is None else squares.add_(_channel_squares(grad))

    def collect(self, grad: Tensor) -> None:
        """See `Trained`."""
        self._back(grad, False, True)

    def silence(self, rows: Tensor) -> None:
        """See `Trained`."""
        for values, own in zip(self._x, rows, strict=True):
            values[own] = 0

    def passed(self, grad: Tensor) -> Tensor:
        """See `Trained`."""
        back = self._back(grad, True, False)
        assert back is not None
        return back


class MaxPool:
    """nn.MaxPool2d."""

    def __init__(self, module: nn.MaxPool2d) -> None:
        stride = module.kernel_size if module.stride is None else module.stride
        self._how = [
            _pair(module.kernel_size),
            _pair(stride),
            _pair(module.padding),
            _pair(module.dilation),
            module.ceil_mode,
        ]

    def forward(self, x: Tensor, training: bool) -> Tensor:
        self._x = _merge(x)
        y: Tensor
        y, self._at = aten.max_pool2d_with_indices(self._x, *self._how)
        return y.view(*x.shape[:2], *y.shape[1:])

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        if not need_input:
            return None
        back: Tensor = aten.max_pool2d_with_indices_backward(
            _merge(grad), self._x, *self._how, self._at
        )
        return back.view(*grad.shape[:2], *back.shape[1:])


class MeanPool:
    """nn.AvgPool2d, and nn.AdaptiveAvgPool2d by its output size."""

    def __init__(self, module: nn.AvgPool2d | nn.AdaptiveAvgPool2d) -> None:
        self._size: list[int] | None = None
        self._how: list[Any] = []
        if isinstance(module, nn.AdaptiveAvgPool2d):
            self._size = _pair(module.output_size)
        else:
            stride = module.kernel_size if module.stride is None else module.stride
            self._how = [
                _pair(module.kernel_size),
                _pair(stride),
                _pair(module.padding),
                module.ceil_mode,
                module.count_include_pad,
                module.divisor_override,
            ]

    def forward(self, x: Tensor, training: bool) -> Tensor:
        self._x = _merge(x)
        if self._size is not None:
            y: Tensor = aten._adaptive_avg_pool2d(self._x, self._size)
        else:
            y = aten.avg_pool2d(self._x, *self._how)
        return y.view(*x.shape[:2], *y.shape[1:])

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        if not need_input:
            return None
        merged = _merge(grad)
        if self._size is not None:
            back: Tensor = aten._adaptive_avg_pool2d_backward(merged, self._x)
        else:
            back = aten.avg_pool2d_backward(merged, self._x, *self._how)
        return back.view(*grad.shape[:2], *back.shape[1:])


def _pair(value: Any) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value)


class GroupNorm(Trained):
    """nn.GroupNorm; gain and offset (K, C) or None."""

    def __init__(self, module: nn.GroupNorm, gain: Block | None, offset: Block | None) -> None:
        self.groups, self.eps = module.num_groups, module.eps
        self.gain, self.offset = gain, offset

    def forward(self, x: Tensor, training: bool) -> Tensor:
        merged = x.flatten(0, 1)
        self._x = _merge(x) if x.ndim == 5 else merged.contiguous()
        rows, channels = self._x.shape[:2]
        self._sizes = [rows, channels, self._x[0, 0].numel(), self.groups]
        y, self._mean, self._rstd = aten.native_group_norm(
            self._x, None, None, *self._sizes, self.eps
        )
        self._y = y.unflatten(0, x.shape[:2])
        scaled: Tensor = self._y if self.gain is None else self._y * _wide(self.gain.value, x)
        return scaled if self.offset is None else scaled + _wide(self.offset.value, x)

    def squares(self, grad: Tensor) -> Tensor:
        found = grad.new_zeros(grad.shape[:2])
        if self.offset is not None:
            found += _channel_squares(grad)
        return found if self.gain is None else found.add_(_channel_squares(grad * self._y))

    def collect(self, grad: Tensor) -> None:
        if self.offset is not None:
            _sum_by_channel(grad, self.offset.slope)
        if self.gain is not None:
            _sum_by_channel(grad * self._y, self.gain.slope)

    def silence(self, rows: Tensor) -> None:
        self._y[rows] = 0

    def passed(self, grad: Tensor) -> Tensor:
        if self.gain is not None:
            grad = grad * _wide(self.gain.value, grad)
        merged = _merge(grad) if grad.ndim == 5 else grad.flatten(0, 1).contiguous()
        back: Tensor = aten.native_group_norm_backward(
            merged, self._x, self._mean, self._rstd, None, *self._sizes, [True, False, False]
        )[0]
        return back.view(*grad.shape[:2], *back.shape[1:])


def _sum_by_channel(grad: Tensor, out: Tensor) -> None:
    """(K, B, C, ...) -> (K, C), each model by itself: the same bits in every stack."""
    for model, one in enumerate(grad):
        torch.sum(one, [0, *range(2, one.ndim)], out=out[model])


def _channel_squares(grad: Tensor) -> Tensor:
    """(K, B, C, ...) -> (K, B) squared norm of each row's sums over its positions."""
    sums = grad if grad.ndim == 3 else grad.flatten(3).sum(3)
    return sums.square().sum(2)


def _wide(table: Tensor, like: Tensor) -> Tensor:
    """(K, C) -> (K, 1, C, 1, 1), or (K, 1, C) for rows without an image."""
    return table.view(len(table), 1, table.shape[1], *[1] * (like.ndim - 3))


class BatchNorm:
    """nn.BatchNorm1d or 2d with statistics of each model's own; padding counts for nothing.

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
        for model, one in enumerate(x):
            rows = len(one) if self.rows is None or not training else self.rows[model]
            own = _last(one[:rows])
            moments = self.mean[model], self.variance[model]
            if rows:
                y, mean, rstd = aten.native_batch_norm(
                    own, *self._own(model), *moments, training, self.momentum, self.eps
                )
                out[model, :rows] = y
                self._kept.append((own, mean, rstd))
            else:
                self._kept.append(None)
        return out

    def backward(self, grad: Tensor, need_input: bool) -> Tensor | None:
        back = torch.zeros_like(grad)
        wanted = [True, self.gain is not None, self.offset is not None]
        for model, kept in enumerate(self._kept):
            if kept is None:
                found: Any = (None, 0.0, 0.0)
            else:
                own, mean, rstd = kept
                found = aten.native_batch_norm_backward(
                    _last(grad[model, : len(own)]),
                    own,
                    self._own(model)[0],
                    self.mean[model],
                    self.variance[model],
                    mean,
                    rstd,
                    True,
                    self.eps,
                    wanted,
                )
                back[model, : len(own)] = found[0]
            for block, slope in zip((self.gain, self.offset), found[1:], strict=True):
                if block is not None:
                    block.slope[model] = slope
        return back


def _last(x: Tensor) -> Tensor:
    return channels_last(x) if x.ndim == 4 else x.contiguous()
