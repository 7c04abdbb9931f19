"""Progress on a terminal, or as plain lines in a log, and a Ctrl-C that is not lost."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

# Ctrl-C that is not lost: one that some library swallows is raised again at the next chunk.

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


_LOG_EVERY = 10.0


class Progress:
    """How far the whole job is: one bar with the time left on a terminal, a line elsewhere.

    Use it as a context manager.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._bar: Any = None
        self._task: Any = None
        self._what = ""
        self._last = 0.0
        self._first: tuple[float, int] | None = None
        self._live = not quiet and sys.stderr.isatty()

    def __enter__(self) -> Progress:
        if self._live:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("trainings"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def models(self, done: int, total: int, what: str) -> None:
        """`done` of the `total` trainings of the whole job are there; `what` is being trained."""
        check()
        if self._bar is not None:
            if self._task is None:
                self._task = self._bar.add_task("", total=total)
            self._bar.update(
                self._task, completed=done, total=total, description=f"training {what}"
            )
        else:
            now = time.monotonic()
            self._first = self._first or (now, done)
            if what != self._what or done == total or now - self._last > _LOG_EVERY:
                self._last = now
                left = self._left(now, done, total)
                self.say(f"training {what}: {done}/{total} trainings{left}")
        self._what = what

    def _left(self, now: float, done: int, total: int) -> str:
        """The time left at the pace so far; empty where none is known yet."""
        began, there = self._first or (now, done)
        if done <= there or done >= total:
            return ""
        seconds = (now - began) / (done - there) * (total - done)
        left = f"about {seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
        return f", {left} left"

    def part(self, what: str, done: int, total: int) -> None:
        """A line each ten seconds on how far one long part of the job is."""
        check()
        now = time.monotonic()
        if what != self._what:
            self._what, self._last, self._first = what, now, (now, done)
        elif now - self._last > _LOG_EVERY:
            self._last = now
            self.say(f"{what}: {done:,} of {total:,}{self._left(now, done, total)}")

    def say(self, text: str) -> None:
        """One line for the reader."""
        if self.quiet:
            return
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)
