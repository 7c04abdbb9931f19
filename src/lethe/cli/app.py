"""The commands and what their help says."""

from __future__ import annotations

from cyclopts import App

from lethe.cli.audit import audit
from lethe.cli.canaries import canaries
from lethe.cli.data import data
from lethe.cli.forgotten import forgotten
from lethe.cli.plan import plan
from lethe.cli.shadow import shadow

app = App(
    name="lethe",
    help="""Measure what a release tells about the people behind it, make it forget, prove how far.

Start with real data that ships along: lethe audit model digits

Exit codes: 0 pass or no rule, 1 a rule fails, 2 wrong input, 3 not enough evidence,
4 stopped but resumable, 130 Ctrl-C.""",
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,  # `run` stops the workers first
)


def _version() -> str:
    from importlib.metadata import version

    return version("lethe-privacy")


app.version = _version
app.command(audit)
app.command(canaries)
app.command(data)
app.command(forgotten)
app.command(plan)
app.command(shadow)
