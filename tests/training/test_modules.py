"""Fresh modules from the user's factory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from lethe.errors import InputError
from lethe.training.users_code import build_module, parameter_count


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: 3, "returned int, expected a torch.nn.Module"),
        (nn.ReLU, "without trainable parameters"),
        (lambda: nn.Linear(3), "make_module fails: TypeError.*test_modules.py, line"),
    ],
)
def test_factories_that_make_no_model_are_refused(make: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        build_module(make, 0)


def test_initial_weights_follow_the_seed_alone() -> None:
    first, other, again = (build_module(lambda: nn.Linear(4, 3), seed).weight for seed in (0, 1, 0))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_parameters_that_training_can_change_are_counted() -> None:
    """4 * 3 weights and 3 biases; the frozen layer of 3 * 2 + 2 does not count."""

    def make() -> nn.Module:
        module = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
        module[1].requires_grad_(False)
        return module

    assert parameter_count(make) == 15
