"""Which values a column may have: cells that are fixed without a look at the rows, or else told.

Noise protects counts, not the list of what is counted. So cells come from the user, and where they
are read off the table the guarantee says that they are taken to be public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.columns import is_text, missing
from lethe.errors import InputError, NotMeasurable, check_at_least, check_known_keys
from lethe.linkage.facts import Float, Int

BINS = 32  # of numbers and dates whose domain has more values and no edges
MOST_NAMES = 2000
_KEYS = ("values", "from", "to", "bins", "edges", "missing")


@dataclass(frozen=True, eq=False)
class Domain:
    """The cells of one column.

    Attributes:
        name: of the column.
        kind: "names" (one cell a value: text, bool, whole numbers that were listed or are few),
            "whole" numbers or "real" numbers; dates are whole days.
        names: (cells,) values of "names".
        edges: (cells + 1,) ascending, of numbers: cell i holds edges[i] <= x < edges[i + 1].
        gap: whether there is one more cell, for missing values. What is outside goes to the
            nearest cell, text to the last one.
        told: whether the user said what the cells are.
        dtype: of the column.
    """

    name: str
    kind: str
    names: tuple[Any, ...]
    edges: Float
    gap: bool
    told: bool
    dtype: np.dtype[Any]

    @property
    def cells(self) -> int:
        """How many there are."""
        held = len(self.names) if self.kind == "names" else len(self.edges) - 1
        return held + self.gap

    def place(self, column: NDArray[Any]) -> Int:
        """(rows,) the cell of each value."""
        if self.kind == "names":
            at = {name: cell for cell, name in enumerate(self.names)}
            return np.array([at.get(one, self.cells - 1) for one in column.tolist()], np.int64)
        numbers = _as_numbers(column)
        there = ~np.isnan(numbers)
        cells = np.full(len(column), self.cells - 1, np.int64)
        found = np.searchsorted(self.edges, numbers[there], side="right") - 1
        cells[there] = np.clip(found, 0, len(self.edges) - 2)
        return cells

    def draw(self, cells: Int, rng: np.random.Generator) -> NDArray[Any]:
        """A value of each cell, all values of a cell alike."""
        if self.kind == "names":
            table = np.empty(self.cells, dtype=object)
            table[:] = [*self.names, *([""] if self.gap else [])]
            drawn = table[cells]
            return drawn if is_text(np.zeros(0, self.dtype)) else drawn.astype(self.dtype)
        inside = np.minimum(cells, len(self.edges) - 2)
        low, high = self.edges[inside], self.edges[inside + 1]
        numbers = low + rng.random(len(cells)) * (high - low)
        if self.kind == "whole":
            numbers = np.floor(np.minimum(numbers, high - 1))
        return _of_type(numbers, cells > len(self.edges) - 2, self.dtype)


def declared(
    columns: Mapping[str, NDArray[Any]], given: Mapping[str, Any] | None = None
) -> tuple[Domain, ...]:
    """The cells of every column.

    Args:
        columns: (rows,) each. Of those that are not given, the different values, the smallest and
            the largest number are read off the rows; `Domain.told` is False then.
        given: by column, a table with `values` (of names or whole numbers), or of numbers and
            dates `from` and `to`, both included, and `bins` (cells of equal width), or `edges`. A
            cell for missing values is added unless `missing` is false.

    Raises:
        InputError: unknown columns or keys, or limits that make no cells.
        NotMeasurable: a column of text with too many different values.

    >>> [one.cells for one in declared({"age": np.arange(90)}, {"age": {"from": 0, "to": 99}})]
    [32]
    """
    given = given or {}
    check_known_keys("domains", given, columns)
    return tuple(_domain(name, column, given.get(name)) for name, column in columns.items())


def _domain(name: str, column: NDArray[Any], given: Any) -> Domain:
    if given is not None:
        if not isinstance(given, Mapping):
            raise InputError(f"domains.{name} must be a table with some of: {', '.join(_KEYS)}.")
        check_known_keys(f"domains.{name}", given, _KEYS)
    none = np.zeros(0)
    if column.dtype.kind == "b":
        return Domain(name, "names", (False, True), none, False, True, column.dtype)
    if is_text(column):
        values = _names(name, column, given)
        gap = _gap(name, column, given)
        return Domain(name, "names", values, none, gap, given is not None, column.dtype)
    listed = _listed(name, column, given) if column.dtype.kind in "iu" else ()
    if listed:
        return Domain(name, "names", listed, none, False, given is not None, column.dtype)
    whole = column.dtype.kind in "iuM"
    gap = column.dtype.kind in "fM" and _gap(name, column, given)
    kind = "whole" if whole else "real"
    edges = _edges(name, column, given or {}, whole)
    return Domain(name, kind, (), edges, gap, given is not None, column.dtype)


def _gap(name: str, column: NDArray[Any], given: Mapping[str, Any] | None) -> bool:
    if given is None:
        return bool(missing(column).any())
    gap = given.get("missing", True)
    if not isinstance(gap, bool):
        raise InputError(f"domains.{name}.missing={gap!r} must be true or false.")
    return gap


def _names(name: str, column: NDArray[Any], given: Mapping[str, Any] | None) -> tuple[str, ...]:
    if given is not None:
        if set(given) - {"missing"} != {"values"}:
            raise InputError(f"domains.{name}: a column of text needs values = [...], only.")
        listed = [str(value) for value in given["values"]]
        if not listed or len(set(listed)) != len(listed):
            raise InputError(f"domains.{name}.values needs at least 1 value, each once.")
        return tuple(value for value in listed if value)
    found = sorted({str(value) for value in column.tolist()} - {""})
    if len(found) > MOST_NAMES:
        raise NotMeasurable(
            f"column {name!r} has {len(found)} different texts, more than {MOST_NAMES}. Leave it "
            "out, or declare fewer values for it in domains; others count as missing."
        )
    return tuple(found)


def _listed(name: str, column: NDArray[Any], given: Mapping[str, Any] | None) -> tuple[int, ...]:
    """Whole numbers that are cells of their own, such as codes of regions; none = bins."""
    if given is None:
        found = np.unique(column)
        return tuple(found.tolist()) if len(found) <= BINS else ()
    if "values" not in given:
        return ()
    values = given["values"]
    whole = isinstance(values, list | tuple) and all(type(value) is int for value in values)
    if not whole or not values or set(given) - {"missing"} != {"values"}:
        raise InputError(
            f"domains.{name}.values={values!r} must be whole numbers, and stand alone."
        )
    return tuple(dict.fromkeys(values))


def _edges(name: str, column: NDArray[Any], given: Mapping[str, Any], whole: bool) -> Float:
    if "edges" in given:
        edges = _numbers_of(name, "edges", given["edges"], column.dtype)
        if len(edges) < 2 or (np.diff(edges) <= 0).any():
            raise InputError(f"domains.{name}.edges needs at least 2 numbers, ascending.")
        return edges
    if "values" in given:
        raise InputError(f"domains.{name}: a column of {column.dtype} needs from and to, or edges.")
    numbers = _as_numbers(column)
    numbers = numbers[np.isfinite(numbers)]
    if not given and not len(numbers):
        raise NotMeasurable(f"column {name!r} has no value, so its domain must be declared.")
    if given:
        if not {"from", "to"} <= set(given):
            raise InputError(f"domains.{name} needs from and to.")
        low, high = _numbers_of(name, "from/to", [given["from"], given["to"]], column.dtype)
    else:
        low, high = float(numbers.min()), float(numbers.max())
    if low > high:
        raise InputError(f"domains.{name}: from={low:g} is above to={high:g}.")
    bins = given.get("bins", BINS)
    check_at_least(f"domains.{name}.bins", bins, 1)
    if whole:
        above = high + 1
        return np.unique(np.floor(np.linspace(low, above, min(int(bins), int(above - low)) + 1)))
    if low == high:
        high = np.nextafter(low, np.inf)
        bins = 1
    edges = np.linspace(low, high, int(bins) + 1)
    return edges


def _numbers_of(name: str, key: str, values: Any, dtype: np.dtype[Any]) -> Float:
    try:
        if dtype.kind == "M":
            days = np.array([str(value) for value in values], dtype="datetime64[D]")
            return days.astype(np.int64).astype(np.float64)
        return np.array([float(value) for value in values])
    except (TypeError, ValueError) as error:
        what = "dates" if dtype.kind == "M" else "numbers"
        raise InputError(f"domains.{name}.{key}={values!r} must be {what}.") from error


def _as_numbers(column: NDArray[Any]) -> Float:
    """Numbers; dates as whole days since 1970, NaN where missing."""
    if column.dtype.kind != "M":
        return column.astype(np.float64)
    days = column.astype("datetime64[D]")
    return np.where(np.isnat(days), np.nan, days.astype(np.int64).astype(np.float64))


def _of_type(numbers: Float, gaps: NDArray[np.bool_], dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.kind == "M":
        days = numbers.astype(np.int64).astype("datetime64[D]")
        days[gaps] = np.datetime64("NaT")
        return days.astype(dtype)
    if dtype.kind == "f":
        return np.where(gaps, np.nan, numbers).astype(dtype)
    return numbers.astype(dtype)
