"""Writing files so that a reader sees the whole file or none."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lethe.errors import InputError, RunFailed

AGAIN = "Free the space or the folder and run the same command again; finished work is kept."


@contextlib.contextmanager
def whole_file(path: Path, way_out: str = AGAIN) -> Iterator[BinaryIO]:
    """A temporary file beside `path` to write to; then it is flushed to disk and renamed.

    Args:
        path: where the whole file will be.
        way_out: what to do if it cannot be written.

    Raises:
        RunFailed: the folder is read-only, full or gone; nothing half-written is left.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # "x" obeys the user's umask, which matters for records of people.
        with open(part, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise RunFailed(
            f"{path} cannot be written: {error.strerror or error}. {way_out}"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` as `whole_file` does.

    Raises:
        RunFailed: see `whole_file`.
    """
    with whole_file(path) as file:
        file.write(content)


def write_for_owner(path: Path, content: bytes) -> None:
    """Write `content` as `write_whole` does; nobody else can read it, from its first byte on.

    Raises:
        RunFailed: see `whole_file`.
    """
    with for_owner():
        write_whole(path, content)


@contextlib.contextmanager
def for_owner() -> Iterator[None]:
    """Files and folders that are made meanwhile can be read by their owner alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def keep_private(path: Path, *, create: bool = False) -> None:
    """Let the owner alone read and write a file (0600), whatever the umask is.

    Args:
        path: a file wider than that is tightened.
        create: make an empty one where there is none; else nothing is done then.

    Raises:
        InputError: it is open to others and belongs to another person.
        OSError: it cannot be made or looked at.
    """
    if create:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    mode = status.st_mode & 0o777
    if mode & 0o077 and stat.S_ISREG(status.st_mode):  # a device such as /dev/null is everybody's
        try:
            path.chmod(0o600)
        except PermissionError:
            raise InputError(
                f"{path} has the mode {mode:o}, and others than its owner may read it: have its "
                "owner run chmod 600 on it."
            ) from None
