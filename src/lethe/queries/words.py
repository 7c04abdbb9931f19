"""A query's text cut into words, each with its place, and the message that points at one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lethe.errors import InputError

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


@dataclass(frozen=True)
class Word:
    """One piece of a query.

    Attributes:
        kind: "number", "text", "quoted", "name", "sign" or "end".
        raw: as it was typed.
        at: index of its first character.
    """

    kind: str
    raw: str
    at: int

    @property
    def lower(self) -> str:
        """What keywords and signs are known by; quoted things are never keywords."""
        return self.raw.lower() if self.kind in ("name", "sign") else ""


def cut(query: str) -> list[Word]:
    """The words of a query; the last one is its end.

    Raises:
        InputError: longer than `LONGEST`, not text, or a character that starts no word.
    """
    if not isinstance(query, str):
        raise InputError(f"query={query!r} must be text. Example: {EXAMPLE}")
    if len(query) > LONGEST:
        raise InputError(f"The query has {len(query)} characters; at most {LONGEST} are read.")
    if any("\ud800" <= sign <= "\udfff" or sign == "\0" for sign in query):
        raise InputError("The query holds characters that are no text. Type it again.")
    words = []
    at = 0
    while at < len(query):
        found = _WORD.match(query, at)
        if found is None or found.lastgroup is None:
            raise wrong(query, at, _why(query[at]))
        if found.lastgroup != "space":
            words.append(Word(found.lastgroup, found.group(), at))
        at = found.end()
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


def _why(sign: str) -> str:
    if sign == "'":
        return "this text has no closing quote (write a quote within it as '')."
    if sign == '"':
        return "this column name is empty or has no closing quote."
    return f"{sign!r} has no place in a query."
