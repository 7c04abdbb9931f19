"""A Dataset that exists keeps its promises."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.data.dataset import Dataset, choose_persons, choose_rows, subset
from lethe.data.tables import load
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


def test_no_classes_mean_regression() -> None:
    data = replace(GOOD, labels=np.array([0.5, 1.5, 1.5, 9.0]), classes=())
    assert data.task == "regression" and GOOD.task == "classification" and data.notes == ()
    for labels, said in (
        (np.arange(4), "Use .astype('float64')"),
        (np.array([0.5, np.nan, 1, 2]), "labels of 'toy' are NaN or infinite, the first of record"),
        (np.full(4, 2.5), "are all 2.5: there is nothing to predict"),
    ):
        message = refusal(labels=labels, classes=())
        assert said.replace("'toy'", repr(GOOD.name)) in message


def test_rare_class_is_a_note_said_once() -> None:
    changed = replace(GOOD, labels=np.array([0, 1, 0, 0]))
    assert "fewer than 2 records" in changed.notes[0] and "'yes'" in changed.notes[0]
    assert replace(changed, name="other").notes == changed.notes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"labels": np.zeros(4, dtype=np.int64)}, "all 'no', there must be at least two"),
        ({"ids": np.array(["a", "b", "b", "d"])}, "'b' stands 2 times"),
        ({"ids": np.array(["a", "", "", "d"])}, "missing for 2 records, the first at row 1"),
        ({"features": np.zeros((4, 2))}, "float64"),
        ({"features": np.zeros((4, 2, 1), np.float32)}, r".reshape(records, -1)"),
        ({"features": np.zeros((4, 0), np.float32), "feature_names": ()}, "0 features"),
        ({"labels": np.array([0, 1, 0])}, "one for each record"),
        ({"labels": np.array([0, 1, 0, 1], dtype=np.int32)}, ".astype('int64')"),
        ({"labels": np.array([0, 1, 0, 2])}, "in [0, 1]"),
        ({"labels": np.array([0, 1, 0, -1])}, "run from -1 to 1"),
        ({"ids": np.array([1, 2, 3, 4])}, ".astype('str')"),
        ({"feature_names": ("one",)}, "1 names for 2 features"),
        ({"groups": np.array(["a", "b"])}, "groups of 'toy' have shape (2,)"),
        ({"groups": np.array(["a", "", "b", "b"])}, "groups of 'toy' are empty for 1 records"),
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


PEOPLE_ROWS = [
    # user, height, kind, name
    ("u1", 1.5, "a", "r0"),
    ("u2", 2.5, "b", "r1"),
    ("u1", 3.0, "a", "r2"),
    ("u3", 4.5, "b", "r3"),
    ("u2", 5.0, "a", "r4"),
    ("u2", 6.5, "b", "r5"),
]


def table(path: Path, rows: Sequence[tuple[Any, ...]] = PEOPLE_ROWS) -> Path:
    file = path / "people.csv"
    lines = ["user,height,kind,name", *(",".join(map(str, row)) for row in rows)]
    file.write_text("\n".join(lines) + "\n")
    return file


def test_persons_of_a_table(tmp_path: Path) -> None:
    data = load(table(tmp_path), "kind", group="user", id_column="name")
    assert data.groups.tolist() == [row[0] for row in PEOPLE_ROWS]
    assert data.feature_names == ("height",)
    assert any("3 persons by column 'user', 1 to 3 records each" in note for note in data.notes)


def test_without_the_option_the_column_is_a_feature_and_nobody_has_two_records(
    tmp_path: Path,
) -> None:
    data = load(table(tmp_path), "kind", id_column="name")
    assert data.groups is None
    assert any(name.startswith("user=") for name in data.feature_names)


def test_persons_by_number_are_named_as_they_look(tmp_path: Path) -> None:
    rows = [(at // 2, *row[1:]) for at, row in enumerate(PEOPLE_ROWS)]
    data = load(table(tmp_path, rows), "kind", group="user", id_column="name")
    assert data.groups is not None and data.groups.tolist() == ["0", "0", "1", "1", "2", "2"]


def test_persons_of_an_archive(tmp_path: Path) -> None:
    file = tmp_path / "people.npz"
    rng = np.random.default_rng(0)
    owner = np.array([3, 3, 1, 2, 1, 3])
    np.savez(file, X=rng.normal(size=(6, 2)), y=np.arange(6) % 2, who=owner)
    data = load(file, group="who")
    assert data.groups is not None and data.groups.tolist() == owner.astype(str).tolist()
    with pytest.raises(InputError, match="group='owner' is not a column of"):
        load(file, group="owner")
    with pytest.raises(InputError, match="group='y' is also the label"):
        load(file, group="y")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": "usr"}, "group='usr' is not a column of .*Did you mean 'user'"),
        ({"group": "kind"}, "group='kind' is also the label"),
        ({"group": "name", "id_column": "name"}, "group='name' is also the id column"),
    ],
)
def test_columns_that_cannot_name_persons(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load(table(tmp_path), "kind", **{"id_column": "name", **options})


def test_a_record_of_nobody_is_refused(tmp_path: Path) -> None:
    rows = [*PEOPLE_ROWS[:3], ("", 4.5, "b", "r3"), *PEOPLE_ROWS[4:]]
    with pytest.raises(InputError, match="group 'user' is missing in 1 of 6 records, .* at row 3"):
        load(table(tmp_path, rows), "kind", group="user", id_column="name")


@given(st.lists(st.integers(0, 6), min_size=2, max_size=40), st.integers(2, 40), st.integers(0, 9))
def test_a_subset_holds_whole_persons(owner: list[int], rows: int, seed: int) -> None:
    groups = np.array(owner)
    counts = np.bincount(groups)
    if rows < counts[counts > 0].min():
        with pytest.raises(InputError, match="smallest person"):
            choose_persons(groups, rows, seed)
        return
    chosen = choose_persons(groups, rows, seed)
    assert 0 < len(chosen) <= rows
    assert (np.diff(chosen) > 0).all()
    kept = np.isin(np.arange(len(groups)), chosen)
    for person in np.unique(groups):
        assert kept[groups == person].all() or not kept[groups == person].any()
    # Nobody else would still have fitted.
    left = counts[np.setdiff1d(groups, groups[chosen])]
    assert not len(left) or left.min() > rows - len(chosen)


def test_rows_of_a_table_and_of_a_dataset_agree(tmp_path: Path) -> None:
    file = table(tmp_path)
    whole = load(file, "kind", group="user", id_column="name")
    cut = load(file, "kind", group="user", id_column="name", rows=4, seed=2)
    assert cut.ids.tolist() == subset(whole, 4, 2).ids.tolist()
    assert cut.groups is not None and len(cut.groups) == len(cut.ids)
