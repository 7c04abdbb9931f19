"""What the commands share: options from a file, settings, and the files of a finished run."""

from __future__ import annotations

import contextlib
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lethe.cli.rules_file import criteria_in
from lethe.errors import InputError, check_known_keys

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from lethe.assess.judged import Criterion
    from lethe.cli.show import Progress
    from lethe.evidence.findings import Findings
    from lethe.membership.settings import AuditSettings
    from lethe.training.folder import RunFolder
    from lethe.training.shadows import Shadows

Settings = TypeVar("Settings", bound="DataclassInstance")


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a table.

    Raises:
        InputError: no such file, or not TOML; the message names the line.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML: {error}.") from error


def options_of(local: Mapping[str, Any], *subject: str) -> dict[str, Any]:
    """What a command was asked, from its `locals()` before it does anything.

    Args:
        local: names and values of its parameters.
        subject: those that say what the command is about.

    Returns:
        All but these, and but what says where options come from and how results are shown.
    """
    others = (*subject, "config", "context", "as_json", "quiet")
    return {name: value for name, value in local.items() if name not in others}


def merged(config: Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the command line over those of a file; unknown keys are refused.

    A table `[rules]` in the file stands for `gate`; it stays beside it under ``rules``, for the
    names and reasons, unless the command line has a gate of its own.
    """
    options = dict(given)
    if config is None:
        return options
    table = read_toml(config)
    # Written by ourselves into audit.toml; they repeat the positional argument.
    for key in ("command", "target", "file"):
        table.pop(key, None)
    if "rules" in table and "gate" in given:
        criteria = criteria_in(table, str(config))
        rules = table.pop("rules")
        if options["gate"] is None:
            options["rules"] = rules
            table["gate"] = [one.text for one in criteria]
    check_known_keys(str(config), table, given)
    for key, value in table.items():
        if options[key] is None:
            options[key] = value
    return options


def subject_named(given: Any, config: Path | None, command: str) -> Any:
    """What is audited: as it was given, or as a file of options names it.

    Args:
        given: the argument, or None or empty.
        config: such as the audit.toml of a run.
        command: as it is typed, for the message.

    Raises:
        InputError: neither names anything.
    """
    if given:
        return given
    table = {} if config is None else read_toml(config)
    found = table.get("target") or table.get("file")
    if not found:
        lacks = "" if config is None else f"; {config} names none with target = or file ="
        raise InputError(f"lethe {command} needs a file to audit{lacks}.")
    return found


def audit_settings(options: Mapping[str, Any]) -> AuditSettings:
    """Settings of a membership audit from merged options; what is None keeps its default.

    Raises:
        InputError: a value breaks a rule, or has the wrong type in a file.
    """
    from lethe.membership.settings import AuditSettings

    lists = ("attack", "gate", "until", "mitigations", "epsilon")
    return settings_of(AuditSettings, options, lists)


def settings_of(kind: type[Settings], options: Mapping[str, Any], lists: Sequence[str]) -> Settings:
    """Settings of any kind from merged options; those in `lists` are tuples.

    Raises:
        InputError: a value breaks a rule, or has the wrong type in a file.
    """
    chosen: dict[str, Any] = {}
    for field in fields(kind):
        value = options.get(field.name)
        if value is None:
            continue
        if field.name in lists:
            value = tuple(value) if isinstance(value, list | tuple) else (value,)
            usual: Any = field.default or ()
            for one in value if usual else ():
                _check_type(field.name, one, usual[0])
        _check_type(field.name, value, field.default)
        chosen[field.name] = value
    return kind(**chosen)


def _check_type(name: str, value: Any, default: Any) -> None:
    """Files can hold any type; the command line has been read as the right one already."""
    rules: list[tuple[type, type | tuple[type, ...], str]] = [
        (bool, bool, "true or false"),
        (int, int, "a whole number"),
        (float, (int, float), "a number"),
        (str, str, "text"),
    ]
    for kind, allowed, words in rules:
        if isinstance(default, kind):
            if not isinstance(value, allowed) or isinstance(value, bool) is not (kind is bool):
                raise InputError(f"{name}={value!r} must be {words}.")
            return


def run_folder(out: str | Path | None, subject: str, name: str) -> Path:
    """The folder that was asked for, or lethe-runs/SUBJECT-HASH8."""
    return Path(out or Path("lethe-runs") / f"{subject}-{name[:8]}")


def scores_name(shadows: Shadows, targets: Shadows | None, seed: int) -> str:
    """What a run on handed-in scores is bound to: their content, and the seed."""
    from lethe.training.fingerprint import digest, hash_array

    tables = [shadows] if targets is None else [shadows, targets]
    hashes = (hash_array(table) for one in tables for table in (one.signals, one.members))
    return digest(*hashes, str(seed))


def command_line() -> str:
    """The command as it was typed, for the manifest."""
    return shlex.join(["lethe", *sys.argv[1:]])


def begin(run: RunFolder, command: Mapping[str, Any]) -> None:
    """Write down what was asked, before anything is trained: `lethe shadow` reads it."""
    from lethe.training.folder import to_toml

    criteria = criteria_in(command, "audit.toml")
    run.settle("rules", [one.to_json() for one in criteria])
    # [rules] holds the gate already, with names and reasons; a table must stand last.
    flat = {key: value for key, value in command.items() if key != "rules"}
    named = command.get("rules")
    if named:
        flat["gate"] = [one.text for one in criteria if not one.name]
    text = to_toml(flat) + ("" if not named else f"\n[rules]\n{to_toml(named)}")
    run.write("audit.toml", text.encode())


@contextlib.contextmanager
def running(
    folder: Path, name: str, command: Mapping[str, Any], quiet: bool
) -> Iterator[tuple[RunFolder, Progress]]:
    """The run folder, with what was asked written down in it, and where to tell how far it is.

    Args:
        folder: of the run.
        name: what it is bound to.
        command: what was asked, plain values.
        quiet: tell nothing.
    """
    from lethe.cli.show import Progress
    from lethe.training.folder import RunFolder

    with RunFolder(folder, name, command_line()) as run, Progress(quiet) as progress:
        begin(run, command)
        yield run, progress


def criteria_of_run(run: RunFolder) -> list[Criterion]:
    """The rules that the command in progress was given, as its audit.toml has them."""
    file = run.path / "audit.toml"
    return criteria_in(read_toml(file), str(file)) if file.is_file() else []


def finish(findings: Findings, run: RunFolder, context: Path | None, as_json: bool = False) -> int:
    """Write the documents of a run, print the result or the findings, return the exit code."""
    from lethe.assess.judged import stamped, unsupported
    from lethe.cli.show import print_findings
    from lethe.evidence.rules import UNDECIDED, exit_code
    from lethe.report import write
    from lethe.report.embedding_figures import figure_files

    beside = run.path / "context.toml"
    if context is not None or beside.is_file():
        findings = replace(findings, context=read_toml(context or beside))
    fixed = [str(one["rule"]) for one in run.manifest.get("rules", ())]
    findings = stamped(findings, criteria_of_run(run), fixed)
    run.write("findings.json", findings.to_bytes())
    write(findings, run.path / "report.html", run.manifest)
    if findings.representations is not None:
        for name, drawn in figure_files(findings):
            run.write(name, drawn)
    if as_json:
        print(findings.to_bytes().decode(), end="")
    else:
        print_findings(findings, str(run.path))
    outcomes = [str(ruling["outcome"]) for ruling in findings.rules]
    return exit_code([*outcomes, UNDECIDED] if unsupported(findings) else outcomes)
