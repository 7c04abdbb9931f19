"""A run is a folder: what was asked, what was done, and every finished piece of work."""

from __future__ import annotations

import fcntl
import io
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from lethe.errors import InputError, RunFailed
from lethe.files import write_for_owner, write_whole
from lethe.training.fingerprint import versions

FORMAT = "lethe-run/1"


class RunFolder:
    """An audit's folder, held by one process at a time.

    Use it as a context manager: entering creates or opens the folder and locks it, leaving
    writes the manifest and unlocks it. A killed process leaves no lock behind.

    Args:
        path: the folder; created if absent.
        audit: content hash that says which audit this is.
        command: what the user typed, for the manifest.

    Raises:
        InputError: the path is no folder, holds another audit or other files, has a corrupt
            manifest, or another process is at work in it.
        RunFailed: the folder cannot be written.
    """

    def __init__(self, path: Path, audit: str, command: str = "") -> None:
        self.path, self.audit, self.command = path, audit, command
        self.manifest: dict[str, Any] = {}
        self._lock: int | None = None

    def __enter__(self) -> RunFolder:
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"--out {self.path} is a file; name a folder.")
        self._read_own()
        self._lock = lock_folder(self.path)
        try:
            self._begin()
        except BaseException:
            self._unlock()
            raise
        return self

    def _read_own(self) -> dict[str, Any] | None:
        """The manifest if there is one, after checking that it and the folder are of this audit."""
        known = self.read_manifest(self.path)
        if known is None and self.path.is_dir():
            # A first run that was killed leaves these, and files whose writing was not finished.
            left = (".lock", "audit.toml", "context.toml")
            names = {entry.name for entry in self.path.iterdir()} - set(left)
            if any(not (name.startswith(".") and name.endswith(".part")) for name in names):
                raise InputError(
                    f"{self.path} holds files but no manifest.json, so it is no run folder; "
                    "choose another --out."
                )
        if known is not None and known.get("audit") != self.audit:
            raise InputError(
                f"{self.path} holds another audit ({str(known.get('audit'))[:8]}, this one is "
                f"{self.audit[:8]}): data, recipe or seed differ. Choose another --out."
            )
        return known

    def _begin(self) -> None:
        # Read again now that nobody else writes: another process may have just finished.
        self.manifest = self._read_own() or {
            "format": FORMAT,
            "audit": self.audit,
            "created": _now(),
            "runs": [],
        }
        run = dict(id=os.urandom(4).hex(), started=_now(), command=self.command, finished=None)
        self.manifest["runs"] = [*self.manifest.get("runs", []), run][-20:]
        self.manifest["versions"] = versions(
            "lethe-privacy", "numpy", "scipy", "scikit-learn", "torch", "joblib", "safetensors"
        )
        self.manifest["machine"] = machine()
        self.save()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.finished()
        finally:
            self._unlock()

    def finished(self) -> None:
        """Note the time at which the measuring ended, for the documents that are written last."""
        if self.manifest["runs"][-1]["finished"] is None:
            self.manifest["runs"][-1]["finished"] = _now()
            self.save()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @staticmethod
    def read_manifest(path: Path) -> dict[str, Any] | None:
        """The manifest of a run folder, or None without one.

        Raises InputError: it cannot be read as a manifest.
        """
        file = path / "manifest.json"
        if not file.is_file():
            return None
        try:
            loaded = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            loaded = error
        whole = isinstance(loaded, dict) and isinstance(loaded.get("runs"), list)
        if not whole or loaded.get("format") != FORMAT:
            raise InputError(
                f"{file} is damaged or of another version. The finished models beside it are "
                "intact; delete manifest.json and run again only if you are sure which audit "
                "this is, or choose another --out."
            )
        return dict(loaded)

    def save(self) -> None:
        """Write the manifest."""
        self.write("manifest.json", json.dumps(self.manifest, indent=1).encode() + b"\n")

    def settle(self, name: str, value: Any) -> Any:
        """A decision taken once: the value of the first run stays for all later ones."""
        if name not in self.manifest:
            self.manifest[name] = value
            self.save()
        return self.manifest[name]

    def write(self, name: str, content: bytes) -> Path:
        """Write a file of the run whole."""
        write_whole(self.path / name, content)
        return self.path / name


def lock_folder(path: Path) -> int:
    """Make a folder and take its lock, which is given back by closing what is returned.

    Raises:
        InputError: another process holds it.
        RunFailed: the folder cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise RunFailed(
            f"{path} cannot be written: {error.strerror}. Choose another --out."
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise InputError(
            f"another process is at work in {path}; wait for it or choose another --out."
        ) from None
    return lock


def machine() -> dict[str, Any]:
    """Describe the machine that the run was computed on."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": sys.version.split()[0],
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class SettledRun(RunFolder):
    """A run folder whose manifest is only read; several processes can look at the same time.

    Raises InputError: no audit has begun there, or its manifest is corrupt.
    """

    def __init__(self, path: Path) -> None:
        known = self.read_manifest(path)
        if known is None:
            raise InputError(
                f"{path} holds no manifest.json, so no audit has begun there. Begin it with: "
                f"lethe audit model ... --engine by-hand --out {path}"
            )
        super().__init__(path, str(known.get("audit")))
        self.manifest = known

    def settle(self, name: str, value: Any) -> Any:
        """What the audit has settled; nothing is settled from here.

        Raises InputError: the audit has not come that far.
        """
        if name not in self.manifest:
            raise InputError(
                f"{self.path} does not say {name} yet: the audit was stopped too early. Run its "
                "command once more with --engine by-hand."
            )
        return self.manifest[name]

    def check(self, audit: str) -> None:
        """Refuse data, recipe or libraries that are not those of the audit.

        Args:
            audit: content hash of what would be trained here.

        Raises InputError: it is another one; the message names the versions that differ.
        """
        if audit == self.audit:
            return
        then = self.manifest.get("versions", {})
        now = versions(*then)
        other = [
            f"{name} {now[name]} instead of {then[name]}"
            for name in then
            if then[name] != now.get(name)
        ]
        why = f"installed here: {', '.join(other)}" if other else "data, recipe or seed differ"
        raise InputError(
            f"what would be trained here ({audit[:8]}) is not what {self.path} is about "
            f"({self.audit[:8]}); {why}. Nothing was trained. Use the same files and versions, or "
            "begin another audit with another --out."
        )


def write_personal(
    folder: RunFolder, rows: Sequence[Mapping[str, Any]], name: str = "records"
) -> str:
    """Write `NAME.parquet`; returns the file's name.

    Only the owner can read it. All rows have the same columns.
    """
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), buffer)
    path = folder.path / f"{name}.parquet"
    write_for_owner(path, buffer.getvalue())  # not readable for others even while it is written
    path.chmod(0o600)  # an earlier file may have been
    return path.name
