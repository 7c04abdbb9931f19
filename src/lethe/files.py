"""Writing files so that a reader sees the whole file or none."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from lethe.errors import RunFailed


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to a temporary file beside `path`, flush it to disk, and rename it.

    Raises:
        RunFailed: the folder is read-only, full or gone; nothing half-written is left.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # "x" obeys the user's umask, which matters for records of people.
        with open(part, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise RunFailed(
            f"{path} cannot be written: {error.strerror or error}. "
            "Free the space or the folder and run the same command again; finished work is kept."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)
