"""Times of any form as whole days since 1970-01-01, UTC."""

from __future__ import annotations

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
    if column.dtype.kind not in "iuf":
        raise InputError(f"{name}: times have the type {column.dtype}. Name a column of times.")
    if not np.isfinite(column).all():
        raise InputError(f"{name}: a time is infinite. Leave such facts out.")
    said = []
    if unit == "auto":
        unit = _told(column, name)
        said = [f"Times were read as {unit} since 1970-01-01."]
    return np.floor_divide(column, _A_DAY[unit]).astype(np.int64), said


def _told(column: NDArray[Any], name: str) -> str:
    middle = float(np.median(column))
    for unit in _A_DAY:
        if (0 if unit == "days" else _LEAST[unit]) <= middle <= _MOST[unit]:
            return unit
    raise InputError(
        f"{name}: times such as {middle:g} are of no unit that can be told by their size. Name "
        f"it: {', '.join(_A_DAY)}."
    )


def _texts(column: NDArray[Any], name: str) -> tuple[NDArray[np.int64], list[str]]:
    different, place = np.unique(column.astype(np.str_), return_inverse=True)
    days = np.empty(len(different), np.int64)
    zoned: dict[bool, str] = {}
    for at, text in enumerate(different.tolist()):
        try:
            when = datetime.fromisoformat(text.strip())
        except ValueError:
            row = int(np.argmax(place == at)) + 1
            raise InputError(
                f"{name}: {text!r} (fact {row}) is not a date. Write dates as 2024-05-31 or "
                "2024-05-31T12:00:00+02:00."
            ) from None
        zoned.setdefault(when.tzinfo is not None, text)
        local = when.astimezone(UTC) if when.tzinfo is not None else when.replace(tzinfo=UTC)
        days[at] = int(local.timestamp() // 86_400)
    if len(zoned) == 2:
        raise InputError(
            f"{name}: {zoned[True]!r} has a time zone and {zoned[False]!r} has none. Give all "
            "times one form."
        )
    said = ["Times without a time zone were taken as UTC."] if False in zoned else []
    return days[place], said
