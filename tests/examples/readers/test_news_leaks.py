"""Layout and leaks: every missing file and every planted leak is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import compute, parquet
from readers.ebnerd import prepare_news
from readers.layout import check_layout
from readers.synthetic import write_synthetic_news

from lethe.errors import InputError


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete synthetic folder, not to be written to."""
    return write_synthetic_news(tmp_path_factory.mktemp("leaks") / "raw", 40, 40, seed=5)


@pytest.fixture
def raw(whole: Path, tmp_path: Path) -> Path:
    """A copy of it to break."""
    return shutil.copytree(whole, tmp_path / "raw")


def change(path: Path, name: str, how) -> None:
    """Put another column in place of one."""
    table = parquet.read_table(path)
    at = table.schema.get_field_index(name)
    parquet.write_table(table.set_column(at, name, how(table[name].combine_chunks())), path)


def later(by: int):
    """A column of times moved by so many microseconds."""

    def moved(column):
        kind = column.type
        return compute.add(column.cast(pa.int64()), by).cast(kind)

    return moved


def test_a_whole_folder_has_no_problem(whole: Path):
    layout = check_layout(whole)
    assert layout.problems == () and len(layout.files) == 5
    absent = {file.name: file.absent for file in layout.files}
    assert "total_read_time" in absent["articles.parquet"]  # known, not needed, not made up
    assert all(file.rows for file in layout.files)


def test_everything_that_is_missing_is_named_at_once(raw: Path):
    (raw / "train" / "history.parquet").unlink()
    (raw / "articles.parquet").write_bytes(b"no parquet")
    path = raw / "train" / "behaviors.parquet"
    gone = ["next_read_time", "is_sso_user"]
    parquet.write_table(parquet.read_table(path).drop_columns(gone), path)
    change(raw / "validation" / "history.parquet", "user_id", lambda one: one.cast(pa.string()))
    with pytest.raises(InputError) as caught:
        prepare_news(raw, raw.parent / "out")
    for words in (
        "train/history.parquet: is missing",
        "articles.parquet: is not readable parquet",
        "train/behaviors.parquet: lacks 'is_sso_user', 'next_read_time'",
        "validation/history.parquet: 'user_id' has the type string",
        "recsys.eb.dk",
    ):
        assert words in str(caught.value)
    assert not (raw.parent / "out").exists()
    with pytest.raises(InputError, match="is not a folder"):
        check_layout(raw / "nowhere")


def test_a_row_in_both_weeks_is_refused_unless_allowed(raw: Path):
    first = parquet.read_table(raw / "train" / "behaviors.parquet")["impression_id"][0].as_py()

    def planted(column):
        values = column.to_numpy().copy()
        values[3] = first
        return pa.array(values, column.type)

    change(raw / "validation" / "behaviors.parquet", "impression_id", planted)
    with pytest.raises(InputError, match="impressions in both windows: 1 of"):
        prepare_news(raw, raw.parent / "out")
    found = prepare_news(raw, raw.parent / "out", allow_leaks=True)
    check = {one["name"]: one for one in found.meta["checks"]}["impressions in both windows"]
    assert check["found"] == 1 and not check["allowed"]


@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_history_that_reaches_into_its_window_is_refused(raw: Path, split: str):
    path = raw / split / "history.parquet"
    table = parquet.read_table(path)
    times = table["impression_time_fixed"].to_pylist()
    window = parquet.read_table(raw / split / "behaviors.parquet")["impression_time"]
    times[0][-1] = compute.min(window).as_py()
    at = table.schema.get_field_index("impression_time_fixed")
    kind = table.schema.field(at).type
    parquet.write_table(table.set_column(at, "impression_time_fixed", pa.array(times, kind)), path)
    with pytest.raises(InputError, match=f"{split} history items in or after its window: 1 of"):
        prepare_news(raw, raw.parent / "out")
    assert not (raw.parent / "out" / "meta.json").exists()


def test_an_impression_twice_is_refused(raw: Path):
    path = raw / "train" / "behaviors.parquet"
    table = parquet.read_table(path)
    parquet.write_table(pa.concat_tables([table, table.slice(0, 2)]), path)
    with pytest.raises(InputError, match="2 rows are repeated"):
        prepare_news(raw, raw.parent / "out")


def test_a_person_without_history_is_left_out_and_counted(raw: Path, tmp_path: Path):
    path = raw / "train" / "history.parquet"
    table = parquet.read_table(path)
    gone = table["user_id"][0].as_py()
    parquet.write_table(table.slice(1), path)
    found = prepare_news(raw, tmp_path / "out", blind=0)
    window = found.window("train")
    assert found.meta["windows"]["train"]["without_history"] == 1
    assert gone not in window.users["id"]
    users = parquet.read_table(raw / "train" / "behaviors.parquet")["user_id"].to_numpy()
    assert found.meta["windows"]["train"]["impressions"] == int((users != gone).sum())


def test_an_unknown_article_gets_the_last_row(raw: Path, tmp_path: Path):
    path = raw / "articles.parquet"
    table = parquet.read_table(path)
    clicked = parquet.read_table(raw / "train" / "behaviors.parquet")["article_ids_clicked"]
    lost = clicked.to_pylist()[0][0]
    parquet.write_table(table.filter(compute.not_equal(table["article_id"], lost)), path)
    found = prepare_news(raw, tmp_path / "out", blind=0)
    window = found.window("train")
    unknown = np.flatnonzero(window.rows["article"] == found.meta["articles"])
    assert len(unknown)
    batch = window.batch(unknown)
    assert not batch.category.any() and not batch.kind.any()
    assert np.unique(batch.article, axis=0).tolist() == [[0, 0.5, 0, 0, 0]]
