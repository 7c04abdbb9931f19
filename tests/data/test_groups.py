"""The column of persons: read, kept out of the features, and refused where it says nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.data.dataset import Dataset, choose_persons, subset
from lethe.data.tables import load
from lethe.errors import InputError

ROWS = [
    # user, height, kind, name
    ("u1", 1.5, "a", "r0"),
    ("u2", 2.5, "b", "r1"),
    ("u1", 3.0, "a", "r2"),
    ("u3", 4.5, "b", "r3"),
    ("u2", 5.0, "a", "r4"),
    ("u2", 6.5, "b", "r5"),
]


def table(path: Path, rows=ROWS) -> Path:
    file = path / "people.csv"
    lines = ["user,height,kind,name", *(",".join(map(str, row)) for row in rows)]
    file.write_text("\n".join(lines) + "\n")
    return file


def test_persons_of_a_table(tmp_path):
    data = load(table(tmp_path), "kind", group="user", id_column="name")
    assert data.groups is not None
    assert data.groups.tolist() == [row[0] for row in ROWS]
    assert data.feature_names == ("height",)
    assert any("3 persons by column 'user', 1 to 3 records each" in note for note in data.notes)


def test_without_the_option_the_column_is_a_feature_and_nobody_has_two_records(tmp_path):
    data = load(table(tmp_path), "kind", id_column="name")
    assert data.groups is None
    assert any(name.startswith("user=") for name in data.feature_names)


def test_persons_by_number_are_named_as_they_look(tmp_path):
    rows = [(at // 2, *row[1:]) for at, row in enumerate(ROWS)]
    data = load(table(tmp_path, rows), "kind", group="user", id_column="name")
    assert data.groups is not None and data.groups.tolist() == ["0", "0", "1", "1", "2", "2"]


def test_persons_of_an_archive(tmp_path):
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
def test_columns_that_cannot_name_persons(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        load(table(tmp_path), "kind", **{"id_column": "name", **options})


def test_a_record_of_nobody_is_refused(tmp_path):
    rows = [*ROWS[:3], ("", 4.5, "b", "r3"), *ROWS[4:]]
    with pytest.raises(InputError, match="group 'user' is missing in 1 of 6 records, .* at row 3"):
        load(table(tmp_path, rows), "kind", group="user", id_column="name")


def test_built_in_sets_name_no_persons():
    with pytest.raises(InputError, match="group='user' is for files"):
        load("digits", group="user")


def test_a_dataset_checks_its_persons():
    fields = {
        "name": "toy",
        "features": np.zeros((3, 1), np.float32),
        "labels": np.array([0, 1, 0]),
        "classes": ("a", "b"),
        "ids": np.array(["0", "1", "2"]),
        "feature_names": ("x",),
        "source": "toy",
    }
    with pytest.raises(InputError, match=r"groups of 'toy' have shape \(2,\)"):
        Dataset(**fields, groups=np.array(["a", "b"]))
    with pytest.raises(InputError, match="groups of 'toy' are empty for 1 records"):
        Dataset(**fields, groups=np.array(["a", "", "b"]))


@given(st.lists(st.integers(0, 6), min_size=2, max_size=40), st.integers(2, 40), st.integers(0, 9))
def test_a_subset_holds_whole_persons(owner, rows, seed):
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


def test_rows_of_a_table_and_of_a_dataset_agree(tmp_path):
    file = table(tmp_path)
    whole = load(file, "kind", group="user", id_column="name")
    cut = load(file, "kind", group="user", id_column="name", rows=4, seed=2)
    assert cut.ids.tolist() == subset(whole, 4, 2).ids.tolist()
    assert cut.groups is not None and len(cut.groups) == len(cut.ids)
