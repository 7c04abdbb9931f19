"""Built-in sets, tables and archives become data sets; odd ones are refused with a way out.

Small enough that each expected number was worked by hand.
"""

import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from lethe.data.tables import encode_labels, encode_number, encode_targets, encode_text, load
from lethe.errors import InputError


def table(tmp_path: Path, **columns: Any) -> Path:
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def refusal(path: str | Path, *args: Any, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(path, *args, **options)
    return str(caught.value)


def text_table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(text)
    return path


X = np.array([[0, 1], [2, 3], [4, 5], [6, 7]], dtype=np.float32)
Y = np.array([3, 5, 3, 5])


def archive(tmp_path: Path, **arrays: Any) -> Path:
    np.savez(tmp_path / "t.npz", **arrays)
    return tmp_path / "t.npz"


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no label": ({}, {}, "--label.*'a', 'y'"),
    "no such label": ({"y": [0, 1]}, {"label": "z"}, "label='z' is not a column"),
    "dropped label": ({}, {"label": "y", "drop": ["y"]}, "Take it out of drop"),
    "gap in the label": (
        {"y": ["p", None, "q", None]},
        {"label": "y"},
        "missing in 2 of 4 records, the first at row 1.*Remove",
    ),
    "one class": ({"y": [1, 1, 1]}, {"label": "y"}, "all '1'"),
    "numbers": ({"y": [0.5, 1.0, 0.25, 7.0] * 5}, {"label": "y"}, "--task regression"),
    "many numbers": ({"y": np.arange(20)}, {"label": "y"}, "--task regression"),
    "names": ({"y": list("abcdefghij")}, {"label": "y"}, "names records.*merge its values.$"),
    "one target": (
        {"y": [2.5] * 4},
        {"label": "y", "task": "regression"},
        r"are all 2\.5: there is nothing to predict",
    ),
    "task": ({}, {"label": "y", "task": "regresion"}, "Did you mean 'regression'"),
    "infinite": (
        {"a": [1.0, float("inf"), 2.0, 0.0]},
        {"label": "y"},
        "'a' has 1 infinite values, the first at row 1.*--drop 'a'",
    ),
    "gaps": (
        {f"g{at}": [1.0, None, 3.0, 4.0] for at in range(6)},
        {"label": "y"},
        "'g0' in 1, .*and 1 more columns of 4 records.*--missing impute.*--drop NAME",
    ),
    "missing": ({}, {"label": "y", "missing": "drop"}, "must be one of 'refuse', 'impute'"),
    "slice": ({}, {"label": "y", "slices": ["aa"]}, "slice='aa' is not a column.*Did you mean 'a'"),
    "rows": ({}, {"label": "y", "rows": 101}, "rows=101 is more than the 4 records"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_odd_tables_are_refused(case: str, tmp_path: Path) -> None:
    columns, options, why = REFUSED[case]
    size = len(next(iter(columns.values()), [0] * 4))
    given = {"a": np.arange(size) % 3, "y": np.arange(size) % 2, **columns}
    message = refusal(table(tmp_path, **given), **options)
    assert re.search(why, message) and "\n" not in message


@pytest.mark.parametrize(
    ("target", "options", "why"),
    [
        ("digit", {}, "Did you mean 'digits'.*'breast-cancer', 'diabetes', 'digits'"),
        ("no/people.csv", {"label": "y"}, "does not exist"),
        ("no/people", {"label": "y"}, "does not exist"),
        ("digits", {"label": "y"}, r"label='y' is for files.*\./digits\.csv"),
        ("digits", {"id_column": "i"}, "id_column='i' is for files"),
        ("digits", {"drop": ("a",)}, "drop=.* is for files"),
        ("digits", {"group": "user"}, "group='user' is for files"),
        ("digits", {"slices": ["s"]}, "slice=.*is for files"),
        ("digits", {"rows": 5000}, "rows=5000 is more than the 1797 records"),
        ("digits", {"task": "regression"}, "does not fit the built-in set 'digits'"),
        ("diabetes", {"task": "classification"}, "does not fit .* 'diabetes'"),
        ("x.npz", {"slices": ["s"]}, "slice='s' is for tables"),
    ],
)
def test_targets_and_options_that_do_not_fit(
    target: str, options: dict[str, Any], why: str, tmp_path: Path
) -> None:
    archive(tmp_path, X=X, y=Y)
    (tmp_path / "t.npz").rename(tmp_path / "x.npz")
    path = tmp_path / target if "." in target or "/" in target else target
    assert re.search(why, refusal(path, **options))


def test_small_table(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,job,y\n10,nurse,no\n30,cook,yes\n10,cook,no\n30,cook,yes\n")
    data = load(path, "y")
    flags = table(tmp_path, f=[True, False, True, True], y=[0, 1, 0, 1])
    assert load(flags, "y").feature_names == ("f=False", "f=True")
    assert data.feature_names == ("age", "job=cook", "job=nurse")
    assert data.features.tolist() == [[-1, 0, 1], [1, 1, 0], [-1, 1, 0], [1, 1, 0]]
    assert data.labels.tolist() == [0, 1, 0, 1] and data.classes == ("no", "yes")
    assert data.ids.tolist() == ["0", "1", "2", "3"]
    assert data.name == "people" and data.source == "people.csv, label 'y'"


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


@pytest.mark.parametrize(
    "column",
    [
        *(np.array([1, 3], kind) for kind in (np.float16, np.float32, np.int8, np.uint64)),
        *(np.array([-size, size]) for size in (1e308, 1e-308, 1e-320)),
    ],
)
def test_numbers_of_any_type_and_size(column: np.ndarray) -> None:
    part = encode_number("a", column)
    assert part.values.dtype == np.float32
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


def test_subset_may_lack_a_class(tmp_path: Path) -> None:
    path = table(tmp_path, a=list(range(100)), y=["rare"] + ["p", "q", "q"] * 33)
    data = load(path, "y", rows=10, seed=0)
    assert data.classes == ("p", "q") and set(data.labels.tolist()) == {0, 1}


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
        ({"X": X, "y": Y / 2}, "continuous", "--task regression"),
        (
            {"X": X, "y": Y, "ids": np.array([1, 2, 2, 3])},
            "'2' stands 2 times",
            "leave the ids out",
        ),
        ({"X": X, "y": Y, "ids": np.arange(3)}, "'ids' has shape (3,)", "must be (4,)"),
        ({"X": X.astype(float) * 1e300, "y": Y}, "beyond float32", "Fill them"),
        ({"X": np.where(X == 5, np.nan, X), "y": Y}, "column 'x1' of record '2'", "Fill them"),
    ],
)
def test_odd_archives_are_refused(
    tmp_path: Path, arrays: dict[str, Any], said: str, out: str
) -> None:
    message = refusal(archive(tmp_path, **arrays))
    assert said in message and out in message


def standard(features: np.ndarray) -> None:
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(features.std(axis=0), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("digits", (1797, 64), tuple("0123456789")),
        ("breast-cancer", (569, 30), ("malignant", "benign")),
        ("diabetes", (442, 10), ()),
    ],
)
def test_built_in_sets(name: str, shape: tuple[int, int], classes: tuple[str, ...]) -> None:
    data, part = load(name), load(name, task=load(name).task, rows=60, seed=1)
    assert data.features.shape == shape and data.classes == classes and len(part) == 60
    assert data.task == ("classification" if classes else "regression")
    assert "scikit-learn" in data.source
    if name == "digits":
        assert data.features.min() == 0 and data.features.max() == 1 and part.classes == classes
    else:  # scaled by themselves, and not by the records left out
        standard(data.features)
        standard(part.features)
    if not classes:
        assert data.labels.min() == 25 and data.labels.max() == 346


AGES = "age,sex,hired,y\n" + "".join(
    f"{age},{'fm'[age % 2]},{age % 3},{'ab'[age // 3 % 2]}\n" for age in range(20, 60)
)


def test_slices_are_texts_few_numbers_or_quarters(tmp_path: Path) -> None:
    data = load(text_table(tmp_path, AGES), "y", rows=39, slices=["sex", "hired", "age"])
    rows = data.ids.astype(int)
    assert data.slices["sex"].tolist() == ["fm"[(20 + row) % 2] for row in rows]
    assert data.slices["hired"].tolist() == [str((20 + row) % 3) for row in rows]
    assert len(np.unique(data.slices["age"])) == 4
    names, counts = np.unique(
        load(text_table(tmp_path, AGES), "y", slices=["age"]).slices["age"], return_counts=True
    )
    assert counts.tolist() == [10, 10, 10, 10]
    assert sorted(names) == ["29.75 to 39.5", "39.5 to 49.25", "49.25 and more", "below 29.75"]


def test_gaps_are_a_group_of_their_own(tmp_path: Path) -> None:
    text = "a,s,y\n" + "".join(f"{n},{'' if n < 4 else 'x'},{'pq'[n % 2]}\n" for n in range(20))
    slices = load(text_table(tmp_path, text), "y", slices=["s"]).slices["s"]
    assert slices.tolist().count("missing") == 4


def test_a_duckdb_file_is_a_table(tmp_path: Path) -> None:
    path = table(tmp_path, a=[1, 2, 1, 2], y=["p", "q", "q", "p"])
    with duckdb.connect(str(tmp_path / "people.duckdb")) as base:
        base.execute(f"CREATE TABLE people AS FROM '{path}'")
    small, large = load(path, "y"), load(tmp_path / "people.duckdb", "y")
    assert (small.features == large.features).all() and (small.labels == large.labels).all()
