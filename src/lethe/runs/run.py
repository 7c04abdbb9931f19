"""The life of a run: its folder, what was asked, progress, findings, report and exit code."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lethe.runs.settings import Run, read_toml, rules_in

if TYPE_CHECKING:
    from lethe.data.columns import Columns
    from lethe.evidence.findings import Findings
    from lethe.training.folder import RunFolder
    from lethe.training.shadows import Shadows


# Ctrl-C that is not lost: one that some library swallows is raised again at the next chunk.

_asked = False


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Remember a Ctrl-C as well as raising it; only the main thread can."""
    global _asked
    _asked = False
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _on_interrupt(number: int, frame: Any) -> None:
    global _asked
    _asked = True
    raise KeyboardInterrupt


def check() -> None:
    """Raise an interrupt that has come and was swallowed.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed before.
    """
    if _asked:
        raise KeyboardInterrupt


_LOG_EVERY = 10.0


class Progress:
    """How far the whole job is: one bar with the time left on a terminal, a line elsewhere.

    Use it as a context manager.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._bar: Any = None
        self._task: Any = None
        self._what = ""
        self._last = 0.0
        self._first: tuple[float, int] | None = None
        self._live = not quiet and sys.stderr.isatty()

    def __enter__(self) -> Progress:
        if self._live:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("trainings"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def models(self, done: int, total: int, what: str) -> None:
        """`done` of the `total` trainings of the whole job are there; `what` is being trained."""
        check()
        if self._bar is not None:
            if self._task is None:
                self._task = self._bar.add_task("", total=total)
            self._bar.update(
                self._task, completed=done, total=total, description=f"training {what}"
            )
        else:
            now = time.monotonic()
            self._first = self._first or (now, done)
            if what != self._what or done == total or now - self._last > _LOG_EVERY:
                self._last = now
                left = self._left(now, done, total)
                self.say(f"training {what}: {done}/{total} trainings{left}")
        self._what = what

    def _left(self, now: float, done: int, total: int) -> str:
        """The time left at the pace so far; empty where none is known yet."""
        began, there = self._first or (now, done)
        if done <= there or done >= total:
            return ""
        seconds = (now - began) / (done - there) * (total - done)
        left = f"about {seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
        return f", {left} left"

    def part(self, what: str, done: int, total: int) -> None:
        """A line each ten seconds on how far one long part of the job is."""
        check()
        now = time.monotonic()
        if what != self._what:
            self._what, self._last, self._first = what, now, (now, done)
        elif now - self._last > _LOG_EVERY:
            self._last = now
            self.say(f"{what}: {done:,} of {total:,}{self._left(now, done, total)}")

    def say(self, text: str) -> None:
        """One line for the reader."""
        if self.quiet:
            return
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)


# The run itself.

NO_RESULT = {".lock", "audit.toml", "manifest.json"}
"""Files of a run folder that are written before anything is measured."""


@dataclass(frozen=True)
class Asked:
    """How an audit was called."""

    typed: str  # the call or command, for the manifest
    options: Mapping[str, Any]  # plain values for audit.toml
    context: Path | None = None  # TOML file about purpose and people
    show: Callable[[Findings, Path], None] | None = None  # prints findings while the run is open


@contextlib.contextmanager
def running(
    folder: Path, bound: str, asked: Asked, quiet: bool
) -> Iterator[tuple[RunFolder, Progress]]:
    """Open the run folder, write the command's options into it, and report progress.

    A new folder in which wrong input left no result is removed: the corrected command can use it.

    Args:
        folder: of the run.
        bound: hash that the folder is bound to, such as that of the data.
        asked: fixed before anything is measured; `lethe shadow` reads it.
        quiet: print no progress.
    """
    from lethe.data.schema import to_toml
    from lethe.errors import InputError
    from lethe.evidence.plain import plain
    from lethe.training.folder import RunFolder

    is_new = not any(folder.glob("*"))
    with RunFolder(folder, bound, asked.typed) as run, Progress(quiet) as progress:
        written = rules_in(asked.options, "audit.toml")
        run.settle("rules", plain(written))
        # [rules] holds all of them already, with names and reasons; a table must stand last.
        flat = {key: value for key, value in asked.options.items() if key != "rules"}
        named = asked.options.get("rules")
        if named:
            flat["rule"] = [entry.text for entry in written if not entry.name]
        table = f"\n[rules]\n{to_toml(named)}" if named else ""
        run.write("audit.toml", (to_toml(flat) + table).encode())
        try:
            yield run, progress
        except InputError:
            if is_new and {path.name for path in folder.iterdir()} <= NO_RESULT:
                for name in NO_RESULT:
                    (folder / name).unlink(missing_ok=True)
                folder.rmdir()
            raise


def perform(
    command: str,
    how: Run,
    title: str,
    bound: str,
    settings: Any,
    audit: Callable[[RunFolder, Progress], Findings],
    *,
    notes: Sequence[str] = (),
) -> Findings:
    """Run an audit in its folder and write its documents; the same call again goes on there.

    Args:
        command: name of the Python function.
        how: where the run goes, and whether it is told.
        title: of the run folder, where `how` names none.
        bound: hash of what is audited, which a run folder is bound to.
        settings: whose rules are fixed before anything is measured.
        audit: measures, given the run folder and the progress.
        notes: what was changed on reading.
    """
    claims = tuple(map(str, getattr(settings, "claimed", tuple)()))
    rules = {"rule": [*settings.rule, *claims]}
    asked = how.asked or Asked(f"lethe.{command}(...)", {"command": f"lethe.{command}", **rules})
    # A claim is a rule too, and is fixed before the run like any other.
    asked = replace(asked, options={**asked.options, **rules}) if claims else asked
    folder = run_folder(how.out, title, bound)
    place: AbstractContextManager[Path | str] = nullcontext(folder)
    place = place if how.save else TemporaryDirectory(prefix="lethe-")
    with place as path, running(Path(path), bound, asked, how.quiet) as (run, progress):
        for note in notes:
            progress.say(note)
        findings = documents(audit(run, progress), run, asked.context, kept=how.save)
        if asked.show is not None:
            asked.show(findings, run.path)
        elif how.save:
            progress.say(f"report: {run.path / 'report.html'}")
        return findings


def documents(
    findings: Findings, run: RunFolder, context: Path | None = None, *, kept: bool = True
) -> Findings:
    """Write findings, report and figures of a run; return the findings with their context.

    Args:
        context: TOML file about purpose and people. [context.toml in the run folder]
        kept: False where the folder is deleted afterwards: no report is written.
    """
    from lethe.assess.judged import stamped
    from lethe.report.page import files

    beside = run.path / "context.toml"
    if context is not None or beside.is_file():
        findings = replace(findings, context=read_toml(context or beside))
    fixed = [str(rule["rule"]) for rule in run.manifest.get("rules", ())]
    asked = run.path / "audit.toml"
    written = rules_in(read_toml(asked), str(asked)) if asked.is_file() else []
    run.write("findings.json", (findings := stamped(findings, written, fixed)).to_bytes())
    run.finished()
    for name, text in files(findings, run.manifest) if kept else ():
        run.write(name, text)
    return findings


def code_of(findings: Findings) -> int:
    """Exit code of finished findings: of their rules, and of an attack that showed nothing."""
    from lethe.assess.judged import unsupported
    from lethe.evidence.rules import UNDECIDED, exit_code

    outcomes = [str(ruling["outcome"]) for ruling in findings.rules]
    return exit_code([*outcomes, UNDECIDED] if unsupported(findings) else outcomes)


def run_folder(out: str | Path | None, title: str, bound: str) -> Path:
    """The folder that was asked for, or lethe-runs/TITLE-HASH8."""
    return Path(out or Path("lethe-runs") / f"{title}-{bound[:8]}")


def content(*parts: Any, seed: int) -> str:
    """Hash what a run is bound to: files, columns, arrays and words, and the seed.

    Args:
        parts: files, columns by name, arrays, or text; None is left out.
        seed: of the audit.
    """
    from lethe.training.fingerprint import digest

    hashes = [piece for part in parts if part is not None for piece in _hashes(part)]
    return digest(*hashes, str(seed))


def _hashes(part: Path | Columns | Any) -> Iterator[str]:
    import hashlib

    from lethe.data.columns import as_text
    from lethe.training.fingerprint import hash_array

    if isinstance(part, str):
        yield part
    elif isinstance(part, Path):
        with part.open("rb") as opened:  # it may be larger than the memory
            yield hashlib.file_digest(opened, "sha256").hexdigest()
    elif isinstance(part, Mapping):
        for name, column in part.items():
            yield name
            yield from _hashes(column)
    else:
        yield hash_array(as_text(part) if part.dtype.hasobject else part)


def scores_name(shadows: Shadows, targets: Shadows | None, seed: int) -> str:
    """Hash what a run on handed-in scores is bound to."""
    tables = [shadows] if targets is None else [shadows, targets]
    arrays = [part for table in tables for part in (table.signals, table.members)]
    return content(*arrays, seed=seed)
