"""Around every audit of one line: its settings, its run folder, what it is bound to."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lethe.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from lethe.cli.progress import Progress
    from lethe.data.columns import Columns
    from lethe.evidence.findings import Findings
    from lethe.training.folder import RunFolder

Settings = TypeVar("Settings", bound="DataclassInstance")


def settings_from(kind: type[Settings], given: dict[str, Any], **more: Any) -> Settings:
    """Settings of keyword arguments; where several values are taken, one will do.

    Raises InputError: there is no such setting, or a value breaks its rule.

    >>> from lethe.membership.settings import AuditSettings
    >>> settings_from(AuditSettings, {"attack": "lira-online"}).attack
    ('lira-online',)
    """
    from lethe.cli.options import settings_of

    known = [entry.name for entry in fields(kind)]
    for key in given:
        if key not in known or key in more:
            raise InputError(
                f"{key}={given[key]!r} is no setting of this audit.{did_you_mean(key, known)} "
                f"Settings: {', '.join(known)}."
            )
    return settings_of(kind, {**given, **more})


@contextmanager
def run(
    command: str,
    name: str,
    bound: str,
    chosen: Any,
    out: str | Path | None,
    save: bool,
    quiet: bool,
) -> Iterator[tuple[RunFolder, Progress]]:
    """The run folder, in which rules stand before anything is measured, and its progress."""
    from lethe.cli.options import run_folder, running

    asked = [*chosen.gate, *map(str, getattr(chosen, "claimed", tuple)())]
    written = {"command": f"lethe.{command}", "gate": asked}
    with (
        _place(run_folder(out, name, bound), save) as path,
        running(path, bound, written, quiet, f"lethe.{command}(...)") as started,
    ):
        yield started


def documents(findings: Findings, folder: RunFolder, progress: Progress, save: bool) -> Findings:
    """Write findings, report and figures into the run folder, and say where."""
    from lethe.cli.options import documents as written

    found = written(findings, folder)
    if save:
        progress.say(f"report: {folder.path / 'report.html'}")
    return found


@contextmanager
def _place(folder: Path, save: bool) -> Iterator[Path]:
    """The folder of the run, or one that is gone afterwards."""
    if save:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="lethe-") as place:
        yield Path(place) / "run"


def columns_content(tables: Sequence[Columns], *words: str, seed: int) -> str:
    """Hash of columns with their names."""
    from lethe.cli.options import content

    listed = [part for table in tables for pair in table.items() for part in pair]
    return content(*listed, *words, seed=seed)
