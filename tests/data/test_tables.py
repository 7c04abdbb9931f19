"""Tables become standardised numbers and one feature a level; odd ones are refused with a way out.

Small enough that each expected number was worked by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lethe.data.tables import encode_labels, encode_number, encode_targets, encode_text, load
from lethe.errors import InputError


def table(tmp_path: Path, **columns: Any) -> Path:
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def refusal(path: Path, *args: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(path, *args, **options)
    return str(caught.value)


def test_small_table(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,job,y\n10,nurse,no\n30,cook,yes\n10,cook,no\n30,cook,yes\n")
    data = load(path, "y")
    assert data.feature_names == ("age", "job=cook", "job=nurse")
    assert data.features.tolist() == [[-1, 0, 1], [1, 1, 0], [-1, 1, 0], [1, 1, 0]]
    assert data.labels.tolist() == [0, 1, 0, 1] and data.classes == ("no", "yes")
    assert data.ids.tolist() == ["0", "1", "2", "3"]
    assert data.name == "people" and data.source == "people.csv, label 'y'"


def test_label_is_needed(tmp_path: Path) -> None:
    path = table(tmp_path, age=[1, 2], income=["a", "b"])
    message = refusal(path)
    assert "--label" in message and "'age', 'income'" in message
    message = refusal(path, "incme")
    assert "label='incme'" in message and "Did you mean 'income'?" in message
    assert "Take it out of drop" in refusal(path, "income", drop=["income"])


def test_missing_labels(tmp_path: Path) -> None:
    path = table(tmp_path, a=[1, 2, 3, 4], y=["p", None, "q", None])
    message = refusal(path, "y")
    assert "missing in 2 of 4 records, the first at row 1" in message and "Remove" in message


@pytest.mark.parametrize(
    ("column", "classes"),
    [
        (np.array([10, 9, 10, 9]), ("9", "10")),
        (np.array([1.0, 0.0, 1.0, 0.0], dtype=np.float16), ("0", "1")),
        (np.array([True, False, True, True]), ("False", "True")),
        (np.array(["b", "a", "b", "a"], dtype=object), ("a", "b")),
    ],
)
def test_label_kinds(column: np.ndarray, classes: tuple[str, ...]) -> None:
    codes, names = encode_labels("y", column)
    assert names == classes
    assert codes.tolist() == [list(classes).index(str(value).replace(".0", "")) for value in column]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (np.array([0.5, 1.0, 0.5]), "continuous"),
        (np.array([np.inf, 1.0, 1.0]), "continuous"),
        (np.arange(10), "10 distinct values in 10 records"),
        (np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"), "dates"),
    ],
)
def test_labels_that_are_no_classes(column: np.ndarray, said: str) -> None:
    with pytest.raises(InputError, match=f"label 'y' .*{said}.*(?i:choose|cut)"):
        encode_labels("y", column)


@pytest.mark.parametrize(
    "column", [np.array([0.5, 1.0, 0.25, 7.0] * 5), np.arange(20), np.arange(20) + 0.5]
)
def test_a_number_for_a_label_names_the_way_out(column: np.ndarray) -> None:
    with pytest.raises(InputError, match="--task regression"):
        encode_labels("price", column)


def test_text_for_a_label_does_not() -> None:
    with pytest.raises(InputError) as caught:
        encode_labels("name", np.arange(20).astype(str))
    assert "names records" in str(caught.value) and "regression" not in str(caught.value)


def test_regression_keeps_the_numbers(tmp_path: Path) -> None:
    prices = np.array([1.5, 2.25, -3.0, 1e6, 2.25])
    path = table(tmp_path, size=np.arange(5.0), price=prices)
    data = load(path, "price", task="regression")
    assert data.task == "regression" and data.classes == ()
    assert data.labels.dtype == np.float64 and data.labels.tolist() == prices.tolist()
    part = load(path, "price", task="regression", rows=3, seed=1)
    assert part.labels.tolist() == prices[part.ids.astype(int)].tolist()
    whole = table(tmp_path, size=np.arange(5.0), price=np.array([3, 1, 4, 1, 5]))
    assert load(whole, "price", task="regression").labels.tolist() == [3, 1, 4, 1, 5]


def test_arrays_for_regression(tmp_path: Path) -> None:
    path = tmp_path / "houses.npz"
    np.savez(path, X=np.eye(4, dtype=np.float32), y=np.array([[0.5], [1.5], [2.5], [9.0]]))
    data = load(path, task="regression")
    assert data.classes == () and data.labels.tolist() == [0.5, 1.5, 2.5, 9.0]
    with pytest.raises(InputError, match="--task regression"):
        load(path)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (["a", "b", "a", "b"], "'price' holds text, --task regression needs numbers"),
        ([True, False, True, False], "'price' holds true and false"),
        (np.arange(4).astype("datetime64[D]"), "'price' holds dates"),
        ([1.5, np.nan, 2.0, np.nan], "missing or infinite in 2 of 4 records, the first at row 1"),
        ([1.5, 1.0, np.inf, 0.5], "missing or infinite in 1 of 4 records, the first at row 2"),
    ],
)
def test_targets_that_are_no_numbers(column: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        encode_targets("price", np.asarray(column))


def test_constant_target(tmp_path: Path) -> None:
    path = table(tmp_path, size=np.arange(4.0), price=np.full(4, 2.5))
    with pytest.raises(InputError, match=r"are all 2\.5: there is nothing to predict"):
        load(path, "price", task="regression")


def test_unknown_task(tmp_path: Path) -> None:
    path = table(tmp_path, size=np.arange(4.0), price=np.arange(4))
    with pytest.raises(InputError, match=r"task='regresion' must be .* Did you mean 'regression'"):
        load(path, "price", task="regresion")


def test_single_class(tmp_path: Path) -> None:
    assert "all '1'" in refusal(table(tmp_path, a=[1, 2, 3], y=[1, 1, 1]), "y")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint64])
def test_number_types(dtype: type) -> None:
    part = encode_number("a", np.array([1, 3, 1, 3], dtype=dtype))
    assert part.values.dtype == np.float32 and part.values[:, 0].tolist() == [-1, 1, -1, 1]


@pytest.mark.parametrize("size", [1e308, 1e-308, 1e-320])
def test_numbers_of_any_size(size: float) -> None:
    part = encode_number("a", np.array([-size, size]))
    np.testing.assert_allclose(part.values[:, 0], [-1, 1], rtol=1e-6)


def test_constant_columns_are_dropped(tmp_path: Path) -> None:
    path = table(tmp_path, a=[1, 2, 1, 2], c=[0.1] * 4, t=["x"] * 4, f=[True] * 4, y=[0, 1, 0, 1])
    data = load(path, "y")
    assert data.feature_names == ("a",)
    assert [note for note in data.notes if "in every record" in note] == [
        "Column 'c' is '0.1' in every record and was left out.",
        "Column 't' is 'x' in every record and was left out.",
        "Column 'f' is 'True' in every record and was left out.",
    ]
    assert "no features beside the label" in refusal(path, "y", drop=["a"])


def test_missing_numbers_are_refused_with_both_ways_out(tmp_path: Path) -> None:
    gaps = {f"g{at}": [1.0, None, 3.0, 4.0] for at in range(6)}
    message = refusal(table(tmp_path, **gaps, y=[0, 1, 0, 1]), "y")
    assert "'g0' in 1, " in message and "and 1 more columns of 4 records" in message
    assert "--missing impute" in message and "--drop NAME" in message


def test_impute(tmp_path: Path) -> None:
    path = table(
        tmp_path, a=[1.0, None, 5.0, 3.0], none=pa.nulls(4), same=[2, None, 2, None], y=[0, 1, 0, 1]
    )
    data = load(path, "y", missing="impute")
    assert data.feature_names == ("a", "a missing", "same missing")
    assert data.features[:, 1].tolist() == [0, 1, 0, 0]
    # 1, 3 (the median), 5, 3: mean 3, standard deviation the root of 2
    np.testing.assert_allclose(data.features[:, 0], [-(2**0.5), 0, 2**0.5, 0], rtol=1e-6)
    assert "1 missing values were set to the median" in " ".join(data.notes)
    assert "'none' has no value at all" in " ".join(data.notes)
    assert "missing='drop' must be one of 'refuse', 'impute'" in refusal(path, "y", missing="drop")


def test_infinite_numbers(tmp_path: Path) -> None:
    path = table(tmp_path, a=[1.0, float("inf"), 2.0], y=[0, 1, 0])
    message = refusal(path, "y")
    assert "'a' has 1 infinite values, the first at row 1" in message and "--drop 'a'" in message


def test_dates_count_days() -> None:
    part = encode_number("d", np.array(["2020-01-01", "2020-01-03"], dtype="datetime64[D]"))
    assert part.values[:, 0].tolist() == [-1, 1] and "days" in part.notes[0]
    with_gap = encode_number("d", np.array(["1960-01-01", "NaT", "1970-01-01"], "datetime64[ms]"))
    assert with_gap.names == ("d", "d missing") and np.isfinite(with_gap.values).all()


def test_text_levels() -> None:
    part = encode_text("t", np.array(["b", "", "a", "b"], dtype=object))
    assert part.names == ("t=(missing)", "t=a", "t=b")
    assert part.values.tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert "1 missing values are a level" in part.notes[0]


def test_bool_levels(tmp_path: Path) -> None:
    data = load(table(tmp_path, f=[True, False, True, True], y=[0, 1, 0, 1]), "y")
    assert data.feature_names == ("f=False", "f=True")


def test_many_levels_share_one() -> None:
    cells = [f"{at:03d}" for at in range(60) for _ in range(60 - at)]
    part = encode_text("t", np.array(cells, dtype=object))
    assert len(part.names) == 51 and part.names[0] == "t=000" and part.names[49] == "t=049"
    assert part.names[50] == "t=(other)" and part.values.sum(axis=1).tolist() == [1] * len(cells)
    assert part.values[:, 50].sum() == sum(range(1, 11))
    assert "50 most frequent of 60 levels" in part.notes[0] and "(55 records)" in part.notes[0]


def test_identifier_columns_are_refused_together(tmp_path: Path) -> None:
    path = table(
        tmp_path, name=list("abcdef"), mail=list("uvwxyz"), a=[1, 2, 1, 2, 1, 2], y=[0, 1] * 3
    )
    message = refusal(path, "y")
    assert "'name' has 6, 'mail' has 6 distinct texts" in message
    assert "--drop 'name' --drop 'mail'" in message
    assert load(path, "y", drop=["name", "mail"]).feature_names == ("a",)
    assert load(path, "y", drop=["name"], id_column="mail").ids.tolist() == list("uvwxyz")


def test_whole_numbers_that_may_be_ids_get_a_note(tmp_path: Path) -> None:
    data = load(table(tmp_path, n=[5, 9, 7, 8], y=[0, 1, 0, 1]), "y")
    assert "'n' is a different whole number in each record" in data.notes[0]
    assert "--drop 'n'" in data.notes[0]


def test_id_column(tmp_path: Path) -> None:
    path = table(tmp_path, person=[1.0, 2.0, 2.0, 4.0], a=[1, 2, 1, 2], y=[0, 1, 0, 1])
    message = refusal(path, "y", id_column="person")
    assert "'2' stands 2 times" in message and "leave the ids out" in message
    assert "Did you mean 'person'?" in refusal(path, "y", id_column="persn")
    assert "is also the label" in refusal(path, "y", id_column="y")


def test_rows(tmp_path: Path) -> None:
    path = table(tmp_path, a=list(range(100)), y=[0, 1, 2, 1] * 25)
    data = load(path, "y", rows=10, seed=4)
    again = load(path, "y", rows=10, seed=4)
    assert len(data) == 10 and data.ids.tolist() == again.ids.tolist()
    assert data.ids.tolist() != load(path, "y", rows=10, seed=5).ids.tolist()
    assert [data.classes[code] for code in data.labels] == [
        str([0, 1, 2, 1][int(row) % 4]) for row in data.ids
    ]
    np.testing.assert_allclose(data.features.mean(), 0, atol=1e-6)
    assert "rows=101 is more than the 100 records" in refusal(path, "y", rows=101)


def test_subset_may_lack_a_class(tmp_path: Path) -> None:
    path = table(tmp_path, a=list(range(100)), y=["rare"] + ["p", "q", "q"] * 33)
    data = load(path, "y", rows=10, seed=0)
    assert data.classes == ("p", "q") and set(data.labels.tolist()) == {0, 1}
