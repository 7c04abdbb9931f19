"""Times of any form as whole days since 1970-01-01, UTC."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.columns import is_text
from lethe.errors import InputError, check_choice

UNITS = ("auto", "days", "seconds", "milliseconds", "microseconds", "nanoseconds")
_A_DAY = {
    "days": 1,
    "seconds": 86_400,
    "milliseconds": 86_400_000,
    "microseconds": 86_400_000_000,
    "nanoseconds": 86_400_000_000_000,
}
# Largest count of each unit that is taken for a time since 1970: the year 2243 and thereabouts.
_MOST = {unit: 100_000 * a_day for unit, a_day in _A_DAY.items()}
_LEAST = {unit: 365 * a_day for unit, a_day in _A_DAY.items()}


def whole_days(
    column: NDArray[Any], name: str, unit: str = "auto"
) -> tuple[NDArray[np.int64], list[str]]:
    """Round times down to days.

    Args:
        column: (n,) datetime64, ISO 8601 text or numbers since 1970; nothing missing.
        name: of the file, for messages.
        unit: of numbers, see `UNITS`.

    Returns:
        (n,) days, and what was assumed.

    Raises:
        InputError: a text is no date, some times have a time zone and others none, a number is
            infinite, or its unit cannot be told.

    >>> whole_days(np.array(["1970-01-02", "1970-01-03"]), "clicks")[0].tolist()
    [1, 2]
    """
    check_choice("unit", unit, UNITS)
    if column.dtype.kind == "M":
        return column.astype("datetime64[D]").astype(np.int64), []
    if is_text(column):
        return _texts(column, name)
    check_times(column, name)
    said = []
    if unit == "auto":
        unit = unit_of(float(np.median(column)), name)
        said = [f"Times were read as {unit} since 1970-01-01."]
    return np.floor_divide(column, _A_DAY[unit]).astype(np.int64), said


def check_times(column: NDArray[Any], name: str) -> None:
    """Refuse a column that is neither numbers, nor dates, nor text.

    Raises:
        InputError: another type, or an infinite number.
    """
    if column.dtype.kind == "M" or is_text(column):
        return
    if column.dtype.kind not in "iuf":
        raise InputError(f"{name}: times have the type {column.dtype}. Name a column of times.")
    if not np.isfinite(column).all():
        raise InputError(f"{name}: a time is infinite. Leave such facts out.")


def unit_of(middle: float, name: str) -> str:
    """The unit of times whose median is `middle`.

    Raises:
        InputError: it is too large or too small for every unit.

    >>> unit_of(1.2e9, "clicks")
    'seconds'
    """
    for unit in _A_DAY:
        if (0 if unit == "days" else _LEAST[unit]) <= middle <= _MOST[unit]:
            return unit
    raise InputError(
        f"{name}: times such as {middle:g} are of no unit that can be told by their size. Name "
        f"it: {', '.join(_A_DAY)}."
    )


def _texts(column: NDArray[Any], name: str) -> tuple[NDArray[np.int64], list[str]]:
    different, place = np.unique(column.astype(np.str_), return_inverse=True)
    zoned: dict[bool, str] = {}
    texts = different.tolist()
    days = days_of_texts(
        texts, name, zoned, lambda text: int(np.argmax(place == texts.index(text))) + 1
    )
    return days[place], said_of_zones(zoned, name)


def days_of_texts(
    texts: Iterable[str], name: str, zoned: dict[bool, str], fact_of: Callable[[str], int]
) -> NDArray[np.int64]:
    """Whole days of different dates.

    Args:
        texts: ascending; may be a part of them.
        name: of the file, for messages.
        zoned: filled with the first text that has a time zone (True) and that has none (False).
        fact_of: number of the first fact with a text, for the message.

    Raises:
        InputError: a text is no date.
    """
    days = []
    for text in texts:
        try:
            when = datetime.fromisoformat(text.strip())
        except ValueError:
            raise InputError(
                f"{name}: {text!r} (fact {fact_of(text)}) is not a date. Write dates as "
                "2024-05-31 or 2024-05-31T12:00:00+02:00."
            ) from None
        zoned.setdefault(when.tzinfo is not None, text)
        local = when.astimezone(UTC) if when.tzinfo is not None else when.replace(tzinfo=UTC)
        days.append(int(local.timestamp() // 86_400))
    return np.array(days, np.int64)


def said_of_zones(zoned: dict[bool, str], name: str) -> list[str]:
    """What was assumed of dates, after all were read.

    Raises:
        InputError: some have a time zone and others none.
    """
    if len(zoned) == 2:
        raise InputError(
            f"{name}: {zoned[True]!r} has a time zone and {zoned[False]!r} has none. Give all "
            "times one form."
        )
    return ["Times without a time zone were taken as UTC."] if False in zoned else []
