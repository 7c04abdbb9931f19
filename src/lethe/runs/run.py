"""The life of a run: its folder, what was asked, progress, findings, report and exit code."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lethe.runs.settings import Run, criteria_in, read_toml

if TYPE_CHECKING:
    from lethe.data.columns import Columns
    from lethe.evidence.findings import Findings
    from lethe.runs.progress import Progress
    from lethe.training.folder import RunFolder
    from lethe.training.shadows import Shadows


@dataclass(frozen=True)
class Asked:
    """How the audit that runs was asked for.

    Attributes:
        typed: the call or command, for the manifest.
        options: plain values for audit.toml.
        context: TOML file with what only people know.
        show: told the findings and the folder of the run, which is still open.
    """

    typed: str
    options: Mapping[str, Any]
    context: Path | None = None
    show: Callable[[Findings, Path], None] | None = None


@contextmanager
def running(
    folder: Path, bound: str, asked: Asked, quiet: bool
) -> Iterator[tuple[RunFolder, Progress]]:
    """The run folder, with what was asked written down in it, and where to tell how far it is.

    Args:
        folder: of the run.
        bound: what it is bound to, such as the content of the data.
        asked: fixed before anything is measured; `lethe shadow` reads it.
        quiet: tell nothing.
    """
    from lethe.data.schema import to_toml
    from lethe.runs.progress import Progress
    from lethe.training.folder import RunFolder

    with RunFolder(folder, bound, asked.typed) as run, Progress(quiet) as progress:
        criteria = criteria_in(asked.options, "audit.toml")
        run.settle("rules", [criterion.to_json() for criterion in criteria])
        # [rules] holds all of them already, with names and reasons; a table must stand last.
        flat = {key: value for key, value in asked.options.items() if key != "rules"}
        if named := asked.options.get("rules"):
            flat["rule"] = [criterion.text for criterion in criteria if not criterion.name]
        text = to_toml(flat) + ("" if not named else f"\n[rules]\n{to_toml(named)}")
        run.write("audit.toml", text.encode())
        yield run, progress


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
    with (
        _place(run_folder(how.out, title, bound), how.save) as path,
        running(path, bound, asked, how.quiet) as (run, progress),
    ):
        for note in notes:
            progress.say(note)
        findings = documents(audit(run, progress), run, asked.context, kept=how.save)
        if asked.show is not None:
            asked.show(findings, path)
        elif how.save:
            progress.say(f"report: {path / 'report.html'}")
        return findings


@contextmanager
def _place(folder: Path, save: bool) -> Iterator[Path]:
    """The folder of the run, or one that is gone afterwards."""
    if save:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="lethe-") as place:
        yield Path(place) / "run"


def documents(
    findings: Findings, run: RunFolder, context: Path | None = None, *, kept: bool = True
) -> Findings:
    """Write findings, report and figures of a run; the findings with what people said of it.

    Of a folder that is not kept nobody reads a report: none is made.
    """
    from lethe.assess.judged import stamped
    from lethe.report.page import files

    beside = run.path / "context.toml"
    if context is not None or beside.is_file():
        findings = replace(findings, context=read_toml(context or beside))
    fixed = [str(rule["rule"]) for rule in run.manifest.get("rules", ())]
    asked = run.path / "audit.toml"
    criteria = criteria_in(read_toml(asked), str(asked)) if asked.is_file() else []
    findings = stamped(findings, criteria, fixed)
    run.write("findings.json", findings.to_bytes())
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
    """What a run is bound to: the hash of files, columns, arrays and words, and the seed.

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
    """What a run on handed-in scores is bound to."""
    tables = [shadows] if targets is None else [shadows, targets]
    arrays = [part for table in tables for part in (table.signals, table.members)]
    return content(*arrays, seed=seed)
