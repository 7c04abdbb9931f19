"""The user's torch module as the training loop needs it: flat records in, logits out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from lethe.errors import InputError
from lethe.training.users_code import answer_of, build_module, users_code

_RECORDS = 64


class _Tokens(nn.Module):
    """Rounds to whole numbers from `low` to `high`, as embeddings take them."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__()
        self.low, self.high = low, high

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.round().long().clamp(self.low, self.high)


class _Column(nn.Module):
    """Makes (n, 1) of one number a record; or (n, 2) logits, of which the first is 0.

    The cross-entropy of the two is the binary one of the number.
    """

    def __init__(self, pair: bool) -> None:
        super().__init__()
        self.pair = pair

    def forward(self, answers: Tensor) -> Tensor:
        return functional.pad(answers.reshape(-1, 1), (int(self.pair), 0))


def _around(
    make: Callable[[], Any],
    shape: tuple[int, ...],
    tokens: tuple[int, int] | None = None,
    pair: bool | None = None,
) -> nn.Module:
    """A fresh module between layers without parameters, none where an argument is empty."""
    before: list[nn.Module] = [nn.Unflatten(1, shape)] if shape else []
    before += [] if tokens is None else [_Tokens(*tokens)]
    return nn.Sequential(*before, make(), *([] if pair is None else [_Column(pair)]))


def wrapped(make: Callable[[], Any], records: NDArray[Any], classes: int) -> Callable[[], Any]:
    """A factory whose modules read flat float records and answer with one logit a class.

    Args:
        make: the user's factory; its modules may read records in their shape, tokens as whole
            numbers, and answer with one logit, of the second of two classes.
        records: (N, ...) as they were handed over.
        classes: number of classes; 0 for a regression.

    Raises InputError: the module answers with probabilities, whose loss is another one, or with
        too few numbers.
    """
    shape = records.shape[1:] if records.ndim > 2 else ()
    tokens: tuple[int, int] | None = None
    flat = torch.from_numpy(np.array(records[:_RECORDS], np.float32)).flatten(1)
    around = partial(_around, make, shape) if shape else make
    module = build_module(around, 0)
    answer, far = answer_of(module, flat), answer_of(module, 1000 * flat)
    if answer is None and records.dtype.kind in "iu":
        tokens = int(records.min()), int(records.max())
        around = partial(_around, make, shape, tokens)
        answer = far = answer_of(build_module(around, 0), flat)
    if answer is None:
        with users_code("the module"), torch.no_grad():
            module.eval()(flat)
        return around  # its answer is of another kind
    single = answer.ndim == 1 or answer.shape[-1] == 1
    seen = [part for part in (answer, far) if part is not None]
    totals = [torch.ones(1) if single else part.sum(dim=-1) for part in seen]
    sums_to_1 = all(torch.allclose(t, torch.ones_like(t), atol=1e-4) for t in totals)
    if classes and sums_to_1 and all(((part >= 0) & (part <= 1)).all() for part in seen):
        raise InputError(
            "the module answers with probabilities, and the loss is that of logits: leave out its "
            f"last {'Sigmoid' if single else 'Softmax'}."
        )
    if single and classes in (0, 2):
        if classes == 2 or answer.ndim == 1:
            around = partial(_around, make, shape, tokens, classes == 2)
    elif answer.shape[-1] < classes:
        raise InputError(
            f"the module answers with {answer.shape[-1]} numbers a record for {classes} classes: "
            f"it must give one logit a class, such as nn.Linear(..., {classes})."
        )
    return around
