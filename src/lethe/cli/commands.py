"""The list of commands, and the page of `lethe --help`, which is written without a parser.

A new command is one line in `COMMANDS`: its name, where it lives, and what it does.
"""

from __future__ import annotations

import textwrap
from typing import NamedTuple


class Command(NamedTuple):
    """One command."""

    name: str  # as it is typed
    where: str  # "module:attribute" in `lethe.cli`; imported when it is called
    does: str  # one line
    examples: tuple[str, ...] = ()  # for the top of its help


COMMANDS = {
    "Measure": [
        Command("demo", "demo:demo", "Audit four releases, on data that ship with Lethe."),
        Command("audit", "app:audit", "Measure a release; `lethe audit --help`."),
        Command("split", "split:split", "Hold records out at random, before training."),
        Command(
            "plan",
            "plan:plan",
            "Estimate the time and the intervals of an audit.",
            (
                "lethe plan digits",
                "lethe plan people.csv --label income --recipe mine.py:make --pilot 8",
                "lethe plan digits --precision 'tpr@0.01 within 20%'",
            ),
        ),
        Command("shadow", "shadow:shadow", "Train one chunk of models elsewhere."),
    ],
    "Defend and prove": [
        Command("canaries", "canaries:canaries", "Bound epsilon with one training."),
        Command("schema", "register:schema", "Draft what a table's columns are."),
        Command(
            "register",
            "register:register",
            "Fix the schema, so that questions can be asked.",
        ),
        Command("budget", "budget:budget", "The ledger that answers are paid from."),
        Command(
            "query",
            "query:query",
            "Ask a table, with noise, within a budget.",
            (
                "lethe query people.parquet 'count()' --epsilon 0.5 --budget b.db",
                "lethe query people.parquet 'mean(age) in [18, 100]' --epsilon 1 --budget b.db",
                "lethe query people.parquet 'count() where age >= 65' --epsilon 1 --budget b.db",
            ),
        ),
        Command("serve", "serve:serve", "Answer over HTTP, within budgets."),
        Command("token", "serve:token", "Let a person ask over HTTP."),
    ],
    "Decide": [
        Command("report", "report:report", "Render runs: HTML, PDF, Markdown."),
        Command("context", "report:context", "Write the form that people fill in."),
        Command(
            "check",
            "check:check",
            "Judge finished runs by rules; the gate of a CI.",
            (
                "lethe check lethe-runs/digits-1a2b3c4d",
                "lethe check run --rule 'tpr@0.001<=0.05' --junit privacy.xml",
                "lethe check run --rules privacy.toml --json",
            ),
        ),
        Command("diff", "diff:diff", "Show what moved between two runs beyond its interval."),
        Command("view", "report:view", "One page over many runs: trends, what changed."),
        Command("forgotten", "forgotten:forgotten", "Answer people who asked to be forgotten."),
    ],
    "House-keeping": [
        Command("doctor", "doctor:doctor", "Versions, threads, GPU, missing extras."),
    ],
}

HEAD = """Usage: lethe COMMAND [ARGUMENTS]

Measure what a release reveals about the people behind it, protect them, prove how far.
"""

TAIL = """Anywhere:
  --help, -h             this page; after a command, that of the command
  --version              version of lethe
  --install-completion   completion for this shell: bash, zsh or fish
  --debug                on an error, show the whole traceback

Exit codes: 0 pass or no rule, 1 a rule fails, 2 wrong input, 3 not enough evidence,
4 stopped but resumable, 70 a crash, 130 Ctrl-C.
"""


def usage(name: str, examples: tuple[str, ...]) -> str:
    """The top of a command's help: how it is typed, and what one would type."""
    lines = "\n".join(f"  {line}" for line in examples)
    return f"Usage: lethe {name} [ARGUMENTS] [OPTIONS]\n\nExamples:\n{lines}"


def installed_version() -> str:
    """The version that `lethe --version` prints."""
    from importlib.metadata import version

    return version("lethe-privacy")


def front_page() -> str:
    """Compose the page of `lethe --help`: audits, commands by purpose, exit codes."""
    from lethe.cli.audits import AUDITS

    sections = {
        "Audit a release": [(f"audit {kind}", audit.does) for kind, audit in AUDITS.items()]
    }
    for group, commands in COMMANDS.items():
        sections[group] = [(command.name, command.does) for command in commands]
    parts = [HEAD]
    for group, lines in sections.items():
        rows = [
            textwrap.fill(f"  {name:<21}  {does}", 88, subsequent_indent=" " * 25)
            for name, does in lines
        ]
        parts.append("\n".join([f"{group}:", *rows, ""]))
    return "\n".join([*parts, TAIL])
