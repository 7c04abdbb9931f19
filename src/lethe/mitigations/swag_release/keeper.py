"""Where finished work is kept: nowhere, or in a folder from which a killed run goes on.

Every file is written whole and renamed, so that one which is there is finished.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from lethe.errors import InputError, RunFailed
from lethe.files import write_for_owner, write_whole

FORMAT = "lethe-release-state-1"
_STATE = "state.json"


class Keeper:
    """Keeps nothing: the run lives in memory."""

    def load(self, name: str) -> dict[str, Tensor] | None:
        """Tensors that were kept under a name, or None."""
        return None

    def keep(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep tensors under a name."""

    def forget(self, prefix: str) -> None:
        """Drop everything whose name begins with the prefix."""

    def path(self, name: str) -> Path | None:
        """File for something that writes itself, or None."""
        return None


class FolderKeeper(Keeper):
    """Keeps each thing as one safetensors file of a folder.

    Args:
        folder: a folder that exists.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, name: str) -> dict[str, Tensor] | None:
        """Tensors of a finished file, or None without one.

        Raises:
            InputError: the file is damaged.
        """
        file = self.folder / f"{name}.safetensors"
        try:
            return dict(load(file.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, SafetensorError) as error:
            raise InputError(
                f"{file} is damaged: {error}. Delete it; its part of the work is then done again."
            ) from error

    def keep(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Write one file, whole or not at all."""
        solid = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
        write_whole(self.folder / f"{name}.safetensors", save(solid))

    def forget(self, prefix: str) -> None:
        """Delete the files whose name begins with the prefix."""
        for file in self.folder.glob(f"{prefix}*.safetensors"):
            file.unlink()

    def path(self, name: str) -> Path | None:
        """The file of that name."""
        return self.folder / f"{name}.safetensors"


@contextlib.contextmanager
def private_folder(
    folder: Path, asked: Mapping[str, Any], fresh: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Open or begin the folder of one release, held by one process at a time.

    Args:
        folder: created if absent.
        asked: what the release depends on, plain values; the first call writes it, and every
            later one must ask for the same.
        fresh: what stands at the first call for values of `asked` that are None; later calls
            may leave these None, which means: as it was at the first call.

    Yields:
        What was asked at the first call.

    Raises:
        InputError: the folder holds another release or other files, or is in use.
        RunFailed: it cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"folder={str(folder)!r} is a file; name a folder.")
    file = folder / _STATE
    if folder.is_dir() and not file.exists():
        foreign = [one.name for one in folder.iterdir() if not _leftover(one)]
        if foreign:
            raise InputError(
                f"{folder} holds {foreign[0]!r} but no {_STATE}, so it is no release; "
                "name an empty folder."
            )
    try:
        # Only the owner may read what is in here.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise RunFailed(f"{folder} cannot be written: {error.strerror}.") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"another process is at work in {folder}; wait for it.") from None
        for left in folder.glob(".*.part"):
            left.unlink()
        if not file.exists():
            settled = {n: fresh.get(n) if v is None else v for n, v in asked.items()}
            text = json.dumps({"format": FORMAT, "asked": settled}, indent=1)
            write_for_owner(file, text.encode() + b"\n")
        yield _same(file, asked, fresh)
    finally:
        os.close(lock)


def _leftover(path: Path) -> bool:
    return path.name == ".lock" or bool(re.fullmatch(r"\..*\.part", path.name))


def _same(file: Path, asked: Mapping[str, Any], fresh: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes())
        known = dict(found["asked"])
        right = found["format"] == FORMAT
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{file} is damaged ({error!r}); begin in a new folder.") from error
    if not right:
        raise InputError(f"{file} is of another version; begin in a new folder.")
    plain = json.loads(json.dumps(dict(asked)))
    differ = [
        name if name in fresh else f"{name} ({_short(known.get(name))} there, {_short(value)} now)"
        for name, value in plain.items()
        if known.get(name) != value and not (name in fresh and value is None)
    ]
    if differ:
        raise InputError(
            f"{file.parent} holds another release; it differs in {', '.join(differ)}. A second "
            "draw costs a second epsilon: ask for it beforehand with releases=2, or begin anew "
            "in another folder and count both."
        )
    return known


def _short(value: Any) -> str:
    text = str(value)
    return text[:8] if re.fullmatch(r"[0-9a-f]{64}", text) else text
