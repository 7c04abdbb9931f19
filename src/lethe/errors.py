"""Every message Lethe gives about a mistake, and the checks that give it.

One voice: name, value, rule, way out, as in
``fpr=0.001 needs at least 10000 non-members, got 500.``

LetheError
 ├─ InputError         what was asked cannot be done as asked (exit code 2)
 │   └─ MissingExtra   an optional dependency is needed (exit code 2)
 ├─ NotMeasurable      the sample cannot carry the number (exit code 3)
 └─ RunFailed          the run stopped but can be resumed (exit code 4)
"""

from __future__ import annotations

import difflib
import importlib
import math
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any


class LetheError(Exception):
    """Base of all errors that Lethe raises on purpose.

    >>> try:
    ...     check_at_least("models", 2, 4)
    ... except LetheError as error:
    ...     print(error, "Exit code:", error.exit_code)
    models=2 must be at least 4. Exit code: 2
    """

    exit_code = 2


class InputError(LetheError, ValueError):
    """An argument, file or setting breaks a rule; nothing was written.

    >>> check_choice("task", "regresion", ["classification", "regression"])
    Traceback (most recent call last):
    ...
    lethe.errors.InputError: task='regresion' must be one of 'classification', 'regression'. Did \
you mean 'regression'?
    """


class MissingExtra(InputError, ImportError):
    """An optional dependency is not installed.

    >>> require("no_such_module", "train")
    Traceback (most recent call last):
    ...
    lethe.errors.MissingExtra: no_such_module is not installed and is needed here; install it \
with: pip install 'lethe-privacy[train]'
    """


class NotMeasurable(LetheError, ValueError):
    """The sample is too small for the number asked for.

    >>> from lethe.evidence.roc import check_resolvable
    >>> check_resolvable(0.001, 500, 500)
    Traceback (most recent call last):
    ...
    lethe.errors.NotMeasurable: fpr=0.001 needs at least 10000 non-members, got 500...
    """

    exit_code = 3


class RunFailed(LetheError, RuntimeError):
    """A run stopped before its end; finished work is kept and the same command resumes it.

    >>> RunFailed("a worker died").exit_code
    4
    """

    exit_code = 4


SYNONYMS = {"gate": "rule"}  # what people type and is taken, and what it is called here


def renamed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by the names that they have here.

    Raises InputError: an option under both of its names.

    >>> renamed({"gate": ["auc<=0.6"]})
    {'rule': ['auc<=0.6']}
    """
    for word, name in SYNONYMS.items():
        if options.get(word) is not None and options.get(name) is not None:
            raise InputError(f"{word} is another word for {name}: give one of them.")
    return {SYNONYMS.get(name, name): value for name, value in options.items()}


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """A hint such as `` Did you mean 'seed'?`` (with a leading space), or an empty string.

    Choices that begin with the word come first, at most three of them.

    >>> did_you_mean("sed", ["seed", "models"])
    " Did you mean 'seed'?"
    >>> did_you_mean("lira", ["lira-online", "lira-offline", "gap"])
    " Did you mean 'lira-online' or 'lira-offline'?"
    """
    listed = list(choices)
    begun = [name for name in listed if len(word) > 1 and name.startswith(word)][:3]
    close = begun or difflib.get_close_matches(word, listed, n=1)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def check_choice(name: str, value: str, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`."""
    options = list(choices)
    if value not in options:
        listed = ", ".join(map(repr, options))
        raise InputError(f"{name}={value!r} must be one of {listed}.{did_you_mean(value, options)}")
    return value


def check_known_keys(where: str, keys: Iterable[str], known: Iterable[str]) -> None:
    """Refuse keys that nobody would read."""
    options = list(known)
    for key in keys:
        if key not in options:
            raise InputError(
                f"{where} has the unknown key {key!r}.{did_you_mean(key, options)} "
                f"Known keys: {', '.join(sorted(options))}."
            )


def check_between(
    name: str,
    value: float,
    low: float,
    high: float,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Return `value` if it lies in the interval; NaN never does, and True is no number."""
    _check_no_bool(name, value)
    inside = (value > low if open_low else value >= low) and (
        value < high if open_high else value <= high
    )
    if not inside:
        left, right = "(" if open_low else "[", ")" if open_high else "]"
        positive = ": give a positive number" if open_low and low == 0 and high == math.inf else ""
        raise InputError(f"{name}={value!r} must be in {left}{low}, {high}{right}{positive}.")
    return value


def check_at_least(name: str, value: float, low: float) -> float:
    """Return `value` if it is at least `low`; NaN never is, and True is no number."""
    _check_no_bool(name, value)
    if not value >= low:
        raise InputError(f"{name}={value!r} must be at least {low}.")
    return value


def _check_no_bool(name: str, value: object) -> None:
    if isinstance(value, bool):
        raise InputError(f"{name}={value!r} must be a number, not a truth value.")


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency, or say in one line how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{module} is not installed and is needed here; "
            f"install it with: pip install 'lethe-privacy[{extra}]'"
        ) from error
