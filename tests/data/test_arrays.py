"""Arrays become datasets; shapes and dtypes that do not fit are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from lethe.data.tables import load
from lethe.errors import InputError

X = np.array([[0, 1], [2, 3], [4, 5], [6, 7]], dtype=np.float32)
Y = np.array([3, 5, 3, 5])


def archive(tmp_path: Path, **arrays: Any) -> Path:
    np.savez(tmp_path / "t.npz", **arrays)
    return tmp_path / "t.npz"


def refusal(path: Path, *args: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(path, *args, **options)
    return str(caught.value)


@pytest.mark.parametrize("names", [("X", "y"), ("features", "labels"), ("x_train", "y_train")])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f8"])
def test_names_and_floats(tmp_path: Path, names: tuple[str, str], dtype: Any) -> None:
    data = load(archive(tmp_path, **{names[0]: X.astype(dtype), names[1]: Y}))
    assert data.features.dtype == np.float32 and data.features.tolist() == X.tolist()
    assert data.classes == ("3", "5") and data.labels.tolist() == [0, 1, 0, 1]
    assert data.feature_names == ("x0", "x1") and data.source.startswith("t.npz")


def test_images_as_keras_has_them(tmp_path: Path) -> None:
    images = np.arange(4 * 2 * 3, dtype=np.uint8).reshape(4, 2, 3) * 10
    path = archive(tmp_path, x_train=images, y_train=Y[:, None], x_test=images, y_test=Y)
    data = load(path)
    np.testing.assert_allclose(data.features, images.reshape(4, 6) / 255, rtol=1e-6)
    assert data.feature_names[4] == "x[1,1]"
    assert "divided by 255" in data.notes[0] and "'x_test', 'y_test'" in data.notes[1]


def test_safetensors(tmp_path: Path) -> None:
    save_file({"X": X, "y": Y}, tmp_path / "t.safetensors")
    assert load(tmp_path / "t.safetensors").features.tolist() == X.tolist()


def test_ids_labels_and_rows(tmp_path: Path) -> None:
    path = archive(tmp_path, X=X, y=Y, z=Y[::-1], ids=np.array(["a", "b", "c", "d"]))
    assert load(path).ids.tolist() == ["a", "b", "c", "d"]
    assert load(path, "z").labels.tolist() == [1, 0, 1, 0]
    assert load(path, "y", rows=3, seed=1).ids.size == 3
    assert "label='zz' is not a column" in refusal(path, "zz")
    path = archive(tmp_path, X=X, y=Y, who=np.array([1, 2, 3, 4]))
    assert load(path, id_column="who").ids.tolist() == ["1", "2", "3", "4"]


def test_duplicate_ids(tmp_path: Path) -> None:
    message = refusal(archive(tmp_path, X=X, y=Y, ids=np.array([1, 2, 2, 3])))
    assert "'2' stands 2 times" in message


@pytest.mark.parametrize(
    ("arrays", "said", "out"),
    [
        ({"x": X, "y": Y}, "no features", "'X', 'features', 'x_train'; it has 'x', 'y'"),
        ({"X": X}, "no labels", "'y', 'labels', 'y_train'"),
        ({"X": X, "features": X, "y": Y}, "several arrays of features", "--drop 'features'"),
        ({"X": X[:, 0], "y": Y}, "(4,)", ".reshape(records, -1)"),
        ({"X": X.astype(int), "y": Y}, "int64", ".astype('float32')"),
        ({"X": X, "y": Y[:3]}, "(3,)", "must be (4,)"),
        ({"X": X, "y": np.eye(4)}, "(4, 4)", ".argmax(axis=1)"),
        ({"X": X, "y": Y / 2}, "continuous", "cut it into a few"),
        ({"X": X, "y": Y, "ids": np.arange(3)}, "'ids' has shape (3,)", "must be (4,)"),
        ({"X": X.astype(float) * 1e300, "y": Y}, "beyond float32", "Fill them"),
        ({"X": np.where(X == 5, np.nan, X), "y": Y}, "column 'x1' of record '2'", "Fill them"),
    ],
)
def test_refusals(tmp_path: Path, arrays: dict[str, Any], said: str, out: str) -> None:
    message = refusal(archive(tmp_path, **arrays))
    assert said in message and out in message
