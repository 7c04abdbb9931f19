"""What is known of an article before anybody reads it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from readers.history import Index, numbers, whole_numbers

CATEGORIES, TYPES = 32, 16
"""Rows of the two embedding tables; row 0 stands for all that is rare or unknown."""

ARTICLE_NUMBERS = ("premium", "sentiment", "log body", "log title", "log subtitle")
_READ = ("article_id", "category", "article_type", "premium", "sentiment_score")
_TEXTS = ("body", "title", "subtitle")


@dataclass(frozen=True, eq=False)
class Articles:
    """Articles by ascending id; the last row stands for an article that the table does not have.

    Attributes:
        ids: (articles,) without the last row.
        category: (articles + 1,) row of the embedding table, below 32.
        kind: (articles + 1,) the same for the article type, below 16.
        numbers: (articles + 1, 5) premium (0 or 1), sentiment score (0.5 if missing), and
            log(1 + characters) of body, title and subtitle.
        categories: codes of the rows 1, 2, ... of the table of categories.
        kinds: the same for the types.
    """

    ids: Index
    category: Index
    kind: Index
    numbers: NDArray[np.float32]
    categories: tuple[str, ...]
    kinds: tuple[str, ...]

    def find(self, article: Index) -> Index:
        """Row of each id (n,); the last row where it is not in the table."""
        place = np.minimum(np.searchsorted(self.ids, article), len(self.ids) - 1)
        return np.where(self.ids[place] == article, place, len(self.ids))


def read_articles(path: str | Path, batch: int = 8192) -> Articles:
    """Read ``articles.parquet``; the texts are streamed and only their lengths are kept.

    The 31 commonest categories and the 15 commonest types have a row of their own (of equal counts
    the smaller code first); the rest share row 0.

    Args:
        path: the file; checked by `check_layout`.
        batch: articles read at once.

    Raises:
        InputError: an article twice, or without an id.
    """
    import pyarrow as pa
    from pyarrow import compute, parquet

    ids: list[Index] = []
    values: list[NDArray[np.float32]] = []
    codes: tuple[list[str], list[str]] = ([], [])
    with parquet.ParquetFile(path) as file:
        for part in file.iter_batches(batch, columns=[*_READ, *_TEXTS]):
            ids.append(whole_numbers(part.column("article_id")))
            for name, known in zip(("category", "article_type"), codes, strict=True):
                known += compute.fill_null(part.column(name).cast(pa.string()), "").to_pylist()
            sentiment = numbers(part.column("sentiment_score"))
            stacked = [
                np.nan_to_num(numbers(part.column("premium").cast(pa.int8()))),
                np.where(np.isnan(sentiment), 0.5, sentiment),
                *(_log_length(compute, part.column(name)) for name in _TEXTS),
            ]
            values.append(np.stack(stacked, axis=1).astype(np.float32))
    every = np.concatenate(ids)
    order = np.argsort(every, kind="stable")
    every = every[order]
    if (every < 0).any() or (np.diff(every) == 0).any():
        raise InputError(f"{path}: article_id must be there and unique. Repair or remove the rows.")
    category, categories = _table(codes[0], CATEGORIES, order)
    kind, kinds = _table(codes[1], TYPES, order)
    unknown = np.array([[0, 0.5, 0, 0, 0]], np.float32)
    features = np.concatenate([np.concatenate(values)[order], unknown])
    return Articles(every, category, kind, features, categories, kinds)


def _log_length(compute: Any, texts: Any) -> NDArray[np.float64]:
    return np.log1p(numbers(compute.fill_null(compute.utf8_length(texts), 0)))


def _table(codes: list[str], rows: int, order: Index) -> tuple[Index, tuple[str, ...]]:
    """Row of an embedding table for each article and the unknown one, and the names of the rows."""
    counts = Counter(code for code in codes if code)
    common = sorted(counts, key=lambda code: (-counts[code], len(code), code))[: rows - 1]
    place = {code: at for at, code in enumerate(common, 1)}
    found = np.array([place.get(code, 0) for code in codes], np.int64)[order]
    return np.append(found, 0), tuple(common)
