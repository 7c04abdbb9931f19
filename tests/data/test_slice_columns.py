"""Columns that cut the records: values, quarters, gaps, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from lethe.data.tables import load
from lethe.errors import InputError


def table(tmp_path, text):
    path = tmp_path / "people.csv"
    path.write_text(text)
    return path


ROWS = "age,sex,hired,y\n" + "".join(
    f"{age},{'fm'[age % 2]},{age % 3},{'ab'[age // 3 % 2]}\n" for age in range(20, 60)
)


def test_text_and_few_numbers_are_taken_as_they_are(tmp_path):
    data = load(table(tmp_path, ROWS), "y", slices=["sex", "hired"])
    assert data.slices["sex"].tolist()[:3] == ["f", "m", "f"]
    assert sorted(set(data.slices["hired"].tolist())) == ["0", "1", "2"]
    assert "sex=f" in data.feature_names or any("sex" in name for name in data.feature_names)


def test_many_numbers_are_cut_into_quarters_without_extremes(tmp_path):
    ages = load(table(tmp_path, ROWS), "y", slices=["age"]).slices["age"]
    names, counts = np.unique(ages, return_counts=True)
    assert counts.tolist() == [10, 10, 10, 10]
    assert sorted(names) == ["29.75 to 39.5", "39.5 to 49.25", "49.25 and more", "below 29.75"]


def test_slices_follow_a_subset(tmp_path):
    data = load(table(tmp_path, ROWS), "y", rows=15, slices=["sex"])
    rows = data.ids.astype(int)
    assert data.slices["sex"].tolist() == ["fm"[(20 + row) % 2] for row in rows]


def test_gaps_are_a_group_of_their_own(tmp_path):
    text = "a,s,y\n" + "".join(f"{n},{'' if n < 4 else 'x'},{'pq'[n % 2]}\n" for n in range(20))
    slices = load(table(tmp_path, text), "y", slices=["s"]).slices["s"]
    assert slices.tolist().count("missing") == 4


def test_unknown_columns_are_refused(tmp_path):
    with pytest.raises(InputError, match="slice='sx' is not a column of .*Did you mean 'sex'"):
        load(table(tmp_path, ROWS), "y", slices=["sx"])


def test_slices_are_for_tables(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, X=np.zeros((9, 2)), y=np.arange(9) % 2)
    with pytest.raises(InputError, match="slice='s' is for tables"):
        load(path, slices=["s"])
    with pytest.raises(InputError, match="slice=.*is for files"):
        load("digits", slices=["s"])
