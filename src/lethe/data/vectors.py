"""Released vectors and their owners, and the linear head that reads them, from files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.arrays import (
    Held,
    as_array,
    dimensions_of,
    from_text,
    is_float,
    is_listed_text,
    read_values,
)
from lethe.data.columns import (
    Columns,
    as_text,
    check_column,
    check_file,
    is_text,
    list_names,
    missing,
)
from lethe.data.condition import moment, times_of, utc
from lethe.errors import InputError, did_you_mean

ARRAYS = ("representations", "user_ids", "labels", "period", "features")
HEADS = (".npz", ".safetensors", ".pt", ".pth")


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Vectors that a model made of rows, checked when read.

    Attributes:
        features: floating (n, p), what the model was given, or None.
    """

    name: str  # of the file, without its ending
    representations: NDArray[np.floating[Any]]  # floating (n, d), finite
    user_ids: NDArray[Any]  # (n,) whole numbers or text; whose row it is
    labels: NDArray[np.int64] | None = None  # (n,) whole numbers, or None
    period: NDArray[Any] | None = None  # (n,) text or numbers, or None
    features: NDArray[np.floating[Any]] | None = None
    notes: tuple[str, ...] = ()  # what was left out, chosen or converted
    attributes: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # text (n,) by name
    texts: NDArray[Any] | None = None  # (n,) text


@dataclass(frozen=True)
class Names:
    """What the arrays or columns of a file are called.

    Attributes:
        vectors: array or column of the vectors, or what the names of its columns begin with, one
            column a dimension; None: `representations`, or the only one that fits.
        user: whose row it is; None: `user_ids`.
        label: class of each row; None: `labels`, where there are any.
        period: period of each row; None: `period`, where there is one.
        cut: date that makes two periods of it, see `Cut`.
        table: file of the same rows, in the same order, that holds user, label and period.
        attributes: columns of what may be inferred of a person.
        texts: column of the text behind each row.
    """

    vectors: str | None = None
    user: str | None = None
    label: str | None = None
    period: str | None = None
    cut: Cut | None = None
    table: Path | None = None
    attributes: tuple[str, ...] = ()
    texts: str | None = None


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """A linear head."""

    weights: NDArray[np.float64]  # float64 (d,) for a binary head, (C, d) for C > 2 classes
    bias: NDArray[np.float64]  # float64 () or (C,)


def read_embeddings(path: str | Path, names: Names = Names()) -> Embeddings:  # noqa: B008  frozen
    """Read vectors and their owners; nothing in a file is ever unpickled.

    Args:
        path: in one of the formats of `lethe.data.arrays`. Vectors are an array (n, d), a column
            of lists of numbers, or one column a dimension: `representations_0`, `_1` and on. A file
            of one array alone (.npy, a tensor in .pt) holds the vectors.
        names: what the arrays are called, and where those of the people are.

    Raises:
        InputError: an array is missing, unknown, of Python objects, or of another shape; several
            could be the vectors; NaN or infinity; ids of mixed types or missing; labels that are
            no whole numbers; a period that is no date.
        MissingExtra: .pt without torch.
    """
    path = Path(path)
    held = read_values(path)
    name, columns, notes = _choose_vectors(path, held, names.vectors)
    if columns is None:
        vectors_read = as_array(held[name], f"{path}: {name}")
    else:
        vectors_read = np.stack(
            [as_array(held[attribute], f"{path}: {attribute}") for attribute in columns], axis=1
        )
    vectors = _table(path, name, vectors_read)
    used = {name, *(columns or ())}

    people, where = (held, path) if names.table is None else (read_values(names.table), names.table)

    def column(usual: str, asked: str | None, option: str) -> tuple[Any, str, NDArray[Any]] | None:
        chosen = usual if asked is None else asked
        if asked is not None:
            check_column(option, asked, people, where)
        if chosen not in people:
            return None
        array = as_array(people[chosen], f"{where}: {chosen}")
        if not array.ndim or len(array) != len(vectors):
            raise InputError(
                f"{where}: {chosen} has {len(array) if array.ndim else 0} rows, {name} "
                f"{len(vectors)}. Save one of each row."
            )
        if people is held:
            used.add(chosen)
        return people[chosen], chosen, array

    users = column("user_ids", names.user, "user")
    if users is None:
        alone = "the table of the same rows with --table, and " if len(people) == 1 else ""
        raise InputError(
            f"{where} lacks 'user_ids'.{did_you_mean('user_ids', people)} Give {alone}the column "
            f"that names the person of each row with --user. It has {list_names(people)}."
        )
    labels = column("labels", names.label, "label")
    period = column("period", names.period, "period")
    when = None
    if period is not None:
        stored, called, when = period
        if when.ndim != 1 or missing(when).any():
            raise InputError(f"{where}: {called} must be one value for each row, none missing.")
        if names.cut is not None:
            # NumPy has the times of an Arrow column with a zone as those of UTC.
            zoned = getattr(getattr(stored, "type", None), "tz", None) is not None
            when, note = names.cut.periods(when, f"{where}: {called}", zoned)
            notes += note
    elif names.cut is not None:
        raise InputError(
            f"from={names.cut.text!r} cuts a column of dates, and {where} has no 'period'. Name "
            f"the column with --period. It has {list_names(people)}."
        )
    attributes = {}
    for attribute in names.attributes:
        values = column(attribute, attribute, "attribute")
        assert values is not None
        attributes[attribute] = _values(where, attribute, values[2])
    behind = None if names.texts is None else column(names.texts, names.texts, "texts")
    features = None
    if "features" in held and "features" not in used:
        features = _table(path, "features", as_array(held["features"], f"{path}: features"))
        used.add("features")
        if len(features) != len(vectors):
            raise InputError(
                f"{path}: features has {len(features)} rows, {name} {len(vectors)}. "
                "Save one of each row."
            )
    if unread := [attribute for attribute in held if attribute not in used]:
        notes += (f"Not used: {list_names(unread)}.",)
    return Embeddings(
        path.stem,
        vectors,
        _ids(where, users[1], users[2]),
        None if labels is None else _labels(where, labels[1], labels[2]),
        when,
        features,
        notes,
        attributes,
        None if behind is None else _values(where, behind[1], behind[2]),
    )


def read_head(path: str | Path, dimensions: int, layer: str | None = None) -> HeadWeights:
    """Read a linear head: `w` (d,) and `b`, or `W` (C, d) and `b` (C,).

    Args:
        path: .npz, .safetensors or .pt.
        layer: in a checkpoint, the name of the layer whose `.weight` and `.bias` are taken; not
            needed where a file holds one layer only.

    Raises:
        InputError: no head or several, or a shape that does not fit the vectors.
        MissingExtra: .pt without torch.
    """
    path = Path(path)
    check_file(path, HEADS)
    arrays = {name: as_array(value, f"{path}: {name}") for name, value in read_values(path).items()}
    weights, bias = _find_head(path, arrays, layer)
    try:
        w, b = (np.asarray(array, dtype=np.float64) for array in (weights, bias))
    except (TypeError, ValueError):
        raise InputError(f"{path}: the head is no array of numbers. Save it as float32.") from None
    if w.ndim == 2 and len(w) == 1:
        w = w[0]  # torch.nn.Linear(d, 1)
    if w.ndim == 1:
        b = b.reshape(()) if b.size == 1 else b
    if w.ndim not in (1, 2) or w.shape[-1] != dimensions or b.shape != w.shape[:-1]:
        raise InputError(
            f"{path}: the head has weights of shape {w.shape} and a bias of shape {b.shape}; for "
            f"vectors of {dimensions} dimensions it must be ({dimensions},) and (), or "
            f"(C, {dimensions}) and (C,). Take head and vectors from one model."
        )
    if not (np.isfinite(w).all() and np.isfinite(b).all()):
        raise InputError(f"{path}: the head has NaN or infinite values. Save it again.")
    if not np.any(w):
        raise InputError(f"{path}: the weights of the head are all 0, so it predicts nothing.")
    return HeadWeights(w, b)


def _find_head(path: Path, arrays: Columns, layer: str | None) -> tuple[Any, Any]:
    for name in ("w", "W"):
        if layer is None and name in arrays and "b" in arrays:
            return arrays[name], arrays["b"]
    layers = [
        name.removesuffix("weight")
        for name, array in arrays.items()
        if (name == "weight" or name.endswith(".weight"))
        and array.ndim == 2
        and f"{name.removesuffix('weight')}bias" in arrays
    ]
    if layer is not None:
        layers = [prefix for prefix in layers if prefix == f"{layer}."]
    if len(layers) == 1:
        return arrays[f"{layers[0]}weight"], arrays[f"{layers[0]}bias"]
    listed = list_names([name.removesuffix(".") for name in layers]) if layers else "none"
    asked = "" if layer is None else f" called {layer!r}"
    raise InputError(
        f"{path} has no single head{asked}: it needs w and b, W and b, or one layer with weight "
        f"and bias (found: {listed}; arrays: {list_names(arrays)}). Name the layer."
    )


def _choose_vectors(
    path: Path, held: Held, asked: str | None
) -> tuple[str, list[str] | None, tuple[str, ...]]:
    """The name of the vectors, their columns if they are spread, and what is to be said of it."""
    usual = ARRAYS[0] if asked is None else asked
    if usual in held:
        return usual, None, ()
    spread = _spread_names(held)
    if (prefix := usual if usual in spread else f"{usual}_") in spread:
        return usual, _ascending(path, prefix, spread[prefix]), ()
    arrays = [
        name
        for name, value in held.items()
        if name not in ARRAYS and dimensions_of(value) == 2 and is_float(value)
    ]
    groups = [
        prefix
        for prefix, columns in spread.items()
        if len(columns) > 1 and all(is_float(held[name]) for name in columns)
    ]
    fitting = [*arrays, *groups]
    if asked is not None:
        joined = f" How many vectors of a person are known to belong together is --joined {asked}."
        joined = joined if asked.isdecimal() else ""
        raise InputError(
            f"vectors={asked!r} is no array or column of {path}, and no column begins with it and "
            f"ends with a number.{did_you_mean(asked, [*held, *spread])} It has "
            f"{list_names(held)}.{joined}"
        )
    if len(fitting) == 1:
        note = f"Taken as vectors: {fitting[0]!r}, as nothing else fits."
        columns = _ascending(path, fitting[0], spread[fitting[0]]) if groups else None
        return fitting[0], columns, (note,)
    if fitting:
        raise InputError(
            f"{path}: {list_names(fitting)} could all be the vectors. Say which with --vectors."
        )
    raise InputError(
        f"{path} lacks 'representations'.{did_you_mean(usual, held)} It has {list_names(held)}: "
        "none is an array (rows, dimensions) of numbers with a decimal point, a column of lists, "
        "or one column a dimension. Name the right one with --vectors."
    )


def _spread_names(held: Held) -> dict[str, list[str]]:
    """Columns whose names differ by the number at their end alone, by what is before it."""
    groups: dict[str, list[str]] = {}
    for name, value in held.items():
        ending = re.fullmatch(r"(.*?)(\d+)", name)
        if ending and ending[1] and dimensions_of(value) == 1:
            groups.setdefault(ending[1], []).append(name)
    return groups


def _ascending(path: Path, prefix: str, columns: Iterable[str]) -> list[str]:
    """The columns in the order of their numbers, none of which may lack."""
    columns = list(columns)
    places = {int(name.removeprefix(prefix)): name for name in columns}
    if len(places) < len(columns):
        twice = sorted(set(columns) - set(places.values()))[0]
        raise InputError(
            f"{path}: {twice!r} and {places[int(twice.removeprefix(prefix))]!r} are columns of one "
            "dimension. Rename one."
        )
    first = min(places)
    gaps = [place for place in range(first, max(places)) if place not in places]
    if gaps or first > 1:
        lacking = f"{prefix}{gaps[0] if gaps else 0}"
        raise InputError(
            f"{path}: the columns {prefix}{first} to {prefix}{max(places)} lack {lacking!r}. A "
            "vector has one column a dimension, numbered from 0 or 1 on: save all of them."
        )
    return [places[place] for place in sorted(places)]


def _table(path: Path, name: str, array: NDArray[Any]) -> NDArray[np.floating[Any]]:
    if is_listed_text(array):
        array = from_text(as_text(array).tolist(), f"{path}: {name}")
    if array.ndim != 2 or not array.size or array.dtype.kind not in "fiub":
        raise InputError(
            f"{path}: {name} has shape {array.shape} and dtype {array.dtype}; it must be (rows, "
            "dimensions) of numbers, one row a vector, as float32. In a table a vector is a list "
            f"of numbers in one column, or columns {name}_0, {name}_1 and so on."
        )
    table = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    bad = ~np.isfinite(table).all(axis=1)
    if bad.any():
        raise InputError(
            f"{path}: {name} has NaN or infinite values in {bad.sum()} rows, the first is row "
            f"{int(np.argmax(bad))}. Compute them again, or remove these rows."
        )
    return np.asarray(table)


def _values(path: Path, name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Values as text; what is missing is empty."""
    if array.ndim != 1:
        raise InputError(f"{path}: {name} has shape {array.shape}; give one value for each row.")
    return np.where(missing(array), "", as_text(array))


def _ids(path: Path, name: str, array: NDArray[Any]) -> NDArray[Any]:
    whole = array.dtype.kind in "iu" or is_text(array)
    if array.ndim != 1 or not whole or missing(array).any():
        raise InputError(
            f"{path}: {name} has shape {array.shape} and dtype {array.dtype}; it must be one "
            "whole number or text for each row, none missing. Save it with .astype(str)."
        )
    return as_text(array) if is_text(array) else array


def _labels(path: Path, name: str, array: NDArray[Any]) -> NDArray[np.int64]:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise InputError(
            f"{path}: {name} has shape {array.shape} and dtype {array.dtype}; it must be one "
            "whole number from 0 for each row."
        )
    with np.errstate(invalid="ignore"):
        whole = np.isfinite(array) & (array == np.floor(array)) & (array >= 0)
    if not whole.all():
        raise InputError(
            f"{path}: {int((~whole).sum())} {name} are no whole numbers from 0, the first is "
            f"{array[~whole][0]!r}. Number the classes, or leave {name} out (then no utility)."
        )
    return array.astype(np.int64)


@dataclass(frozen=True)
class Cut:
    """A date that makes two periods: before it, and from it on.

    Raises InputError: no date.

    >>> Cut("2024-03-01").before, Cut("2024").instant
    ('before 2024-03-01', datetime.datetime(2024, 1, 1, 0, 0))
    """

    text: str  # 2024-03-01, 2024-03-01T12:00, with or without a zone, or a plain year

    def __post_init__(self) -> None:
        _ = self.instant

    @property
    def before(self) -> str:
        """Name of the earlier period."""
        return f"before {self.text}"

    @property
    def later(self) -> str:
        """Name of the later period."""
        return f"from {self.text}"

    @property
    def instant(self) -> datetime:
        """When it is; with a zone only if the text has one."""
        value = moment(self.text)
        if value is None:
            raise InputError(
                f"from={self.text!r} is no date. Write year-month-day, such as 2024-03-01, with a "
                "time as in 2024-03-01T12:00, or a plain year."
            )
        return value

    def periods(
        self, when: NDArray[Any], where: str, zoned: bool
    ) -> tuple[NDArray[np.str_], tuple[str, ...]]:
        """(n,) the name of the period of each row, and what is to be said of it.

        Args:
            when: (n,) dates, times, text that is a date, or whole years; none missing.
            where: file and column, for messages.
            zoned: whether these are times of UTC that had a zone.

        Raises InputError: no dates, a zone on one side alone, or all rows on one side.
        """
        instant = self.instant
        ways = (
            "Save dates as 2024-03-01, or leave out --from and name two values with --known and "
            "--later."
        )
        times, zoned = times_of(when, instant, where, f"from={self.text!r}", zoned, ways)
        later = times >= np.datetime64(utc(instant), "us")
        if later.all() or not later.any():
            first, last = (str(time.astype("datetime64[D]")) for time in (times.min(), times.max()))
            raise InputError(
                f"from={self.text!r} leaves no row {'before' if later.all() else 'after'} it: "
                f"{where} runs from {first} to {last}. Give a date between."
            )
        assumed = zoned and instant.tzinfo is None
        note = f"Times have a zone: {self.text} is taken as the time of UTC."
        return np.where(later, self.later, self.before), (note,) if assumed else ()
