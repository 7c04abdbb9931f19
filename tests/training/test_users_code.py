"""Mistakes in the user's code: one line that names the place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from lethe.errors import InputError, RunFailed
from lethe.training.models import load_recipe
from lethe.training.users_code import users_code

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
