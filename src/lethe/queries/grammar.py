"""The parts of a query, and its one canonical text.

Equal questions have equal text, by which the ledger knows them: `str(query)` sorts what has no
order and writes everything in one way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lethe.data.schema import Column
from lethe.errors import InputError, did_you_mean

Number = int | float
Literal = int | float | str | bool

KEYWORDS = frozenset("among and between bins by false in is not null or step true where".split())
OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
MOST_BINS = 10_000
"""Of a histogram, and candidates of a quantile; `lethe.queries.plan.Limits` bounds their product
with the groups."""
_BARE = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Bounds:
    """The interval [low, high] into which values are clamped; low < high, both finite."""

    low: Number
    high: Number

    def __str__(self) -> str:
        return f"[{number_text(self.low)}, {number_text(self.high)}]"


@dataclass(frozen=True)
class Compare:
    """A column against a fixed value; `operator` is a key of `OPPOSITE`."""

    column: str
    operator: str
    value: Literal

    def __str__(self) -> str:
        return f"{name_text(self.column)} {self.operator} {literal_text(self.value)}"


@dataclass(frozen=True)
class Among:
    """A column that has, or has not, one of several values."""

    column: str
    values: tuple[Literal, ...]
    negated: bool = False

    def __str__(self) -> str:
        word = "not in" if self.negated else "in"
        return f"{name_text(self.column)} {word} {list_text(self.values)}"


@dataclass(frozen=True)
class IsNull:
    """A value that is, or is not, missing."""

    column: str
    negated: bool = False

    def __str__(self) -> str:
        return f"{name_text(self.column)} is {'not ' if self.negated else ''}null"


@dataclass(frozen=True)
class Both:
    """All parts hold."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        texts = (f"({part})" if isinstance(part, Either) else str(part) for part in self.parts)
        return " and ".join(texts)


@dataclass(frozen=True)
class Either:
    """One part at least holds."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return " or ".join(map(str, self.parts))


Condition = Compare | Among | IsNull | Both | Either


@dataclass(frozen=True)
class Key:
    """A column to group by.

    Attributes:
        among: the groups that are answered, known to everybody beforehand; None where the table
            itself says which groups there are, which costs a delta.
    """

    column: str  # its name
    among: tuple[Literal, ...] | None = None

    def __str__(self) -> str:
        listed = "" if self.among is None else f" among {list_text(self.among)}"
        return f"{name_text(self.column)}{listed}"


def opposite(condition: Condition) -> Condition:
    """Negate the condition; a missing value meets neither."""
    if isinstance(condition, Compare):
        return Compare(condition.column, OPPOSITE[condition.operator], condition.value)
    if isinstance(condition, Among):
        return Among(condition.column, condition.values, not condition.negated)
    if isinstance(condition, IsNull):
        return IsNull(condition.column, not condition.negated)
    parts = [opposite(part) for part in condition.parts]
    return joined(Either if isinstance(condition, Both) else Both, parts)


def joined(kind: type[Both] | type[Either], parts: list[Condition]) -> Condition:
    """Parts in one level, each once and in the order of their text; one part alone is itself."""
    flat: dict[str, Condition] = {}
    for part in parts:
        inner = part.parts if isinstance(part, kind) else (part,)
        flat.update({str(clause): clause for clause in inner})
    ordered = tuple(flat[text] for text in sorted(flat))
    return ordered[0] if len(ordered) == 1 else kind(ordered)


def among(column: str, values: tuple[Literal, ...]) -> Condition:
    """A column with one of the values, which need not be sorted; of one value it is "="."""
    if len(values) == 1:
        return Compare(column, "=", values[0])
    return Among(column, values)


def ordered(values: list[Literal]) -> tuple[Literal, ...]:
    """Numbers by size, then text by letters."""
    return tuple(sorted(values, key=lambda value: (isinstance(value, str), value)))


def number_text(number: Number) -> str:
    """A number in the one way the grammar writes it.

    >>> number_text(18.0), number_text(1e-3), number_text(-0.0)
    ('18', '0.001', '0')
    """
    if isinstance(number, float) and number.is_integer() and abs(number) <= 2**53:
        number = int(number)
    return repr(number)


def literal_text(value: Literal) -> str:
    """A value as it is written in a query.

    >>> literal_text("O'Hara"), literal_text(True)
    ("'O''Hara'", 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return number_text(value)


def list_text(values: tuple[Literal, ...]) -> str:
    """Values in brackets."""
    return f"[{', '.join(map(literal_text, values))}]"


def name_text(name: str) -> str:
    """A column as it is written in a query: in double quotes where it is no plain word.

    >>> name_text("age"), name_text("hours per week"), name_text("in")
    ('age', '"hours per week"', '"in"')
    """
    if _BARE.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


# Literals as their columns have them.


def refuse_times(column: Column) -> None:
    """Refuse a column of times where its values are listed or grouped by."""
    if column.type == "time":
        raise InputError(
            f"column {column.name!r} holds times, which are not told apart one by one. Ask with "
            "'where' and 'between', or keep a column of dates."
        )


def listed(values: tuple[Literal, ...], column: Column) -> tuple[Literal, ...]:
    """Values of a list as the column has them, sorted; each may stand once."""
    literals: dict[Literal, Literal] = {}
    for value in values:
        bound = literal_of(value, column, listed=True)
        if bound in literals:
            same = literal_text(literals[bound])
            also = "" if same == literal_text(value) else f", also written {literal_text(value)}"
            raise InputError(
                f"{same} of column {column.name!r} stands here twice{also}; each value may stand "
                "once."
            )
        literals[bound] = value
    return ordered(list(literals))


def literal_of(value: Literal, column: Column, listed: bool = False) -> Literal:
    """A literal as the column has it, dates and times as their one text."""
    read = column.value_of(value)
    if listed and column.values is not None and read not in column.values:
        known = [str(column.shown(listed_value)) for listed_value in column.values]
        raise InputError(
            f"column {column.name!r} has no value {literal_text(value)} in the schema."
            f"{did_you_mean(str(value), known)}"
        )
    return column.shown(read)
