"""Free text with a code: one text column and one label column of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.columns import Columns, as_text, check_column, is_text, list_names, read_columns
from lethe.errors import InputError, check_at_least, check_choice
from lethe.loaders.dataset import (
    Dataset,
    check_unique_ids,
    choose_rows,
    row_names,
    subset_note,
)
from lethe.loaders.encoding import label_rows
from lethe.loaders.persons import group_note, read_groups
from lethe.loaders.slices import read_slices

OTHER = "other (rare)"
_TABLES = (".csv", ".parquet")
_LISTED = 8


@dataclass(frozen=True, eq=False)
class Narratives:
    """Texts with one code each; the fields are those of `Dataset`, with texts for features."""

    name: str
    texts: tuple[str, ...]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    ids: NDArray[np.str_]
    source: str
    notes: tuple[str, ...]
    groups: NDArray[np.str_] | None
    slices: Mapping[str, NDArray[np.str_]]

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.texts)

    def dataset(self, vectors: NDArray[np.float32], how: str) -> Dataset:
        """The records with vectors (texts, width) in place of the texts; `how` says whose."""
        return Dataset(
            name=self.name,
            features=vectors,
            labels=self.labels,
            classes=self.classes,
            ids=self.ids,
            feature_names=tuple(f"{how} {at}" for at in range(vectors.shape[1])),
            source=self.source,
            notes=self.notes,
            groups=self.groups,
            slices=self.slices,
        )


def load_narratives(
    path: str | Path,
    text: str | None,
    label: str | None,
    *,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    rows: int | None = None,
    seed: int = 0,
    missing: str = "refuse",
    group: str | None = None,
    slices: Sequence[str] = (),
    min_class_size: int = 1,
) -> Narratives:
    """Read the texts and codes of a table; all other columns are left out.

    Args:
        path: .csv or .parquet with one record a row.
        text: column of the texts.
        label: column of the codes: text or whole numbers.
        id_column: column that names the records; rows are numbered from 0 without it.
        drop: columns of a kind that cannot be read.
        rows: size of a random subset to use instead of all records.
        seed: chooses the subset.
        missing: what a record without text does: "refuse" it, or "leave-out" such records.
        group: column that names the person of each record.
        slices: columns by which the risk is reported.
        min_class_size: classes with fewer records become one class "other (rare)"; 1 keeps all.

    Raises:
        InputError: a column is not there, holds no text, or a record has none.
        MissingExtra: .parquet without pyarrow.
    """
    path = Path(path)
    check_choice("missing", missing, ("refuse", "leave-out"))
    check_at_least("min_class_size", min_class_size, 1)
    if path.suffix.lower() not in _TABLES:
        raise InputError(
            f"{path} has the extension {path.suffix!r}; texts are read from .csv or .parquet. "
            "Save it as one of these."
        )
    columns = read_columns(path, drop=drop)
    text, label = _named("text", text, columns, path), _named("label", label, columns, path)
    if text == label:
        raise InputError(f"text={text!r} is also the label. Choose another column.")
    used = {text: "text", label: "label"}
    if id_column is not None:
        if id_column in used:
            raise InputError(f"id_column={id_column!r} is also the {used[id_column]}.")
        check_column("id_column", id_column, columns, path)
        check_unique_ids(path.stem, as_text(columns[id_column]))
        used[id_column] = "id column"
    texts, there, notes = _texts(path, text, columns[text], missing)
    kept: Columns = {name: values[there] for name, values in columns.items()}
    groups = None if group is None else read_groups(str(path), kept, group, used)
    chosen = choose_rows(len(there), rows, seed, groups)
    codes, classes = label_rows(label, kept[label], "classification", chosen)
    labels, classes, merged = _merge_rare(codes.astype(np.int64), classes, min_class_size)
    taken = tuple(texts[row] for row in chosen)
    notes += [*merged, *_repeated(taken)]
    if rows is not None:
        notes.append(subset_note(len(chosen), len(there), seed))
    if group is not None and groups is not None:
        groups = groups[chosen]
        notes.append(group_note(group, groups))
    original = there[chosen]
    return Narratives(
        name=path.stem,
        texts=taken,
        labels=labels,
        classes=classes,
        ids=row_names(original.tolist())
        if id_column is None
        else as_text(columns[id_column][original]),
        source=f"{path.name}, text {text!r}, label {label!r}",
        notes=tuple(notes),
        groups=groups,
        slices=read_slices(str(path), kept, slices, chosen),
    )


def _named(option: str, name: str | None, columns: Columns, path: Path) -> str:
    if name is None:
        raise InputError(
            f"{path} needs a {option} column: name it with --{option}. "
            f"Columns: {list_names(columns, 40)}."
        )
    check_column(option, name, columns, path)
    return name


def _texts(
    path: Path, name: str, column: NDArray[Any], missing: str
) -> tuple[list[str], NDArray[np.int64], list[str]]:
    """Texts, the rows that have one, and notes."""
    if not is_text(column):
        raise InputError(
            f"text={name!r} of {path} holds {column.dtype}, no text. Choose the column of the "
            "narratives."
        )
    stripped = [str(value).strip() for value in column]
    there = np.array([row for row, value in enumerate(stripped) if value], dtype=np.int64)
    gaps = [row + 1 for row, value in enumerate(stripped) if not value]
    if gaps and missing == "refuse":
        listed = ", ".join(map(str, gaps[:_LISTED])) + (" ..." if len(gaps) > _LISTED else "")
        raise InputError(
            f"text={name!r} is empty in {len(gaps)} of {len(stripped)} records of {path}: rows "
            f"{listed} (the first below the header is 1). Fill them in, or leave these records "
            "out with --missing leave-out."
        )
    if not len(there):
        raise InputError(
            f"text={name!r} of {path} is empty in every record. Choose another column."
        )
    notes = [f"{len(gaps)} records without text were left out."] if gaps else []
    return [stripped[row] for row in there], there, notes


def _merge_rare(
    codes: NDArray[np.int64], classes: tuple[str, ...], smallest: int
) -> tuple[NDArray[np.int64], tuple[str, ...], list[str]]:
    """Classes with fewer records than `smallest` become one; the notes say what was done."""
    counts = np.bincount(codes, minlength=len(classes))
    rare = np.flatnonzero(counts < smallest)
    if len(rare) < 2:  # a lone rare class would only change its name
        alone = int((counts == 1).sum())
        if not alone:
            return codes, classes, []
        return (
            codes,
            classes,
            [
                f"{alone} of {len(classes)} classes have a single record and are kept as they "
                "are: what leaks about these records is measured, how well their class is "
                "predicted cannot be. Merge them with --min-class-size 2 or more."
            ],
        )
    kept = np.flatnonzero(counts >= smallest)
    if not len(kept):
        raise InputError(
            f"min_class_size={smallest} is more than the {counts.max()} records of the largest "
            "class. Choose less."
        )
    name = OTHER
    while name in {classes[at] for at in kept}:
        name += "*"
    place = np.full(len(classes), len(kept), dtype=np.int64)
    place[kept] = np.arange(len(kept))
    note = (
        f"{len(rare)} classes with fewer than {smallest} records each ({counts[rare].sum()} "
        f"records) became one class {name!r}; {len(kept)} classes are kept."
    )
    return place[codes], (*(classes[at] for at in kept), name), [note]


def _repeated(texts: Sequence[str]) -> list[str]:
    """A text that stands twice may be in training and out of it at once."""
    again = {text: times for text, times in Counter(texts).items() if times > 1}
    if not again:
        return []
    return [
        f"{sum(again.values())} records share their text word for word with another one "
        f"({len(again)} texts). A model that trained on the one knows the other: their risk is "
        "understated. Give them one --group, or keep one of each."
    ]
