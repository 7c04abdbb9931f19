"""The parser of the command line, and of `lethe audit`; `commands.py` lists the other commands."""

from __future__ import annotations

from cyclopts import App, Parameter

from lethe.cli.audits import AUDITS
from lethe.cli.commands import COMMANDS, installed_version, usage

# `lethe audit`: measure a release; what each kind of audit takes is imported when it is called.

audit = App(name="audit", help="Measure what a release reveals about the people behind it.")
for _kind, _audit in AUDITS.items():
    audit.command(
        f"lethe.cli.audits:{_kind.replace('-', '_')}",
        name=_kind,
        help=_audit.does,
        usage=usage(f"audit {_kind}", _audit.examples),
    )


app = App(
    name="lethe",
    help="Measure what a release reveals about the people behind it, protect them, prove how far.",
    version_flags=["--version"],
    default_parameter=Parameter(negative=()),  # a flag is given or not; a list is not emptied
    suppress_keyboard_interrupt=False,  # `run` stops the workers first
)


app.version = installed_version
app.register_install_completion_command()
for _group in COMMANDS.values():
    for _command in _group:
        _top = {"usage": usage(_command.name, _command.examples)} if _command.examples else {}
        app.command(f"lethe.cli.{_command.where}", name=_command.name, **_top)
