"""The layout of EB-NeRD on disk: which files and columns there must be, and what is missing.

EB-NeRD (Ekstra Bladet News Recommendation Dataset, arXiv 2410.03432) is licensed and not shipped;
it is had from recsys.eb.dk after its terms are accepted. A folder of it holds::

    articles.parquet
    train/behaviors.parquet        train/history.parquet
    validation/behaviors.parquet   validation/history.parquet
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lethe.data.columns import list_names
from lethe.errors import InputError

SPLITS = ("train", "validation")
WHERE = "EB-NeRD is had from recsys.eb.dk after its terms are accepted; unpack it here."

# What each kind of column may be in Arrow's words.
_INTEGER, _NUMBER, _TIME, _TEXT = "whole number", "number", "time", "text"
_FLAG = "yes/no"

NEEDED: dict[str, dict[str, str]] = {
    "behaviors": {
        "impression_id": _INTEGER,
        "impression_time": _TIME,
        "user_id": _INTEGER,
        "device_type": _NUMBER,
        "is_sso_user": _FLAG,
        "is_subscriber": _FLAG,
        "article_ids_clicked": f"list of {_INTEGER}",
        "next_read_time": _NUMBER,
        "next_scroll_percentage": _NUMBER,
    },
    "history": {
        "user_id": _INTEGER,
        "impression_time_fixed": f"list of {_TIME}",
        "scroll_percentage_fixed": f"list of {_NUMBER}",
        "article_id_fixed": f"list of {_INTEGER}",
        "read_time_fixed": f"list of {_NUMBER}",
    },
    "articles": {
        "article_id": _INTEGER,
        "title": _TEXT,
        "subtitle": _TEXT,
        "body": _TEXT,
        "category": _INTEGER,
        "article_type": _TEXT,
        "premium": _FLAG,
        "sentiment_score": _NUMBER,
    },
}
"""Columns that are read, with their kind."""

KNOWN: dict[str, tuple[str, ...]] = {
    "behaviors": (
        "read_time",
        "scroll_percentage",
        "article_id",
        "article_ids_inview",
        "gender",
        "postcode",
        "age",
        "session_id",
    ),
    "history": (),
    "articles": (
        "category_str",
        "subcategory",
        "topics",
        "ner_clusters",
        "entity_groups",
        "sentiment_label",
        "url",
        "image_ids",
        "published_time",
        "last_modified_time",
        "total_inviews",
        "total_pageviews",
        "total_read_time",
    ),
}
"""Columns of the full release that no feature is made of. The totals of an article count what
happened after an impression too, so a feature of them would look into the future."""


@dataclass(frozen=True)
class NewsFile:
    """One file of the layout.

    Attributes:
        name: its place in the folder, with slashes.
        rows: how many there are; 0 where it cannot be read.
        problems: what keeps it from being used.
        absent: columns of the full release that are not there and are not needed.
    """

    name: str
    rows: int
    problems: tuple[str, ...]
    absent: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """What a folder holds, file by file."""

    files: tuple[NewsFile, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """All that keeps the folder from being used, with the file's name in front."""
        return tuple(f"{one.name}: {what}" for one in self.files for what in one.problems)


def news_paths(root: str | Path) -> dict[str, Path]:
    """The five files of a folder by their place in it.

    >>> sorted(news_paths("data"))[:2]
    ['articles.parquet', 'train/behaviors.parquet']
    """
    names = ["articles.parquet"]
    names += [f"{split}/{table}.parquet" for split in SPLITS for table in ("behaviors", "history")]
    return {name: Path(root) / name for name in names}


def check_layout(root: str | Path) -> Layout:
    """Look at the files, columns and kinds of an EB-NeRD folder; reads no rows.

    Args:
        root: the folder that holds ``articles.parquet``, ``train`` and ``validation``.

    Raises:
        InputError: it is no folder.
        MissingExtra: without pyarrow.
    """
    root = Path(root)
    if not root.is_dir():
        raise InputError(f"{root} is not a folder. {WHERE}")
    return Layout(tuple(_check_file(name, path) for name, path in news_paths(root).items()))


def check_usable(root: str | Path) -> Layout:
    """The layout, if nothing needed is missing.

    Raises:
        InputError: with every problem, one a line.
    """
    layout = check_layout(root)
    if layout.problems:
        listed = "\n  ".join(layout.problems)
        raise InputError(f"{root} is no complete EB-NeRD folder:\n  {listed}\n{WHERE}")
    return layout


def _check_file(name: str, path: Path) -> NewsFile:
    import pyarrow as pa
    from pyarrow import parquet

    if not path.is_file():
        return NewsFile(name, 0, ("is missing.",))
    try:
        with parquet.ParquetFile(path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        return NewsFile(name, 0, (f"is not readable parquet ({str(error).splitlines()[0]}).",))
    table = path.stem
    problems = [] if rows else ["has no rows."]
    gone = [column for column in NEEDED[table] if column not in schema.names]
    if gone:
        problems.append(f"lacks {list_names(gone, 20)}.")
    for column, kind in NEEDED[table].items():
        if column in schema.names and not _is_kind(pa, schema.field(column).type, kind):
            found = schema.field(column).type
            problems.append(f"{column!r} has the type {found}, it must be a {kind}.")
    absent = tuple(column for column in KNOWN[table] if column not in schema.names)
    return NewsFile(name, rows, tuple(problems), absent)


def _is_kind(pa: Any, found: Any, kind: str) -> bool:
    types = pa.types
    if kind.startswith("list of "):
        lists = (types.is_list, types.is_large_list)
        return any(is_list(found) for is_list in lists) and _is_kind(
            pa, found.value_type, kind.removeprefix("list of ")
        )
    if types.is_dictionary(found):
        found = found.value_type
    accepted = {
        _INTEGER: (types.is_integer,),
        _NUMBER: (types.is_integer, types.is_floating),
        _TIME: (types.is_timestamp,),
        _TEXT: (types.is_string, types.is_large_string, types.is_string_view),
        _FLAG: (types.is_boolean, types.is_integer),
    }
    return any(is_kind(found) for is_kind in accepted[kind])
