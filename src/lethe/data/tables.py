"""Built-in sets by name, tables and arrays by file: records with a label become a `Dataset`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import (
    SUFFIXES,
    Columns,
    as_text,
    check_column,
    encode,
    is_text,
    list_names,
    missing,
    named_column,
    read_columns,
)
from lethe.data.condition import Condition, without_condition
from lethe.data.dataset import (
    IDENTICAL,
    TASKS,
    Dataset,
    Preparation,
    by_content,
    choose_records,
    identical_records,
)
from lethe.data.schema import Schema
from lethe.data.shipped import BUILTIN, builtin
from lethe.errors import InputError, check_choice, did_you_mean

MOST_LEVELS = 50  # categories of a column that get a feature of their own
IDENTIFIER_SHARE = 0.5  # text with more different values than this share of rows names records
_FEATURES = ("X", "features", "x_train")
_LABELS = ("y", "labels", "y_train")
_ARCHIVES = (".npz", ".safetensors")
CLASSES = "the list of classes"
COLUMNS = "types, categories, fills and scales of columns"
"""What is read off all records unless a schema or public rows decide it; see `Preparation`."""

Public = Callable[[int, "NDArray[Any] | None", "NDArray[np.bool_] | None"], NDArray[np.bool_]]
"""(records,) True for public records, of their number, persons and those of `holdout_by`."""


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
    holdout_by: str | None = None,
    identifiers: str = "refuse",
    schema: Schema | None = None,
    public: Public | None = None,
) -> Dataset:
    """Load a built-in set by its name, or a file of records with a label.

    Args:
        target: "digits", "breast-cancer", "diabetes" (regression); or a .csv, .parquet or DuckDB
            file with one record a row; or an .npz or .safetensors file with `X` or `features` and
            `y` or `labels`, or `x_train` and `y_train`, and perhaps `ids`. A file that has the
            name of a built-in set is meant by ``./digits``.
        label: column that the model predicts: text, bool, or whole numbers; in regression numbers.
        id_column: column that names the records. [rows are numbered from 0]
        drop: columns to leave out.
        rows: use a random subset of this many records.
        seed: of everything random.
        missing: missing numbers: "refuse" or "impute", by the median with a further feature that
            says where; missing texts of an autocoder: "refuse" or "leave-out".
        task: what is predicted: "classification", a class, or "regression", a number. Built-in sets
            have theirs. [classification]
        group: column that names the person behind each record, such as user_id. Then every model
            trains on all records of a person or on none, and intervals count persons, not records.
            Without it each record counts as a person of its own: where people have several records,
            that understates what leaks about them. identical-records keeps exact copies of a record
            together where no column does.
        slices: column by which the risk is also reported, such as sex; may be repeated.
        holdout_by: condition on a column, such as "year>=2016", "joined>=2024-03-01" or
            "site=north,west": no model trains on these records, and utility is judged on them, with
            what is lost against random records. Members and others of the attacks stay random among
            the rest. The column may also be named by --drop.
        identifiers: what text that differs in most records does: "refuse" it, or "leave-out" of the
            features (`table` keeps it).
        schema: TOML file (in Python a `Schema`) of the columns' types, values and bounds, which
            then decide categories, fills and scales: `lethe schema FILE` writes a draft. Without it
            and with --epsilon the held-out records decide, as a proof rests on no private record.
        public: told the number of records, their persons and those of `holdout_by` (None without),
            which records are public: these decide what the schema does not.

    Returns:
        Numbers with mean 0 and standard deviation 1, text and bools as one feature a level, both
        over the records used; images (uint8) flattened and divided by 255. With `schema` or
        `public` they are prepared without a look at the other records, as a proof about a model of
        them needs: see `lethe.data.preparation`.

    Raises:
        InputError: neither a built-in set nor a file; or the file, a column or a value breaks a
            rule; the message says which.

    >>> len(load("digits", rows=100))
    100
    """
    name, path = str(target), Path(target)
    person = None if group == IDENTICAL else group
    if name in BUILTIN:
        for_files = {"label": label, "id_column": id_column, "group": person}
        beside = {"holdout_by": holdout_by, "drop": drop or None, "slice": list(slices) or None}
        for option, value in {**for_files, **beside}.items():
            if value is not None:
                raise InputError(
                    f"{option}={value!r} is for files; the built-in set {name!r} is complete. "
                    f"Leave it out, or name a file such as ./{name}.csv."
                )
        data = builtin(name, rows, seed, public)
        if schema is not None:
            raise InputError(f"schema is for files; the built-in set {name!r} has its own types.")
        if task is not None and check_choice("task", task, TASKS) != data.task:
            raise InputError(
                f"task={task!r} does not fit the built-in set {name!r}, which is for {data.task}."
            )
        return by_content(data) if group == IDENTICAL else data
    if not path.exists() and path.suffix.lower() not in SUFFIXES and path.name == name:
        raise InputError(
            f"{name!r} is neither a file nor a built-in set.{did_you_mean(name, BUILTIN)} "
            f"Built-in sets: {', '.join(map(repr, BUILTIN))}; files: {', '.join(SUFFIXES)}."
        )
    check_choice("missing", missing, ("refuse", "impute"))
    task = check_choice("task", task or "classification", TASKS)
    columns = read_columns(path, drop=without_condition(drop, holdout_by))
    inputs = None
    if path.suffix.lower() in _ARCHIVES:
        if slices:
            raise InputError(
                f"slice={slices[0]!r} is for tables; {path} is an archive. Save it as csv or "
                "parquet."
            )
        inputs, label, id_column = _arrays_of(path, columns, label, id_column, person, holdout_by)
    if label is not None and label in drop:
        raise InputError(f"label {label!r} is also in drop. Take it out of drop.")
    label = named_column("label", label, columns, path)
    used = {label: "label"} if inputs is None else {label: "label", inputs: "features"}
    chosen = choose_records(
        path,
        columns,
        used,
        id_column=id_column,
        group=person,
        slices=slices,
        rows=rows,
        seed=seed,
        holdout_by=holdout_by,
    )
    rest = {name: v for name, v in columns.items() if name not in {*used, id_column, person, *drop}}
    encoded = None if inputs is None else _encode_array(columns[inputs], chosen.rows, list(rest))
    label_notes: tuple[str, ...] = ()
    if schema is None and public is None:
        labels, classes = label_rows(label, columns[label], task, chosen.rows)
        encoded = encoded or _encode_columns(path, rest, chosen.rows, missing, identifiers)
        read_off = (CLASSES,) * bool(classes) + (COLUMNS,) * (inputs is None)
        preparation = Preparation(None, read_off)
    else:
        from lethe.data.preparation import prepare_columns, prepare_label

        if path.suffix.lower() == ".csv":
            columns = read_columns(path, list(dict.fromkeys([label, *rest])), untyped=True)
        kept = rest if inputs is None else {}
        raw = {name: columns[name][chosen.rows] for name in (label, *kept)}
        if group == IDENTICAL:  # by what is in the file: features would hang on who is public
            content = [encode(column).codes for column in raw.values()]
            content += [] if encoded is None else list(encoded.values.T)
            first = identical_records(np.column_stack(content), np.zeros(len(chosen.ids)))
            chosen = replace(chosen, groups=chosen.ids[first])
        external = None if chosen.external is None else chosen.external.rows
        held = None if public is None else public(len(chosen.rows), chosen.groups, external)
        assumed = () if schema is None else schema.assumptions()
        preparation = Preparation(held, (), assumed)
        labels, classes, label_notes = prepare_label(label, raw.pop(label), task, held, schema)
        encoded = encoded or Encoded(*prepare_columns(raw, held, schema))
    data = Dataset(
        name=path.stem,
        features=encoded.values,
        labels=labels,
        classes=classes,
        ids=chosen.ids,
        feature_names=encoded.names,
        source=f"{path.name}, "
        + (f"label {label!r}" if inputs is None else f"arrays {inputs!r} and {label!r}"),
        notes=(*encoded.notes, *label_notes, *chosen.notes),
        groups=chosen.groups,
        slices=chosen.slices,
        preparation=preparation,
        table=None if inputs else {name: column[chosen.rows] for name, column in rest.items()},
        external=chosen.external,
    )
    return by_content(data) if group == IDENTICAL and data.groups is None else data


def _arrays_of(
    path: Path,
    columns: Columns,
    label: str | None,
    id_column: str | None,
    person: str | None,
    holdout_by: str | None,
) -> tuple[str, str, str | None]:
    """Names of an archive's features, labels and ids, whose arrays then have one row a record."""
    inputs = _find(path, columns, _FEATURES, "features")
    label = label or _find(path, columns, _LABELS, "labels")
    id_column = id_column or ("ids" if "ids" in columns else None)
    features = columns[inputs]
    if features.ndim < 2:
        raise InputError(
            f"{path}: {inputs!r} has shape {features.shape}, it must be (records, features) or "
            "(records, height, width, ...). Use .reshape(records, -1)."
        )
    if features.dtype.kind not in "fb" and features.dtype != np.uint8:
        raise InputError(
            f"{path}: {inputs!r} has dtype {features.dtype}, it must be float, bool or uint8. "
            "Scale it and use .astype('float32')."
        )
    by = None if holdout_by is None else Condition.read(holdout_by).column
    options = {"label": label, "id_column": id_column, "group": person, "holdout_by": by}
    for option, column in options.items():
        if column is None:
            continue
        check_column(option, column, columns, path)
        if column == inputs and option != "label":
            continue
        values = columns[column]
        if values.ndim == 2 and values.shape[1] == 1:  # as Keras writes one value a record
            values = columns[column] = values[:, 0]
        if values.shape != (len(features),):
            hint = " One-hot labels become classes with .argmax(axis=1)." * (values.ndim == 2)
            raise InputError(
                f"{path}: {column!r} has shape {values.shape}, the features have {len(features)} "
                f"records: it must be ({len(features)},).{hint}"
            )
    return inputs, label, id_column


def _find(path: Path, columns: Columns, names: tuple[str, ...], what: str) -> str:
    """The one array that stands for `what`."""
    present = [name for name in names if name in columns]
    if not present:
        raise InputError(
            f"{path} has no {what}. Name the array one of {list_names(names)}; it has "
            f"{list_names(columns)}."
        )
    if len(present) > 1:
        raise InputError(
            f"{path} has several arrays of {what}: {list_names(present)}. Leave all but one out "
            f"with --drop {present[-1]!r}."
        )
    return present[0]


@dataclass(frozen=True)
class Encoded:
    """The features of one column.

    Attributes:
        values: float32 (records, features of this column); no feature if it carries nothing.
    """

    values: NDArray[np.float32]
    names: tuple[str, ...]  # one for each feature
    notes: tuple[str, ...] = ()  # what was decided


def encode_labels(name: str, column: NDArray[Any]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class codes (records,) and class names, sorted by value.

    Raises InputError: labels are missing, are continuous, or there are nearly as many as records.
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

    Raises InputError: the column holds no numbers, or one of them is missing or infinite.
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
        column: (records,) labels of all rows; all of them are checked.
        task: ``classification`` or ``regression``, which has no classes.
    """
    if task == "regression":
        return encode_targets(name, column)[chosen], ()
    codes, classes = encode_labels(name, column)
    used = np.unique(codes[chosen])  # a subset may lack a class; a model is not asked for it
    places = np.searchsorted(used, codes[chosen]).astype(np.int64)
    return places, tuple(classes[code] for code in used)


def identifiers_of(features: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Text columns that name records rather than describe them, with how many texts each has."""
    counts = {
        name: len(set(column.tolist())) for name, column in features.items() if is_text(column)
    }
    return {
        name: distinct
        for name, distinct in counts.items()
        if distinct > max(2, IDENTIFIER_SHARE * len(features[name]))
    }


def _told_identifiers(features: Columns) -> str:
    """Say what is wrong with identifying columns, and the ways out; empty if nothing is."""
    identifiers = identifiers_of(features)
    if not identifiers:
        return ""
    records = len(next(iter(features.values())))
    listed = ", ".join(f"{name!r} has {count}" for name, count in identifiers.items())
    out = " ".join(f"--drop {name!r}" for name in identifiers)
    unique = [name for name, count in identifiers.items() if count == records]
    ids = f", and use {unique[0]!r} as names of the records with --id-column" if unique else ""
    return (
        f"text columns that differ in most of {records} records name them rather than "
        f"describe them: {listed} distinct texts. Leave them out with {out}{ids}."
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
    if len(levels) > MOST_LEVELS:
        frequent = np.sort(np.argsort(-counts, kind="stable")[:MOST_LEVELS])
        position = np.full(len(levels), MOST_LEVELS)
        position[frequent] = np.arange(MOST_LEVELS)
        codes = position[codes]
        other = int((codes == MOST_LEVELS).sum())
        notes.append(
            f"Column {name!r}: the {MOST_LEVELS} most frequent of {len(levels)} levels have a "
            f"feature each; the others share one ({other} records)."
        )
        shown = [*(shown[at] for at in frequent), "(other)"]
    values = np.zeros((len(column), len(shown)), dtype=np.float32)
    values[np.arange(len(column)), codes] = 1
    return Encoded(values, tuple(f"{name}={level}" for level in shown), tuple(notes))


def encode_number(name: str, column: NDArray[Any]) -> Encoded:
    """Mean 0 and standard deviation 1 over the records given.

    Missing values become the median of the others, with a second feature that says where.

    Raises InputError: a value is infinite.
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


def encode_each(columns: Columns) -> Encoded:
    """The features of all columns side by side: text and bools by level, others as numbers."""
    parts = [
        (encode_text if is_text(values) or values.dtype.kind == "b" else encode_number)(
            name, values
        )
        for name, values in columns.items()
    ]
    return Encoded(
        np.concatenate([part.values for part in parts], axis=1),
        tuple(name for part in parts for name in part.names),
        tuple(note for part in parts for note in part.notes),
    )


def _constant(name: str, column: NDArray[Any], value: str) -> Encoded:
    note = f"Column {name!r} is {value!r} in every record and was left out."
    return Encoded(np.empty((len(column), 0), dtype=np.float32), (), (note,))


def _encode_array(
    features: NDArray[Any], chosen: NDArray[np.int64], unread: Sequence[str]
) -> Encoded:
    notes, shape = [], features.shape[1:]
    flat = features[chosen].reshape(len(chosen), -1)
    if flat.dtype == np.uint8:
        values = np.divide(flat, 255, dtype=np.float32)
        notes.append("Whole numbers 0 to 255 divided by 255.")
    else:
        with np.errstate(over="ignore"):  # Dataset refuses what becomes infinite, by name
            values = np.ascontiguousarray(flat, dtype=np.float32)
    if unread:
        notes.append(f"Arrays that were not used: {list_names(unread)}.")
    if len(shape) == 1:
        names = [f"x{at}" for at in range(*shape)]
    else:  # of images by position
        names = [f"x[{','.join(map(str, at))}]" for at in np.ndindex(shape)]
    return Encoded(values, tuple(names), tuple(notes))


def _encode_columns(
    path: Path, columns: Columns, chosen: NDArray[np.int64], gaps: str, identifiers: str
) -> Encoded:
    features = {name: values[chosen] for name, values in columns.items()}
    left = {} if identifiers == "refuse" else identifiers_of(columns)
    wrong = [
        "" if identifiers == "leave-out" else _told_identifiers(columns),
        _told_gaps(path, features) if gaps == "refuse" else "",
    ]
    if any(wrong):
        raise InputError(" Also: ".join(text for text in wrong if text))
    features = {name: values for name, values in features.items() if name not in left}
    if not features:
        raise InputError(_told_identifiers(columns))
    encoded = encode_each(features)
    if not encoded.names:
        raise InputError(f"{path} has no features beside the label that vary. Drop fewer columns.")
    if all(is_text(values) for values in features.values()):
        return encoded
    note = "Numeric features have mean 0 and standard deviation 1 over all records."
    return replace(encoded, notes=(*encoded.notes, note))


def _told_gaps(path: Path, features: Columns) -> str:
    """A gap in a number has no value that could be assumed without being asked."""
    gaps = {
        name: int(missing(values).sum())
        for name, values in features.items()
        if not is_text(values) and missing(values).any()
    }
    if not gaps:
        return ""
    records = len(next(iter(features.values())))
    listed = ", ".join(f"{name!r} in {count}" for name, count in list(gaps.items())[:5])
    more = f" and {len(gaps) - 5} more columns" if len(gaps) > 5 else ""
    return (
        f"{path} has missing numbers: {listed}{more} of {records} records. Set them to the "
        "median and mark them with --missing impute, or leave columns out with --drop NAME."
    )
