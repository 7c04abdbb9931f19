"""A floor under every prediction, so that no record's loss can exceed a bound known in advance."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional as F

from lethe.errors import InputError, check_at_least, check_between


def check_floor(floor: float, classes: int) -> None:
    """Refuse a floor m outside (0, 1), or fewer than 2 classes."""
    check_between("floor", floor, 0, 1, open_low=True, open_high=True)
    check_at_least("classes", classes, 2)


def loss_bound(floor: float, classes: int) -> float:
    """ln(C / m): no record costs more when m of every prediction is spread over C classes.

    Guarantee: |log((1 - m) p + m / C)| <= ln(C / m) for every p in [0, 1]; no data enter.

    >>> round(loss_bound(0.1, 10), 4)
    4.6052
    """
    check_floor(floor, classes)
    return math.log(classes / floor)


def with_floor(log_likelihoods: ArrayLike, floor: float, classes: int) -> NDArray[np.float64]:
    """log((1 - m) p + m / C) from log p, as `floored_log_likelihood` from logits.

    Args:
        log_likelihoods: log p of the true classes, <= 0; -inf is allowed.
        floor: m in (0, 1).
        classes: C >= 2.
    """
    check_floor(floor, classes)
    values = np.asarray(log_likelihoods, dtype=np.float64)
    if np.isnan(values).any() or (values > 1e-5).any():
        raise InputError("log_likelihoods must be log-probabilities, <= 0 and not NaN.")
    return np.logaddexp(math.log1p(-floor) + np.minimum(values, 0), math.log(floor / classes))


def floored_log_likelihood(logits: Tensor, labels: Tensor, floor: float) -> Tensor:
    """log((1 - m) p + m / C) of each record's class; differentiable, the training loss itself.

    Minimise ``-(alpha * floored_log_likelihood(...)).sum()`` in training and use the same values
    for Delta: then |log p'| <= ln(C / m) for every parameter and every record.

    Args:
        logits: (..., C) scores of the classes, before the softmax.
        labels: (...) class codes, int64.
        floor: m in (0, 1), the share of the uniform distribution.

    Returns:
        (...) log-likelihoods in [-ln(C/m), 0].

    Raises:
        InputError: m outside (0, 1), or fewer than 2 classes.

    >>> uniform = floored_log_likelihood(torch.zeros(1, 4), torch.tensor([2]), 0.1)
    >>> uniform.exp().round(decimals=4)
    tensor([0.2500])
    """
    classes = logits.shape[-1]
    check_floor(floor, classes)
    chosen = F.log_softmax(logits, -1).gather(-1, labels[..., None])[..., 0]
    uniform = torch.full_like(chosen, math.log(floor / classes))
    return torch.logaddexp(chosen + math.log1p(-floor), uniform)
