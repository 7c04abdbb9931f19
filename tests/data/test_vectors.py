"""Files of vectors and heads: every format gives the same, and odd ones are refused by name."""

import pickle

import numpy as np
import pytest
import torch

from lethe.data.vectors import read_embeddings, read_head
from lethe.errors import InputError

VECTORS = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
USERS = np.array([1, 1, 2, 2, 3, 3])
LABELS = np.array([0, 1, 0, 1, 1, 0])
GOOD = {"representations": VECTORS, "user_ids": USERS, "labels": LABELS}


def npz(folder, **changes):
    path = folder / "mlp.npz"
    arrays = {**GOOD, **changes}
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    return path


def test_what_may_stand_beside(tmp_path):
    path = npz(
        tmp_path,
        user_ids=np.array(list("aabbcc")),
        labels=LABELS[:, None].astype(float),
        period=np.array(["may"] * 6),
        features=np.arange(12).reshape(6, 2),
        extra=np.ones(2),
    )
    read = read_embeddings(path)
    assert read.user_ids.tolist() == list("aabbcc") and read.period.tolist() == ["may"] * 6
    assert read.features.shape == (6, 2) and read.labels.dtype == np.int64
    assert read.notes == ("Not used: 'extra'.",)
    assert read_embeddings(npz(tmp_path, labels=None)).labels is None


HOLE = VECTORS.copy()
HOLE[4, 1] = np.nan
REFUSED = {
    "no vectors": ({"representations": None, "representation": USERS}, "Did you mean 'repr"),
    "two that fit": ({"representations": None, "a": VECTORS, "b": VECTORS}, "'a', 'b' could all"),
    "no users": ({"user_ids": None}, "lacks 'user_ids'"),
    "nan": ({"representations": HOLE}, "1 rows, the first is row 4"),
    "flat": ({"representations": VECTORS[:, 0]}, "rows, dimensions"),
    "text vectors": ({"representations": VECTORS.astype(str)}, "of numbers"),
    "no rows": ({"representations": VECTORS[:0], "user_ids": USERS[:0]}, "of numbers"),
    "other length": ({"user_ids": USERS[:4]}, "user_ids has 4 rows"),
    "fraction of a user": ({"user_ids": USERS / 2}, "whole number or text"),
    "nameless user": ({"user_ids": np.array(["a", "", "b", "b", "c", "c"])}, "none missing"),
    "half a label": ({"labels": LABELS / 2}, "labels are no whole numbers from 0"),
    "label below 0": ({"labels": -LABELS}, "labels are no whole numbers"),
    "text label": ({"labels": np.array(list("abcdef"))}, "one whole number"),
    "features": ({"features": np.full((6, 2), np.inf)}, "features has NaN or infinite"),
    "period": ({"period": np.array(["a", "", "b", "b", "c", "c"])}, "none missing"),
    "objects": ({"user_ids": np.array([1, "1", 2, 2, 3, 3], dtype=object)}, "never read"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_odd_arrays_are_refused(case, tmp_path):
    changes, words = REFUSED[case]
    with pytest.raises(InputError, match=words):
        read_embeddings(npz(tmp_path, **changes))


class Trap:
    """Would leave a file behind if it were unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize(
    "save", [torch.save, lambda held, path: path.write_bytes(pickle.dumps(held))]
)
def test_a_checkpoint_is_never_unpickled(save, tmp_path):
    save({"representations": Trap(str(tmp_path / "harm"))}, tmp_path / "bad.pt")
    with pytest.raises(InputError, match="pickles and are never read|no readable checkpoint"):
        read_embeddings(tmp_path / "bad.pt")
    assert not (tmp_path / "harm").exists()


def test_files_that_are_not_there_or_hold_something_else(tmp_path):
    for name in ("a.pt", "a.npz", "a.parquet", "a.safetensors"):
        with pytest.raises(InputError, match="a\\."):
            read_embeddings(tmp_path / name)
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(InputError, match="no dict of tensors"):
        read_embeddings(tmp_path / "list.pt")
    (tmp_path / "a.txt").write_text("user_ids\n1\n")
    with pytest.raises(InputError, match="'.txt', which is not one of .npy, .npz, .safetensors"):
        read_embeddings(tmp_path / "a.txt")


def test_heads(tmp_path):
    np.savez(tmp_path / "binary.npz", w=[1.0, 2, 3], b=4.0)
    head = read_head(tmp_path / "binary.npz", 3)
    assert head.weights.tolist() == [1, 2, 3] and head.bias == 4
    np.savez(tmp_path / "classes.npz", W=np.eye(3), b=np.zeros(3))
    assert read_head(tmp_path / "classes.npz", 3).weights.shape == (3, 3)
    layer = torch.nn.Linear(3, 1)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    head = read_head(tmp_path / "layer.pt", 3)
    assert head.weights.tolist() == layer.weight[0].tolist() and head.bias == layer.bias.item()


def test_the_head_of_a_checkpoint_is_named(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Linear(3, 2))
    torch.save({"state_dict": model.state_dict(), "epoch": 3}, tmp_path / "checkpoint.pt")
    head = read_head(tmp_path / "checkpoint.pt", 3, layer="1")
    assert head.weights.tolist() == model[1].weight.tolist()
    with pytest.raises(InputError, match="no single head: .* Name the layer"):
        read_head(tmp_path / "checkpoint.pt", 3)
    with pytest.raises(InputError, match="no single head called 'head'"):
        read_head(tmp_path / "checkpoint.pt", 3, layer="head")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"w": np.ones(4), "b": 0.0}, r"weights of shape \(4,\)"),
        ({"w": np.ones(3), "b": np.zeros(2)}, r"bias of shape \(2,\)"),
        ({"W": np.ones((4, 3)), "b": np.zeros(3)}, r"\(C, 3\) and \(C,\)"),
        ({"w": np.array([1.0, np.nan, 0]), "b": 0.0}, "NaN or infinite"),
        ({"w": np.zeros(3), "b": 0.0}, "predicts nothing"),
        ({"w": np.array(list("abc")), "b": 0.0}, "no array of numbers"),
        ({"w": np.ones(3)}, "no single head"),
    ],
)
def test_odd_heads_are_refused(arrays, words, tmp_path):
    np.savez(tmp_path / "head.npz", **arrays)
    with pytest.raises(InputError, match=words):
        read_head(tmp_path / "head.npz", 3)
