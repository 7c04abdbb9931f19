"""Every sentence, heading and label of the report, in one place: `catalogue.toml`.

`say` is the only way to one of them, so that a second language is a second file. Words that come
from the findings (names, reasons, settings) are not there.
"""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Any


def say(key: str, **values: object) -> str:
    """A sentence with its values filled in.

    >>> say("first.interval", confidence="95 %", range="6.3 to 8.5 %")
    '95 % interval 6.3 to 8.5 %'
    """
    sentence: str = catalogue()["sentences"][key]
    return sentence.format(**values)


def term(key: str) -> tuple[str, str]:
    """A term of the glossary, and what it means."""
    name, meaning = catalogue()["glossary"][key]
    return name, meaning


def legal() -> dict[str, list[str]]:
    """Of every legal source: what it asks, where it is answered, what only people can answer."""
    found: dict[str, list[str]] = catalogue()["legal"]
    return found


def questions() -> list[str]:
    """Ten questions before signing."""
    found: list[str] = catalogue()["questions"]["before_signing"]
    return found


@functools.cache
def catalogue() -> dict[str, Any]:
    """The whole file."""
    return tomllib.loads(
        resources.files("lethe.report").joinpath("catalogue.toml").read_text("utf-8")
    )
