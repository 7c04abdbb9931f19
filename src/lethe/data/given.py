"""Rows in memory as records: pandas, polars, Arrow, NumPy, SciPy sparse, torch, lists."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.arrays import as_array
from lethe.data.cells import is_gap, plain_column
from lethe.data.columns import Columns, as_text, list_names, read_columns
from lethe.data.condition import Condition, External
from lethe.data.dataset import Dataset, Preparation, RowsInMemory, row_names
from lethe.data.preparation import prepare_columns, prepare_label
from lethe.data.tables import (
    CLASSES,
    COLUMNS,
    Encoded,
    Public,
    encode_each,
    identifiers_of,
    label_rows,
)
from lethe.errors import InputError, require

_MOST_BYTES = 4 << 30  # of a sparse matrix that is written out
NAMED = "a mark of your own"
"""The condition of records that were handed over as bools."""


def check_order(**given: Any) -> None:
    """Refuse values whose pandas index holds the names of others in another order.

    Values are paired by position, so that those of one record would go to another.
    """
    listed: list[tuple[str, Any]] = [
        (name, getattr(values, "index", None)) for name, values in given.items()
    ]
    named = [(name, index) for name, index in listed if hasattr(index, "equals")]
    for (first, names), (second, other) in itertools.combinations(named, 2):
        if len(names) == len(other) and not names.equals(other) and set(names) == set(other):
            raise InputError(
                f"{first} and {second} have the same names of rows or columns in another order. "
                "Sort both alike; where positions are right, hand over .to_numpy()."
            )


def given_rows(
    features: Any,
    labels: Any = None,
    *,
    task: str | None = None,
    groups: Any = None,
    weights: Any = None,
    ids: Any = None,
    name: str = "data",
    holdout_by: Any = None,
    public: Public | None = None,
) -> RowsInMemory:
    """Records from what is in memory.

    Args:
        features: (records, ...) a data frame, Arrow table, array, sparse matrix, tensor or nested
            list; or, without `labels`, a torch Dataset or DataLoader of (features, label), or
            records that were read already.
        labels: (records,) classes as text, bools or whole numbers; in regression numbers; or
            (records, outputs) several classes of each record, which together are its class.
        task: ``classification`` or ``regression``; None = regression where the labels are numbers
            that are not whole.
        groups: (records,) the person of each record.
        weights: (records,) finite numbers above 0, for estimators.
        ids: (records,) unique names of the records; by default their row numbers.
        name: what reports call it.
        holdout_by: records that no model trains on: (records,) bools, or a condition on a column of
            `features`, such as "year>=2016".
        public: which records are public, as of `lethe.data.tables.load`: columns and classes are
            then prepared by these. Arrays stay as they are.

    Raises InputError: a length, type or value breaks a rule; the message says which.
    """
    if isinstance(features, Dataset) and labels is None:
        beside = {"groups": groups, "sample_weight": weights, "ids": ids}
        if named := [option for option, value in beside.items() if value is not None]:
            raise InputError(
                f"{named[0]} is for records in memory, and X was read by lethe.load. Name the "
                "column there, or hand over X and y."
            )
        if holdout_by is None:
            return RowsInMemory(features)
        return RowsInMemory(replace(features, external=_external(features.table, holdout_by)))
    if labels is None:
        features, labels = _from_batches(features)
    target, label_of = _target(labels, task)
    if task is None:
        real = target.dtype.kind == "f" and not (np.floor(target) == target).all()
        task = "regression" if real else "classification"
    frame, columns, encoded, array = _features(features)
    records = len(next(iter(columns.values()))) if encoded is None else len(encoded.values)
    sizes = None if weights is None else column_of(weights, "sample_weight")
    each = {"y": target, "groups": groups, "ids": ids, "sample_weight": sizes}
    for what, values in each.items():
        if values is not None and len(values) != records:
            raise InputError(f"{what} has {len(values)} values, X has {records} records.")
    if sizes is not None:
        if sizes.dtype.kind not in "iuf" or not ((sizes > 0) & np.isfinite(sizes)).all():
            raise InputError(
                "sample_weight must be finite numbers above 0: a record of weight 0 trains no "
                "model. Leave such records out."
            )
        sizes = sizes.astype(np.float64)
    persons = None if groups is None else as_text(column_of(groups, "groups"))
    external = None if holdout_by is None else _external(features, holdout_by)
    label_notes: tuple[str, ...] = ()
    if public is None:
        read_off = (CLASSES,) * (task == "classification") + (COLUMNS,) * (encoded is None)
        if encoded is None:  # for the attacks that look at records; gaps are marked
            named = list(identifiers_of(columns))
            others = {name: values for name, values in columns.items() if name not in named}
            encoded = encode_each(others) if others else None
            if encoded is None or not encoded.names:
                raise InputError(
                    f"no column of X varies beside {list_names(named)}: there is no feature."
                )
            note = f"Text that differs in most records is not compared: {list_names(named)}."
            encoded = replace(encoded, notes=(*encoded.notes, *[note] * bool(named)))
        codes, classes = label_rows("y", target, task, np.arange(records))
        preparation = Preparation(None, read_off)
    else:
        held = public(records, persons, None if external is None else external.rows)
        preparation = Preparation(held)
        encoded = encoded or Encoded(*prepare_columns(columns, held))
        codes, classes, label_notes = prepare_label("y", target, task, held)
    data = Dataset(
        name=name,
        features=encoded.values,
        labels=codes,
        classes=classes,
        ids=row_names(range(records)) if ids is None else as_text(column_of(ids, "ids")),
        feature_names=encoded.names,
        source="handed over in memory",
        notes=(*encoded.notes, *label_notes),
        groups=persons,
        external=external,
        preparation=preparation,
    )
    if task == "regression" or any(name not in label_of for name in classes):
        return RowsInMemory(data, frame, array, None, sizes)
    return RowsInMemory(data, frame, array, np.array([label_of[name] for name in classes]), sizes)


def _target(labels: Any, task: str | None) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """(records,) labels, and the user's own label, or row of labels, by the name of each."""
    labels = labels.toarray() if hasattr(labels, "toarray") else labels
    table = as_array(labels, "y")
    if table.ndim != 2 or table.shape[1] == 1:
        column = column_of(labels, "y")
        texts = as_text(column)
        labels = texts if column.dtype.kind == "S" else column
        return column, dict(zip(texts.tolist(), labels, strict=True))
    if table.dtype.kind == "f" and np.isnan(table).any():
        raise InputError("y has missing labels. Remove these records, or name their class.")
    if task == "regression" or (table.dtype.kind == "f" and (np.floor(table) != table).any()):
        raise InputError(
            f"y has shape {table.shape}: a regression predicts one number. Take one column."
        )
    if table.dtype.kind in "biuf" and ((table == 0).sum(axis=1) == table.shape[1] - 1).all():
        raise InputError(
            f"y has shape {table.shape} and one label a record: turn one-hot labels into classes "
            "with .argmax(axis=1)."
        )
    if table.dtype.kind in "bf":
        table = table.astype(np.int64)
    if table.dtype.kind not in "iuU":
        table = np.column_stack([as_text(column_of(column, "y")) for column in table.T])
    names = [", ".join(map(str, row)) for row in table.tolist()]
    return np.array(names, object), dict(zip(names, table, strict=True))


def _external(features: Any, holdout_by: Any) -> External:
    if not isinstance(holdout_by, str):
        rows = column_of(holdout_by, "holdout_by")
        if rows.dtype != np.bool_:
            raise InputError(
                f"holdout_by holds {rows.dtype} values; hand over bools, True for records that no "
                "model trains on, or a condition such as 'year>=2016'."
            )
        return External(NAMED, rows)
    condition = Condition.read(holdout_by)
    if getattr(features, "columns", None) is None and not isinstance(features, Mapping):
        raise InputError(
            f"holdout_by={holdout_by!r} is a condition, and X has no columns by name. Hand over "
            "bools, such as holdout_by=(year >= 2016), one for each record."
        )
    return condition.of(columns_of(features, "X"), "X")


def _features(
    features: Any,
) -> tuple[Any | None, Columns, Encoded | None, NDArray[Any] | None]:
    """The user's frame, its columns or an array as numbers, and this array."""
    if hasattr(features, "toarray") and hasattr(features, "tocsr"):
        size = 4 * int(np.prod(features.shape))
        if size > _MOST_BYTES:
            raise InputError(
                f"X is sparse and would take {size / 2**30:.0f} GiB written out, at most "
                f"{_MOST_BYTES / 2**30:.0f} are taken. Use fewer features, or put the vectoriser "
                "into a pipeline and hand over the frame that it reads."
            )
        features = features.toarray()
    columns = None
    if hasattr(features, "column_names") and hasattr(features, "to_pydict"):
        columns = columns_of(features, "X")
        require("pandas", "pandas")
        features = features.to_pandas()  # estimators take no tables of Arrow
    if hasattr(features, "columns") and hasattr(features, "shape"):
        return features, columns or columns_of(features, "X"), None, None
    array = as_array(features, "X")
    if array.ndim == 0 or not len(array):
        raise InputError(
            f"X is a {type(features).__name__} without records. Hand over a frame or an array, one "
            "row a record; files are read by lethe.load."
        )
    if array.ndim == 1 and {*map(type, array.tolist())} == {str}:
        from sklearn.feature_extraction.text import HashingVectorizer

        # Estimators read the texts; what looks at records, counts of words and pairs by hash.
        counts = HashingVectorizer(n_features=256, norm=None, ngram_range=(1, 2), dtype=np.float32)
        table = counts.fit_transform(array).toarray()
        # Hashes of different texts may collide: the last column numbers equal texts.
        number = np.unique(array.astype(str), return_inverse=True)[1].astype(np.float32)
        names = (*(f"words {column}" for column in range(256)), "text")
        return array.astype(object), {}, Encoded(np.column_stack([table, number]), names), None
    if array.ndim == 1:
        way_out = "use X.reshape(-1, 1), or X[['column']] of a frame"
        raise InputError(f"X has shape {array.shape}, it must be (records, features): {way_out}.")
    flat = array.reshape(len(array), -1)
    if flat.dtype.kind not in "fiub":
        raise InputError(f"X holds {flat.dtype} values. Hand over numbers, or a data frame.")
    if flat.dtype.kind == "f" and np.isnan(flat).any():
        raise InputError(
            f"X has gaps (NaN), the first in record {int(np.isnan(flat).any(axis=1).argmax())}. "
            "Hand over pd.DataFrame(X), whose gaps an estimator sees as they are, or fill them."
        )
    with np.errstate(over="ignore"):  # Dataset refuses what becomes infinite, by name
        values = np.ascontiguousarray(flat, dtype=np.float32)
    encoded = Encoded(values, tuple(f"x{at}" for at in range(values.shape[1])))
    return None, {}, encoded, array


def columns_of(rows: Any, name: str) -> Columns:
    """Columns by name of a data frame, Arrow table, mapping of columns, or file.

    Raises InputError: it is none of them, or columns have different lengths.
    """
    if isinstance(rows, str | Path):
        return read_columns(rows)
    names = list(rows) if isinstance(rows, Mapping) else getattr(rows, "column_names", None)
    if names is None:
        names = getattr(rows, "columns", None)
    if names is None or callable(names):
        raise InputError(
            f"{name} is a {type(rows).__name__}; hand over a data frame, an Arrow table, a mapping "
            "of columns, or the name of a file."
        )
    listed = [str(key) for key in names]
    if twice := next((key for key in listed if listed.count(key) > 1), None):
        raise InputError(f"{name} has several columns named {twice!r}. Rename all but one.")
    columns = {text: column_of(rows[name], text) for text, name in zip(listed, names, strict=True)}
    if len({len(column) for column in columns.values()}) > 1:
        raise InputError(f"{name} has columns of different lengths. Mend them.")
    return columns


def column_of(values: Any, name: str) -> NDArray[Any]:
    """(records,) bool, numbers (of spans of time their seconds), dates or text, as in files."""
    array = as_array(values, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        hint = " Take one column, or .argmax(axis=1) of one-hot labels." if array.ndim == 2 else ""
        raise InputError(f"{name} has shape {array.shape}, it must be (records,).{hint}")
    if array.dtype.kind == "f" and "int" in str(getattr(values, "dtype", "")).lower():
        return plain_column(list(values))  # gaps among whole numbers, which float64 may merge
    if array.dtype.kind == "m":
        return np.asarray(array / np.timedelta64(1, "s"))
    if array.dtype.kind != "O":
        return array.astype(object) if array.dtype.kind == "U" else array
    return plain_column(array.tolist())


def cells_of(values: Any, name: str) -> NDArray[Any]:
    """(records,) as `column_of`, or objects where a type has room for gaps, each read alone.

    For `lethe.data.typed.cast`: no cell hangs on another. Moments with a zone become those of UTC.
    """
    kind = getattr(values, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind != "O":
        return column_of(values, name)
    listed = values.to_pylist() if hasattr(values, "to_pylist") else [*values]
    cells = np.empty(len(listed), dtype=object)
    for row, cell in enumerate(listed):
        zoned = isinstance(cell, datetime.datetime) and getattr(cell, "tzinfo", None) is not None
        plain = cell.astimezone(datetime.UTC).replace(tzinfo=None) if zoned else cell
        cells[row] = None if is_gap(cell) else plain
    return cells


def _from_batches(source: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Features and labels of a torch Dataset or DataLoader, in its order."""
    dataset = getattr(source, "dataset", source)
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise InputError("y is missing: hand over one label for each record of X.")
    pairs = [dataset[index] for index in range(len(dataset))]
    if not pairs or not isinstance(pairs[0], tuple | list) or len(pairs[0]) != 2:
        raise InputError(
            "y is missing, and X does not give pairs (features, label) as a torch Dataset does: "
            "hand over X and y."
        )
    return (
        np.stack([as_array(inputs, "X") for inputs, _ in pairs]),
        np.stack([as_array(label, "y") for _, label in pairs]),
    )
