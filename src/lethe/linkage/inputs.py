"""What a table holds beside what was named: persons with several rows, identifiers, suppression."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.assess.input_checks import InputCheck
from lethe.data.columns import Coded, encode, is_text, missing
from lethe.data.meaning import one_meaning

Columns = Mapping[str, NDArray[Any]]
_FEWEST = 30  # values from which on their number says something
_NEAR_UNIQUE, _ALIKE = 0.95, 0.9
_HEAD = 10_000  # rows that are searched for a key
_PEOPLE = "patient|user|customer|client|person|member|subject|employee|participant|student"
_PERSON = re.compile(
    rf"(.*_)?(({_PEOPLE})s?(_?(id|nbr|nr|no|num|number|key|code|name|hash))?|pid|uid)"
)
_DIRECT = re.compile(
    r"(.*_)?(e_?mails?|phones?|telephone|mobile|ssn|passport|iban|uuid|guid|mrn"
    r"|((first|last|full|sur|user|family)_?)?names?)(_.*)?"
)
_SHAPES = {
    "e-mail addresses": re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}"),
    "phone numbers": re.compile(r"(\+|(?=(\D*\d){10}))[(]?[0-9](?=(\D*\d){6,14}\D*$)[-0-9 ()/.]+"),
    "keys": re.compile(
        r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?=.*[0-9])[0-9a-fA-F]{16,128}"
        r"|[0-9]{3}-[0-9]{2}-[0-9]{4}|[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}"
    ),
}
_MARK = re.compile(r"\*+|suppressed|redacted|withheld|\[.*(suppressed|redacted).*\]", re.IGNORECASE)


def table_checks(
    columns: Columns, quasi: Collection[str], sensitive: str | None, *, persons: bool = True
) -> list[InputCheck]:
    """Look at the columns that were not named, and for suppressed quasi-identifiers.

    Args:
        columns: (rows,) of the whole file; its first rows will do.
        quasi: columns that were named.
        persons: whether each row should be another person's.
    """
    # Marks are looked for as they are written; else a date or a number in text is no name.
    (meant,), _ = one_meaning([columns])
    beside = {
        name: encode(column)
        for name, column in meant.items()
        if name not in quasi and name != sensitive and len(column)
    }
    found = [_identifiers(beside)]
    if persons:
        found += [_persons(beside, meant), _marks({name: columns[name] for name in quasi})]
    return [one for one in found if one is not None]


def plain_name(name: str) -> str:
    """A column's name in small letters with underscores.

    >>> plain_name("PatientID"), plain_name("E-Mail")
    ('patient_id', 'e_mail')
    """
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")


def _present(column: Coded) -> tuple[NDArray[Any], int]:
    """The different values, and how many rows have one."""
    gaps = missing(column.values)
    return column.values[~gaps], int((~gaps)[column.codes].sum())


def _is_name(values: NDArray[Any]) -> bool:
    """Whether values can be names: text or whole numbers."""
    return is_text(values) or (values.dtype.kind in "iuf" and bool((values % 1 == 0).all()))


def _identifiers(beside: Mapping[str, Coded]) -> InputCheck | None:
    """Columns by which anybody finds a person, whatever the quasi-identifiers say."""
    shown, stops = [], False
    for name, column in beside.items():
        values, present = _present(column)
        if not len(values) or not _is_name(values):
            continue
        unique = present >= _FEWEST and len(values) > _NEAR_UNIQUE * present
        shape = _shape(values) if is_text(values) else ""
        if shape:
            shown.append(f"{name} ({shape})")
        elif unique:
            shown.append(f"{name} ({len(values):,} different values in {present:,} rows)")
        called = _DIRECT.fullmatch(plain_name(name)) or _PERSON.fullmatch(plain_name(name))
        stops |= bool(shape or (unique and called))
    if not shown:
        return None
    text = f"Columns that were not named may identify people directly: {list_few(shown)}."
    way_out = "Take them out of the file before it is released, or name them in --quasi."
    return InputCheck("identifiers", "stops" if stops else "asks", text, way_out)


def _shape(values: NDArray[Any]) -> str:
    looked = values[:: max(1, len(values) // 1000)].tolist()
    for name, pattern in _SHAPES.items():
        if sum(pattern.fullmatch(cell.strip()) is not None for cell in looked) > _ALIKE * len(
            looked
        ):
            return name
    return ""


def list_few(names: Sequence[str], most: int = 3) -> str:
    """Some of the names, and how many more there are.

    >>> list_few(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _persons(beside: Mapping[str, Coded], columns: Mapping[str, Any]) -> InputCheck | None:
    """A column that repeats as an identifier of persons does."""
    for name, column in beside.items():
        values, present = _present(column)
        if not (20 <= len(values) < _ALIKE * present and _is_name(values)):
            continue
        called = _PERSON.fullmatch(plain_name(name)) is not None
        if called or (len(columns) > 3 and _is_key(name, column, columns)):
            return InputCheck(
                "persons",
                "asks",
                f"{len(values):,} different {name} in {present:,} rows: persons seem to have "
                "several rows, and each row is counted as a person.",
                f"Keep one row for each {name}, or audit the facts: lethe audit records "
                f"--person {name}.",
            )
    return None


def _is_key(name: str, column: Coded, columns: Mapping[str, Any]) -> bool:
    """Whether most of the other columns have one value for each value of this one."""
    key = column.codes[:_HEAD].astype(np.int64)
    groups, sizes = np.unique(key, return_counts=True)
    if 2 * (sizes[sizes > 1].sum()) < len(key) or len(groups) < 20:
        return False
    constant = varied = 0
    for other, cells in columns.items():
        codes = encode(cells[:_HEAD]).codes.astype(np.int64)
        if other == name or (levels := int(codes.max()) + 1) < 2:
            continue
        varied += 1
        constant += len(np.unique(key * levels + codes)) <= 1.05 * len(groups)
    return varied >= 3 and 2 * constant > varied


def _marks(quasi: Columns) -> InputCheck | None:
    """Rows of which several quasi-identifiers were suppressed by a mark."""
    marked, mark = np.zeros(len(next(iter(quasi.values()))), np.int64), ""
    for column in quasi.values():
        if is_text(column):
            read = encode(column)
            odd = np.array([bool(_MARK.fullmatch(cell.strip())) for cell in read.values.tolist()])
            if odd.any():
                mark = mark or str(read.values[odd][0])
                marked += odd[read.codes]
    rows = int((marked > 1).sum())
    if not rows:
        return None
    return InputCheck(
        "suppression-marks",
        "asks",
        f"{rows:,} rows have a mark such as {mark!r} in several quasi-identifiers: it is counted "
        "as a value that people share.",
        "Leave suppressed rows out of the file to see the risk of the others.",
    )
