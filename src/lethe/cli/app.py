"""The parser of the command line; the commands themselves are listed in `commands.py`."""

from __future__ import annotations

from cyclopts import App

from lethe.cli.commands import COMMANDS, installed_version, usage

app = App(
    name="lethe",
    help="Measure what a release tells about the people behind it, make it forget, prove how far.",
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,  # `run` stops the workers first
)


app.version = installed_version
app.register_install_completion_command()
for _group in COMMANDS.values():
    for _command in _group:
        _top = {"usage": usage(_command.name, _command.examples)} if _command.examples else {}
        app.command(_command.where, name=_command.name, **_top)
