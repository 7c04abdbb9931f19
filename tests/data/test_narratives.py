"""Texts with codes: what is read, what is merged or left out, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lethe.data.text import Narratives, load_narratives
from lethe.errors import InputError

ROWS = [
    ("he cut his hand", 10, "TX", "a"),
    ("  burnt by oven ", 20, "NY", "b"),
    ("fell, from a ladder", 10, "TX", "a"),
    ("he cut his hand", 10, "NY", "c"),
    ("crushed foot", 30, "TX", "d"),
    ("burnt by acid", 20, "TX", "d"),
]
TEXTS, CODES, STATES, WHO = map(list, zip(*ROWS, strict=True))


def table(folder: Path, **changed: Any) -> Path:
    path = folder / "injuries.parquet"
    columns = {"text": TEXTS, "code": CODES, "state": STATES, "who": WHO, **changed}
    pq.write_table(pa.table({key: value for key, value in columns.items() if value}), path)
    return path


def load(
    path: Path, text: str | None = "text", label: str | None = "code", **on: Any
) -> Narratives:
    return load_narratives(path, text, label, **on)


def refusal(path: Path, *names: str | None, **on: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(path, *names, **on)
    return str(caught.value)


def test_a_small_table(tmp_path: Path) -> None:
    found = load(table(tmp_path))
    assert found.texts == (TEXTS[0], "burnt by oven", *TEXTS[2:])
    assert found.classes == ("10", "20", "30") and found.labels.tolist() == [0, 1, 0, 0, 2, 1]
    assert found.ids.tolist() == list("012345") and len(found) == 6
    assert "2 records share their text word for word" in found.notes[1]
    assert found.notes[0].startswith("1 of 3 classes have a single record and are kept")
    assert "text 'text', label 'code'" in found.source and str(tmp_path) not in found.source


def test_csv_and_parquet_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "injuries.csv"
    lines = [f'"{text}",{code},{state},{who}' for text, code, state, who in ROWS]
    path.write_text("\n".join(["text,code,state,who", *lines]) + "\n")
    one, two = load(path), load(table(tmp_path))
    assert one.texts == two.texts and (one.labels == two.labels).all()
    assert one.classes == two.classes and one.notes == two.notes


def test_the_data_set_has_vectors_for_texts(tmp_path: Path) -> None:
    found = load(table(tmp_path), slices=["state"], group="who", id_column=None)
    vectors = np.arange(12, dtype=np.float32).reshape(6, 2)
    data = found.dataset(vectors, "encoder")
    assert data.features is vectors and data.feature_names == ("encoder 0", "encoder 1")
    assert data.slices["state"].tolist() == STATES
    assert data.groups is not None and data.groups.tolist() == WHO


def test_rare_classes_become_one(tmp_path: Path) -> None:
    columns: dict[str, Any] = {"state": None, "who": None, "text": [f"t {at}" for at in range(9)]}
    path = table(tmp_path, code=[1, 1, 2, 3, 3, 4, 1, 3, 3], **columns)
    found = load(path, min_class_size=2)
    assert found.classes == ("1", "3", "other (rare)")
    assert found.labels.tolist() == [0, 0, 2, 1, 1, 2, 0, 1, 1]
    assert found.notes[0].startswith("2 classes with fewer than 2 records each (2 records)")
    assert load(path, min_class_size=1).classes == ("1", "2", "3", "4")
    assert "more than the 4 records of the largest" in refusal(path, min_class_size=5)


def test_a_lone_rare_class_keeps_its_name(tmp_path: Path) -> None:
    found = load(table(tmp_path), min_class_size=2)
    assert found.classes == ("10", "20", "30")


def test_a_class_of_that_name_is_no_trouble(tmp_path: Path) -> None:
    codes = ["other (rare)"] * 3 + ["x"] * 3 + ["y", "z"]
    columns: dict[str, Any] = {"state": None, "who": None, "text": [f"t {at}" for at in range(8)]}
    found = load(table(tmp_path, code=codes, **columns), min_class_size=2)
    assert found.classes == ("other (rare)", "x", "other (rare)*")


def test_rows_without_text(tmp_path: Path) -> None:
    path = table(tmp_path, text=["a b", "", "c", "   ", None, "d"], code=[1, 2, 1, 2, 1, 2])
    said = refusal(path)
    assert "empty in 3 of 6 records" in said and "rows 2, 4, 5 " in said
    assert "--missing leave-out" in said
    found = load(path, missing="leave-out", slices=["state"], id_column=None)
    assert found.texts == ("a b", "c", "d") and found.ids.tolist() == ["0", "2", "5"]
    assert found.labels.tolist() == [0, 0, 1] and found.notes[0].startswith("3 records without")
    assert found.slices["state"].tolist() == ["TX", "TX", "TX"]
    none = table(tmp_path, text=[" "] * 6)
    assert "empty in every record" in refusal(none, missing="leave-out")


def test_rows_are_named_with_gaps_left_out_and_a_subset(tmp_path: Path) -> None:
    names = [f"r{at}" for at in range(40)]
    texts = ["" if at % 4 == 0 else f"text {at}" for at in range(40)]
    path = table(tmp_path, text=texts, code=[at % 2 for at in range(40)], state=names, who=None)
    found = load(path, missing="leave-out", rows=12, seed=3, id_column="state")
    assert len(found) == 12
    for name, text, label in zip(found.ids, found.texts, found.labels, strict=True):
        at = int(name[1:])
        assert text == f"text {at}" and found.classes[label] == str(at % 2)
    assert "12 of 30 records, chosen at random with seed 3." in found.notes


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ((None, "code"), "name it with --text. Columns: 'text', 'code', 'state', 'who'"),
        (("text", None), "name it with --label"),
        (("txt", "code"), "Did you mean 'text'"),
        (("text", "coda"), "Did you mean 'code'"),
        (("text", "text"), "also the label"),
        (("code", "state"), "holds int64, no text"),
    ],
)
def test_columns_that_are_not_there_or_do_not_fit(
    tmp_path: Path, names: tuple[str | None, str | None], says: str
) -> None:
    assert says in refusal(table(tmp_path), *names)


def test_other_options_that_do_not_fit(tmp_path: Path) -> None:
    path = table(tmp_path)
    assert "must be one of 'refuse', 'leave-out'" in refusal(path, missing="impute")
    assert "min_class_size=0 must be at least 1" in refusal(path, min_class_size=0)
    assert "also the label" in refusal(path, id_column="code")
    assert "also the text" in refusal(path, group="text")
    assert "not unique" in refusal(path, id_column="who")
    assert "read from .csv or .parquet" in refusal(tmp_path / "texts.npz")
    assert "does not exist" in refusal(tmp_path / "absent.csv")
