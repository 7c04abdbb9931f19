"""Compiled loops of attackers (extra `fast`), each with an equal NumPy form."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from lethe.reidentification.gallery import Index
from lethe.reidentification.vectors import Float, Float32
from lethe.training.environment import INSTALLED, compiled

_PEOPLE = 64  # columns at once: what is added up stays in the cache


def _row_sums_python(cells: Index, ends: Index, table: Any, sums: Any) -> None:
    held = np.empty((len(table), _PEOPLE))
    for first in range(0, table.shape[1], _PEOPLE):
        width = min(_PEOPLE, table.shape[1] - first)
        for row in range(len(table)):
            for j in range(width):
                held[row, j] = table[row, first + j]
        for group in range(len(ends) - 1):
            total, cell, end = np.zeros(_PEOPLE), ends[group], ends[group + 1]
            while cell + 3 < end:  # four at a time: the sums go through memory
                a, b = held[cells[cell]], held[cells[cell + 1]]
                c, d = held[cells[cell + 2]], held[cells[cell + 3]]
                for j in range(_PEOPLE):
                    total[j] = total[j] + a[j] + b[j] + c[j] + d[j]
                cell += 4
            while cell < end:
                a = held[cells[cell]]
                for j in range(_PEOPLE):
                    total[j] += a[j]
                cell += 1
            for j in range(width):
                sums[group, first + j] = total[j]


def _row_sums_numpy(cells: Index, ends: Index, table: Any, sums: Any) -> None:
    chosen = csr_array((np.ones(len(cells)), cells, ends), shape=(len(sums), len(table)))
    for first in range(0, table.shape[1], _PEOPLE):
        part = slice(first, first + _PEOPLE)
        sums[:, part] = chosen @ table[:, part].astype(np.float64)


def _segment_maxima_python(values: Any, starts: Index, maxima: Any) -> None:
    for row in range(len(values)):
        for segment in range(len(starts)):
            end = values.shape[1] if segment + 1 == len(starts) else starts[segment + 1]
            most = values[row, starts[segment]]
            for place in range(starts[segment] + 1, end):
                most = max(most, values[row, place])
            maxima[row, segment] = most


def _segment_maxima_numpy(values: Any, starts: Index, maxima: Any) -> None:
    np.maximum.reduceat(values, starts, axis=1, out=maxima)


_row_sums = compiled(_row_sums_python) if INSTALLED else _row_sums_numpy
_segment_maxima = compiled(_segment_maxima_python) if INSTALLED else _segment_maxima_numpy


def row_sums(cells: Index, ends: Index, table: Float32) -> Float:
    """Sums (n, m) of rows of a table in double precision, in the order in which they are listed.

    Args:
        cells: row numbers of all sums, one after the other.
        ends: (n + 1,) where the rows of each sum begin in `cells`, and the last of them end.
        table: (rows, m).
    """
    sums = np.empty((len(ends) - 1, table.shape[1]))
    _row_sums(cells, ends, table, sums)
    return sums


def segment_maxima(values: Float, starts: Index) -> Float:
    """Maxima (n, m) of successive columns of a table (n, columns); m segments begin at `starts`."""
    maxima = np.empty((len(values), len(starts)))
    _segment_maxima(values, starts, maxima)
    return maxima
