"""Compiling with numba where it is installed (extra `fast`)."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from lethe.errors import require

INSTALLED = find_spec("numba") is not None


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compiled at its first call, kept on disk for the next process where that can be written.

    Raises:
        MissingExtra: numba is not installed.
    """
    numba = require("numba", "fast")
    try:
        made: Callable[..., Any] = numba.njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # numba found no folder for its cache
        made = numba.njit(nogil=True, **options)(function)
    return made
