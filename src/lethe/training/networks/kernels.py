"""Norms of the gradient that each image alone gives the kernels of a convolution."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

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

    With the D values under a kernel at each of L places as columns X (D, L) and the gradient of
    the output G (O, L), the gradient of the kernels is G X', formed in full; where places are few,
    its squared norm is the sum of (X'X) * (G'G) (ghost clipping: Bu, Mao and Xu 2022), which is
    less work.

    Args:
        x: (B, C, h, w) input.
        grad: (B, O, h', w') gradient of the output.
        size, stride, padding, dilation: of height and width.
        groups: of channels.

    Returns:
        (B,) squared norms.
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
