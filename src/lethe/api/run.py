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
    from lethe.cli.options import begin, run_folder
    from lethe.cli.progress import Progress
    from lethe.training.folder import RunFolder

    with _place(run_folder(out, name, bound), save) as path, Progress(quiet) as progress:
        with RunFolder(path, bound, f"lethe.{command}(...)") as folder:
            rules = [*chosen.gate, *map(str, getattr(chosen, "claimed", tuple)())]
            begin(folder, {"command": f"lethe.{command}", "gate": rules})
            yield folder, progress


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


def content(*parts: Any, seed: int) -> str:
    """Hash of arrays and words."""
    from lethe.data.columns import as_text
    from lethe.training.fingerprint import digest, hash_array

    hashes = [
        part
        if isinstance(part, str)
        else hash_array(as_text(part) if part.dtype.hasobject else part)
        for part in parts
        if part is not None
    ]
    return digest(*hashes, str(seed))


def columns_content(tables: Sequence[Columns], *words: str, seed: int) -> str:
    """Hash of columns with their names."""
    listed = [part for table in tables for pair in table.items() for part in pair]
    return content(*listed, *words, seed=seed)
