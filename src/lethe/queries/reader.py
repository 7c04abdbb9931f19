"""The words of a question, and what takes them from left to right; errors point at the place.

The text is never handed to a database: column names are looked up, and values travel beside the
SQL.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TypeVar

from lethe.errors import InputError
from lethe.queries.grammar import (
    KEYWORDS,
    MIRRORED,
    OPPOSITE,
    Both,
    Bounds,
    Compare,
    Condition,
    Either,
    IsNull,
    Key,
    Literal,
    Number,
    among,
    joined,
    opposite,
    ordered,
)

LONGEST = 10_000
EXAMPLE = "mean(age) in [18, 100] where sex = 'F' by county"
_WORD = re.compile(
    r"""(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")+")
    |(?P<name>[^\W\d]\w*)
    |(?P<sign><=|>=|!=|<>|[=<>()\[\],+-])
    |(?P<space>\s+)""",
    re.VERBOSE,
)
_UNFINISHED = {
    "'": "this text has no closing quote (write a quote within it as '').",
    '"': "this column name is empty or has no closing quote.",
}


@dataclass(frozen=True)
class Word:
    """One piece of a query."""

    kind: str  # "number", "text", "quoted", "name", "sign" or "end"
    raw: str  # as it was typed
    at: int  # index of its first character

    @property
    def lower(self) -> str:
        """What keywords and signs are known by; quoted things are never keywords."""
        return self.raw.lower() if self.kind in ("name", "sign") else ""


def cut(query: str) -> list[Word]:
    """The words of a query; the last one is its end.

    Raises InputError: longer than `LONGEST`, not text, or a character that starts no word.
    """
    if not isinstance(query, str):
        raise InputError(f"query={query!r} must be text. Example: {EXAMPLE}")
    if len(query) > LONGEST:
        raise InputError(f"The query has {len(query)} characters; at most {LONGEST} are read.")
    if any("\ud800" <= sign <= "\udfff" or sign == "\0" for sign in query):
        raise InputError("The query holds characters that are no text. Type it again.")
    words = []
    place = 0
    while place < len(query):
        match = _WORD.match(query, place)
        if match is None or match.lastgroup is None:
            sign = query[place]
            raise wrong(query, place, _UNFINISHED.get(sign, f"{sign!r} has no place in a query."))
        if match.lastgroup != "space":
            words.append(Word(match.lastgroup, match.group(), place))
        place = match.end()
    return [*words, Word("end", "", len(query))]


def wrong(query: str, at: int, why: str, example: str = EXAMPLE) -> InputError:
    """The error that shows the query with a caret under what is wrong."""
    shown = "".join(" " if sign.isspace() else sign for sign in query)
    left, right = max(0, at - 60), at + 30
    start = "..." if left else ""
    end = "..." if right < len(shown) else ""
    caret = " " * (len(start) + at - left) + "^"
    return InputError(
        f"The query cannot be read: {why}\n  {start}{shown[left:right]}{end}\n  {caret}\n"
        f"Example: {example}"
    )


MOST_VALUES = 10_000
MOST_DIGITS = 38
DEEPEST = 50
Part = TypeVar("Part")


class Reader:
    """The words of one question, taken from left to right; aggregates read their part by it.

    Attributes:
        text: the question.
        words: its words.
        at: which of them is next.
        example: a right question, for messages.
    """

    def __init__(self, query: str) -> None:
        self.text = query
        self.words = cut(query)
        self.at = 0
        self.depth = 0
        self.example = EXAMPLE

    @property
    def next(self) -> Word:
        """The word that comes next; the last one is the end."""
        return self.words[self.at]

    def wrong(self, why: str, word: Word | None = None) -> InputError:
        """The error that points at a word, by default the next one."""
        return wrong(self.text, (word or self.next).at, why, self.example)

    def take(self) -> Word:
        """The next word, which is then behind."""
        word = self.next
        self.at += word.kind != "end"
        return word

    def has(self, *words: str) -> bool:
        """Take the words if they come next."""
        ahead = [word.lower for word in self.words[self.at : self.at + len(words)]]
        if ahead != list(words):
            return False
        self.at += len(words)
        return True

    def must(self, sign: str, after: str) -> None:
        """Take a word that has to come next."""
        if not self.has(sign):
            raise self.wrong(f"{sign!r} must stand here, after {after}.")

    def column(self) -> str:
        """Take the name of a column."""
        word = self.take()
        if word.kind == "quoted":
            return word.raw[1:-1].replace('""', '"')
        if word.kind != "name" or word.lower in KEYWORDS:
            quoted = "; a column that is called so needs double quotes" if word.lower else ""
            raise self.wrong(f"the name of a column must stand here{quoted}.", word)
        return word.raw

    def bounds(self) -> Bounds:
        """Take ``in [low, high]``."""
        if not self.has("in", "["):
            raise self.wrong(
                "bounds such as in [18, 100] must stand here: values are clamped to them, and they "
                "are never read off the table."
            )
        start = self.next
        low = self.number()
        self.must(",", "the lower bound")
        high = self.number()
        if not low < high:
            raise self.wrong("the lower bound must be below the upper one.", start)
        if not math.isfinite(float(high) - float(low)):
            raise self.wrong("the bounds are too far apart.", start)
        self.must("]", "the upper bound")
        return Bounds(low, high)

    def number(self) -> Number:
        """Take a finite number."""
        start = self.next
        sign = -1 if self.has("-") else 1
        if sign == 1:
            self.has("+")
        word = self.take()
        if word.kind != "number" or (value := _number(word.raw)) is None:
            raise self.wrong(
                "a finite number must stand here, with a fraction only below 2^53.", start
            )
        return sign * value

    def value(self) -> Literal:
        """Take a fixed value."""
        word = self.next
        if word.kind == "text":
            return self.take().raw[1:-1].replace("''", "'")
        if self.has("true"):
            return True
        if self.has("false"):
            return False
        if word.kind == "quoted" or (word.kind == "name" and word.lower not in KEYWORDS):
            inner = word.raw[1:-1] if word.kind == "quoted" else word.raw
            raise self.wrong(f"a fixed value must stand here; text has single quotes: '{inner}'.")
        if self.has("null"):
            raise self.wrong("null equals nothing; ask 'is null' or 'is not null'.", word)
        return self.number()

    def values(self) -> tuple[Literal, ...]:
        """A list in brackets; sorted, each value once, all of one kind."""
        start = self.next
        if not self.has("["):
            raise self.wrong("values in brackets such as ['Kent', 'Essex'] must stand here.")
        if self.next.lower == "]":
            raise self.wrong("the list is empty: name at least one value.")
        values = [self.value()]
        while self.has(","):
            values.append(self.value())
        self.must("]", "the values")
        kinds = {
            "text" if isinstance(value, str) else "bool" if isinstance(value, bool) else "numbers"
            for value in values
        }
        if len(kinds) > 1:
            raise self.wrong(
                f"values of one kind must stand here, not {' and '.join(sorted(kinds))}.", start
            )
        if len(values) > MOST_VALUES:
            raise self.wrong(f"at most {MOST_VALUES} values may stand here.", start)
        if len(set(values)) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            raise self.wrong(f"{twice!r} stands here twice; each value may stand once.", start)
        return ordered(values)

    def keys(self) -> tuple[Key, ...]:
        """Take the columns of ``by``."""
        keys: list[Key] = []
        while not keys or self.has(","):
            start = self.next
            column = self.column()
            if column in [key.column for key in keys]:
                raise self.wrong(f"{column!r} is grouped by twice.", start)
            keys.append(Key(column, self.values() if self.has("among") else None))
        if len({key.among is None for key in keys}) > 1:
            raise self.wrong(
                "give 'among' and its values for all columns of 'by', or for none of them."
            )
        return tuple(sorted(keys, key=lambda key: key.column))

    def condition(self) -> Condition:
        """Take the condition of ``where``, or one in brackets."""
        return self.chain("or", Either, lambda: self.chain("and", Both, self.clause))

    def chain(
        self, word: str, kind: type[Both] | type[Either], part: Callable[[], Condition]
    ) -> Condition:
        """Take parts joined by a word."""
        parts = [part()]
        while self.has(word):
            parts.append(part())
        return joined(kind, parts)

    def deeper(self, part: Callable[[], Part]) -> Part:
        """Take a part that stands within brackets or after ``not``."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.wrong(f"brackets and 'not' may be {DEEPEST} deep.")
        condition = part()
        self.depth -= 1
        return condition

    def clause(self) -> Condition:
        """Take one comparison, or what is in brackets."""
        if self.has("not"):
            return opposite(self.deeper(self.clause))
        if self.has("("):
            inside = self.deeper(self.condition)
            self.must(")", "the condition in brackets")
            return inside
        if self.next.kind in ("number", "text") or self.next.lower in ("-", "+", "true", "false"):
            value = self.value()
            operator = MIRRORED[self.operator()]
            return Compare(self.column(), operator, value)
        column = self.column()
        if self.has("is"):
            negated = self.has("not")
            self.must("null", "'is'")
            return IsNull(column, negated)
        negated = self.has("not")
        if self.has("in"):
            membership = among(column, self.values())
            return opposite(membership) if negated else membership
        if self.has("between"):
            low = self.value()
            self.must("and", "the lower value")
            inside = joined(Both, [Compare(column, ">=", low), Compare(column, "<=", self.value())])
            return opposite(inside) if negated else inside
        if negated:
            raise self.wrong("'in' or 'between' must follow 'not' here.")
        return Compare(column, self.operator(), self.value())

    def operator(self) -> str:
        """Take the sign of a comparison."""
        word = self.take()
        sign = {"<>": "!="}.get(word.raw, word.raw)
        if word.kind != "sign" or sign not in OPPOSITE:
            raise self.wrong(
                "a comparison must stand here: =, !=, <, <=, >, >=, in [..], between .. and .., "
                "is null.",
                word,
            )
        return sign


def _number(raw: str) -> Number | None:
    """A number exactly as it is written; None where it is too large, or too close to 0.

    Whole numbers are int, whatever way they are written, so that no digit of them is lost.

    >>> _number("1234567890123456789"), _number("1e3"), _number("0.5"), _number("1e999")
    (1234567890123456789, 1000, 0.5, None)
    """
    try:
        exact = Decimal(raw)
    except InvalidOperation:
        return None  # an exponent of more than 18 digits
    if exact.adjusted() < MOST_DIGITS and exact == exact.to_integral_value():
        return int(exact)
    value = float(raw)
    if value == 0:
        return None  # smaller than any number but 0
    if exact != exact.to_integral_value() and abs(value) >= 2**53:
        return None  # its fraction would be lost
    return value if math.isfinite(value) else None
