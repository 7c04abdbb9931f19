"""The user's torch module as the training loop needs it: records as it reads them, logits out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lethe.errors import InputError
from lethe.training.users_code import answer_of, build_module

_RECORDS = 64


class Tokens(nn.Module):
    """Rounds to whole numbers from `low` to `high`, as embeddings take them."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__()
        self.low, self.high = low, high

    def forward(self, inputs: Tensor) -> Tensor:
        """(n, ...) float to (n, ...) int64."""
        return inputs.round().long().clamp(self.low, self.high)


@dataclass(frozen=True)
class Wrapped:
    """A factory of modules that adds layers without parameters around what another one makes.

    Attributes:
        make: the user's factory.
        shape: of one record, where it is not flat as in the data set.
        tokens: least and largest token of the records, where the module reads tokens.
        column: whether (n,) answers become (n, 1).
        pair: whether (n, 1) answers become (n, 2) logits, 0 for the first class: their
            cross-entropy is the binary one of the answer.
    """

    make: Callable[[], Any]
    shape: tuple[int, ...] = ()
    tokens: tuple[int, int] | None = None
    column: bool = False
    pair: bool = False

    def __call__(self) -> nn.Module:
        """A fresh module."""
        before = [nn.Unflatten(1, self.shape)] if self.shape else []
        after = [nn.Unflatten(0, (-1, 1))] if self.column else []
        before += [Tokens(*self.tokens)] if self.tokens else []
        after += [nn.ZeroPad1d((1, 0))] if self.pair else []
        return nn.Sequential(*before, self.make(), *after)


def wrapped(make: Callable[[], Any], records: NDArray[Any], classes: int) -> Callable[[], Any]:
    """A factory whose modules read flat float records and answer with one logit a class.

    Args:
        make: the user's factory; it may read records in their shape, tokens as whole numbers, and
            answer with one logit of the second of two classes.
        records: (N, ...) as they were handed over.
        classes: number of classes; 0 for a regression.

    Raises InputError: the module answers with probabilities, whose loss is another one.
    """
    shape = records.shape[1:] if records.ndim > 2 else ()
    around = Wrapped(make, shape)
    some = np.asarray(records[:_RECORDS], np.float32)
    flat = torch.from_numpy(some.reshape(len(some), -1))
    answer = answer_of(build_module(around, 0), flat)
    if answer is None and records.dtype.kind in "iu":
        around = replace(around, tokens=(int(records.min()), int(records.max())))
        answer = answer_of(build_module(around, 0), flat)
    if answer is None:  # it fails where it is trained, with its own words
        return Wrapped(make, shape) if shape else make
    around = replace(around, column=answer.ndim == 1)
    single = answer.ndim == 1 or answer.shape[-1] == 1
    if classes:
        far = answer if around.tokens else answer_of(build_module(around, 0), 1000 * flat)
        _check_logits([answer, far], single)
    around = replace(around, pair=classes == 2 and single)
    return make if around == Wrapped(make) else around


def _check_logits(answers: list[Tensor], single: bool) -> None:
    """Refuse answers of a Sigmoid or Softmax: near records and far ones are probabilities."""
    for answer in answers:
        total = answer if single else answer.sum(dim=-1)
        if not ((answer >= 0) & (answer <= 1)).all():
            return
        if not single and not torch.allclose(total, torch.ones_like(total), atol=1e-4):
            return
    raise InputError(
        "the module answers with probabilities, and the loss is that of logits: leave out its last "
        f"{'Sigmoid' if single else 'Softmax'}."
    )
