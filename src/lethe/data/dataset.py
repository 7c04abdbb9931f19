"""`Dataset`: what every loader gives: records as rows of numbers, one label each, one id each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import (
    Columns,
    as_text,
    check_column,
    encode,
    is_text,
    list_names,
    missing,
)
from lethe.data.condition import Condition, External, checked
from lethe.errors import InputError, check_at_least

TASKS = ("classification", "regression")
_FEW = 10  # numbers of at most so many values are slices as they are, others by quarters


@dataclass(frozen=True, eq=False)
class Preparation:
    """What decided how records became numbers, as far as a proof rests on it.

    Nothing in it means that the numbers came as they are, or were made by constants.

    Attributes:
        public: (records,) bool, True for the records that decided and that no model may train on.
        read_off: what was read off all records, members among them: it ends a proof.
        assumed: what a proof has to say of the schema that decided, if one did.
    """

    public: NDArray[np.bool_] | None = None
    read_off: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Dataset:
    """Records with features, labels and names; checked when made, not to be written to.

    Attributes:
        name: what reports call it.
        features: float32 (records, features), finite.
        labels: int64 (records,), positions in `classes`; in regression float64 (records,),
            the numbers that a model predicts.
        classes: the names of the classes, at least two; none says that this is regression.
        ids: text (records,), one unique name for each record.
        feature_names: one name for each feature.
        source: where it is from, in words; no path of a machine.
        notes: what the loader decided and a reader should know.
        groups: text (records,), the person of each record; None when each record is its own.
        slices: name to text (records,), groups of records to report the risk of.
        table: name to (records,), the features as a file has them, for models that encode them
            by themselves; None where there are no columns.
        external: records that no model trains on and utility is judged on; None = random ones.
        own_columns: whether models read `table` and not `features`: then copies are those of it.
        preparation: what decided the features and the classes, on which proofs rest.

    Raises:
        InputError: a shape or dtype is wrong, a feature is NaN or infinite, the labels
            are all the same, or an id stands twice.

    >>> features, labels = np.eye(4, dtype=np.float32), np.array([0, 0, 1, 1])
    >>> ids, names = np.array(list("abcd")), ("a", "b", "c", "d")
    >>> Dataset("four", features, labels, ("no", "yes"), ids, names, "by hand").task
    'classification'
    """

    name: str
    features: NDArray[np.float32]
    labels: NDArray[np.int64] | NDArray[np.float64]
    classes: tuple[str, ...]
    ids: NDArray[np.str_]
    feature_names: tuple[str, ...]
    source: str
    notes: tuple[str, ...] = ()
    groups: NDArray[np.str_] | None = None
    slices: Mapping[str, NDArray[np.str_]] = field(default_factory=dict)
    table: Mapping[str, NDArray[Any]] | None = None
    external: External | None = None
    own_columns: bool = False
    preparation: Preparation = Preparation()

    def __post_init__(self) -> None:
        self._check_shapes()
        self._check_features()
        check_unique_ids(self.name, self.ids)
        if self.groups is not None and (self.groups == "").any():
            raise InputError(
                f"groups of {self.name!r} are empty for {int((self.groups == '').sum())} records. "
                "Name these persons."
            )
        self._check_external()
        public = self.preparation.public
        if public is not None and not 2 <= public.sum() <= len(public) - 2:
            raise InputError(
                f"public of {self.name!r} names {int(public.sum())} of {len(public)} records; at "
                "least 2 must be public, to prepare by, and 2 not, to train on."
            )
        notes: list[str | None] = [*self.notes]
        notes.append(copies_note(self.content, self.labels, self.groups))
        if self.task == "regression":
            self._check_targets()
        else:
            notes.append(self._check_labels())
        object.__setattr__(self, "notes", tuple(dict.fromkeys(filter(None, notes))))

    def __len__(self) -> int:
        """Number of records."""
        return len(self.labels)

    @property
    def content(self) -> NDArray[Any]:
        """(N, F) what models read of each record, as numbers: records are copies if it is equal."""
        if not self.own_columns or not self.table:
            return self.features
        return np.column_stack([encode(column).codes for column in self.table.values()])

    @property
    def task(self) -> str:
        """What a model does with these records: ``classification`` or ``regression``."""
        return "classification" if self.classes else "regression"

    def _check_shapes(self) -> None:
        if self.features.ndim != 2 or self.features.dtype != np.float32:
            raise InputError(
                f"features of {self.name!r} have shape {self.features.shape} and dtype "
                f"{self.features.dtype}, they must be (records, features) and float32. "
                "Use .reshape(records, -1).astype('float32')."
            )
        records, width = self.features.shape
        external = None if self.external is None else self.external.rows
        for name, array, kind in (
            ("labels", self.labels, "int64" if self.classes else "float64"),
            ("ids", self.ids, "str"),
            ("groups", self.groups, "str"),
            ("holdout_by", external, "bool"),
            ("public", self.preparation.public, "bool"),
        ):
            if array is None or array.shape == (records,) and array.dtype.name.startswith(kind):
                continue
            raise InputError(
                f"{name} of {self.name!r} have shape {array.shape} and dtype {array.dtype}, they "
                f"must be ({records},) and {kind}: one for each record. Use .astype({kind!r})."
            )
        if len(self.feature_names) != width:
            raise InputError(
                f"feature_names of {self.name!r} has {len(self.feature_names)} names for {width} "
                "features: give one for each."
            )
        if not width or not records:
            raise InputError(
                f"{self.name!r} has {records} records and {width} features, "
                "there must be at least one of each."
            )

    def _check_features(self) -> None:
        odd = ~np.isfinite(self.features)
        if odd.any():
            row, column = np.argwhere(odd)[0]
            raise InputError(
                f"features of {self.name!r} have {odd.sum()} values that are NaN, infinite or "
                f"beyond float32, the first in column {self.feature_names[column]!r} of record "
                f"{str(self.ids[row])!r}. Fill them or leave these records out."
            )

    def _check_targets(self) -> None:
        if not np.isfinite(self.labels).all():
            row = int(np.argmin(np.isfinite(self.labels)))
            raise InputError(
                f"labels of {self.name!r} are NaN or infinite, the first of record "
                f"{str(self.ids[row])!r}. Leave these records out."
            )
        if self.labels.min() == self.labels.max():
            raise InputError(
                f"labels of {self.name!r} are all {self.labels[0]:g}: there is nothing to predict. "
                "Choose another label, or more rows."
            )

    def _check_labels(self) -> str | None:
        """Check the classes; return a note on those with few records."""
        low, high = self.labels.min(), self.labels.max()
        if low < 0 or high >= len(self.classes):
            raise InputError(
                f"labels of {self.name!r} run from {low} to {high}, with {len(self.classes)} "
                f"classes they must lie in [0, {len(self.classes) - 1}]. Encode them anew."
            )
        if low == high:
            raise InputError(
                f"labels of {self.name!r} are all {self.classes[low]!r}, there must be at least "
                "two classes. Choose another label, or more rows."
            )
        counts = np.bincount(self.labels, minlength=len(self.classes))
        rare = [name for name, count in zip(self.classes, counts, strict=True) if count < 2]
        if not rare:
            return None
        return (
            "Classes with fewer than 2 records, which a model trained on half of the records may "
            f"never see: {list_names(rare)}."
        )

    def _check_external(self) -> None:
        if self.external is None:
            return
        rows = self.external.rows
        checked(self.external, "name other records")
        if len(np.unique(self.labels[~rows])) < 2:
            raise InputError(
                f"holdout_by={self.external.by!r} leaves records of one label to train on. Hold "
                "out others."
            )
        if not self.classes and len(np.unique(self.labels[rows])) < 2:
            raise InputError(
                f"holdout_by={self.external.by!r} names records of one target, on which R² is not "
                "defined. Hold out others."
            )


def check_unique_ids(name: str, ids: NDArray[Any]) -> None:
    """Refuse ids that stand twice or are empty."""
    values, counts = np.unique(ids, return_counts=True)
    if values[0] == "":
        raise InputError(
            f"ids of {name!r} are missing for {counts[0]} records, the first at row "
            f"{int(np.argmax(ids == ''))}. Name these records, or leave the ids out: rows are "
            "numbered then."
        )
    if counts.max() > 1:
        twice = str(values[np.argmax(counts > 1)])
        raise InputError(
            f"ids of {name!r} are not unique: {twice!r} stands "
            f"{counts[np.argmax(counts > 1)]} times, and {int((counts > 1).sum())} ids more than "
            "once. Keep one record each, or leave the ids out: rows are numbered then."
        )


def choose_rows(
    records: int, rows: int | None, seed: int, groups: NDArray[Any] | None = None
) -> NDArray[np.int64]:
    """Positions of a random subset of `rows` records in file order; all if `rows` is None.

    With `groups` (records,) the subset is of whole persons, with at most `rows` records.

    Raises InputError: `rows` is below 2 or above `records`.
    """
    if rows is None:
        return np.arange(records, dtype=np.int64)
    check_at_least("rows", rows, 2)
    if rows > records:
        raise InputError(f"rows={rows} is more than the {records} records there are. Ask fewer.")
    if groups is not None:
        return choose_persons(groups, rows, seed)
    return np.sort(np.random.default_rng(seed).choice(records, rows, replace=False))


def subset(dataset: Dataset, rows: int | None, seed: int) -> Dataset:
    """The dataset cut to a seeded random subset of its records; classes stay as they are."""
    if rows is None:
        return dataset
    chosen = choose_rows(len(dataset), rows, seed, dataset.groups)
    return replace(
        dataset,
        features=dataset.features[chosen],
        labels=dataset.labels[chosen],
        ids=dataset.ids[chosen],
        notes=(*dataset.notes, subset_note(len(chosen), len(dataset), seed)),
        groups=None if dataset.groups is None else dataset.groups[chosen],
        slices={name: values[chosen] for name, values in dataset.slices.items()},
        external=dataset.external and dataset.external._replace(rows=dataset.external.rows[chosen]),
    )


def by_content(dataset: Dataset) -> Dataset:
    """Group exact copies of a record (features and label) as one person."""
    first = identical_records(dataset.content, dataset.labels)
    named = copies_note(dataset.content, dataset.labels)
    several = int((np.bincount(first) > 1).sum())
    note = f"Exact copies of a record count as one person; {several} records have copies."
    notes = tuple(text for text in dataset.notes if text != named)
    return replace(dataset, groups=dataset.ids[first], notes=(*notes, note))


def subset_note(rows: int, records: int, seed: int) -> str:
    """Word the note on a random subset."""
    return f"{rows} of {records} records, chosen at random with seed {seed}."


def row_names(rows: Iterable[int]) -> NDArray[np.str_]:
    """Ids for records that have none: their row in the source, from 0."""
    return np.array([str(row) for row in rows], dtype=np.str_)


IDENTICAL = "identical-records"
"""Name of the groups that are made of copies, where no column has it."""


def identical_records(features: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """(N,) for each record the first with the same features and label.

    >>> identical_records(np.array([[1.0], [2.0], [1.0], [1.0]]), np.array([0, 0, 0, 1])).tolist()
    [0, 1, 0, 3]
    """
    first: dict[bytes, int] = {}
    originals = np.empty(len(labels), np.intp)
    for row, (inputs, label) in enumerate(zip(features, labels, strict=True)):
        content = hashlib.blake2b(np.ascontiguousarray(inputs).tobytes(), digest_size=16)
        content.update(label.tobytes())
        originals[row] = first.setdefault(content.digest(), row)
    return originals


def copies_note(
    features: NDArray[Any], labels: NDArray[Any], groups: NDArray[Any] | None = None
) -> str | None:
    """Word the note on records that occur several times; None where there are none.

    Copies within one person are no surprise: they are trained on together.
    """
    first = identical_records(features, labels)
    copies = first != np.arange(len(first))
    if groups is not None:
        copies &= groups != groups[first]
    count = int(copies.sum())
    if not count:
        return None
    several = len(np.unique(first[copies]))
    way_out = f"--group {IDENTICAL} keeps copies together and counts them once"
    if groups is not None:
        way_out = "declare persons who share a record as one, or drop the copies"
    return (
        f"{count} of {len(first)} records are exact copies of another ({several} distinct records "
        "stand more than once). A model can train on one copy while the other counts as unseen, "
        f"which hides what leaks: {way_out}."
    )


def choose_persons(groups: NDArray[Any], rows: int, seed: int) -> NDArray[np.int64]:
    """Positions, in file order, of the records of random persons: at most `rows` of them.

    Persons come in random order and each is taken if its records still fit.

    Raises InputError: nobody fits.
    """
    _, person_of, counts = np.unique(groups, return_inverse=True, return_counts=True)
    taken = np.zeros(len(counts), dtype=bool)
    room = rows
    for person in np.random.default_rng(seed).permutation(len(counts)):
        if counts[person] <= room:
            taken[person] = True
            room -= int(counts[person])
    if not taken.any():
        raise InputError(
            f"rows={rows} is less than the {counts.min()} records of the smallest person. Ask more."
        )
    return np.flatnonzero(taken[person_of])


@dataclass(frozen=True, eq=False)
class Chosen:
    """The records of a file that are used."""

    rows: NDArray[np.int64]  # (records,) their places in the file, ascending
    ids: NDArray[np.str_]  # text (records,), see `Dataset`; so are the next two
    groups: NDArray[np.str_] | None  # text (records,), or None
    slices: Mapping[str, NDArray[np.str_]]  # name to text (records,)
    notes: tuple[str, ...]  # what a reader should know of the choice
    external: External | None  # those that no model trains on


def choose_records(
    path: Path,
    columns: Columns,
    used: Mapping[str, str],
    *,
    id_column: str | None,
    group: str | None,
    slices: Sequence[str],
    rows: int | None,
    seed: int,
    among: NDArray[np.int64] | None = None,
    holdout_by: str | None = None,
) -> Chosen:
    """Choose records of a file, and find their names, persons and slices.

    Args:
        columns: all of it, (records,) each.
        used: what columns are taken for already: name of the column to name of the option.
        id_column: that names the records; None = their row, from 0.
        group: column of persons; whole persons are chosen.
        slices: columns by which the risk is reported; they may be features too.
        rows: how many records at most; None = all.
        among: (candidates,) rows that may be chosen; None = all.
        holdout_by: condition on a column; no model trains on records that meet it.

    Raises InputError: no such column, one with another task already, ids that are not unique, or a
        record without its person.
    """
    used = dict(used)
    if id_column is not None:
        if id_column in used:
            raise InputError(f"id_column={id_column!r} is also the {used[id_column]}.")
        check_column("id_column", id_column, columns, path)
        check_unique_ids(path.stem, as_text(columns[id_column]))
        used[id_column] = "id column"
    if among is None:
        among = np.arange(len(columns[next(iter(used))]))
    groups = None
    if group is not None:
        if group in used:
            raise InputError(f"group={group!r} is also the {used[group]}. Choose another column.")
        check_column("group", group, columns, path)
        gaps = missing(columns[group][among])
        if gaps.any():
            raise InputError(
                f"group {group!r} is missing in {gaps.sum()} of {len(gaps)} records, the first at "
                f"row {int(np.argmax(gaps))}: it cannot be said which records stay together. Name "
                "these persons (each its own name, if they are strangers), or remove the records."
            )
        groups = as_text(columns[group][among])
    places = choose_rows(len(among), rows, seed, groups)
    chosen = among[places]
    notes = [] if rows is None else [subset_note(len(places), len(among), seed)]
    if group is not None and groups is not None:
        groups = groups[places]
        _, counts = np.unique(groups, return_counts=True)
        note = f"Column {group!r} names a person for each record: every person has one record."
        if counts.max() > 1:
            note = f"{len(counts)} persons by column {group!r}, {counts.min()} to {counts.max()} "
            note += "records each; models train on whole persons."
        notes.append(note)
    cuts = {}
    for name in slices:
        check_column("slice", name, columns, path)
        cuts[name] = _cut(columns[name][chosen])
    ids = row_names(chosen) if id_column is None else as_text(columns[id_column][chosen])
    external = None
    if holdout_by is not None:
        condition = Condition.read(holdout_by)
        check_column("holdout_by", condition.column, columns, path)
        column = columns[condition.column]
        external = condition.of({condition.column: column[chosen]}, str(path))
    return Chosen(chosen, ids, groups, cuts, tuple(notes), external)


def _cut(column: NDArray[Any]) -> NDArray[np.str_]:
    """The value of each record; of numbers with many values the quarter.

    Quarters are named by their inner limits, so that the extreme of no person is shown.
    """
    gaps = missing(column)
    numbers = not is_text(column) and column.dtype.kind in "fiu"
    if not numbers or len(np.unique(column[~gaps])) <= _FEW:
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


class RowsInMemory(NamedTuple):
    """Records, and the table that models are trained on.

    Attributes:
        data: records as numbers, with classes.
        frame: the user's own table, or texts, which estimators see as they are; None where they
            see `data.features`.
        array: (records, ...) the user's own numbers, in their type and shape, where there is no
            frame; `data.features` has them flat, as float32.
        class_labels: (classes,) the user's own label of each class, or (classes, outputs) where
            `y` has several; None in a regression.
    """

    data: Dataset
    frame: Any | None = None
    array: NDArray[Any] | None = None
    class_labels: NDArray[Any] | None = None
    weights: NDArray[np.float64] | None = None  # (records,) above 0, of the records in training
