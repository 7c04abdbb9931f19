"""Writing files so that a reader sees the whole file or none."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from lethe.errors import RunFailed


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to a temporary file beside `path`, flush it to disk, and rename it.

    Raises:
        RunFailed: the folder is read-only, full or gone; nothing half-written is left.
    """
    part = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, 0o644)
        os.replace(part, path)
    except OSError as error:
        raise RunFailed(
            f"{path} cannot be written: {error.strerror or error}. "
            "Free the space or the folder and run the same command again; finished work is kept."
        ) from error
    finally:
        if part is not None:
            with contextlib.suppress(OSError):
                os.unlink(part)
