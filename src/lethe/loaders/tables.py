"""Tables (.csv, .parquet) and arrays (.npz, .safetensors) become a `Dataset`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.columns import (
    Columns,
    as_text,
    check_column,
    is_text,
    list_names,
    missing,
    read_columns,
)
from lethe.errors import InputError, check_choice
from lethe.loaders.arrays import arrays_dataset
from lethe.loaders.dataset import (
    TASKS,
    Dataset,
    check_unique_ids,
    choose_rows,
    row_names,
    subset_note,
)
from lethe.loaders.encoding import (
    Encoded,
    check_no_identifiers,
    encode_number,
    encode_text,
    label_rows,
)
from lethe.loaders.persons import group_note, read_groups
from lethe.loaders.slices import read_slices


def load_table(
    path: str | Path,
    label: str | None = None,
    *,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    rows: int | None = None,
    seed: int = 0,
    missing: str = "refuse",
    task: str = "classification",
    group: str | None = None,
    slices: Sequence[str] = (),
) -> Dataset:
    """Read a file of records with a label.

    Args:
        path: .csv or .parquet with one record a row; or .npz or .safetensors with `X` or
            `features` and `y` or `labels`, or `x_train` and `y_train`, and perhaps `ids`.
        label: column of the classes: text, bool, or whole numbers; in regression of the numbers
            to predict. Archives know it by name.
        id_column: column that names the records; rows are numbered from 0 without it.
        drop: columns that are not features.
        rows: size of a random subset to use instead of all records.
        seed: chooses the subset.
        missing: what a gap in a numeric column does: "refuse" it, or "impute" it by the median
            with a further feature that says where. In text columns a gap is a level of its own.
        task: "classification" or "regression".
        group: column that names the person of each record; it is no feature, and no model is
            trained on a part of a person's records.
        slices: columns by which the risk is reported; they may be features too.

    Returns:
        Numbers with mean 0 and standard deviation 1, text and bools as one feature a level, both
        over the records used; images (uint8) flattened and divided by 255.

    Raises:
        InputError: the file, a column or a value breaks a rule; the message says which.
        MissingExtra: .parquet without pyarrow.
    """
    path = Path(path)
    check_choice("missing", missing, ("refuse", "impute"))
    check_choice("task", task, TASKS)
    columns = read_columns(path, drop=drop)
    if path.suffix.lower() in (".npz", ".safetensors"):
        if slices:
            raise InputError(
                f"slice={slices[0]!r} is for tables; {path} is an archive. Save it as csv or "
                "parquet."
            )
        return arrays_dataset(path, columns, label, id_column, rows, seed, task, group)
    label = _check_label(path, columns, label, drop)
    if id_column is not None:
        _check_id_column(path, columns, id_column, label)
    records = len(columns[label])
    used = {label: "label", **({} if id_column is None else {id_column: "id column"})}
    groups = None if group is None else read_groups(str(path), columns, group, used)
    chosen = choose_rows(records, rows, seed, groups)
    labels, classes = label_rows(label, columns[label], task, chosen)
    features = {name: values for name, values in columns.items() if name not in {*used, group}}
    check_no_identifiers(features)
    features = {name: values[chosen] for name, values in features.items()}
    if missing == "refuse":
        _refuse_gaps(path, features)
    encoded = [_encode(name, values) for name, values in features.items()]
    names = tuple(name for part in encoded for name in part.names)
    notes = [note for part in encoded for note in part.notes]
    if not names:
        raise InputError(f"{path} has no features beside the label that vary. Drop fewer columns.")
    if any(not is_text(values) for values in features.values()):
        notes.append("Numeric features have mean 0 and standard deviation 1 over all records.")
    if rows is not None:
        notes.append(subset_note(len(chosen), records, seed))
    if group is not None and groups is not None:
        groups = groups[chosen]
        notes.append(group_note(group, groups))
    ids = row_names(chosen.tolist()) if id_column is None else as_text(columns[id_column][chosen])
    return Dataset(
        name=path.stem,
        features=np.concatenate([part.values for part in encoded], axis=1),
        labels=labels,
        classes=classes,
        ids=ids,
        feature_names=names,
        source=f"{path.name}, label {label!r}",
        notes=tuple(notes),
        groups=groups,
        slices=read_slices(str(path), columns, slices, chosen),
    )


def _encode(name: str, values: NDArray[Any]) -> Encoded:
    if is_text(values) or values.dtype.kind == "b":
        return encode_text(name, values)
    return encode_number(name, values)


def _check_label(path: Path, columns: Columns, label: str | None, drop: Collection[str]) -> str:
    if label is None:
        raise InputError(
            f"{path} needs a label: name its column with --label. "
            f"Columns: {list_names(columns, 40)}."
        )
    if label in drop:
        raise InputError(f"label {label!r} is also in drop. Take it out of drop.")
    check_column("label", label, columns, path)
    return label


def _check_id_column(path: Path, columns: Columns, id_column: str, label: str) -> None:
    if id_column == label:
        raise InputError(f"id_column={id_column!r} is also the label. Choose another column.")
    check_column("id_column", id_column, columns, path)
    check_unique_ids(path.stem, as_text(columns[id_column]))


def _refuse_gaps(path: Path, features: Columns) -> None:
    """A gap in a number has no value that could be assumed without being asked."""
    gaps = {
        name: int(missing(values).sum())
        for name, values in features.items()
        if not is_text(values) and missing(values).any()
    }
    if gaps:
        records = len(next(iter(features.values())))
        listed = ", ".join(f"{name!r} in {count}" for name, count in list(gaps.items())[:5])
        more = f" and {len(gaps) - 5} more columns" if len(gaps) > 5 else ""
        raise InputError(
            f"{path} has missing numbers: {listed}{more} of {records} records. Set them to the "
            f"median and mark them with --missing impute, or leave columns out with --drop NAME."
        )
