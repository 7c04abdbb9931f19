"""Schemas: what the columns of a table are, declared once, made public, and then enforced.

Nothing that is not declared may shape a release: not the type that a reader would guess, not the
smallest value, not whether a cell is blank. A `Schema` says all of it beforehand; what does not fit
is missing, or clamped where the schema asks so.

`lethe schema FILE` writes a first draft. What it had to read off the rows stands in `read_off`,
because it becomes public with the schema: replace it by what is known without the rows.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from lethe.errors import InputError, check_choice, check_known_keys, did_you_mean

OUTSIDE = ("missing", "clamp")
READ_OFF = ("type", "bounds", "values")
MADE_PUBLIC = "taken to be public although read off the rows"
"""Begins what a guarantee assumes of a schema that was read off: it covers people within it."""
SMALLEST_WHOLE, LARGEST_WHOLE = -(2**63), 2**63 - 1
LARGEST_WIDE = 10**38 - 1
"""Whole numbers beyond 64 bits have at most 38 digits, which is what a Parquet decimal holds."""
MOST_VALUES = 10_000
EPOCH = datetime.date(1970, 1, 1)
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # years 1 to 9999, in days since 1970
DAY = 86_400_000_000  # microseconds
FIRST_MOMENT, LAST_MOMENT = FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1

Value = int | float | bool | str
"""A value as the engine holds it: dates are days, times are microseconds, since 1970."""

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class ColumnType:
    """What columns of a declared type hold, and what a schema or query may ask of them."""

    holds: str  # in messages
    example: str  # one value of it, in messages
    stored: str  # NumPy's type of the values in memory
    bounded: bool = False  # whether a schema gives it bounds
    listed: bool = False  # whether a schema may list its values
    numeric: bool = False  # whether sums and quantiles are taken; true counts as 1, false as 0
    grouped: bool = False  # whether a table may be asked to find its groups


TYPES = {
    "whole": ColumnType(
        "whole numbers",
        "a whole number",
        "int64",
        bounded=True,
        listed=True,
        numeric=True,
        grouped=True,
    ),
    "number": ColumnType("numbers", "a number", "float64", bounded=True, numeric=True),
    "bool": ColumnType(
        "true and false", "true or false", "bool", listed=True, numeric=True, grouped=True
    ),
    "text": ColumnType("text", "text", "object", listed=True, grouped=True),
    "date": ColumnType("dates", "a date such as '2024-12-31'", "int64", True, True, grouped=True),
    "time": ColumnType("times", "a time such as '2024-12-31 12:00:00'", "int64", bounded=True),
}
"""Types by name. `_read` and `shown_value`, `casts`, `typed`, `source` and whatever names "date" or
"number" handle each by name.
"""


@dataclass(frozen=True)
class Column:
    """The declaration of one column.

    Attributes:
        bounds: lowest and highest value, both included, for whole, number, date and time; as
            `Value`; None where every value of the type fits.
        values: the only values that fit, for whole, text, bool and date; None for all.
        missing: whether a cell may be missing. Where it may not, a file with such a cell is
            refused when it is registered.
        read_off: which of `READ_OFF` were taken from the rows, and so are public by decision; also
            where the rows decided that there are no bounds or values.

    Raises InputError: a declaration that contradicts itself.
    """

    name: str  # as in the file
    type: str  # one of `TYPES`
    bounds: tuple[int | float, int | float] | None = None
    values: tuple[Value, ...] | None = None
    missing: bool = True
    outside: str = "missing"  # what a value beyond `bounds` becomes, one of `OUTSIDE`
    read_off: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        where = f"columns.{self.name}"
        check_choice(f"{where}.type", self.type, TYPES)
        check_choice(f"{where}.outside", self.outside, OUTSIDE)
        for part in self.read_off:
            check_choice(f"{where}.read_off", part, READ_OFF)
        if self.bounds is not None and self.values is not None:
            raise InputError(f"{where} has bounds and values: declare one of them.")
        if self.bounds is not None:
            if not self.kind.bounded:
                raise InputError(f"{where}.bounds: a column of {self.type} has none; list values.")
            low, high = self.bounds
            if not low <= high:
                raise InputError(f"{where}.bounds={self.shown_bounds()} must rise.")
        if self.values is not None:
            if not self.kind.listed:
                raise InputError(f"{where}.values: a column of {self.type} needs bounds instead.")
            if not 1 <= len(self.values) <= MOST_VALUES:
                raise InputError(
                    f"{where}.values has {len(self.values)} values; 1 to {MOST_VALUES} are allowed."
                )
            if len(set(self.values)) < len(self.values):
                raise InputError(f"{where}.values names a value twice; each may stand once.")
        if self.outside == "clamp" and self.bounds is None:
            raise InputError(f'{where}.outside="clamp" needs bounds to clamp to.')

    @property
    def kind(self) -> ColumnType:
        """What columns of its type hold."""
        return TYPES[self.type]

    @property
    def wide(self) -> bool:
        """Whether whole numbers of this column may need more than 64 bits."""
        return (
            self.type == "whole"
            and self.bounds is not None
            and not (SMALLEST_WHOLE <= self.bounds[0] and self.bounds[1] <= LARGEST_WHOLE)
        )

    @property
    def range(self) -> tuple[int, int]:
        """The whole numbers that the engine's form of a whole, date or time column can hold."""
        if self.type == "date":
            return FIRST_DAY, LAST_DAY
        if self.type == "time":
            return FIRST_MOMENT, LAST_MOMENT
        return (-LARGEST_WIDE, LARGEST_WIDE) if self.wide else (SMALLEST_WHOLE, LARGEST_WHOLE)

    def value_of(self, literal: Any) -> Value:
        """The value that a literal of a schema or a question stands for in this column.

        Spellings of one value give one value, so that a list cannot name it twice: numbers are
        exact, `1e3` is 1000, and dates and times are those of ISO 8601's extended form.

        Args:
            literal: int, float, Decimal, bool, text, or a date or time of TOML.

        Raises InputError: it is no value of this column's type.
        """
        value = _read(self.type, literal)
        if value is None:
            shown = literal if isinstance(literal, str) else str(literal).lower()
            shown = repr(shown) if isinstance(literal, str) else shown
            raise InputError(
                f"column {self.name!r} holds {self.kind.holds}; {shown} is none of them. "
                f"Write {self.kind.example}."
            )
        if self.type in ("whole", "date", "time"):
            low, high = self.range
            assert not isinstance(value, str)
            if not low <= value <= high:
                raise InputError(
                    f"{literal} is beyond what column {self.name!r} holds: {low} to {high}. "
                    "Declare wider bounds in the schema to have more digits."
                )
        return value

    def shown(self, value: Value) -> Value:
        """A value as people write it: dates and times as text."""
        return shown_value(self.type, value)

    def shown_bounds(self) -> list[Value]:
        """The bounds as people write them."""
        return [self.shown(bound) for bound in self.bounds or ()]

    def to_json(self) -> dict[str, Any]:
        """Plain values, as people write them."""
        plain: dict[str, Any] = {"type": self.type}
        if self.bounds is not None:
            plain["bounds"] = self.shown_bounds()
        if self.values is not None:
            plain["values"] = [self.shown(value) for value in self.values]
        plain["missing"] = self.missing
        if self.outside != "missing":
            plain["outside"] = self.outside
        if self.read_off:
            plain["read_off"] = list(self.read_off)
        return plain


@dataclass(frozen=True)
class Schema:
    """The declared columns of a table; columns of the file that are not in it are never read.

    Attributes:
        columns: in the order of the file.

    >>> schema = Schema.from_toml('[columns.age]\\ntype = "whole"\\nbounds = [0, 120]')
    >>> schema["age"].bounds, schema["age"].missing
    ((0, 120), True)
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise InputError("a schema needs at least one column: [columns.NAME] with a type.")
        names = [column.name.lower() for column in self.columns]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(
                f"the schema has two columns named {twice[0]!r} but for upper and lower case."
            )

    def __iter__(self) -> Iterator[str]:
        return iter(column.name for column in self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, name: object) -> bool:
        return any(column.name == name for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise InputError(
            f"the schema has no column {name!r}.{did_you_mean(name, self)} "
            f"Columns: {', '.join(list(self)[:40])}."
        )

    @property
    def read_off(self) -> dict[str, tuple[str, ...]]:
        """By column, what was taken from the rows; empty where all was known beforehand."""
        return {column.name: column.read_off for column in self.columns if column.read_off}

    def assumptions(self) -> tuple[str, ...]:
        """List the assumptions of a guarantee about data of this schema."""
        return made_public(self.read_off)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"columns": {column.name: column.to_json() for column in self.columns}}

    def canonical(self) -> str:
        """One text for one schema."""
        return json.dumps(self.to_json(), separators=(",", ":"), allow_nan=False)

    def to_toml(self, head: str = "", notes: Mapping[str, str] | None = None) -> str:
        """A file that `load` reads.

        Args:
            notes: by column, a comment below its name.
        """
        lines = [f"# {_CONTROL.sub(' ', line)}".rstrip() for line in head.splitlines()]
        for column in self.columns:
            lines += ["", f"[columns.{_toml_key(column.name)}]"]
            if notes and column.name in notes:
                lines.append(f"# {_CONTROL.sub(' ', notes[column.name])}")
            lines += to_toml(column.to_json()).splitlines()
        return "\n".join(lines).lstrip("\n") + "\n"

    @staticmethod
    def load(path: str | Path) -> Schema:
        """Read a schema file.

        Raises:
            InputError: it cannot be read, or declares something that is none.
        """
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise InputError(f"{path} does not exist. `lethe schema DATA` writes one.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read as a schema: {error}.") from error
        return Schema.from_toml(text, str(path))

    @staticmethod
    def from_toml(text: str, where: str = "the schema") -> Schema:
        """Read the text of a schema file."""
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{where} is no TOML: {error}.") from error
        check_known_keys(where, document, ["columns"])
        return Schema.of(document.get("columns", {}), where)

    @staticmethod
    def of(columns: Any, where: str = "the schema") -> Schema:
        """A schema from plain values: by column, a table of type, bounds, values, missing, ...

        >>> Schema.of({"sex": {"type": "text", "values": ["f", "m"]}})["sex"].values
        ('f', 'm')
        """
        if not isinstance(columns, Mapping) or not columns:
            raise InputError(f'{where} declares no columns: [columns.age] type = "whole".')
        return Schema(tuple(_column(str(name), declared) for name, declared in columns.items()))


def made_public(read_off: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Word the assumption on parts of columns that were read off the rows.

    >>> made_public({"age": ("type", "bounds")})
    ('taken to be public although read off the rows: type and bounds of age',)
    """
    parts = [f"{' and '.join(parts)} of {name}" for name, parts in read_off.items() if parts]
    return (f"{MADE_PUBLIC}: {', '.join(parts)}",) if parts else ()


_KEYS = ("type", "bounds", "values", "missing", "outside", "read_off")


def shown_value(kind: str, value: Value) -> Value:
    """A value of the engine as people write it.

    >>> shown_value("date", 0), shown_value("time", 1), shown_value("whole", 3)
    ('1970-01-01', '1970-01-01 00:00:00.000001', 3)
    """
    if kind == "date":
        return (EPOCH + datetime.timedelta(days=int(value))).isoformat()
    if kind == "time":
        start = datetime.datetime(1970, 1, 1)
        return (start + datetime.timedelta(microseconds=int(value))).isoformat(sep=" ")
    return value


def _column(name: str, declared: Any) -> Column:
    where = f"columns.{name}"
    if not isinstance(declared, Mapping):
        raise InputError(f"{where} must be a table with a type: one of {', '.join(TYPES)}.")
    check_known_keys(where, declared, _KEYS)
    kind = declared.get("type")
    if not isinstance(kind, str):
        raise InputError(f"{where} needs a type: one of {', '.join(TYPES)}.")
    check_choice(f"{where}.type", kind, TYPES)
    missing = declared.get("missing", True)
    if not isinstance(missing, bool):
        raise InputError(f"{where}.missing={missing!r} must be true or false.")
    read_off = declared.get("read_off", [])
    if not isinstance(read_off, list | tuple):
        raise InputError(f"{where}.read_off must be a list of: {', '.join(READ_OFF)}.")
    bounds = _listed(where, "bounds", kind, declared)
    if bounds is not None and len(bounds) != 2:
        raise InputError(f"{where}.bounds must be two values, the lowest and the highest.")
    return Column(
        name,
        kind,
        None if bounds is None else (bounds[0], bounds[1]),  # type: ignore[arg-type]  # no text: see Column
        _listed(where, "values", kind, declared),
        missing,
        str(declared.get("outside", "missing")),
        tuple(map(str, read_off)),
    )


def _listed(
    where: str, key: str, kind: str, declared: Mapping[str, Any]
) -> tuple[Value, ...] | None:
    listed = declared.get(key)
    if listed is None:
        return None
    if not isinstance(listed, list | tuple):
        raise InputError(f"{where}.{key}={listed!r} must be a list.")
    if key == "bounds" and not TYPES[kind].bounded:
        raise InputError(f"{where}.bounds: a column of {kind} has none; list values.")
    values = []
    for literal in listed:
        value = _read(kind, literal)
        if value is None:
            raise InputError(f"{where}.{key}: {literal!r} is not {TYPES[kind].example}.")
        if kind == "whole" and abs(int(value)) > LARGEST_WIDE:
            raise InputError(f"{where}.{key}: {literal} has more than 38 digits.")
        values.append(value)
    return tuple(values)


def _read(kind: str, literal: Any) -> Value | None:
    """A literal in the engine's form; None where it is none of this kind."""
    if kind == "bool":
        return literal if isinstance(literal, bool) else None
    if kind == "text":
        return literal if isinstance(literal, str) and "\0" not in literal else None
    if isinstance(literal, bool):
        return None
    if kind in ("date", "time"):
        return moment_of(kind, literal)
    if isinstance(literal, float) and not math.isfinite(literal):
        return None
    if not isinstance(literal, int | float | Decimal):
        return None
    try:
        exact = Decimal(literal)
        if kind == "whole":
            return int(exact) if exact == exact.to_integral_value() else None
        number = float(exact)
    except (InvalidOperation, OverflowError):
        return None
    return number + 0.0 if math.isfinite(number) else None  # -0.0 is 0.0


def moment_of(kind: str, literal: Any) -> int | None:
    """A date or time, or text of ISO 8601's extended form, in the engine's form; None for others.

    Args:
        kind: "date", for days since 1970, or "time", for microseconds.
    """
    try:
        if isinstance(literal, str):
            if kind == "date":
                if not _DATE.fullmatch(literal):
                    return None
                literal = datetime.date.fromisoformat(literal)
            elif _DATE.fullmatch(literal) or _TIME.fullmatch(literal):
                literal = datetime.datetime.fromisoformat(literal)
            else:
                return None
    except ValueError:
        return None
    if isinstance(literal, datetime.datetime):
        if kind == "date" or literal.tzinfo is not None:
            return None
        apart = literal - datetime.datetime(1970, 1, 1)
        return (apart.days * 86_400 + apart.seconds) * 1_000_000 + apart.microseconds
    if not isinstance(literal, datetime.date):
        return None
    days = (literal - EPOCH).days
    return days if kind == "date" else days * DAY


def to_toml(table: Mapping[str, Any]) -> str:
    """A table of text, numbers, booleans, lists and tables of these as TOML; no None."""
    return "".join(
        f"{_toml_key(key)} = {_toml_value(value)}\n"
        for key, value in table.items()
        if value is not None
    )


def _toml_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _toml_value(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{_toml_key(key)} = {_toml_value(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, float):
        return repr(float(value))
    text = json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
    # A JSON string, number or boolean is a TOML one as well, but for DEL and for the halves of
    # surrogate pairs that stand for undecodable bytes in file names.
    return text.replace("\x7f", "\\u007f").encode("utf-8", "replace").decode()
