"""Conditions such as ``year>=2016`` or ``site=north`` that select records."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import Columns, as_text, check_column, is_text, list_names, missing
from lethe.errors import InputError

_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_FEWEST = 2  # records on either side


class External(NamedTuple):
    """Records of another time, site or group: no model trains on them, models are judged on them.

    Attributes:
        by: the condition that they meet, in words.
        rows: bool (records,), True where a record is one of them.
    """

    by: str
    rows: NDArray[np.bool_]


@dataclass(frozen=True)
class Condition:
    """A column, a comparison, and what it is compared with.

    Attributes:
        column: name.
        sign: ``>=``, ``<=``, ``>``, ``<``, ``=`` or ``!=``.
        values: one; or several of = and !=, any of which will do.

    >>> Condition.read("year >= 2016").of({"year": np.array([2015, 2016, 2017, 2014])}, "a file")
    External(by='year >= 2016', rows=array([False,  True,  True, False]))
    """

    column: str
    sign: str
    values: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Condition:
        """The condition that a text says.

        Raises InputError: it says none.

        >>> Condition.read("site=north, west")
        Condition(column='site', sign='=', values=('north', 'west'))
        """
        match = re.fullmatch(r"\s*(.+?)\s*(>=|<=|!=|==|>|<|=)\s*(.+?)\s*", text, re.DOTALL)
        if match is None:
            raise InputError(
                f"holdout_by={text!r} is no condition: write a column, a comparison and a value, "
                "such as 'year>=2016', 'joined>=2024-03-01' or 'site=north,west'."
            )
        column, sign, value = match.groups()
        sign = "=" if sign == "==" else sign
        values = (value,) if sign in _ORDER else tuple(part.strip() for part in value.split(","))
        return cls(column, sign, values)

    @property
    def text(self) -> str:
        """As a reader sees it."""
        return f"{self.column} {self.sign} {', '.join(self.values)}"

    def of(self, columns: Columns, where: str) -> External:
        """The records that meet it.

        Args:
            columns: (records,) each.
            where: what they are columns of, for messages.

        Raises InputError: no such column, a value is missing or cannot be compared, or fewer than
            2 records are on one side.
        """
        check_column("holdout_by", self.column, columns, where)
        column = columns[self.column]
        if column.ndim == 2 and column.shape[1] == 1:
            column = column[:, 0]
        if column.ndim != 1:
            raise InputError(
                f"holdout_by: {self.column!r} of {where} has shape {column.shape}, it must have "
                "one value for each record."
            )
        gaps = missing(column)
        if gaps.any():
            raise InputError(
                f"holdout_by: {self.column!r} of {where} is missing in {int(gaps.sum())} of "
                f"{len(column)} records, the first at row {int(np.argmax(gaps))}. Fill them in, or "
                "remove these records."
            )
        rows = self._ordered(column, where) if self.sign in _ORDER else self._equal(column, where)
        if is_text(column) or column.dtype.kind == "b":
            there = f"has {list_names(np.unique(as_text(column)).tolist())}"
        else:
            there = "runs from {} to {}".format(*as_text(np.array([column.min(), column.max()])))
        return checked(External(self.text, rows), f"{self.column!r} {there}")

    def _ordered(self, column: NDArray[Any], where: str) -> NDArray[np.bool_]:
        compare, value = _ORDER[self.sign], self.values[0]
        if column.dtype.kind in "iuf":
            number = _number(value)
            if number is None and moment(value) is not None:
                return self._in_time(column, where)
            if number is None:
                raise InputError(
                    f"holdout_by={self.text!r}: {value!r} is no number, and {self.column!r} holds "
                    f"numbers from {column.min():g} to {column.max():g}."
                )
            return np.asarray(compare(column, number))
        first = as_text(column[:1])[0]
        if column.dtype.kind == "b" or moment(first) is None:
            kind = "true and false" if column.dtype.kind == "b" else "text"
            raise InputError(
                f"holdout_by={self.text!r}: {self.column!r} holds {kind}, which has no "
                f"order. Name values, such as {self.column}={first}."
            )
        if moment(value) is None:
            raise InputError(
                f"holdout_by={self.text!r}: {value!r} is no date. Write 2024-03-01, 2024-03 or "
                "2024."
            )
        return self._in_time(column, where)

    def _in_time(self, column: NDArray[Any], where: str) -> NDArray[np.bool_]:
        """After 2024 is from 2025 on, and until 2024-03-01 is before the day after."""
        instant = moment(self.values[0])
        assert instant is not None
        times, _ = times_of(column, instant, f"{self.column!r} of {where}", self.text)
        compare, limit = _ORDER[self.sign], np.datetime64(utc(instant), "us")
        if self.sign in (">", "<=") and ":" not in self.values[0] and "T" not in self.values[0]:
            unit = {4: "Y", 7: "M"}.get(len(self.values[0]), "D")
            limit = (limit.astype(f"datetime64[{unit}]") + 1).astype("datetime64[us]")
            compare = _ORDER[">=" if self.sign == ">" else "<"]
        return np.asarray(compare(times, limit))

    def _equal(self, column: NDArray[Any], where: str) -> NDArray[np.bool_]:
        if column.dtype.kind in "iuf":
            numbers = [_number(value) for value in self.values]
            same = np.isin(column, [number for number in numbers if number is not None])
            absent = [
                value
                for value, number in zip(self.values, numbers, strict=True)
                if number is None or not (column == number).any()
            ]
        else:
            texts = as_text(column)
            if column.dtype.kind == "b":
                texts = np.char.lower(texts)
            wanted = [value.lower() if column.dtype.kind == "b" else value for value in self.values]
            same, absent = np.isin(texts, wanted), sorted(set(wanted) - set(texts.tolist()))
        if absent:
            there = list_names(np.unique(as_text(column)).tolist())
            raise InputError(
                f"holdout_by={self.text!r}: {self.column!r} of {where} never is {absent[0]!r}; it "
                f"has {there}."
            )
        return same if self.sign == "=" else ~same


def without_condition(drop: Sequence[str], holdout_by: str | None) -> list[str]:
    """Columns that need not be read: those to drop, but for the one that a condition is about."""
    asked = None if holdout_by is None else Condition.read(holdout_by).column
    return [name for name in drop if name != asked]


def checked(external: External, there: str) -> External:
    """Return the external records if models can be trained on one side and judged on the other.

    Raises InputError: fewer than 2 records on one side.
    """
    inside = int(external.rows.sum())
    outside = len(external.rows) - inside
    if min(inside, outside) < _FEWEST:
        raise InputError(
            f"holdout_by={external.by!r} holds {inside} of {inside + outside} records out; at "
            f"least {_FEWEST} must be held out and {_FEWEST} stay: {there}."
        )
    return external


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def times_of(
    when: NDArray[Any],
    instant: datetime,
    where: str,
    asked: str,
    zoned: bool = False,
    ways: str = "Save dates as 2024-03-01, or name values instead.",
) -> tuple[NDArray[np.datetime64], bool]:
    """Times to compare with an instant, and whether they are times of UTC that had a zone.

    Args:
        when: (n,) dates, times, text that is a date, or whole years; none missing.
        instant: what they are to be compared with.
        where: file and column, for messages.
        asked: what the user wrote, for messages.
        zoned: whether `when` are times of UTC that had a zone.
        ways: what to do where they are no dates.

    Raises InputError: they are no dates, or a zone stands on one side alone.
    """
    if is_text(when):
        moments = {text: moment(text) for text in set(as_text(when).tolist())}
        odd = sorted(text for text, moment_of in moments.items() if moment_of is None)
        if odd:
            raise InputError(f"{where} has {odd[0]!r}, which is no date. {ways}")
        known = [moment_of for moment_of in moments.values() if moment_of is not None]
        if len({moment_of.tzinfo is None for moment_of in known}) > 1:
            raise InputError(f"{where} has times with and without a zone. {ways}")
        zoned = known[0].tzinfo is not None
        plain = {
            text: utc(moment_of) for text, moment_of in moments.items() if moment_of is not None
        }
        times = np.array([plain[text] for text in as_text(when).tolist()], "datetime64[us]")
    elif when.dtype.kind == "M":
        times = when.astype("datetime64[us]")
    elif when.dtype.kind in "iuf" and bool(((when >= 1000) & (when <= 9999)).all()):
        if instant != datetime(instant.year, 1, 1):
            raise InputError(
                f"{where} holds plain years, and {asked} is within one. Give a year, such as "
                f"{instant.year}."
            )
        times = (when.astype(np.int64) - 1970).astype("datetime64[Y]").astype("datetime64[us]")
    else:
        raise InputError(f"{where} has {when[0]!r}, which is neither a date nor a year. {ways}")
    if instant.tzinfo is not None and not zoned:
        raise InputError(
            f"{asked} has a zone and the times of {where} have none. Leave the zone out."
        )
    return times, zoned


def moment(text: str) -> datetime | None:
    """The time that a text says, its start where it says a year, month or day; None if no time.

    >>> moment("2024"), moment("soon")
    (datetime.datetime(2024, 1, 1, 0, 0), None)
    """
    bare = text.strip()
    try:
        first = {4: "-01-01", 7: "-01"} if re.fullmatch(r"\d{4}(-\d\d)?", bare) else {}
        return datetime.fromisoformat(bare + first.get(len(bare), ""))
    except ValueError:
        return None


def utc(instant: datetime) -> datetime:
    """Drop the zone of a time, after converting it to UTC."""
    return instant if instant.tzinfo is None else instant.astimezone(UTC).replace(tzinfo=None)
