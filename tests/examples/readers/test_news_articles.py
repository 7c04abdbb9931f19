"""Articles: what is missing, what is rare, and what the table does not have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from readers.articles import read_articles

from lethe.errors import InputError


def write(path: Path, **change: list) -> Path:
    """Four articles, in no order."""
    columns: dict[str, list] = {
        "article_id": [30, 10, 20, 40],
        "title": ["abc", "", None, "æø"],
        "subtitle": ["x", "y", "z", None],
        "body": ["b" * 99, None, "bb", ""],
        "category": [7, 7, 3, None],
        "article_type": ["a", "b", "b", None],
        "premium": [True, False, None, True],
        "sentiment_score": [0.25, None, 0.75, 0.5],
    }
    parquet.write_table(pa.table(columns | change), path)
    return path


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_by_hand(tmp_path: Path, batch: int):
    found = read_articles(write(tmp_path / "articles.parquet"), batch)
    assert found.ids.tolist() == [10, 20, 30, 40]
    assert found.categories == ("7", "3") and found.kinds == ("b", "a")
    assert found.category.tolist() == [1, 2, 1, 0, 0]  # 40 has none, the last is unknown
    assert found.kind.tolist() == [1, 1, 2, 0, 0]
    log = np.log1p
    wanted = [
        [0, 0.5, log(0), log(0), log(1)],
        [0, 0.75, log(2), log(0), log(1)],
        [1, 0.25, log(99), log(3), log(1)],
        [1, 0.5, log(0), log(2), log(0)],  # letters, not bytes
        [0, 0.5, 0, 0, 0],
    ]
    assert found.numbers == pytest.approx(np.array(wanted), rel=1e-6)
    assert found.find(np.array([40, 5, 10, 99, 25])).tolist() == [3, 4, 0, 4, 4]


def test_the_rare_share_row_0(tmp_path: Path):
    """33 categories with 1 or 2 articles each: 31 have a row, of equal counts the smaller code."""
    codes = [*range(1, 34), 33, 32]
    n = len(codes)
    path = tmp_path / "articles.parquet"
    given = write(path, article_id=[1, 2, 3, 4])
    one = parquet.read_table(given).to_pydict()
    many = {name: [values[0]] * n for name, values in one.items()}
    parquet.write_table(pa.table(many | {"article_id": list(range(n)), "category": codes}), path)
    found = read_articles(path)
    assert found.categories == ("32", "33", *map(str, range(1, 30)))
    assert len(found.categories) == 31 and found.category.max() == 31
    assert found.category[[29, 30]].tolist() == [0, 0]  # codes 30 and 31


def test_articles_twice_or_without_id_are_refused(tmp_path: Path):
    for ids in ([1, 1, 2, 3], [1, None, 2, 3]):
        with pytest.raises(InputError, match="must be there and unique"):
            read_articles(write(tmp_path / "articles.parquet", article_id=ids))
