"""Columns as numbers without a look at private rows: by a schema, or by rows that are public.

A category, a fill, a scale or a class that is read off all rows is a release of its own, which no
noise covers: one more person can change the number of a model's parameters. Here a schema or the
public rows decide types, categories, fills, scales, classes and which columns have gaps; from then
on a record's numbers are a function of that record alone, and no record is refused.

Guarantee: two tables with equal public rows and one schema get columns of equal number, names and
    classes, and each private record gets the same numbers in both.
Assumes: the public rows, or the schema, do not depend on private records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import as_text, is_text
from lethe.data.schema import DAY, Column, Schema
from lethe.data.source import TypedColumn
from lethe.data.tables import IDENTIFIER_SHARE, MOST_LEVELS, encode_labels, encode_targets
from lethe.data.typed import cast
from lethe.errors import InputError

MOST_DEVIATIONS = 5.0  # from the public mean; what lies beyond is cut off
Float = NDArray[np.float64]


def prepare_columns(
    columns: Mapping[str, NDArray[Any]],
    public: NDArray[np.bool_] | None = None,
    schema: Schema | None = None,
) -> tuple[NDArray[np.float32], tuple[str, ...], tuple[str, ...]]:
    """Features, their names, and notes.

    Args:
        columns: (records,) by name, as read; with a schema those it lacks are left out.
        public: (records,) True for public records.
        schema: types, values, bounds and gaps; what it leaves open the public rows decide.

    Raises InputError: nothing is left, or a column that neither a schema nor public rows settle.
    """
    parts, names, notes = [], [], []
    for name, column in columns.items():
        if schema is not None and name not in schema:
            notes.append(f"Column {name!r} is not in the schema and was left out.")
            continue
        declared = _declared(name, column, public, schema)
        typed = cast(column, declared)
        if declared.values is not None or declared.type == "text":
            values, levels, note = _categories(typed, declared, public, schema is not None)
        else:
            values, levels, note = _numbers(typed, declared, public, schema is not None)
        parts.append(values)
        names += [name + level for level in levels]
        notes += [f"Column {name!r}{note}"] if note else []
    if not names:
        raise InputError("no column varies among the public rows, or the schema has none of them.")
    return np.concatenate(parts, axis=1).astype(np.float32), tuple(names), tuple(notes)


def prepare_label(
    name: str,
    column: NDArray[Any],
    task: str,
    public: NDArray[np.bool_] | None = None,
    schema: Schema | None = None,
) -> tuple[NDArray[np.int64] | NDArray[np.float64], tuple[str, ...], tuple[str, ...]]:
    """Labels, classes (none for a regression), and notes.

    A class that neither the schema nor a public row names counts as the most frequent public class
    (the first of the schema). Targets are cut off as features are; missing ones take the median.

    Raises InputError: public labels that are no classes or no numbers.
    """
    if schema is not None and name not in schema:
        raise InputError(f"label {name!r} is not in the schema. Declare its type and values there.")
    declared = _declared(name, column, public, schema)
    typed = cast(column, declared)
    if task == "regression":
        numbers, there = _days(typed, declared), typed.present
        if declared.bounds is not None:
            low, high, fill = *declared.bounds, sum(declared.bounds) / 2
        else:
            seen = encode_targets(name, _seen(name, _plain(typed, declared), there, public))
            spread = MOST_DEVIATIONS * seen.std()
            low, high, fill = seen.mean() - spread, seen.mean() + spread, np.median(seen)
        return np.clip(np.where(there, numbers, fill), low, high), (), ()
    values, first = _plain(typed, declared), 0
    if schema is None and declared.type == "bool":
        values = values.astype(np.int64)  # as beside a gap, where some readers make numbers of it
    if declared.values is not None or (schema is not None and declared.type == "bool"):
        listed = declared.values or (False, True)
        classes = tuple(str(declared.shown(value)) for value in listed)
    else:
        codes, classes = encode_labels(name, _seen(name, values, typed.present, public))
        first = int(np.bincount(codes).argmax())
    code = {value: place for place, value in enumerate(classes)}
    cells = zip(as_text(values).tolist(), typed.present.tolist(), strict=True)
    labels = np.array([code.get(text, -1) if there else -1 for text, there in cells], np.int64)
    unknown = int((labels < 0).sum())
    note = f"{unknown} records of a class that no public row has count as {classes[first]!r}."
    return np.where(labels < 0, first, labels), classes, (note,) * bool(unknown)


def by_public(numbers: Float, public: NDArray[np.bool_]) -> Float:
    """Columns (records, d) with mean 0 and standard deviation 1 over the public rows.

    What lies more than `MOST_DEVIATIONS` from the public mean is cut off before the columns are
    standardised again. Columns that are equal in all public rows become 0.
    """
    for cut in (MOST_DEVIATIONS, np.inf):
        centre, spread = numbers[public].mean(axis=0), numbers[public].std(axis=0)
        varies = spread > 1e-12
        numbers = np.where(varies, (numbers - centre) / np.where(varies, spread, 1.0), 0.0)
        numbers = np.clip(numbers, -cut, cut)
    return numbers


def _declared(
    name: str, column: NDArray[Any], public: NDArray[np.bool_] | None, schema: Schema | None
) -> Column:
    if schema is not None:
        return schema[name]
    assert public is not None
    return Column(name, _type_of(column[public]))


def _type_of(cells: NDArray[Any]) -> str:
    """The type of public cells, whatever array the private ones made the reader choose."""
    if not is_text(cells):
        return {"b": "bool", "M": "time"}.get(cells.dtype.kind, "number")
    texts = [text for cell in cells.tolist() if (text := str(cell).strip().lower()) not in _BLANK]
    if texts and set(texts) <= {"true", "false"}:
        return "bool"
    if any(re.fullmatch("[+-]?0[0-9]+", text) for text in texts):
        return "text"  # a zip code or an id
    listed = np.array(texts, dtype=object)
    for kind in ("number", "time"):
        if cast(listed, Column("cells", kind)).present.all():
            return kind
    return "text"


_BLANK = ("", "nan")


def _seen(
    name: str, values: NDArray[Any], there: NDArray[np.bool_], public: NDArray[np.bool_] | None
) -> NDArray[Any]:
    """The public values of a column that are there."""
    if public is None:
        raise InputError(
            f"column {name!r} has no values or bounds in the schema, and no rows are public to "
            "take them from. Declare them."
        )
    return values[public & there]


def _days(typed: TypedColumn, declared: Column) -> Float:
    numbers = typed.values.astype(np.float64)
    return numbers / DAY if declared.type == "time" else numbers


def _plain(typed: TypedColumn, declared: Column) -> NDArray[Any]:
    """Labels as columns of files are; what is missing has any value."""
    if declared.type in ("date", "time"):
        return typed.values.astype("datetime64[D]" if declared.type == "date" else "datetime64[us]")
    return typed.values


def _numbers(
    typed: TypedColumn, declared: Column, public: NDArray[np.bool_] | None, by_schema: bool
) -> tuple[Float, list[str], str]:
    """One feature, and one that marks gaps where the schema or the public rows have them."""
    numbers, there = _days(typed, declared), typed.present
    bounds = (0.0, 1.0) if by_schema and declared.type == "bool" else declared.bounds
    if bounds is not None:
        unit = DAY if declared.type == "time" else 1
        low, high = bounds[0] / unit, bounds[1] / unit
        if declared.outside == "missing":
            there = there & (numbers >= low) & (numbers <= high)
        values = np.clip((numbers - low) / (high - low or 1.0), 0.0, 1.0)
        values, note = np.where(there, values, 0.5)[:, None], ""
    else:
        seen = _seen(declared.name, numbers, there, public)
        seen = seen[np.isfinite(seen)]
        if not len(seen):
            note = " has no value in a public row and was left out."
            return np.empty((len(numbers), 0)), [], note
        assert public is not None
        # Scaled first, so that the squares of very large or small numbers stay within float64.
        largest = np.abs(seen).max() or 1.0
        with np.errstate(over="ignore"):
            scaled = np.where(there, numbers, np.median(seen)) / largest
        centre, spread = (seen / largest).mean(), MOST_DEVIATIONS * (seen / largest).std()
        values = by_public(np.clip(scaled, centre - spread, centre + spread)[:, None], public)
        note = ""
        if not values[public].any():
            values, note = values[:, :0], " is equal in all public rows and was left out."
    gaps = declared.missing if by_schema else bool(public is not None and not there[public].all())
    names = [""] * values.shape[1]
    if gaps:
        values, names = np.column_stack([values, ~there]), [*names, " missing"]
    return values, names, note


def _categories(
    typed: TypedColumn, declared: Column, public: NDArray[np.bool_] | None, by_schema: bool
) -> tuple[Float, list[str], str]:
    """One feature a category, then one for all others, and one for gaps as in `_numbers`."""
    values, there = typed.values.astype(object), typed.present
    levels, note = list(declared.values or ()), ""
    if declared.values is None:
        seen = _seen(declared.name, values, there, public)
        listed, counts = np.unique(seen.astype(str), return_counts=True)
        if len(listed) > max(2, IDENTIFIER_SHARE * len(seen)):
            note = " differs in most public rows, so that it names records, and was left out."
            return np.empty((len(values), 0)), [], note
        often = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
        levels = sorted(map(str, listed[often]))
    gaps = declared.missing if by_schema else bool(public is not None and not there[public].all())
    code = {value: place for place, value in enumerate(levels)}
    other, blank = len(levels), len(levels) + gaps
    strange = blank if by_schema else other  # what does not fit a schema is missing
    codes = [
        code.get(value, strange) if present else blank
        for value, present in zip(values.tolist(), there.tolist(), strict=True)
    ]
    table = np.zeros((len(values), len(levels) + 1 + gaps))
    table[np.arange(len(values)), codes] = 1
    names = [f"={declared.shown(level)}" for level in levels] + ["=(other)"]
    return table, [*names, *["=(missing)"] * gaps], note
