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
from pathlib import Path
from textwrap import TextWrapper, indent
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
    """Read the rules among options; those with names, a table, come first.

    `rule` and `rules` mean the same, and each may be a rule, a list of rules, or a table.
    """
    from lethe.assess.judged import WrittenRule, read_rules

    written: list[WrittenRule] = []
    listed: list[str] = []
    for key in ("rules", "rule"):
        rules = table.get(key) or ()
        if isinstance(rules, Mapping):
            written += read_rules(rules, f"{where}, [{key}]")
            continue
        rules = (rules,) if isinstance(rules, str) else rules
        if not isinstance(rules, list | tuple) or not all(isinstance(text, str) for text in rules):
            raise InputError(
                f'{where}: {key}={rules!r} must be a list of rules such as ["auc <= 0.6"], or a '
                f"table [{key}] with a rule for each name."
            )
        listed += rules
    known = {entry.text for entry in written}
    return [*written, *(WrittenRule(text) for text in listed if text not in known)]


def descriptions(described: Any) -> dict[str, str]:
    """Read what a docstring says of each argument of a function, or field of a class.

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
    """Decorate an audit so that `help` lists the fields of `kind` and `Run` as its arguments."""

    def documented(function: Function) -> Function:
        signature = inspect.signature(function)
        *arguments, keywords = signature.parameters.values()
        lines, listed = [], {argument.name: argument for argument in arguments}
        wrapper = TextWrapper(92, "", "    ", break_on_hyphens=False, break_long_words=False)
        for source in (kind, Run):
            words = descriptions(source)
            hints = get_type_hints(source, localns={"Asked": Any})
            for entry in fields(source):
                name, usual = entry.name, None if entry.default is MISSING else entry.default
                if name in words and name not in listed:
                    listed[name] = keywords.replace(
                        name=name, kind=keywords.KEYWORD_ONLY, default=usual, annotation=hints[name]
                    )
                    lines += wrapper.wrap(f"{name}: {words[name]}")
        block = indent("\n".join(lines), " " * 8)
        function.__doc__ = re.sub(r" {8}settings: .*", lambda _: block, function.__doc__ or "")
        signature = signature.replace(parameters=list(listed.values()))
        function.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it
        return function

    return documented


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
            hint = did_you_mean(key, [*known, "groups", "members", "labels", "ids"])
            raise InputError(
                f"{key}={shown} is no setting of this audit.{hint} Settings: {', '.join(known)}."
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
                check_type(entry.name, item, type(usual[0]))
        check_type(entry.name, value, type(entry.default))
        chosen[entry.name] = value
    return kind(**chosen)


PLAIN = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    dict: "a table",
}
"""Types that a TOML file can hold, in words."""


def check_type(name: str, value: Any, kind: type) -> None:
    """Refuse a value of another type, where `kind` is one of `PLAIN`."""
    fits = isinstance(value, (int, float) if kind is float else kind)
    if kind in PLAIN and not (fits and isinstance(value, bool) is (kind is bool)):
        raise InputError(f"{name}={value!r} must be {PLAIN[kind]}.")
