"""The user's code: mistakes named by their line, fresh modules from a factory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from lethe.errors import InputError, RunFailed
from lethe.training.models import load_recipe
from lethe.training.users_code import build_module, parameter_count, users_code

RECIPE = """
import numpy as np
def helper(values):
    return np.stack(values)
def make(data):
    return helper([])
"""


def test_the_message_names_the_users_innermost_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RECIPE)
    with pytest.raises(InputError) as caught:
        load_recipe(f"{tmp_path}/mine.py:make", None)
    said = str(caught.value)
    assert "mine.py:make fails: ValueError: need at least one array to stack" in said
    assert said.endswith("(mine.py, line 4). --debug shows the whole traceback.")
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_librarys_own_complaint_names_the_line_that_called_it() -> None:
    with (
        pytest.raises(InputError, match=r"fitting fails: ValueError.*\(test_users_code.py, line"),
        users_code("fitting"),
    ):
        LogisticRegression().fit(np.zeros((3, 1)), [0, 0, 0])


@pytest.mark.parametrize("error", [RunFailed("stopped"), MemoryError(), KeyboardInterrupt()])
def test_what_is_no_mistake_passes_through(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, users_code("it"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: 3, "returned int, expected a torch.nn.Module"),
        (nn.ReLU, "without trainable parameters"),
        (lambda: nn.Linear(3), "make_module fails: TypeError.*test_users_code.py, line"),
    ],
)
def test_factories_that_make_no_model_are_refused(make: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        build_module(make, 0)


def numpy_drawn() -> nn.Module:
    module = nn.Linear(4, 3)
    module.weight = nn.Parameter(torch.from_numpy(np.random.normal(size=(3, 4))))
    return module


@pytest.mark.parametrize("make", [lambda: nn.Linear(4, 3), numpy_drawn], ids=["torch", "numpy"])
def test_initial_weights_follow_the_seed_alone(make: Any) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    first, other, again = (build_module(make, seed).weight for seed in (0, 1, 0))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(build_module(make, np.int64(0)).weight, first)  # as arrays of seeds hold
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]


def test_parameters_that_training_can_change_are_counted() -> None:
    """4 * 3 weights and 3 biases; the frozen layer of 3 * 2 + 2 does not count."""

    def make() -> nn.Module:
        module = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
        module[1].requires_grad_(False)
        return module

    assert parameter_count(make) == 15
