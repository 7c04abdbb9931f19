"""What processes compute with: threads, vector kernels, compiled functions.

Workers of every engine are started with the same settings, so that they give the same bits.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from lethe.errors import require

# Linear algebra and boosted trees on one thread.
#
# Sums of several threads differ in their last digits from machine to machine. And threads that
# wait for each other after every small step cost more than they save: on a busy machine by a factor
# of ten and more.

P = ParamSpec("P")
R = TypeVar("R")


def one_thread(what: str | None = "openmp") -> Any:
    """A context in which OpenMP ("openmp"), linear algebra ("blas") or both (None) use one."""
    return _pools(len(sys.modules)).limit(limits=1, user_api=what)


@functools.lru_cache(1)
def _pools(modules: int) -> Any:
    """Thread pools of the loaded libraries, looked up again when more modules are loaded."""
    import scipy.linalg  # noqa: F401  (its linear algebra is a library of its own)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that it computes on one thread."""

    @functools.wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        with one_thread(None):
            return function(*args, **kwargs)

    return alone


ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)
"""One thread for linear algebra; as joblib sets them, for engines without joblib."""


def default_workers() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worker_environment() -> dict[str, str]:
    """Variables that worker processes start with.

    NumPy's BLAS takes 256-bit kernels on AMD's AVX-512 processors; its 512-bit ones are about 1.5
    times as fast. What the user has set is left alone.
    """
    if "OPENBLAS_CORETYPE" in os.environ or not has_wide_vectors():
        return {}
    return {"OPENBLAS_CORETYPE": "SKYLAKEX"} if "AuthenticAMD" in _processor() else {}


@functools.cache
def wide_vectors() -> bool:
    """Whether NumPy's BLAS multiplies with 512-bit kernels in this process."""
    kernels = os.environ.get("OPENBLAS_CORETYPE", "SKYLAKEX").upper()
    wide = kernels in ("SKYLAKEX", "COOPERLAKE", "SAPPHIRERAPIDS")
    return wide and has_wide_vectors()


def _processor() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""


def has_wide_vectors() -> bool:
    """Whether the processor has the 512-bit vectors that BLAS can use."""
    text = _processor()
    needed = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
    flags = next((line.split() for line in text.splitlines() if line.startswith("flags")), [])
    return needed.issubset(flags)


@contextlib.contextmanager
def with_environment(extra: dict[str, str]) -> Iterator[None]:
    """Set variables for processes started meanwhile."""
    before = {name: os.environ.get(name) for name in extra}
    os.environ.update(extra)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


INSTALLED = find_spec("numba") is not None


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compiled at its first call, kept on disk for the next process where that can be written.

    Raises MissingExtra: numba is not installed.
    """
    numba = require("numba", "fast")
    try:
        kernel: Callable[..., Any] = numba.njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # numba found no folder for its cache
        kernel = numba.njit(nogil=True, **options)(function)
    return kernel
