"""The service's own log: who asked what, when, at what cost; no value of a row or an answer."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from lethe.errors import InputError

_LONGEST = 2_000  # characters of a text that an analyst chose


class Trail:
    """JSON Lines, one a request.

    Args:
        out: a file to append to, or an open stream.
        clock: the time of day.
    """

    def __init__(
        self, out: Path | TextIO, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._own: TextIO | None = None
        if isinstance(out, Path):
            try:
                # For the owner alone: questions say what somebody is interested in.
                handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            except OSError as error:
                raise InputError(f"{out} cannot be written: {error.strerror}.") from error
            self._own = out = os.fdopen(handle, "a", encoding="utf-8")
        self._out = out

    def note(self, **facts: Any) -> None:
        """Append one line; texts are cut, and None is left out."""
        shown = {
            name: value[:_LONGEST] if isinstance(value, str) else value
            for name, value in facts.items()
            if value is not None
        }
        line = json.dumps({"time": self._clock().isoformat(timespec="milliseconds"), **shown})
        with self._lock:
            self._out.write(line + "\n")
            self._out.flush()

    def close(self) -> None:
        """Let go of the file."""
        if self._own is not None:
            self._own.close()
