"""Finished noise levels in the run folder: the same command goes on from there after a stop."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from lethe.files import write_for_owner
from lethe.reidentification.family import Attacker
from lethe.reidentification.tally import Tally

_PLAIN = ("view", "hits", "tries", "draws", "agreement")  # fields of a tally


def write_tallies(path: Path, tallies: Sequence[Tally], skipped: dict[str, str]) -> None:
    """Keep what attackers found at a level, and who was skipped: positions, no ids of people."""
    buffer = io.BytesIO()
    kept: dict[str, Any] = {
        "names": np.array([tally.attacker.name for tally in tallies], np.str_),
        "skipped": np.array(list(skipped.items()), np.str_).reshape(-1, 2),
    }
    kept |= {name: np.array([getattr(tally, name) for tally in tallies]) for name in _PLAIN}
    np.savez_compressed(buffer, **kept)
    write_for_owner(path, buffer.getvalue())


def read_tallies(
    path: Path, attackers: Sequence[Attacker], skipped: dict[str, str]
) -> list[Tally] | None:
    """What was kept, or None where there is nothing or a damaged file.

    Args:
        attackers: of the level, in any order.
        skipped: filled with those that were skipped, and why.
    """
    by_name = {attacker.name: attacker for attacker in attackers}
    try:
        with np.load(io.BytesIO(path.read_bytes())) as file:
            kept = {name: file[name] for name in file.files}
        columns = [kept[name] if kept[name].ndim > 1 else kept[name].tolist() for name in _PLAIN]
        tallies = [
            Tally(by_name[name], *values)
            for name, *values in zip(kept["names"].tolist(), *columns, strict=True)
        ]
        before = dict(kept["skipped"].tolist())
    except (OSError, EOFError, KeyError, ValueError, BadZipFile):
        return None
    skipped |= before | skipped
    return tallies
