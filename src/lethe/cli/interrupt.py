"""Ctrl-C that is not lost: one that some library swallows is raised again at the next chunk."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

_asked = False


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Remember a Ctrl-C as well as raising it; only the main thread can."""
    global _asked
    _asked = False
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _on_interrupt(number: int, frame: Any) -> None:
    global _asked
    _asked = True
    raise KeyboardInterrupt


def check() -> None:
    """Raise an interrupt that has come and was swallowed.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed before.
    """
    if _asked:
        raise KeyboardInterrupt
