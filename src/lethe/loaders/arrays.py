"""Arrays (.npz, .safetensors) of features and labels become a `Dataset`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.columns import Columns, as_text, list_names
from lethe.errors import InputError, did_you_mean
from lethe.loaders.dataset import Dataset, check_unique_ids, choose_rows, row_names, subset_note
from lethe.loaders.encoding import label_rows
from lethe.loaders.persons import group_note, read_groups

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
