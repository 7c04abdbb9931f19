"""Real data becomes a `Dataset`: built-in sets by name, tables and arrays by file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import (
    SUFFIXES,
    Columns,
    as_text,
    check_column,
    is_text,
    list_names,
    missing,
    read_columns,
)
from lethe.data.dataset import (
    IDENTICAL,
    TASKS,
    Dataset,
    by_content,
    check_unique_ids,
    choose_rows,
    group_note,
    read_groups,
    row_names,
    subset_note,
)
from lethe.data.features import (
    Encoded,
    check_no_identifiers,
    encode_number,
    encode_text,
    label_rows,
    read_slices,
)
from lethe.data.shipped import BUILTIN, builtin
from lethe.errors import InputError, check_choice, did_you_mean

_FEATURES = ("X", "features", "x_train")
_LABELS = ("y", "labels", "y_train")


def arrays_dataset(
    path: Path,
    columns: Columns,
    label: str | None,
    id_column: str | None,
    rows: int | None,
    seed: int,
    task: str = "classification",
    group: str | None = None,
) -> Dataset:
    """The records of an archive; the arguments are those of `load_table`.

    Raises:
        InputError: an array is not there, or has a shape or dtype that does not fit.
    """
    features_name = _find(path, columns, _FEATURES, "features")
    label = _named(path, columns, label, "label") or _find(path, columns, _LABELS, "labels")
    id_column = _named(path, columns, id_column, "id_column") or (
        "ids" if "ids" in columns else None
    )
    features = columns[features_name]
    _check_features(path, features_name, features)
    records = len(features)
    groups = None
    if group is not None:
        used = {features_name: "features", label: "label"}
        groups = read_groups(str(path), columns, group, used)
        _one_each(path, columns, group, records)
    chosen = choose_rows(records, rows, seed, groups)
    labels, classes = label_rows(label, _one_each(path, columns, label, records), task, chosen)
    notes = []
    flat = features[chosen].reshape(len(chosen), -1)
    if flat.dtype == np.uint8:
        values = np.divide(flat, 255, dtype=np.float32)
        notes.append("Whole numbers 0 to 255 divided by 255.")
    else:
        with np.errstate(over="ignore"):  # Dataset refuses what becomes infinite, by name
            values = np.ascontiguousarray(flat, dtype=np.float32)
    if id_column is None:
        ids = row_names(chosen.tolist())
    else:
        all_ids = as_text(_one_each(path, columns, id_column, records))
        check_unique_ids(path.stem, all_ids)
        ids = all_ids[chosen]
    unread = [name for name in columns if name not in (features_name, label, id_column, group)]
    if unread:
        notes.append(f"Arrays that were not used: {list_names(unread)}.")
    if rows is not None:
        notes.append(subset_note(len(chosen), records, seed))
    if group is not None and groups is not None:
        groups = groups[chosen]
        notes.append(group_note(group, groups))
    return Dataset(
        name=path.stem,
        features=values,
        labels=labels,
        classes=classes,
        ids=ids,
        feature_names=_feature_names(features.shape[1:]),
        source=f"{path.name}, arrays {features_name!r} and {label!r}",
        notes=tuple(notes),
        groups=groups,
    )


def _find(path: Path, columns: Columns, names: tuple[str, ...], what: str) -> str:
    """The one array that stands for `what`."""
    found = [name for name in names if name in columns]
    if not found:
        raise InputError(
            f"{path} has no {what}. Name the array one of {list_names(names)}; it has "
            f"{list_names(columns)}."
        )
    if len(found) > 1:
        raise InputError(
            f"{path} has several arrays of {what}: {list_names(found)}. Leave all but one out "
            f"with --drop {found[-1]!r}."
        )
    return found[0]


def _named(path: Path, columns: Columns, name: str | None, what: str) -> str | None:
    if name is not None and name not in columns:
        raise InputError(
            f"{what}={name!r} is not an array of {path}.{did_you_mean(name, columns)} "
            f"Arrays: {list_names(columns)}."
        )
    return name


def _check_features(path: Path, name: str, features: NDArray[Any]) -> None:
    if features.ndim < 2:
        raise InputError(
            f"{path}: {name!r} has shape {features.shape}, it must be (records, features) or "
            "(records, height, width, ...). Use .reshape(records, -1)."
        )
    if features.dtype.kind not in "fb" and features.dtype != np.uint8:
        raise InputError(
            f"{path}: {name!r} has dtype {features.dtype}, it must be float, bool or uint8. "
            "Scale it and use .astype('float32')."
        )


def _one_each(path: Path, columns: Columns, name: str, records: int) -> NDArray[Any]:
    """An array with one value a record; (records, 1) as Keras writes it will do."""
    values = columns[name]
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (records,):
        hint = " One-hot labels become classes with .argmax(axis=1)." if values.ndim == 2 else ""
        raise InputError(
            f"{path}: {name!r} has shape {values.shape}, the features have {records} records: "
            f"it must be ({records},).{hint}"
        )
    return values


def _feature_names(shape: tuple[int, ...]) -> tuple[str, ...]:
    """x0, x1, ...; in images by position: x[row,column]."""
    if len(shape) == 1:
        return tuple(f"x{at}" for at in range(shape[0]))
    return tuple(f"x[{','.join(map(str, at))}]" for at in np.ndindex(shape))


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


__all__ = ["BUILTIN", "Dataset", "load", "load_table"]


def load(
    target: str | Path,
    label: str | None = None,
    *,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    rows: int | None = None,
    seed: int = 0,
    missing: str = "refuse",
    task: str | None = None,
    group: str | None = None,
    slices: Sequence[str] = (),
) -> Dataset:
    """Load a built-in set by its name, or a file; the options are those of `load_table`.

    Args:
        target: "digits", "breast-cancer", "diabetes" (regression), or the path of a file.
            A file that has the name of a built-in set is meant by ``./digits``.
        task: "classification" (the default for files) or "regression". Built-in sets have theirs.
        group: column that names the person of each record, see `load_table`; or
            "identical-records", by which exact copies of a record are kept together.
        slices: columns by which the risk is reported, see `load_table`.

    Raises:
        InputError: neither a built-in set nor a file, or as `load_table`.

    >>> len(load("digits", rows=100))
    100
    """
    if group == IDENTICAL:
        plain = load(
            target,
            label,
            id_column=id_column,
            drop=drop,
            rows=rows,
            seed=seed,
            missing=missing,
            task=task,
            slices=slices,
        )
        return by_content(plain)
    name = str(target)
    if name in BUILTIN:
        for option, value in (
            ("label", label),
            ("id_column", id_column),
            ("drop", drop or None),
            ("group", group),
            ("slice", list(slices) or None),
        ):
            if value is not None:
                raise InputError(
                    f"{option}={value!r} is for files; the built-in set {name!r} is complete. "
                    f"Leave it out, or name a file such as ./{name}.csv."
                )
        data = builtin(name, rows, seed)
        if task is not None and check_choice("task", task, TASKS) != data.task:
            raise InputError(
                f"task={task!r} does not fit the built-in set {name!r}, which is for {data.task}."
            )
        return data
    path = Path(target)
    if not path.exists() and path.suffix.lower() not in SUFFIXES and path.name == name:
        raise InputError(
            f"{name!r} is neither a file nor a built-in set.{did_you_mean(name, BUILTIN)} "
            f"Built-in sets: {', '.join(map(repr, BUILTIN))}; files: {', '.join(SUFFIXES)}."
        )
    return load_table(
        path,
        label,
        id_column=id_column,
        drop=drop,
        rows=rows,
        seed=seed,
        missing=missing,
        task=task or "classification",
        group=group,
        slices=slices,
    )
