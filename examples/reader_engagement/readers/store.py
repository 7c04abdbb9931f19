"""The folder of features: flat binary tables that are mapped, not loaded, and one `meta.json`.

Aggregates and sequences are kept once a person and window, not once an impression, because all
impressions of a person in a window share them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_choice
from readers.articles import ARTICLE_NUMBERS
from readers.features import AGGREGATES
from readers.history import Index
from readers.layout import SPLITS

FORMAT = 1
META = "meta.json"
CONTEXT = ("device type", "is subscriber", "is sso user")
WHO = ("main", "blind")

ROW = np.dtype(
    [
        ("impression", "<i8"),
        ("time", "<i8"),
        ("user", "<i4"),
        ("article", "<i4"),
        ("device", "<f4"),
        ("subscriber", "<f4"),
        ("sso", "<f4"),
        ("engaged", "<f4"),
    ]
)
"""One labelled impression; `user` and `article` are positions in those tables."""

ARTICLE = np.dtype([("category", "<i4"), ("kind", "<i4"), ("numbers", "<f4", (5,))])
"""One article; the last one of the table is the unknown article."""


def user_dtype(steps: int) -> np.dtype[np.void]:
    """One person of a window: raw aggregates and sequence, and whether the person is blind."""
    return np.dtype(
        [
            ("id", "<i8"),
            ("blind", "?"),
            ("length", "<i4"),
            ("aggregates", "<f4", (len(AGGREGATES),)),
            ("sequence", "<f4", (steps, 2)),
        ]
    )


@dataclass(frozen=True, eq=False)
class Batch:
    """What the networks of the reference study are given, for n impressions.

    Attributes:
        user_ids: (n,) whose they are.
        aggregates: (n, a) standardised with the scaler of the train window.
        sequence: (n, steps, channels), zeros at the end beyond the length.
        length: (n,) real steps.
        category: (n,) row of the table of categories.
        kind: (n,) row of the table of article types.
        article: (n, b) numbers of the article.
        context: (n, c) numbers of the impression.
        label: (n,) 0 or 1.
    """

    user_ids: Index
    aggregates: NDArray[np.float32]
    sequence: NDArray[np.float32]
    length: Index
    category: Index
    kind: Index
    article: NDArray[np.float32]
    context: NDArray[np.float32]
    label: NDArray[np.float32]

    def raw(self) -> NDArray[np.float32]:
        """(n, a + b + c) all numbers that go in beside the sequence: what the baseline attacks."""
        return np.concatenate([self.aggregates, self.article, self.context], axis=1)


@dataclass(frozen=True, eq=False)
class Window:
    """One window of a prepared folder; nothing is read until it is asked for.

    Attributes:
        folder: of the features.
        name: "train" or "validation".
        meta: the whole ``meta.json``.
    """

    folder: Path
    name: str
    meta: dict[str, Any]

    @cached_property
    def rows(self) -> NDArray[np.void]:
        """(n,) labelled impressions of main and blind users in the order of the file, see `ROW`."""
        return _mapped(self.folder / f"{self.name}-rows.bin", ROW, self.meta, self.name, "rows")

    @cached_property
    def users(self) -> NDArray[np.void]:
        """(users,) people of the window by ascending id, see `user_dtype`."""
        dtype = user_dtype(self.meta["steps"])
        return _mapped(self.folder / f"{self.name}-users.bin", dtype, self.meta, self.name, "users")

    @cached_property
    def articles(self) -> NDArray[np.void]:
        """(articles + 1,), see `ARTICLE`."""
        return np.fromfile(self.folder / "articles.bin", ARTICLE)

    def rows_of(self, who: str = "main") -> Index:
        """Positions of the rows of the "main" or the "blind" users."""
        check_choice("who", who, WHO)
        blind = np.asarray(self.users["blind"])[self.rows["user"]]
        return np.flatnonzero(blind == (who == "blind"))

    def batch(self, rows: NDArray[np.integer]) -> Batch:
        """The inputs and labels of some rows (n,), standardised."""
        scale = self.meta["scalers"]
        taken = self.rows[rows]
        people, articles = self.users[taken["user"]], self.articles[taken["article"]]
        sequence = np.array(people["sequence"])
        real = np.arange(sequence.shape[1]) < people["length"][:, None]
        mean, deviation = scale["read"]
        sequence[..., 0] = np.where(real, (sequence[..., 0] - mean) / deviation, 0)
        means, deviations = (np.array(one, np.float32) for one in scale["aggregates"])
        context = [taken[name] for name in ("device", "subscriber", "sso")]
        return Batch(
            people["id"].astype(np.int64),
            (people["aggregates"] - means) / deviations,
            sequence,
            people["length"].astype(np.int64),
            articles["category"].astype(np.int64),
            articles["kind"].astype(np.int64),
            np.ascontiguousarray(articles["numbers"]),
            np.stack(context, axis=1),
            np.array(taken["engaged"]),
        )

    def batches(self, rows: NDArray[np.integer], size: int) -> Iterator[Batch]:
        """`batch` of `size` rows after the other."""
        check_at_least("size", size, 1)
        for first in range(0, len(rows), size):
            yield self.batch(rows[first : first + size])


@dataclass(frozen=True, eq=False)
class News:
    """A prepared folder.

    Attributes:
        folder: where it is.
        meta: what it holds: counts, scalers, categories, checks.
    """

    folder: Path
    meta: dict[str, Any]

    def window(self, name: str) -> Window:
        """The "train" or the "validation" window."""
        return Window(self.folder, check_choice("window", name, SPLITS), self.meta)


def open_news(folder: str | Path) -> News:
    """Open a folder that `prepare_news` wrote.

    Raises:
        InputError: it is none, it is not finished, or it is of another version.
    """
    folder = Path(folder)
    path = folder / META
    if not path.is_file():
        raise InputError(
            f"{folder} holds no {META}: it is no finished folder of features. Write one with "
            "prepare.py PATH."
        )
    meta = json.loads(path.read_text())
    if meta.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {meta.get('format')!r}, {FORMAT} is read. Prepare anew."
        )
    expected = list(AGGREGATES) + list(ARTICLE_NUMBERS) + list(CONTEXT)
    if meta["columns"] != expected:
        raise InputError(f"{path} was written with other columns. Prepare anew.")
    return News(folder, meta)


def _mapped(
    path: Path, dtype: np.dtype[np.void], meta: dict[str, Any], window: str, what: str
) -> NDArray[np.void]:
    wanted = int(meta["windows"][window][what])
    size = path.stat().st_size if path.is_file() else -1
    if size != wanted * dtype.itemsize:
        raise InputError(
            f"{path} has {size} bytes where {wanted * dtype.itemsize} are due. Prepare anew."
        )
    if not wanted:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r", shape=(wanted,))
