"""What people read before a window: lists of one row a person, streamed as flat arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError

Float = NDArray[np.float64]
Index = NDArray[np.int64]

_LISTS = ("impression_time", "article_id", "read_time", "scroll_percentage")


@dataclass(frozen=True, eq=False)
class Histories:
    """Some people's histories, behind each other, oldest item first; nobody's is empty.

    Attributes:
        user_ids: (users,) whose they are.
        starts: (users + 1,) where each begins; the last entry is the number of items.
        time: (items,) microseconds since 1970.
        article: (items,) article ids.
        read: (items,) seconds, >= 0; a missing one is 0.
        scroll: (items,) percent; a missing one is 0.
    """

    user_ids: Index
    starts: Index
    time: Index
    article: Index
    read: Float
    scroll: Float

    def __len__(self) -> int:
        """Number of people."""
        return len(self.user_ids)

    @property
    def lengths(self) -> Index:
        """(users,) items of each."""
        return np.diff(self.starts)

    @property
    def owner(self) -> Index:
        """(items,) position of the person of each item."""
        return np.repeat(np.arange(len(self)), self.lengths)


def histories(
    user_ids: NDArray[Any],
    lengths: NDArray[Any],
    time: NDArray[Any],
    article: NDArray[Any],
    read: NDArray[Any],
    scroll: NDArray[Any],
) -> Histories:
    """Flat lists as `Histories`: people without items left out, items in order of time.

    Items of equal time stay in their order. The other arguments are as the fields.

    Raises:
        InputError: a negative read time.

    >>> found = histories([7, 8], [2, 0], [5, 3], [1, 2], [10, 20], [100, float("nan")])
    >>> found.user_ids.tolist(), found.read.tolist(), found.scroll.tolist()
    ([7], [20.0, 10.0], [0.0, 100.0])
    """
    count, when = np.asarray(lengths, np.int64), np.asarray(time, np.int64)
    seconds = np.nan_to_num(np.asarray(read, np.float64))
    percent = np.nan_to_num(np.asarray(scroll, np.float64))
    what = np.asarray(article, np.int64)
    if (seconds < 0).any():
        raise InputError(
            f"a read time of {seconds.min():g} s is negative; repair the history, or set it to "
            "missing."
        )
    there = count > 0
    starts = np.concatenate([[0], np.cumsum(count)])
    owner = np.repeat(np.arange(len(count)), count)
    if ((np.diff(when) < 0) & (np.diff(owner) == 0)).any():
        order = np.lexsort((when, owner))
        when, what = when[order], what[order]
        seconds, percent = seconds[order], percent[order]
    ids = np.asarray(user_ids, np.int64)[there]
    return Histories(ids, np.unique(starts), when, what, seconds, percent)


def read_histories(
    path: str | Path, users: Index | None = None, batch: int = 2048
) -> Iterator[Histories]:
    """Stream a ``history.parquet``, `batch` people at a time.

    Args:
        path: the file; checked by `check_layout`.
        users: only these, sorted; all by default.
        batch: people read at once, at least 1: what is held in memory.

    Raises:
        InputError: lists of different length in one row, a person twice, or a negative read time.
    """
    import pyarrow as pa
    from pyarrow import compute, parquet

    lists = [f"{what}_fixed" for what in _LISTS]
    seen: list[Index] = []
    with parquet.ParquetFile(path) as file:
        for part in file.iter_batches(batch, columns=["user_id", *lists]):
            ids = whole_numbers(part.column("user_id"))
            if users is not None:
                kept = np.isin(ids, users)
                part, ids = part.filter(pa.array(kept)), ids[kept]
            seen.append(ids)
            columns = [part.column(name) for name in lists]
            lengths = [
                compute.fill_null(compute.list_value_length(column), 0).to_numpy()
                for column in columns
            ]
            for name, length in zip(lists, lengths, strict=True):
                if (odd := length != lengths[0]).any():
                    raise InputError(
                        f"{path}: the lists {lists[0]!r} and {name!r} of user "
                        f"{ids[int(np.argmax(odd))]} differ in length. Repair or remove the row."
                    )
            time, article, read, scroll = (column.flatten() for column in columns)
            yield histories(
                ids,
                lengths[0],
                microseconds(time),
                whole_numbers(article),
                numbers(read),
                numbers(scroll),
            )
    everybody = np.concatenate(seen) if seen else np.zeros(0, np.int64)
    twice = np.unique(everybody, return_counts=True)
    if (twice[1] > 1).any():
        raise InputError(
            f"{path}: user {twice[0][np.argmax(twice[1])]} has {twice[1].max()} rows, there is one "
            "row a user. Join them."
        )


def numbers(column: Any) -> Float:
    """An Arrow column as float64, missing values as NaN."""
    import pyarrow as pa

    found = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return np.asarray(found, np.float64)


def whole_numbers(column: Any) -> Index:
    """An Arrow column as int64, missing values as -1 (ids are never negative)."""
    import pyarrow as pa
    from pyarrow import compute

    found = compute.fill_null(column.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return np.asarray(found, np.int64)


def microseconds(column: Any) -> Index:
    """An Arrow column of times as microseconds since 1970, missing ones as -1."""
    import pyarrow as pa

    return whole_numbers(column.cast(pa.timestamp("us"), safe=False))
