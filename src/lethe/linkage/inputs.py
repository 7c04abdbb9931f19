"""Checks on columns that were not named: repeated persons, identifiers, suppression marks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.assess.verdict import InputCheck
from lethe.data.columns import encode, is_text, list_names, missing
from lethe.data.meaning import Column, one_meaning

_FEWEST, _FEW_PEOPLE = 30, 20  # values from which on their number says something
_NEAR_UNIQUE, _ALIKE = 0.95, 0.9
_HEAD = 10_000  # rows in which a key is looked for
_PERSON = re.compile(
    r"(.*_)?((patient|user|customer|client|person|member|subject|employee|participant|student)s?"
    r"(_?(id|nbr|nr|no|num|number|key|code|name|hash))?|pid|uid)"
)
_DIRECT = re.compile(
    r"(.*_)?(e_?mails?|phones?|telephone|mobile|ssn|passport|iban|uuid|guid|mrn"
    r"|((first|last|full|sur|user|family)_?)?names?)(_.*)?"
)
_SHAPES = {
    "e-mail addresses": re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}"),
    "phone numbers": re.compile(r"(?=\+|(\D*\d){10})\+?[(]?[0-9](?=(\D*\d){6,14}\D*$)[-0-9 ()/.]+"),
    "keys": re.compile(
        r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?=.*[0-9])[0-9a-fA-F]{16,128}"
        r"|[0-9]{3}-[0-9]{2}-[0-9]{4}|[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}"
    ),
}
_MARK = re.compile(r"\*+|\[?(suppressed|redacted|withheld)\]?", re.IGNORECASE)


def table_checks(
    columns: Mapping[str, NDArray[Any]],
    quasi: Collection[str],
    sensitive: str | None,
    *,
    persons: bool = True,
    person: str | None = None,
    coarser: bool | None = None,
) -> Iterator[InputCheck]:
    """Look at the columns that were not named, and for suppressed quasi-identifiers.

    Args:
        columns: (rows,) of the whole file; its first rows will do.
        quasi: columns that were named.
        persons: whether each row should be another person's.
        person: column that says whose each row is: several rows of one are no question then.
        coarser: whether a release with coarser quasi-identifiers is decided about, so that a column
            that tells them stops it; None = there is no such release.
    """
    (meant,), _ = one_meaning([{key: one for key, one in columns.items() if one.ndim == 1}])
    shown, stops, repeated = [], False, ""
    once = person is not None and encode(meant[person]).levels == len(meant[person])
    rest = {key: column for key, column in meant.items() if not (once and key == person)}
    recurring = _repeated_rows(rest) if persons else ""
    for name in (name for name in meant if name not in quasi and name != sensitive):
        column = encode(meant[name])
        there = ~missing(column.values)
        values, rows = column.values[there], int(there[column.codes].sum())
        whole = values.dtype.kind in "iuf" and bool((values % 1 == 0).all())
        if not len(values) or not (whole or is_text(values)):
            continue
        parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        called = re.sub(r"[^a-z0-9]+", "_", parted).strip("_")
        named = _PERSON.fullmatch(called) is not None
        unique = rows >= _FEWEST and len(values) > _NEAR_UNIQUE * rows and name != person
        shape = _shape(values.tolist()) if is_text(values) else ""
        if shape or unique:
            shown.append(f"{name} ({shape or f'{len(values):,} values in {rows:,} rows'})")
        stops |= bool(shape or (unique and (named or _DIRECT.fullmatch(called))))
        if not repeated and _FEW_PEOPLE <= len(values) < _ALIKE * rows:
            if named or (persons and not recurring and _is_key(name, meant)):
                repeated = f"{len(values):,} different {name} in {rows:,} rows"
                way_out = f"Say whose the rows are: --person {name}. Facts about people, such as "
                way_out += "ratings, are for lethe audit records."
    if shown:
        text = f"Columns that were not named may identify everybody: {list_names(shown, 4)}."
        out = "Take them out of the file before it is released, or name them in --quasi."
        yield InputCheck("identifiers", "stops" if stops else "asks", text, out)
    if coarser is not None and (twins := list(_twins(meant, quasi, {sensitive, person}))):
        text = f"Columns that were not named tell named ones: {list_names(twins, 4)}. The options "
        text += "leave them as they are, so who knows the named ones finds more than is printed."
        out = "Name them in --quasi, or take them out of the file."
        yield InputCheck("twins", "stops" if coarser else "asks", text, out)
    if not persons:
        return
    if recurring:
        text = f"{recurring}: rows are repeated, and each counts as another person."
        yield InputCheck("repeated-rows", "asks", text, "Keep each row once.")
    if repeated and person is None:
        text = f"{repeated}: each row is counted as another person."
        yield InputCheck("persons", "asks", text, way_out)
    marked: Any = 0
    for read in (encode(columns[name]) for name in quasi if is_text(columns[name])):
        odd = [_MARK.fullmatch(cell.strip()) is not None for cell in read.values.tolist()]
        marked = marked + np.array(odd, dtype=np.int64)[read.codes]
    if number := int(np.sum(marked > 1)):
        text = f"{number:,} rows have a mark such as * in several quasi-identifiers: it counts as "
        text += "a value that people share."
        out = "Leave suppressed rows out of the file to see the risk of the others."
        yield InputCheck("suppression-marks", "asks", text, out)


def _twins(
    columns: Mapping[str, Column], quasi: Collection[str], named: Collection[str | None]
) -> Iterator[str]:
    """Columns that follow from a quasi-identifier, or that tell it, by more than a tenth of chance.

    Whoever knows the one knows the other, though only the one is made coarser.
    """
    codes, ordered = {}, set[str]()
    for name, column in columns.items():
        read = encode(column)
        _, codes[name] = np.unique(read.codes[:_HEAD].astype(np.int64), return_inverse=True)
        if not is_text(read.values) and codes[name].max(initial=0) >= 10:
            ordered.add(name)
    for name in (name for name in columns if name not in quasi and name not in named):
        for known in (known for known in quasi if known in columns):
            pair, both = (codes[known], codes[name]), {known, name} <= ordered
            if _told(*pair) > 0.9 or _told(*pair[::-1]) > 0.9 or (both and _alike(*pair) > 0.98):
                yield f"{name} ({known})"
                break


def _told(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Share of wrong guesses of the second column that knowing the first spares, on other rows."""
    rows, width = len(first), int(second.max(initial=0)) + 1
    joint, times = np.unique(first * width + second, return_counts=True)
    starts = np.flatnonzero(np.diff(joint // width, prepend=-1))
    most = np.maximum.reduceat(times, starts) if rows else times
    blind = np.bincount(second, minlength=1).max() - 1
    return float(((most - 1).sum() - blind) / max(rows - blind, 1))


def _alike(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Rank correlation, its sign aside."""
    ranks = []
    for codes in (first, second):
        times = np.bincount(codes)
        ranks.append((np.cumsum(times) - times / 2)[codes])
    return abs(float(np.asarray(np.corrcoef(np.stack(ranks)))[0, 1]))


def _shape(cells: list[str]) -> str:
    looked = cells[:: max(1, len(cells) // 1000)]
    for name, pattern in _SHAPES.items():
        alike = sum(pattern.fullmatch(cell.strip()) is not None for cell in looked)
        if alike > _ALIKE * len(looked):
            return name
    return ""


def _is_key(name: str, columns: Mapping[str, Column]) -> bool:
    """Whether most of the other columns have one value for each value of this one."""
    codes = {key: encode(column).codes[:_HEAD].astype(np.int64) for key, column in columns.items()}
    groups, sizes = np.unique(codes[name], return_counts=True)
    if len(groups) < _FEW_PEOPLE or 2 * sizes[sizes > 1].sum() < len(codes[name]):
        return False
    varied = [one for key, one in codes.items() if key != name and one.min() < one.max()]
    pairs = [len(np.unique(codes[name] * (int(one.max()) + 1) + one)) for one in varied]
    constant = sum(number <= 1.05 * len(groups) for number in pairs)
    return len(varied) >= 3 and 2 * constant > len(varied)


def _repeated_rows(columns: Mapping[str, Column]) -> str:
    """Whole rows that recur with a column that tells most apart, or each as often as others."""
    codes = [encode(column).codes[:_HEAD].astype(np.int64) for column in columns.values()]
    varied = [one for one in codes if len(one) and one.min() < one.max()]
    if not varied:
        return ""
    number = np.unique(np.stack(varied, axis=1), axis=0, return_counts=True)[1]
    rows, different = len(varied[0]), len(number)
    most = max(len(np.unique(one)) for one in varied) if len(varied) > 2 else 0
    alone = most > _ALIKE * different and different < _ALIKE * rows
    if different < _FEWEST or not (alone or np.gcd.reduce(number) > 1):
        return ""
    return f"{different:,} different rows in {rows:,}"
