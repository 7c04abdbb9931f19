"""Log-density under a diagonal plus low-rank Gaussian by the Woodbury identity, in float64."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Block:
    """Some coordinates of the Gaussian and of the points.

    Attributes:
        difference: (S, b) float64, points minus mean.
        variance: (b,) float64, the diagonal part, > 0.
        factor: (K, b) float64, F with low-rank part F^T F; K may be 0.
    """

    difference: Tensor
    variance: Tensor
    factor: Tensor


def woodbury_log_density(blocks: Iterable[Block], scale: float) -> Tensor:
    """Log-density of points under N(mean, scale (diag v + F^T F)), without a P x P matrix.

    Uses (V + F^T F)^-1 = V^-1 - V^-1 F^T (I + F V^-1 F^T)^-1 F V^-1 and
    det(V + F^T F) = det(V) det(I + F V^-1 F^T) (Woodbury 1950; matrix determinant lemma).

    Args:
        blocks: disjoint sets of coordinates that together are all of them, same S and K.
        scale: > 0, multiplies the whole covariance.

    Returns:
        (S,) float64 natural logarithms.

    >>> one = torch.ones(1, 1, dtype=torch.float64)
    >>> round(woodbury_log_density([Block(0 * one, one[0], one)], 0.5).exp().item(), 4)
    0.3989
    """
    size = 0
    inner = projected = squares = torch.zeros((), dtype=torch.float64)
    log_determinant = torch.zeros((), dtype=torch.float64)
    for block in blocks:
        size += len(block.variance)
        weighted = block.factor / block.variance
        inner = weighted @ block.factor.T + inner
        projected = weighted @ block.difference.T + projected
        squares = (block.difference.square() / block.variance).sum(1) + squares
        log_determinant = block.variance.log().sum() + log_determinant
    inner = inner + torch.eye(len(inner), dtype=torch.float64, device=inner.device)
    lower = torch.linalg.cholesky(inner)
    solved = torch.linalg.solve_triangular(lower, projected, upper=False)
    log_determinant = log_determinant + 2 * lower.diagonal().log().sum()
    distance: Tensor = (squares - solved.square().sum(0)) / scale
    total: Tensor = distance + log_determinant + size * math.log(2 * math.pi * scale)
    return total * -0.5
