"""Progress on a terminal, or as plain lines in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from lethe.cli import interrupt

_LOG_EVERY = 10.0


class Progress:
    """Shows how many shadow models are there: a bar on a terminal, a line now and then elsewhere.

    Use it as a context manager.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._bar: Any = None
        self._task: Any = None
        self._what = ""
        self._last = 0.0
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
                TextColumn("shadow models"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def models(self, done: int, total: int, what: str) -> None:
        """`done` of `total` shadow models are there."""
        interrupt.check()
        if self._bar is not None:
            if what != self._what:
                if self._task is not None:
                    self._bar.remove_task(self._task)
                self._task = self._bar.add_task(f"training {what}", total=total)
            self._bar.update(self._task, completed=done)
        elif not self.quiet:
            now = time.monotonic()
            if what != self._what or done == total or now - self._last > _LOG_EVERY:
                self._last = now
                print(f"training {what}: {done}/{total} shadow models", file=sys.stderr, flush=True)
        self._what = what

    def say(self, text: str) -> None:
        """One line for the reader."""
        if self.quiet:
            return
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)
