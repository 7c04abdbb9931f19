"""Linear algebra and boosted trees on one thread.

Sums of several threads differ in their last digits from machine to machine. And threads that
wait for each other after every small step cost more than they save: on a busy machine by a factor
of ten and more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def one_thread(what: str | None = "openmp") -> Any:
    """A context in which OpenMP ("openmp"), linear algebra ("blas") or both (None) use one."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, what)


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, computing on one thread."""

    @functools.wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        with one_thread(None):
            return function(*args, **kwargs)

    return alone
