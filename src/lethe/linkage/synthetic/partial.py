"""Copies in a part of the columns: cells of one person that stand together beside others' cells.

The distance over all columns does not see them, for the other columns are noise. So a synthetic row
is matched by how surprising its cells are, in columns that some of the people have chosen.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import is_text, missing
from lethe.errors import NotMeasurable
from lethe.linkage.synthetic.nearest import Files, Mixed, normal_form
from lethe.linkage.synthetic.risk import Outcomes

PART = "closest, part of the columns"
Float = NDArray[np.float32]
_CELLS = 2**26  # surprises held at once
_LEARN = 200  # rows of each side by which columns are chosen, at most
_AT_ONCE = 2**23  # surprises by closeness, which take most of the time, of 50 rows and more
_FEWEST = 50  # and at least
KINDS = ("close", "equal", "count")
_HASHES = 8  # of the words of a text
_WORDS = 4  # from which on, at the median, a column is free text


def in_part(files: Files, most: int, seed: int = 0) -> Outcomes:
    """Whether some synthetic row is, in part of the columns, as close as to original rows.

    The surprise of a cell is -log of the share of synthetic rows that are at least as close in its
    column: of a rare value much, of a common one little, of a number by ranks, of another category
    nothing. Or equal cells alone have one, or each of them counts 1. A row has the largest sum over
    all synthetic rows, or its lead over the second largest (Narayanan and Shmatikov 2008). Columns
    are left out a few at a time; what tells some rows best is tried on the others.

    Args:
        most: rows of each side that are tried, at most.

    Guarantee: The rows that are tried had no part in the choice.
    Raises NotMeasurable: fewer than 100 rows of a side or 3 columns, or too many synthetic rows.
    """
    original, synthetic, control = files
    rng, tables = np.random.default_rng([seed, 97]), (original, control)
    orders = [rng.permutation(len(table)) for table in tables]
    cells = _CELLS // (2 * len(synthetic) * len(synthetic.names))
    count = min(_LEARN, cells, *(len(order) // 2 for order in orders))
    if count < _FEWEST or len(synthetic.names) < 3:
        raise NotMeasurable("it takes 3 columns and 100 rows of each side, and not too many rows.")
    learn = [table.take(order[:count]) for table, order in zip(tables, orders, strict=True)]
    few = min(count, max(_FEWEST, _AT_ONCE // (len(synthetic) * len(synthetic.names))))
    space = [np.empty((len(synthetic.names), count, len(synthetic)), np.float32) for _ in learn]
    choices = []
    for kind in KINDS:
        rows = few if kind == "close" else count
        parts = [memory[:, :rows] for memory in space]
        for side, part in zip(learn, parts, strict=True):
            _fill(part, side.take(np.arange(rows)), synthetic, kind)
        columns = _columns(parts)
        for lead in (False, True):
            sums = (_largest(_total(part, columns), lead) for part in parts)
            choices.append((*_told(*sums), columns, kind, lead))
    _, least, columns, kind, lead = max(choices, key=lambda choice: choice[0])
    if kind == "close":
        most = min(most, max(2 * _LEARN, _AT_ONCE // (len(synthetic) * len(columns))))
    main, others = (
        _tried(table.take(order[count:][:most]), synthetic, columns, kind, lead) >= least
        for table, order in zip(tables, orders, strict=True)
    )
    return Outcomes(main, others, orders[0][count:][:most])


def _columns(parts: Sequence[Float]) -> list[int]:
    """The columns in which (D, n, S) surprises tell original from control rows best."""
    left = list(range(len(parts[0])))
    sums = [_total(part, left) for part in parts]
    ways = [(_told(*map(_largest, sums))[0], left)]
    rest = np.empty_like(sums[0])  # fresh memory would take longer than the sums
    while len(left) > 1:
        gains = []
        for column in left:
            highest = (
                np.subtract(total, part[column], out=rest).max(axis=1)
                for total, part in zip(sums, parts, strict=True)
            )
            gains.append(_told(*highest)[0])
        out = [left[index] for index in np.argsort(gains)[::-1][: max(1, len(left) // 6)]]
        left = [column for column in left if column not in out]
        for total, part in zip(sums, parts, strict=True):
            for column in out:
                total -= part[column]
        ways.append((_told(*map(_largest, sums))[0], left))
    return max(reversed(ways), key=lambda way: way[0])[1]


def _total(part: Float, columns: Sequence[int]) -> Float:
    """(n, S) sum over some columns, without a copy of them."""
    total: Float = part[columns[0]].copy()
    for column in columns[1:]:
        total += part[column]
    return total


def _largest(sums: Float, lead: bool = False) -> Float:
    """(n,) the largest of (n, S) sums, or its lead over the second largest."""
    if not lead or sums.shape[1] < 2:
        return np.asarray(sums.max(axis=1))
    second, first = np.partition(sums, -2, axis=1)[:, -2:].T
    return np.asarray(first - second)


def _told(mine: Float, theirs: Float) -> tuple[float, float]:
    """The largest excess of a threshold that at most half of the control rows reach, and that."""
    limits = np.unique(np.concatenate([theirs, mine, [np.inf]]))
    main, control = (
        1 - np.searchsorted(np.sort(side), limits) / len(side) for side in (mine, theirs)
    )
    few = control <= 0.5
    excess = (main - control)[few] / (1 - control[few])
    best = int(np.argmax(excess))
    return float(excess[best]), float(limits[few][best])


def _tried(rows: Mixed, synthetic: Mixed, columns: list[int], kind: str, lead: bool) -> Float:
    """(n,) `_largest` in some columns, a part of the rows at a time."""
    mine, among = (
        Mixed(tuple(t.names[c] for c in columns), tuple(t.columns[c] for c in columns))
        for t in (rows, synthetic)
    )
    step = min(len(rows), max(1, _AT_ONCE // (len(synthetic) * len(columns))))
    table, outcomes = np.empty((len(columns), step, len(synthetic)), np.float32), []
    for start in range(0, len(rows), step):
        part = mine.take(np.arange(start, min(start + step, len(rows))))
        _fill(table[:, : len(part)], part, among, kind)
        outcomes.append(_largest(_total(table[:, : len(part)], range(len(columns))), lead))
    return np.concatenate(outcomes)


def _fill(table: Float, rows: Mixed, synthetic: Mixed, kind: str) -> None:
    """(D, n, S) -log of the share of synthetic rows as close as each, by column; missing is one."""
    size = len(synthetic)
    surprise = (np.log(size) - np.log(np.maximum(np.arange(size + 1), 1))).astype(np.float32)
    for part, column, among in zip(table, rows.columns, synthetic.columns, strict=True):
        if kind != "close" or column.dtype.kind != "f":
            code = np.unique(np.concatenate([among, column]), return_inverse=True)[1].astype(
                np.int32
            )
            weight = surprise[np.bincount(code[:size], minlength=code.max() + 1)[code[size:]]]
            if kind == "count":
                weight = np.ones_like(weight)
            np.multiply(code[size:, None] == code[:size], weight[:, None], out=part)
            continue
        ordered = np.sort(among)  # NaN last
        start, end, low, high = (
            np.searchsorted(ordered, values, side=side).astype(np.int32)
            for values in (column[:, None], among)
            for side in ("left", "right")
        )
        # Rows between the two values, and as many on the other side.
        steps = np.maximum(high - start, end - low)
        close = np.where(steps == end - start, steps, 2 * steps)
        np.clip(close, 1, size, out=close)
        close[np.isnan(column)[:, None] != np.isnan(among)] = size
        np.take(surprise, close, out=part, mode="clip")


def with_words(*tables: Mapping[str, NDArray[Any]]) -> list[dict[str, NDArray[Any]]]:
    """Tables with further columns for free text, of which near copies share most.

    Each holds the word of a text with the least hash (MinHash, Broder 1997): two texts have the
    same one with the probability that the overlap of their sets of words is.
    """
    wide: list[dict[str, NDArray[Any]]] = [dict(table) for table in tables]
    for name, cells in tables[0].items():
        texts = cells[~missing(cells)].tolist() if is_text(cells) else []
        several = 2 * len(set(texts)) > len(texts)
        if not several or np.median([len(text.split()) for text in texts]) < _WORDS:
            continue
        for table, source in zip(wide, tables, strict=True):
            words = [normal_form(text).encode().split() or [b""] for text in source[name].tolist()]
            for start in range(_HASHES):
                least = [min(text, key=lambda word: zlib.crc32(word, start)) for text in words]
                table[f"{name}, word {start}"] = np.array([w.decode() for w in least], object)
    return wide
