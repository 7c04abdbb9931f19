"""What can be asked of a table: the parts of a query, and its one canonical text.

Equal questions have equal text: `str(query)` sorts what has no order, writes numbers and names
in one way and holds no word such as ``not`` or ``between`` that says something twice. The ledger
knows a question by this text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Number = int | float
Literal = int | float | str | bool

KEYWORDS = frozenset("among and between bins by false in is not null or step true where".split())
OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MIRRORED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_BARE = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Bounds:
    """The interval [low, high] into which values are clamped; low < high, both finite."""

    low: Number
    high: Number

    def __str__(self) -> str:
        return f"[{number_text(self.low)}, {number_text(self.high)}]"


@dataclass(frozen=True)
class Count:
    """How many rows."""

    def __str__(self) -> str:
        return "count()"


@dataclass(frozen=True)
class Sum:
    """The sum of a column."""

    column: str
    bounds: Bounds

    def __str__(self) -> str:
        return f"sum({name_text(self.column)}) in {self.bounds}"


@dataclass(frozen=True)
class Mean:
    """The mean of a column."""

    column: str
    bounds: Bounds

    def __str__(self) -> str:
        return f"mean({name_text(self.column)}) in {self.bounds}"


@dataclass(frozen=True)
class Variance:
    """The variance of a column."""

    column: str
    bounds: Bounds

    def __str__(self) -> str:
        return f"variance({name_text(self.column)}) in {self.bounds}"


@dataclass(frozen=True)
class Quantile:
    """The value below which a share of the rows lies, out of candidates within the bounds.

    Attributes:
        column: of numbers.
        share: in (0, 1); 0.5 is the median.
        bounds: of the candidates.
        step: the candidates are its multiples; None lets the bounds choose a power of two.
    """

    column: str
    share: Number
    bounds: Bounds
    step: Number | None = None

    def __str__(self) -> str:
        inside = f"{name_text(self.column)}, {number_text(self.share)}"
        step = "" if self.step is None else f" step {number_text(self.step)}"
        return f"quantile({inside}) in {self.bounds}{step}"


@dataclass(frozen=True)
class Histogram:
    """Rows in each of `bins` intervals of equal width."""

    column: str
    bounds: Bounds
    bins: int

    def __str__(self) -> str:
        return f"histogram({name_text(self.column)}) in {self.bounds} bins {self.bins}"


@dataclass(frozen=True)
class Categories:
    """Rows with each of the named values."""

    column: str
    among: tuple[Literal, ...]

    def __str__(self) -> str:
        return f"histogram({name_text(self.column)}) among {list_text(self.among)}"


@dataclass(frozen=True)
class Mode:
    """Which of the named values has most rows."""

    column: str
    among: tuple[Literal, ...]

    def __str__(self) -> str:
        return f"mode({name_text(self.column)}) among {list_text(self.among)}"


@dataclass(frozen=True)
class Regression:
    """The line y = intercept + slope x of least squares."""

    y: str
    y_bounds: Bounds
    x: str
    x_bounds: Bounds

    def __str__(self) -> str:
        of_y = f"{name_text(self.y)} in {self.y_bounds}"
        return f"regress({of_y}, {name_text(self.x)} in {self.x_bounds})"


Aggregate = Count | Sum | Mean | Variance | Quantile | Histogram | Categories | Mode | Regression


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
        column: its name.
        among: the groups that are answered, known to everybody beforehand; None where the table
            itself says which groups there are, which costs a delta.
    """

    column: str
    among: tuple[Literal, ...] | None = None

    def __str__(self) -> str:
        listed = "" if self.among is None else f" among {list_text(self.among)}"
        return f"{name_text(self.column)}{listed}"


@dataclass(frozen=True)
class Query:
    """One question.

    >>> query = Query(Mean("age", Bounds(18, 100)), None, (Key("county"),))
    >>> print(query)
    mean(age) in [18, 100] by county
    """

    aggregate: Aggregate
    where: Condition | None = None
    by: tuple[Key, ...] = ()

    def __str__(self) -> str:
        where = "" if self.where is None else f" where {self.where}"
        by = f" by {', '.join(map(str, self.by))}" if self.by else ""
        return f"{self.aggregate}{where}{by}"


def opposite(condition: Condition) -> Condition:
    """What holds where the condition does not; a missing value makes neither hold."""
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
        flat.update({str(one): one for one in inner})
    ordered = tuple(flat[text] for text in sorted(flat))
    return ordered[0] if len(ordered) == 1 else kind(ordered)


def among(column: str, values: tuple[Literal, ...]) -> Condition:
    """A column with one of the values, which need not be sorted; of one value it is "="."""
    if len(values) == 1:
        return Compare(column, "=", values[0])
    return Among(column, values)


def ordered(values: list[Literal]) -> tuple[Literal, ...]:
    """Numbers by size, then text by letters."""
    return tuple(sorted(values, key=lambda one: (isinstance(one, str), one)))


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
