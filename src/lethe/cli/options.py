"""Options of commands, made of a function's arguments or of the fields of its settings."""

from __future__ import annotations

import inspect
import re
import shlex
from collections import ChainMap, abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, make_dataclass
from pathlib import Path
from types import GenericAlias, SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin
from typing import get_type_hints as hints_of

from cyclopts import Group, Parameter

from lethe.errors import InputError, check_known_keys, renamed
from lethe.runs.settings import descriptions, read_toml, rules_in

if TYPE_CHECKING:
    from lethe.evidence.findings import Findings


# Options that several commands share.

AsJson = Annotated[bool, Parameter(name="--json")]
LedgerPlace = Annotated[str, Parameter(help="The ledger: a file, or postgresql://...")]
Dataset = Annotated[str | None, Parameter(help="Name in the ledger. [the only one]")]
TableName = Annotated[str | None, Parameter(help="In a .duckdb file. [the only one]")]
Delimiter = Annotated[str, Parameter(help="Between the cells of a .csv file.")]
Encoding = Annotated[str, Parameter(help="Of a .csv file, such as latin-1.")]


# Under which heading each option of an audit stands in its help.

_NAMES = {
    "Data": (
        "label task id_column group slices drop rows missing text min_class_size embeddings "
        "vectors user period from_date table joined max_people max_probes features head layer "
        "attribute texts encoder candidates other "
        "quasi sensitive hierarchy weight tolerance population people schema inside person item "
        "value time unit keep aux aux_columns truth original control linked signal bounds size "
        "beyond neighbours texts member date canaries scores base_scores declared members"
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
        "mitigations noise alpha beta sigma lift draws floor norm diameter "
        "radius_draws radius_points ks suppress bins margin query predict utility_model held_out "
        "defence rate batch"
    ),
    "Private training": (
        "epsilon delta clip dp_batch_size dp_epochs dp_learning_rate dp_optimizer local_epsilon"
    ),
    "Stopping and rules": "rule until release accept confidence precision pilot",
    "Running": (
        "workers seed memory engine engine_option device keep_records write_release out config "
        "context as_json quiet"
    ),
}
HEADINGS = {
    heading: Group(heading, sort_key=place) for place, heading in enumerate(_NAMES, start=1)
}
_HEADING = {name: heading for heading, names in _NAMES.items() for name in names.split()}


@dataclass(frozen=True)
class RunOptions:
    """What commands of audits take beside the keywords of every run.

    Attributes:
        config: TOML file with these options as keys; the command line wins.
        context: TOML file with what only people know (author, purpose, ...), for the report.
        as_json: print findings.json instead of the table.
    """

    config: Path | None = None
    context: Path | None = None
    as_json: bool = False


REPEATED = ("rule", "until", "query", "engine_option", "slices", "head", "also", "attribute")
"""Lists that take one value each time they are given; others take several at once too."""
SPELLED = {
    "slices": "--slice",
    "from_date": "--from",
    "as_json": "--json",
    "label": ("--label", "--target"),
}
"""Options that Python or a file spells otherwise."""
OF_PYTHON = ("name", "save", "sample_weight")
"""Arguments of every function that no command takes."""


def options_for(
    *sources: Any,
    names: Mapping[str, str] | None = None,
    leave: Sequence[str] = (),
    others: Mapping[str, str] | None = None,
    headed: bool = True,
) -> Any:
    """The options of a command: name, type, help and default of each.

    Every option is None where it was not given, so that a file of options can fill it in.

    Args:
        sources: functions, whose first argument is the command's own, and dataclasses. Their
            docstrings have a line in ``Args:`` or ``Attributes:`` for each option.
        names: names of options that are not those of their field, by field.
        leave: fields that the command gets elsewhere.
        others: headings of options that mean something else in this command.
        headed: whether options stand under headings.

    Returns:
        A frozen dataclass that cyclopts reads.
    """
    annotated: dict[str, Any] = {}
    for source in sources:
        lines = descriptions(source)
        for entry, hint, usual in _entries(source):
            name = (names or {}).get(entry, entry)
            if entry in leave or name in annotated:
                continue
            default = _usual(usual)
            shown = lines[entry] + (f" [{default}]" if default else "")
            parameter = Parameter(
                name=SPELLED.get(name),
                # A file's suffix or a reference such as file.py:name stays as it is typed.
                help=shown if re.match(r"\S*[.:=/]\w", shown) else shown[:1].upper() + shown[1:],
                consume_multiple=name not in REPEATED,
                negative=f"--no-{name.replace('_', '-')}" if usual is True else (),
                group=HEADINGS[(others or {}).get(name) or _HEADING[name]]
                if headed
                else "Parameters",
            )
            annotated[name] = Annotated[_kind(hint) | None, parameter]
    listed = [(name, hint, field(default=None)) for name, hint in annotated.items()]
    module = {"__module__": __name__}
    options = make_dataclass("Options", listed, frozen=True, kw_only=True, namespace=module)
    return Parameter(name="*")(options)


def _entries(source: Any) -> Iterator[tuple[str, Any, Any]]:
    """Name, type and default of what a function takes, or of the fields of a dataclass."""
    if is_dataclass(source):
        hints = hints_of(source)
        yield from ((entry.name, hints[entry.name], entry.default) for entry in fields(source))
        return
    listed = [
        argument
        for argument in list(inspect.signature(source).parameters.values())[1:]
        if argument.name not in OF_PYTHON and argument.kind is not argument.VAR_KEYWORD
    ]
    annotations = {argument.name: argument.annotation for argument in listed}
    hints = hints_of(SimpleNamespace(__annotations__=annotations), source.__globals__)
    for argument in listed:
        usual = MISSING if argument.default is argument.empty else argument.default
        yield argument.name, hints[argument.name], usual


def _kind(hint: Any) -> Any:
    """The type that an option is read as; what only Python can hand over is a file here."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for part in parts:
        kinds = get_args(part)[:1]
        if get_origin(part) in (abc.Sequence, tuple) and (kinds == (str,) or str not in parts):
            return GenericAlias(list, kinds)
        if get_origin(part) is abc.Mapping:
            return list[str]
    return next((part for part in parts if part in (bool, str, int, float, Path)), Path)


def _usual(value: Any) -> str:
    """A default as help shows it."""
    if value is MISSING or value is None or value is False or value in ((), ""):
        return ""
    if value is True:
        return "yes"
    if isinstance(value, tuple):
        return " ".join(f"{item:g}" if isinstance(item, float) else str(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def merged(
    flags: Mapping[str, Any], config: Path | None, subject: Any = None, needs: str = ""
) -> tuple[Any, dict[str, Any]]:
    """Merge options of the command line over those of a file; also return the subject.

    A table of rules in the file also stays under ``rules``, with names and reasons, unless the
    command line has a rule.

    Args:
        flags: options; None where not given.
        config: TOML file, such as the audit.toml of a run.
        subject: what the command is about, where it was given.
        needs: command and subject, for the message; empty where there need be none.

    Raises:
        InputError: an unknown key, or nothing names the subject.
    """
    options, table = dict(flags), {} if config is None else renamed(read_toml(config))
    # Written by ourselves into audit.toml; they repeat the positional argument.
    named = [table.pop(key, None) for key in ("command", "target", "file")]
    subject = subject or named[1] or named[2]
    if needs and not subject:
        lacks = "" if config is None else f"; {config} names none with target = or file ="
        raise InputError(f"lethe {needs}{lacks}.")
    if "rule" in flags:
        rules = {key: table.pop(key, ()) for key in ("rules", "rule")}
        written = rules_in(rules, str(config))
        if options["rule"] is None and written:
            options["rule"] = [entry.text for entry in written]
            tables = [dict(table) for table in rules.values() if isinstance(table, Mapping)]
            options |= {"rules": dict(ChainMap(*tables))} if tables else {}
    check_known_keys(str(config), table, flags)
    return subject, {**options, **{k: v for k, v in table.items() if options[k] is None}}


def command_line() -> str:
    """The command as it was typed, for the manifest."""
    from lethe.cli import TYPED

    return shlex.join(["lethe", *TYPED.get()])


def show(findings: Findings, folder: Path, as_json: bool) -> None:
    """Print the result of a run, or its findings."""
    from lethe.report.terminal import print_findings

    if as_json:
        print(findings.to_bytes().decode(), end="")
    else:
        print_findings(findings, str(folder))
