"""Tables of Excel, SPSS and Stata, read by openpyxl and pyreadstat; macros and formulas never run.

Dates stay dates, and what the file calls missing is missing. Of SPSS and Stata, codes that all have
labels of their own become the labels; where only some have, such as 99 = "refused", codes stay. Of
cells that are read alone each becomes its own label, where codes are counted from 0 or 1.
"""

from __future__ import annotations

import contextlib
import datetime
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lethe.errors import InputError, MissingExtra, require

EXCEL = (".xlsx", ".xlsm")
_MIDNIGHT = datetime.time()


def read_office(path: Path, *, alone: bool = False) -> tuple[list[str], list[list[Any]]]:
    """Names of the columns, and the cells of each as objects of Python, None where missing.

    Args:
        alone: each cell as text, as a .csv file would have it: what it becomes hangs on no other.

    Raises:
        InputError: damaged, or an Excel file with several sheets that hold something.
        MissingExtra: its reader is not installed.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # of parts of a workbook that are no cells
            read = _excel if path.suffix.lower() in EXCEL else _statistics
            names, columns = read(path, alone)
        return names, [[*map(_spelled, cells)] for cells in columns] if alone else columns
    except (InputError, MissingExtra, OSError):
        raise
    except Exception as error:  # damaged files fail in many ways, most of them without a class
        raise InputError(
            f"{path} is not a readable {path.suffix.lower()} file: "
            f"{type(error).__name__}. Save it again, or as .csv."
        ) from error


def _excel(path: Path, alone: bool) -> tuple[list[str], list[list[Any]]]:
    load = require("openpyxl", "office").load_workbook
    with (
        contextlib.closing(load(path, read_only=True, data_only=True)) as values,
        contextlib.closing(load(path, read_only=True)) as formulas,
    ):
        pairs = zip(values.worksheets, formulas.worksheets, strict=True)
        sheets = {sheet.title: _rows(path, sheet, typed) for sheet, typed in pairs}
    filled = [title for title, rows in sheets.items() if rows]
    if len(filled) != 1:
        raise InputError(
            f"{path} has {len(filled)} sheets with cells{': ' * bool(filled)}{', '.join(filled)}. "
            "Save the one with the records as a file of its own."
        )
    header, *rows = sheets[filled[0]]
    names = ["" if cell is None else str(cell) for cell in header]
    columns = map(list if alone else _dates, zip(*rows, strict=True))
    return names, [*columns] or [[] for _ in names]


def _rows(path: Path, sheet: Any, typed: Any) -> list[list[Any]]:
    """Cells from the first row on, without rows and last columns that are empty throughout."""
    rows = []
    for cells, sources in zip(sheet.iter_rows(), typed.iter_rows(), strict=True):
        for cell, source in zip(cells, sources, strict=True):
            if source.data_type == "f" and cell.value is None and cell.data_type != "str":
                raise InputError(
                    f"{path}: the formula in {source.coordinate} was never computed. Open the file "
                    "in a spreadsheet program and save it."
                )
        row = [None if cell.data_type == "e" else cell.value for cell in cells]  # such as #N/A
        while row and row[-1] is None:
            row.pop()
        rows += [row] if row else []
    wide = max(map(len, rows), default=0)
    return [[*row, *[None] * (wide - len(row))] for row in rows]


def _dates(cells: Sequence[Any]) -> list[Any]:
    """Excel has dates as times at midnight."""
    moments = [cell for cell in cells if cell is not None]
    if all(isinstance(cell, datetime.datetime) and cell.time() == _MIDNIGHT for cell in moments):
        return [cell and cell.date() for cell in cells]
    return list(cells)


def _spelled(cell: Any) -> str | None:
    if isinstance(cell, datetime.datetime) and cell.time() == _MIDNIGHT:
        cell = cell.date()
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return None if cell != cell else str(int(cell)) if cell.is_integer() else repr(cell)
    return None if cell is None else str(cell)


def _statistics(path: Path, alone: bool) -> tuple[list[str], list[list[Any]]]:
    reader = require("pyreadstat", "office")
    read = reader.read_dta if path.suffix.lower() == ".dta" else reader.read_sav
    columns, about = read(str(path), output_format="dict")
    for name, labels in about.variable_value_labels.items():
        there = {cell for cell in columns[name] if cell is not None}
        if alone:
            if len({0, 1, 2} & labels.keys()) > 1:
                columns[name] = [labels.get(cell, cell) for cell in columns[name]]
        elif there <= labels.keys() and len({labels[cell] for cell in there}) == len(there):
            columns[name] = [None if cell is None else labels[cell] for cell in columns[name]]
    return list(columns), list(columns.values())
