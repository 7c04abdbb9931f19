"""Boosted trees on one thread."""

from __future__ import annotations

from typing import Any


def one_thread() -> Any:
    """A context in which OpenMP uses one thread.

    Sums of several threads differ in their last digits from machine to machine, and threads that
    wait for each other after every tree cost more than they save, most of all on a busy machine.
    """
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, "openmp")
