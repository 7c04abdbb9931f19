"""A run folder seen from beside: what its audit has settled, without its lock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lethe.errors import InputError
from lethe.training.fingerprint import versions
from lethe.training.folder import RunFolder


class SettledRun(RunFolder):
    """A run folder whose manifest is only read; several processes can look at the same time.

    Args:
        path: the folder.

    Raises:
        InputError: no audit has begun there, or its manifest is corrupt.
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

        Raises:
            InputError: the audit has not come that far.
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

        Raises:
            InputError: it is another one; the message names the versions that differ.
        """
        if audit == self.audit:
            return
        then = self.manifest.get("versions", {})
        now = versions(*then)
        other = [
            f"{name} {now[name]} instead of {then[name]}"
            for name in then
            if _differ(then, now, name)
        ]
        why = f"installed here: {', '.join(other)}" if other else "data, recipe or seed differ"
        raise InputError(
            f"what would be trained here ({audit[:8]}) is not what {self.path} is about "
            f"({self.audit[:8]}); {why}. Nothing was trained. Use the same files and versions, or "
            "begin another audit with another --out."
        )


def _differ(then: dict[str, Any], now: dict[str, Any], name: str) -> bool:
    return bool(then[name] != now.get(name))
