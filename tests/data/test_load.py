"""Built-in sets by name, files by path, and a hint where it is neither."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lethe.data.shipped import BUILTIN
from lethe.data.tables import load
from lethe.errors import InputError


def test_digits() -> None:
    data = load("digits")
    assert data.features.shape == (1797, 64) and data.classes == tuple("0123456789")
    assert data.features.min() == 0 and data.features.max() == 1
    assert "scikit-learn" in data.source


def test_breast_cancer() -> None:
    data = load("breast-cancer")
    assert data.features.shape == (569, 30) and data.classes == ("malignant", "benign")
    np.testing.assert_allclose(data.features.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(data.features.std(axis=0), 1, atol=1e-5)


def test_diabetes() -> None:
    data = load("diabetes")
    assert data.task == "regression" and data.features.shape == (442, 10)
    assert data.labels.min() == 25 and data.labels.max() == 346
    np.testing.assert_allclose(data.features.std(axis=0), 1, atol=1e-5)
    assert load("diabetes", task="regression", rows=50).task == "regression"
    with pytest.raises(InputError, match="task='classification' does not fit .* 'diabetes'"):
        load("diabetes", task="classification")
    with pytest.raises(
        InputError, match="task='regression' does not fit the built-in set 'digits'"
    ):
        load("digits", task="regression")


def test_rows_of_a_builtin() -> None:
    data = load("digits", rows=50, seed=2)
    assert len(data) == 50 and len(data.classes) == 10
    with pytest.raises(InputError, match="rows=5000 is more than the 1797 records"):
        load("digits", rows=5000)


@pytest.mark.parametrize("name", ["breast-cancer", "diabetes"])
def test_rows_are_scaled_by_themselves_and_not_by_the_records_left_out(name: str) -> None:
    features = load(name, rows=60, seed=1).features
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(features.std(axis=0), 1, atol=1e-5)


def test_unknown_name() -> None:
    with pytest.raises(InputError) as caught:
        load("digit")
    message = str(caught.value)
    assert "Did you mean 'digits'?" in message
    assert all(repr(name) in message for name in BUILTIN)


def test_missing_file_is_called_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load(tmp_path / "people.csv", "y")
    with pytest.raises(InputError, match="does not exist"):
        load(f"{tmp_path}/people", "y")


@pytest.mark.parametrize(
    ("option", "value"), [("label", "y"), ("id_column", "i"), ("drop", ("a",))]
)
def test_builtin_takes_no_file_options(option: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"{option}=.* is for files.*\./digits\.csv"):
        load("digits", **{option: value})


def test_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,p\n2,q\n3,p\n4,q\n")
    assert load(str(tmp_path / "t.csv"), "y").classes == ("p", "q")


def test_import_is_light() -> None:
    code = (
        "import sys, lethe.data.tables, lethe.training.scores_file\n"
        "heavy = {'sklearn', 'scipy', 'torch', 'pyarrow', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
