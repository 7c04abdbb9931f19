"""One column of a table becomes classes, or features that a model can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import Columns, as_text, check_column, is_text, missing
from lethe.errors import InputError

FEW = 10
"""Numbers of at most so many values are taken as they are, others by quarters."""


def read_slices(
    where: str, columns: Columns, names: Sequence[str], chosen: NDArray[np.int64]
) -> dict[str, NDArray[np.str_]]:
    """The group of each record under each of some columns.

    Args:
        where: the file, for messages.
        columns: all of them.
        names: which to cut by; they may be features too.
        chosen: (records,) rows that are used.

    Returns:
        For each name (records,) text: the value; or for numbers of more than 10 values the
        quarter, named by its inner limits so that nobody's extreme is told.

    Raises:
        InputError: no such column, or it is not one value a record.
    """
    found = {}
    for name in names:
        check_column("slice", name, columns, where)
        column = columns[name][chosen]
        if column.ndim != 1:
            raise InputError(
                f"slice={name!r} has shape {column.shape}; it must hold one value for each record."
            )
        found[name] = _groups(column)
    return found


def _groups(column: NDArray[Any]) -> NDArray[np.str_]:
    gaps = missing(column)
    numbers = not is_text(column) and column.dtype.kind in "fiu"
    if not numbers or len(np.unique(column[~gaps])) <= FEW:
        text = as_text(column)
        return np.where(gaps, "missing", text).astype(np.str_)
    inner = np.unique(np.quantile(column[~gaps].astype(np.float64), [0.25, 0.5, 0.75]))
    limits = [f"{limit:.4g}" for limit in inner]
    names = [f"below {limits[0]}"]
    names += [f"{low} to {high}" for low, high in zip(limits[:-1], limits[1:], strict=True)]
    names.append(f"{limits[-1]} and more")
    values = np.where(gaps, 0.0, column.astype(np.float64))
    quarter = np.searchsorted(inner, values, side="right")
    return np.where(gaps, "missing", np.array(names)[quarter]).astype(np.str_)


MAX_LEVELS = 50  # levels of a text column that get a feature of their own
IDENTIFIER_SHARE = 0.5  # a text column with more distinct values than this names records


@dataclass(frozen=True)
class Encoded:
    """The features of one column.

    Attributes:
        values: float32 (records, features of this column); no feature if it carries nothing.
        names: one for each feature.
        notes: what was decided.
    """

    values: NDArray[np.float32]
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


def encode_labels(name: str, column: NDArray[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class codes (records,) and class names, sorted by value.

    Raises:
        InputError: labels are missing, are continuous, or there are nearly as many as records.
    """
    gaps = missing(column)
    if gaps.any():
        raise InputError(
            f"label {name!r} is missing in {gaps.sum()} of {len(column)} records, the first at "
            f"row {int(np.argmax(gaps))}. Remove these records, or name their class."
        )
    if column.dtype.kind == "M":
        raise InputError(f"label {name!r} holds dates. Choose a column of classes.")
    # Objects would be compared one by one in Python; their text sorts the same way.
    values, codes = np.unique(as_text(column) if is_text(column) else column, return_inverse=True)
    if column.dtype.kind == "f" and (
        not np.isfinite(values).all() or (np.floor(values) != values).any()
    ):
        odd = values[~np.isfinite(values) | (np.floor(values) != values)][0]
        raise InputError(
            f"label {name!r} is continuous ({odd} is no whole number; {len(values)} distinct "
            "values). If the model predicts this number, say --task regression; otherwise cut it "
            "into a few classes first."
        )
    if len(values) > max(2, len(column) // 2):
        raise InputError(
            f"label {name!r} has {len(values)} distinct values in {len(column)} records: it names "
            "records, not classes. Choose another label, or merge its values"
            + (
                "; for a model that predicts this number, say --task regression."
                if column.dtype.kind in "iuf"
                else "."
            )
        )
    return codes.astype(np.int64), tuple(as_text(values).tolist())


def encode_targets(name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """The numbers (records,) that a regression predicts, in their own units.

    Raises:
        InputError: the column holds no numbers, or one of them is missing or infinite.
    """
    if is_text(column) or column.dtype.kind not in "iuf":
        what = {"b": "true and false", "M": "dates"}.get(column.dtype.kind, "text")
        raise InputError(
            f"label {name!r} holds {what}, --task regression needs numbers. Choose another "
            "column, or leave --task out to predict classes."
        )
    targets = column.astype(np.float64)
    odd = ~np.isfinite(targets)
    if odd.any():
        raise InputError(
            f"label {name!r} is missing or infinite in {odd.sum()} of {len(column)} records, the "
            f"first at row {int(np.argmax(odd))}. Remove these records."
        )
    return targets


def label_rows(
    name: str, column: NDArray[Any], task: str, chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | NDArray[np.float64], tuple[str, ...]]:
    """Labels of the chosen rows, and the names of the classes that occur in them.

    Args:
        name: of the column.
        column: (records,) labels of all rows; all of them are checked.
        task: ``classification`` or ``regression``, which has no classes.
        chosen: rows to return.
    """
    if task == "regression":
        return encode_targets(name, column)[chosen], ()
    codes, classes = encode_labels(name, column)
    used = np.unique(codes[chosen])  # a subset may lack a class; a model is not asked for it
    places = np.searchsorted(used, codes[chosen]).astype(np.int64)
    return places, tuple(classes[code] for code in used)


def check_no_identifiers(features: Columns) -> None:
    """Refuse text columns that name records rather than describe them."""
    found = {}
    for name, column in features.items():
        distinct = len(set(column.tolist())) if is_text(column) else 0
        if distinct > max(2, IDENTIFIER_SHARE * len(column)):
            found[name] = distinct
    if found:
        records = len(next(iter(features.values())))
        listed = ", ".join(f"{name!r} has {count}" for name, count in found.items())
        out = " ".join(f"--drop {name!r}" for name in found)
        raise InputError(
            f"text columns that differ in most of {records} records name them rather than "
            f"describe them: {listed} distinct texts. Leave them out with {out}, or use one as "
            "the id column."
        )


def encode_text(name: str, column: NDArray[Any]) -> Encoded:
    """One feature a level, 1 where the record has it; the rarest levels share one.

    Missing text is a level of its own.
    """
    levels, codes, counts = np.unique(as_text(column), return_inverse=True, return_counts=True)
    notes = []
    if levels[0] == "":
        notes.append(f"Column {name!r}: {counts[0]} missing values are a level of their own.")
    if len(levels) == 1:
        return _constant(name, column, str(levels[0]))
    shown = [level or "(missing)" for level in levels.tolist()]
    if len(levels) > MAX_LEVELS:
        kept = np.sort(np.argsort(-counts, kind="stable")[:MAX_LEVELS])
        position = np.full(len(levels), MAX_LEVELS)
        position[kept] = np.arange(MAX_LEVELS)
        codes = position[codes]
        other = int((codes == MAX_LEVELS).sum())
        notes.append(
            f"Column {name!r}: the {MAX_LEVELS} most frequent of {len(levels)} levels have a "
            f"feature each; the others share one ({other} records)."
        )
        shown = [*(shown[at] for at in kept), "(other)"]
    values = np.zeros((len(column), len(shown)), dtype=np.float32)
    values[np.arange(len(column)), codes] = 1
    return Encoded(values, tuple(f"{name}={level}" for level in shown), tuple(notes))


def encode_number(name: str, column: NDArray[Any]) -> Encoded:
    """Mean 0 and standard deviation 1 over the records given.

    Missing values become the median of the others, with a second feature that says where.

    Raises:
        InputError: a value is infinite.
    """
    notes = []
    gaps = missing(column)
    if column.dtype.kind == "M":
        notes.append(f"Column {name!r}: dates are counted in days.")
        days = column.astype("datetime64[us]").astype(np.int64) / 86_400e6
        numbers = np.where(gaps, np.nan, days)
    else:
        numbers = column.astype(np.float64)
    if np.isinf(numbers).any():
        odd = np.isinf(numbers)
        raise InputError(
            f"column {name!r} has {odd.sum()} infinite values, the first at row "
            f"{int(np.argmax(odd))}. Replace them, or leave the column out with --drop {name!r}."
        )
    present = numbers[~gaps]
    if not len(present):
        note = f"Column {name!r} has no value at all and was left out."
        return Encoded(np.empty((len(column), 0), dtype=np.float32), (), (note,))
    if len(present) == len(column) and present.min() == present.max():
        return _constant(name, column, str(column[0]))
    if len(column) > 2 and column.dtype.kind in "iu" and len(set(column.tolist())) == len(column):
        notes.append(
            f"Column {name!r} is a different whole number in each record; if it names records, "
            f"leave it out with --drop {name!r}."
        )
    # Scaled first, so that the squares of very large or small numbers stay within float64.
    numbers /= np.abs(present).max() or 1.0
    numbers[gaps] = np.median(numbers[~gaps])
    spread = numbers.std()
    parts, names = [], []
    if spread > 0:
        parts.append((numbers - numbers.mean()) / spread)
        names.append(name)
    if gaps.any():
        notes.append(
            f"Column {name!r}: {gaps.sum()} missing values were set to the median and marked."
        )
        parts.append(gaps.astype(np.float64))
        names.append(f"{name} missing")
    return Encoded(np.stack(parts, axis=1).astype(np.float32), tuple(names), tuple(notes))


def _constant(name: str, column: NDArray[Any], value: str) -> Encoded:
    note = f"Column {name!r} is {value!r} in every record and was left out."
    return Encoded(np.empty((len(column), 0), dtype=np.float32), (), (note,))
