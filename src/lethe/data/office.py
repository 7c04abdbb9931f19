"""Tables of Excel, SPSS and Stata, read by openpyxl and pyreadstat; macros and formulas never run.

Dates stay dates, and what the file calls missing is missing. Of SPSS and Stata, codes that all have
labels of their own become the labels; where only some have, such as 99 = "refused", codes stay.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lethe.errors import InputError, MissingExtra, require

EXCEL = (".xlsx", ".xlsm")
OFFICE = (*EXCEL, ".sav", ".zsav", ".dta")
_MIDNIGHT = datetime.time()


def read_office(path: Path) -> tuple[list[str], list[list[Any]]]:
    """Names of the columns, and the cells of each as objects of Python, None where missing.

    Raises:
        InputError: damaged, or an Excel file with several sheets that hold something.
        MissingExtra: its reader is not installed.
    """
    try:
        return _excel(path) if path.suffix.lower() in EXCEL else _statistics(path)
    except (InputError, MissingExtra, OSError):
        raise
    except Exception as error:  # damaged files fail in many ways, most of them without a class
        raise InputError(
            f"{path} is not a readable {path.suffix.lower()} file: "
            f"{' '.join(str(error).split()) or type(error).__name__}. Save it again, or as .csv."
        ) from error


def _excel(path: Path) -> tuple[list[str], list[list[Any]]]:
    book = require("openpyxl", "office").load_workbook(path, read_only=True, data_only=True)
    try:
        sheets = {sheet.title: _rows(sheet) for sheet in book.worksheets}
    finally:
        book.close()
    filled = [title for title, rows in sheets.items() if rows]
    if len(filled) != 1:
        raise InputError(
            f"{path} has {len(filled)} sheets with cells{': ' * bool(filled)}{', '.join(filled)}. "
            "Save the one with the records as a file of its own."
        )
    header, *rows = sheets[filled[0]]
    names = ["" if cell is None else str(cell) for cell in header]
    return names, [_dates(column) for column in zip(*rows, strict=True)] or [[] for _ in names]


def _rows(sheet: Any) -> list[list[Any]]:
    """Cells from the first row on, without rows and last columns that are empty throughout."""
    rows = []
    for cells in sheet.iter_rows():
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


def _statistics(path: Path) -> tuple[list[str], list[list[Any]]]:
    reader = require("pyreadstat", "office")
    read = reader.read_dta if path.suffix.lower() == ".dta" else reader.read_sav
    columns, about = read(str(path), output_format="dict")
    for name, labels in about.variable_value_labels.items():
        there = {cell for cell in columns[name] if cell is not None}
        if there <= labels.keys() and len({labels[cell] for cell in there}) == len(there):
            columns[name] = [None if cell is None else labels[cell] for cell in columns[name]]
    return list(columns), list(columns.values())
