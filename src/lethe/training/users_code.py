"""A mistake in the user's code, told in one line with its place."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

from lethe.errors import InputError, LetheError
from lethe.training.code import library_version


@contextlib.contextmanager
def users_code(what: str) -> Iterator[None]:
    """Turn any exception into an `InputError` that names the user's line.

    Lack of memory is left alone: it is no mistake in the code.

    Args:
        what: what runs, the subject of the message.
    """
    try:
        yield
    except (LetheError, MemoryError):
        raise
    except Exception as error:
        raise InputError(
            f"{what} fails: {type(error).__name__}: {str(error).rstrip('.')}{_place(error)}. "
            "--debug shows the whole traceback."
        ) from error


def _place(error: BaseException) -> str:
    """The innermost line that is no library's, if there is one."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if library_version(str(frame.f_globals.get("__name__"))) is None:
            return f" ({Path(frame.f_code.co_filename).name}, line {line})"
    return ""
