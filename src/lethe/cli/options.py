"""What the commands share: options from a file, settings, and the files of a finished run."""

from __future__ import annotations

import contextlib
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from types import GenericAlias, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from cyclopts import Group, Parameter

from lethe.errors import InputError, check_known_keys

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from lethe.assess.judged import Criterion
    from lethe.cli.progress import Progress
    from lethe.evidence.findings import Findings
    from lethe.training.folder import RunFolder
    from lethe.training.shadows import Shadows


# Under which heading each option of an audit stands in its help.

_NAMES = {
    "Data": (
        "label task id_column group slices drop rows missing text min_class_size embeddings "
        "vectors user period from_date table joined max_people max_probes features head layer "
        "attribute texts encoder candidates other "
        "quasi sensitive hierarchy weight tolerance population people schema inside person item "
        "value time unit keep aux aux_columns truth original control linked signal bounds size "
        "beyond neighbours texts member date canaries scores base_scores declared"
    ),
    "Model": "recipe model fine_tune epochs models holdout holdout_by base also",
    "Claim": "rho mu",
    "Attacks": (
        "attack variance augmented_queries onion metric averaged clean_gallery known later "
        "min_rows plays targets phi facts time_error value_error false_matches pairs attacks "
        "distance most runs relation verification score_norm known_share prefix suffix samples "
        "chance near"
    ),
    "Mitigations": (
        "mitigations noise noise_convention alpha beta sigma lift draws floor norm diameter "
        "radius_draws radius_points ks suppress bins margin query predict utility_model held_out "
        "defence rate batch"
    ),
    "Private training": (
        "epsilon delta clip dp_batch_size dp_epochs dp_learning_rate dp_optimizer local_epsilon"
    ),
    "Stopping and rules": "gate until release accept confidence precision pilot",
    "Running": (
        "workers seed memory engine engine_option device keep_records write_release out config "
        "context as_json quiet"
    ),
}
HEADINGS = {
    heading: Group(heading, sort_key=place) for place, heading in enumerate(_NAMES, start=1)
}
_HEADING = {name: heading for heading, names in _NAMES.items() for name in names.split()}
Kind = TypeVar("Kind", bound=type)


def heading_of(name: str, others: Mapping[str, str] | None = None) -> Group:
    """The heading of an option, which must have one.

    Args:
        name: of the option, as Python writes it.
        others: headings of options that mean something else in one command.
    """
    return HEADINGS[(others or {}).get(name) or _HEADING[name]]


def grouped(kind: Kind, others: Mapping[str, str] | None = None) -> Kind:
    """Make a dataclass the options of a command, each under its heading."""
    hints = get_type_hints(kind, include_extras=True)
    hints |= {
        name: Annotated[hint, Parameter(group=heading_of(name, others))]
        for name, hint in hints.items()
    }
    kind.__annotations__ = hints
    for name, entry in kind.__dataclass_fields__.items():  # type: ignore[attr-defined]  # it is one
        entry.type = hints[name]
    made: Kind = Parameter(name="*")(kind)
    return made


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


def criteria_in(table: Mapping[str, Any], where: str) -> list[Criterion]:
    """The rules among options, those of `[rules]` before those of `gate`."""
    from lethe.assess.judged import Criterion, read_criteria

    named = table.get("rules") or {}
    listed = table.get("gate") or ()
    listed = (listed,) if isinstance(listed, str) else listed
    if not isinstance(named, Mapping) or not all(isinstance(text, str) for text in listed):
        raise InputError(
            f'{where}: [rules] must be a table of rules, and gate a list such as ["auc <= 0.6"].'
        )
    found = read_criteria(named, f"{where}, [rules]")
    known = {one.text for one in found}
    return [*found, *(Criterion(text) for text in listed if text not in known)]


@grouped
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where options come from, and where results go.

    Parameters
    ----------
    out
        Run folder. [lethe-runs/NAME-HASH]
    config
        TOML file with these options as keys; the command line wins.
    context
        TOML file with what only people know (author, purpose, ...), for the report.
    as_json
        Print findings.json instead of the table.
    quiet
        No progress, only the result.
    """

    out: Path | None = None
    config: Path | None = None
    context: Path | None = None
    as_json: Annotated[bool, Parameter(name="--json", negative=(), show_default=False)] = False
    quiet: Annotated[bool, Parameter(negative=(), show_default=False)] = False


AS_USUAL = RunOptions()
REPEATED = ("gate", "until", "query", "engine_option", "slices", "head", "also", "hierarchy")
"""Lists that take one value each time they are given; others take several at once too."""


def options_for(
    settings: type[DataclassInstance],
    *,
    names: Mapping[str, str] | None = None,
    leave: Sequence[str] = (),
    others: Mapping[str, str] | None = None,
) -> Any:
    """The options of a command, made of its settings: name, type, help and default of each.

    Every option is None where it was not given, so that a file of options can fill it in.

    Args:
        settings: a dataclass whose docstring has a line in ``Attributes:`` for each field.
        names: names of options that are not those of their field, by field.
        leave: fields that the command gets elsewhere.
        others: headings of options that mean something else in this command.

    Returns:
        A frozen dataclass that cyclopts reads. A type checker is shown the settings in its place:
        both have the same names.
    """
    hints, told = get_type_hints(settings), attribute_lines(settings)
    made = []
    for entry in fields(settings):
        if entry.name in leave:
            continue
        name = (names or {}).get(entry.name, entry.name)
        kinds = [kind for kind in get_args(hints[entry.name]) if kind in (str, int, float)]
        hint = hints[entry.name]
        if isinstance(hint, UnionType) or get_origin(hint) is Union:
            listed = [kind for kind in get_args(hint) if get_origin(kind) is tuple]
            hint = listed[0] if listed else kinds[0]
        if get_origin(hint) is tuple:
            hint = GenericAlias(list, get_args(hint)[:1])
        usual = _usual(entry)
        shown = told[entry.name] + (f" [{usual}]" if usual else "")
        parameter = Parameter(
            help=shown[:1].upper() + shown[1:],
            consume_multiple=name not in REPEATED,
            negative=None if entry.default is True else (),
            group=heading_of(name, others),
        )
        made.append((name, Annotated[hint | None, parameter], field(default=None)))
    options = make_dataclass(
        f"{settings.__name__}Options",
        made,
        frozen=True,
        kw_only=True,
        namespace={"__module__": __name__, "__doc__": f"Options of `{settings.__name__}`."},
    )
    return Parameter(name="*")(options)


def _usual(entry: Field[Any]) -> str:
    """A default as help shows it."""
    value = entry.default
    if value is MISSING or value is None or value is False or value in ((), ""):
        return ""
    if value is True:
        return "yes"
    if isinstance(value, tuple):
        return " ".join(f"{item:g}" if isinstance(item, float) else str(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def attribute_lines(settings: type) -> dict[str, str]:
    """What the docstrings of a class and its bases say of each attribute, in one line."""
    told: dict[str, str] = {}
    for kind in reversed(settings.__mro__):
        block = (kind.__doc__ or "").partition("Attributes:")[2]
        for name, text in re.findall(r"^ {8}(\w+): (.*(?:\n {12,}.*)*)", block, re.MULTILINE):
            told[name] = " ".join(text.split())
    return told


def given_in(*parts: Any) -> dict[str, Any]:
    """The options of several such dataclasses together; what is None was not given."""
    return {key: value for part in parts for key, value in asdict(part).items()}


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


def settings_of(
    kind: type[Settings], options: Mapping[str, Any], names: Mapping[str, str] | None = None
) -> Settings:
    """Settings of any kind from merged options.

    Args:
        kind: of settings.
        options: what is None keeps its default.
        names: names of options that are not those of their field, by field.

    Raises:
        InputError: a value breaks a rule, or has the wrong type in a file.
    """
    chosen: dict[str, Any] = {}
    for entry in fields(kind):
        value = options.get((names or {}).get(entry.name, entry.name))
        if value is None:
            continue
        if "tuple[" in str(entry.type):
            value = tuple(value) if isinstance(value, list | tuple) else (value,)
            usual: Any = entry.default or ()
            for item in value if usual else ():
                _check_type(entry.name, item, usual[0])
        _check_type(entry.name, value, entry.default)
        chosen[entry.name] = value
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


def content(*parts: Any, seed: int) -> str:
    """What a run on arrays is bound to: the hash of arrays and words, and the seed.

    Args:
        parts: arrays, or text; None is left out.
    """
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


def scores_name(shadows: Shadows, targets: Shadows | None, seed: int) -> str:
    """What a run on handed-in scores is bound to."""
    tables = [shadows] if targets is None else [shadows, targets]
    return content(*(part for one in tables for part in (one.signals, one.members)), seed=seed)


def command_line() -> str:
    """The command as it was typed, for the manifest."""
    from lethe.cli import ASKED

    return shlex.join(["lethe", *ASKED.get()])


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
    folder: Path, name: str, command: Mapping[str, Any], quiet: bool, typed: str = ""
) -> Iterator[tuple[RunFolder, Progress]]:
    """The run folder, with what was asked written down in it, and where to tell how far it is.

    Args:
        folder: of the run.
        name: what it is bound to.
        command: what was asked, plain values.
        quiet: tell nothing.
        typed: for the manifest; by default the command line.
    """
    from lethe.cli.progress import Progress
    from lethe.training.folder import RunFolder

    with RunFolder(folder, name, typed or command_line()) as run, Progress(quiet) as progress:
        begin(run, command)
        yield run, progress


@dataclass(frozen=True)
class Subject:
    """One audit that is ready to run.

    Attributes:
        title: of the run folder, where none was asked for.
        name: what the run is bound to: content of the files, columns and seed.
        audit: runs it, given the run folder and the progress.
        notes: what was changed on reading.
    """

    title: str
    name: str
    audit: Callable[[RunFolder, Progress], Findings]
    notes: tuple[str, ...] = ()


def audited(subject: Subject, command: Mapping[str, Any], run: RunOptions) -> int:
    """Run one audit in its folder, write and print its documents; the exit code.

    Args:
        command: what was asked, with `out`; plain values.
    """
    folder = run_folder(command["out"], subject.title, subject.name)
    with running(folder, subject.name, command, run.quiet) as (there, progress):
        for note in subject.notes:
            progress.say(note)
        findings = subject.audit(there, progress)
        return finish(findings, there, run.context, run.as_json)


def finish(findings: Findings, run: RunFolder, context: Path | None, as_json: bool = False) -> int:
    """Write the documents of a run, print the result or the findings, return the exit code."""
    from lethe.assess.judged import unsupported
    from lethe.evidence.rules import UNDECIDED, exit_code
    from lethe.report.terminal import print_findings

    findings = documents(findings, run, context)
    if as_json:
        print(findings.to_bytes().decode(), end="")
    else:
        print_findings(findings, str(run.path))
    outcomes = [str(ruling["outcome"]) for ruling in findings.rules]
    return exit_code([*outcomes, UNDECIDED] if unsupported(findings) else outcomes)


def documents(findings: Findings, run: RunFolder, context: Path | None = None) -> Findings:
    """Write findings, report and figures of a run; the findings with what people said of it."""
    from lethe.assess.judged import stamped
    from lethe.report.page import files

    beside = run.path / "context.toml"
    if context is not None or beside.is_file():
        findings = replace(findings, context=read_toml(context or beside))
    fixed = [str(one["rule"]) for one in run.manifest.get("rules", ())]
    asked = run.path / "audit.toml"
    criteria = criteria_in(read_toml(asked), str(asked)) if asked.is_file() else []
    findings = stamped(findings, criteria, fixed)
    run.write("findings.json", findings.to_bytes())
    run.finished()
    for name, content in files(findings, run.manifest):
        run.write(name, content)
    return findings
