"""Cells of any array or file as values of a declared type: what one cell becomes hangs on no other.

So another person's cell, however odd, changes no type, no gap and no spelling of anybody's.
"""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.schema import LARGEST_WHOLE, SMALLEST_WHOLE, TYPES, Column, Value, moment_of
from lethe.data.source import TypedColumn
from lethe.errors import InputError

_WHOLE = re.compile(r"([+-]?[0-9]{1,38})(\.0*)?")
_BOOL = dict.fromkeys(("true", "t", "yes", "y", "1"), True)
_BOOL |= dict.fromkeys(("false", "f", "no", "n", "0"), False)


def cast(column: TypedColumn | NDArray[Any], declared: Column) -> TypedColumn:
    """An array as values of the declared type, whatever its own: a total function of each cell.

    A cell that is no value of the type is missing. `1`, `1.0`, `True` and the text `1` are the
    same whole number; text declared as such is written as a file would have it.

    Args:
        column: (rows,) of any kind; masked cells are missing. A typed column stays as it is.
        declared: of the column.

    Raises InputError: not one value a row.

    >>> cast(np.array([40.0, np.nan, 1.5]), Column("age", "whole")).present.tolist()
    [True, False, False]
    """
    if isinstance(column, TypedColumn):
        return column
    if column.ndim != 1:
        raise InputError(f"column {declared.name!r} has the shape {column.shape}, not (rows,).")
    hidden = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
    plain = np.asarray(column)
    typed = _cast(plain, declared.type)
    return typed if hidden is None else TypedColumn(typed.values, typed.present & ~hidden)


def _cast(column: NDArray[Any], kind: str) -> TypedColumn:
    """Whole arrays where their dtype allows; the same as cell by cell (`_cell`)."""
    of = column.dtype.kind
    if of == "M":
        # To years first: that never overflows, and what is within them fits microseconds.
        years = column.astype("datetime64[Y]").astype(np.int64) + 1970
        there = ~np.isnat(column) & (years >= 1) & (years <= 9999)
        unit = "D" if kind == "date" else "us"
        moments = np.where(there, column, np.datetime64(0, "D").astype(column.dtype))
        moments = moments.astype(f"datetime64[{unit}]")
        if kind in ("date", "time"):
            return TypedColumn(moments.astype(np.int64), there)
        moments = moments.astype(object)
        moments[~there] = None
        column = moments
    elif kind == "number" and of in "biuf":
        numbers = column.astype(np.float64) + 0.0
        there = ~np.isnan(numbers)
        return TypedColumn(np.where(there, numbers, 0.0), there)
    elif kind in ("whole", "bool") and of in "biuf":
        if of == "f":
            numbers = column.astype(np.float64)
            there = np.isfinite(numbers) & (np.floor(numbers) == numbers)
            there &= (numbers >= float(SMALLEST_WHOLE)) & (numbers < float(LARGEST_WHOLE))
            whole = np.where(there, numbers, 0.0).astype(np.int64)
        else:
            there = np.ones(len(column), bool)
            if of == "u":
                there = column <= np.uint64(LARGEST_WHOLE)
            whole = np.where(there, column, 0).astype(np.int64)
        if kind == "whole":
            return TypedColumn(whole, there)
        return TypedColumn(whole == 1, there & ((whole == 0) | (whole == 1)))
    cells = [_cell(kind, cell) for cell in column.tolist()]
    there = np.array([cell is not None for cell in cells], dtype=np.bool_)
    values = np.zeros(len(cells), dtype=TYPES[kind].stored)
    if kind == "text":
        values[:] = ""
    values[there] = [cell for cell in cells if cell is not None]
    return TypedColumn(values, there)


def _cell(kind: str, cell: Any) -> Value | None:
    """One cell as a value of the type; None where it is none. Text is read as in a file."""
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, bytes):
        cell = cell.decode(errors="replace")
    if cell is None or cell == "" or cell != cell:
        return None
    if kind == "text":
        return _text(cell)
    if isinstance(cell, datetime.datetime) and kind == "date":
        return None if cell.tzinfo is not None else moment_of(kind, cell.date())
    if isinstance(cell, datetime.date):  # and times, which are dates too
        return moment_of(kind, cell) if kind in ("date", "time") else None
    if isinstance(cell, str):
        cell = cell.strip(" ")
        if kind == "bool":
            return _BOOL.get(cell.lower())
        if kind == "whole":
            digits = _WHOLE.fullmatch(cell)
            return None if digits is None else _cell(kind, int(digits[1]))
        if kind != "number":
            return moment_of(kind, cell)
        try:
            number = float(cell) if cell.isascii() else math.nan
        except ValueError:
            return None
        return None if math.isnan(number) else number + 0.0
    if kind in ("date", "time") or not isinstance(cell, int | float | Decimal):
        return None
    try:
        if kind == "number":
            return float(cell) + 0.0
        whole = int(cell) if SMALLEST_WHOLE <= cell <= LARGEST_WHOLE else None
    except (OverflowError, ValueError, InvalidOperation):
        return None
    if whole is None or whole != cell:
        return None
    return whole if kind == "whole" else {0: False, 1: True}.get(whole)


def _text(cell: Any) -> str | None:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and math.isfinite(cell) and cell == math.floor(cell):
        return str(int(cell))
    if isinstance(cell, datetime.datetime):
        midnight = cell == datetime.datetime.combine(cell.date(), datetime.time(), cell.tzinfo)
        return cell.date().isoformat() if midnight else cell.isoformat(sep=" ")
    return str(cell) if isinstance(cell, int | float | Decimal | datetime.date) else None
