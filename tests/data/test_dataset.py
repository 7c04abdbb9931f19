"""A Dataset that exists keeps its promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lethe.data.dataset import Dataset, choose_rows, subset
from lethe.errors import InputError

GOOD = Dataset(
    name="toy",
    features=np.arange(8, dtype=np.float32).reshape(4, 2),
    labels=np.array([0, 1, 0, 1]),
    classes=("no", "yes"),
    ids=np.array(["a", "b", "c", "d"]),
    feature_names=("height", "weight"),
    source="made up",
)


def refusal(**changes: object) -> str:
    with pytest.raises(InputError) as caught:
        replace(GOOD, **changes)
    return str(caught.value)


def test_good_one_has_no_notes() -> None:
    assert GOOD.notes == () and len(GOOD) == 4


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_not_finite(odd: float) -> None:
    features = GOOD.features.copy()
    features[2:, 1] = odd
    message = refusal(features=features)
    assert "2 values that are NaN, infinite" in message
    assert "column 'weight' of record 'c'" in message and "Fill them" in message


def test_single_class() -> None:
    message = refusal(labels=np.zeros(4, dtype=np.int64))
    assert "all 'no'" in message and "Choose another label" in message


def test_no_classes_mean_regression() -> None:
    data = replace(GOOD, labels=np.array([0.5, 1.5, 1.5, 9.0]), classes=())
    assert data.task == "regression" and GOOD.task == "classification" and data.notes == ()
    for labels, said in (
        (np.arange(4), "no classes: for regression use .astype('float64')"),
        (np.array([0.5, np.nan, 1, 2]), "labels of 'toy' are NaN or infinite, the first of record"),
        (np.full(4, 2.5), "are all 2.5: there is nothing to predict"),
    ):
        message = refusal(labels=labels, classes=())
        assert said.replace("'toy'", repr(GOOD.name)) in message


def test_rare_class_is_a_note_said_once() -> None:
    changed = replace(GOOD, labels=np.array([0, 1, 0, 0]))
    assert "fewer than 2 records" in changed.notes[0] and "'yes'" in changed.notes[0]
    assert replace(changed, name="other").notes == changed.notes


def test_duplicate_ids() -> None:
    message = refusal(ids=np.array(["a", "b", "b", "d"]))
    assert "'b' stands 2 times" in message and "rows are numbered" in message


def test_missing_ids() -> None:
    message = refusal(ids=np.array(["a", "", "", "d"]))
    assert "missing for 2 records, the first at row 1" in message


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"features": np.zeros((4, 2))}, "float64"),
        ({"features": np.zeros((4, 2, 1), np.float32)}, r".reshape(records, -1)"),
        ({"features": np.zeros((4, 0), np.float32), "feature_names": ()}, "0 features"),
        ({"labels": np.array([0, 1, 0])}, "one for each record"),
        ({"labels": np.array([0, 1, 0, 1], dtype=np.int32)}, ".astype('int64')"),
        ({"labels": np.array([0, 1, 0, 2])}, "in [0, 1]"),
        ({"labels": np.array([0, 1, 0, -1])}, "run from -1 to 1"),
        ({"ids": np.array([1, 2, 3, 4])}, ".astype(str)"),
        ({"feature_names": ("one",)}, "1 names for 2 features"),
    ],
)
def test_shapes_and_dtypes(changes: dict[str, object], said: str) -> None:
    assert said in refusal(**changes)


def test_subset_is_seeded_and_said() -> None:
    cut = subset(GOOD, 3, seed=1)
    again = subset(GOOD, 3, seed=1)
    assert cut.ids.tolist() == again.ids.tolist() == sorted(cut.ids.tolist())
    assert cut.notes[0] == "3 of 4 records, chosen at random with seed 1."
    assert subset(GOOD, None, seed=1) is GOOD


def test_choose_rows() -> None:
    assert choose_rows(5, None, 0).tolist() == [0, 1, 2, 3, 4]
    assert len({tuple(choose_rows(100, 5, seed)) for seed in range(20)}) == 20
    with pytest.raises(InputError, match=r"rows=6 is more than the 5 records .* Ask fewer"):
        choose_rows(5, 6, 0)
    with pytest.raises(InputError, match="rows=1 must be at least 2"):
        choose_rows(5, 1, 0)
