"""Settings from keyword arguments, options and TOML files, and what their docstrings say of them.

The docstring of an audit and of its settings is all that describes an option: `help` shows it in
Python, `--help` on the command line.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import partial
from pathlib import Path
from textwrap import indent, wrap
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from lethe.errors import InputError, did_you_mean, renamed

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from lethe.assess.judged import WrittenRule
    from lethe.runs.run import Asked

Settings = TypeVar("Settings", bound="DataclassInstance")
Function = TypeVar("Function", bound="Callable[..., Any]")


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a table.

    Raises:
        InputError: no such file, or not TOML; the message names the line.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML: {error}.") from error


def rules_in(table: Mapping[str, Any], where: str) -> list[WrittenRule]:
    """The rules among options, those of `[rules]` before those of `rule`."""
    from lethe.assess.judged import WrittenRule, read_rules

    named = table.get("rules") or {}
    listed = table.get("rule") or ()
    listed = (listed,) if isinstance(listed, str) else listed
    if not isinstance(named, Mapping) or not all(isinstance(text, str) for text in listed):
        raise InputError(
            f'{where}: [rules] must be a table of rules, and rule a list such as ["auc <= 0.6"].'
        )
    written = read_rules(named, f"{where}, [rules]")
    known = {entry.text for entry in written}
    return [*written, *(WrittenRule(text) for text in listed if text not in known)]


def descriptions(described: Any) -> dict[str, str]:
    """What a function's docstring says of each argument, or a class and its bases of each field.

    >>> descriptions(read_toml)
    {}
    """
    lines: dict[str, str] = {}
    for item in reversed(getattr(described, "__mro__", (described,))):
        text = inspect.cleandoc(item.__doc__ or "")
        block = re.search(r"^(?:Attributes|Args):\n((?: .*\n?|\n)*)", text, re.MULTILINE)
        entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", block[1] if block else "", re.M)
        lines |= {name: " ".join(words.split()) for name, words in entries}
    return lines


@dataclass(frozen=True)
class Run:
    """Keywords of every audit in Python.

    Attributes:
        name: what the report calls it.
        out: run folder; the same call again goes on there. [lethe-runs/NAME-HASH]
        save: leave the run folder with findings and report behind.
        quiet: no progress, only the result.
    """

    name: str | None = None
    out: Path | str | None = None
    save: bool = True
    quiet: bool = False
    asked: Asked | None = None  # by a command; no keyword for people


def audit_of(kind: type[DataclassInstance]) -> Callable[[Function], Function]:
    """Let `help` list an audit's settings, and the keywords of every run, as its own arguments."""

    def documented(function: Function) -> Function:
        signature = inspect.signature(function)
        *own, keywords = signature.parameters.values()
        lines, listed = [], {argument.name: argument for argument in own}
        for source in (kind, Run):
            words = descriptions(source)
            hints = get_type_hints(source, localns={"Asked": Any})
            for entry in fields(source):
                name, usual = entry.name, None if entry.default is MISSING else entry.default
                if name in words and name not in listed:
                    listed[name] = keywords.replace(
                        name=name, kind=keywords.KEYWORD_ONLY, default=usual, annotation=hints[name]
                    )
                    lines += _wrapped(f"{name}: {words[name]}", subsequent_indent="    ")
        block = indent("\n".join(lines), " " * 8)
        function.__doc__ = re.sub(r" {8}settings: .*", lambda _: block, function.__doc__ or "")
        signature = signature.replace(parameters=list(listed.values()))
        function.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it
        return function

    return documented


_wrapped = partial(wrap, width=92, break_on_hyphens=False, break_long_words=False)


_OF_DATA = ("groups", "members", "labels", "ids")
"""What functions take beside settings, where records are handed over."""


def keywords_of(
    kind: type[Settings], keywords: dict[str, Any], **more: Any
) -> tuple[Run, Settings]:
    """The keywords of a run, and settings; where several values are taken, one will do.

    Args:
        kind: of settings.
        keywords: of both.
        more: settings that are no keywords.

    Raises InputError: there is no such setting, or a value breaks its rule.

    >>> from lethe.membership.settings import AuditSettings
    >>> keywords_of(AuditSettings, {"attack": "lira-online"})[1].attack
    ('lira-online',)
    """
    keywords = renamed(keywords)
    run = {entry.name: keywords[entry.name] for entry in fields(Run) if entry.name in keywords}
    known = [entry.name for entry in fields(kind)]
    for key in keywords:
        if key not in run and (key not in known or key in more):
            value = keywords[key]
            # What is no plain value may be data, whose cells no message holds.
            shown = repr(value)[:40] if isinstance(value, str | int | float) else "..."
            raise InputError(
                f"{key}={shown} is no setting of this audit."
                f"{did_you_mean(key, [*known, *_OF_DATA])} Settings: {', '.join(known)}."
            )
    return Run(**run), settings_of(kind, {**keywords, **more})


def settings_of(kind: type[Settings], options: Mapping[str, Any]) -> Settings:
    """Settings of any kind from options, which may hold more.

    Args:
        kind: of settings.
        options: what is None keeps its default.

    Raises:
        InputError: a value breaks a rule, or has the wrong type in a file.
    """
    chosen: dict[str, Any] = {}
    for entry in fields(kind):
        value = options.get(entry.name)
        if value is None:
            continue
        if "tuple[" in str(entry.type):
            value = tuple(value) if isinstance(value, list | tuple) else (value,)
            usual: Any = entry.default or ()
            for item in value if usual else ():
                _check_type(entry.name, item, usual[0])
        _check_type(entry.name, value, entry.default)
        chosen[entry.name] = value
    return kind(**chosen)


def _check_type(name: str, value: Any, default: Any) -> None:
    """Files can hold any type; the command line has been read as the right one already."""
    rules: list[tuple[type, type | tuple[type, ...], str]] = [
        (bool, bool, "true or false"),
        (int, int, "a whole number"),
        (float, (int, float), "a number"),
        (str, str, "text"),
    ]
    for kind, allowed, words in rules:
        if isinstance(default, kind):
            if not isinstance(value, allowed) or isinstance(value, bool) is not (kind is bool):
                raise InputError(f"{name}={value!r} must be {words}.")
            return
