"""The help teaches: headings, examples that are taken, lines that fit; one style of refusals."""

import contextlib
import functools
import io
import re
import shlex

import pytest
from rich.console import Console

from lethe.cli import run
from lethe.cli.app import app
from lethe.cli.audits import AUDITS
from lethe.cli.commands import COMMANDS
from lethe.cli.options import HEADINGS

KINDS = sorted(AUDITS)
GROUPED = [*(f"audit {kind}" for kind in KINDS), "plan"]
TYPED = {f"audit {kind}": AUDITS[kind].examples for kind in KINDS} | {
    one.name: one.examples for group in COMMANDS.values() for one in group if one.examples
}


@functools.cache
def help_of(command: str, width: int) -> str:
    page = io.StringIO()
    console = Console(file=page, width=width, force_terminal=False, color_system=None)
    app.help_print(command.split(), console=console)
    return page.getvalue()


@pytest.mark.parametrize("command", GROUPED)
def test_every_option_of_an_audit_stands_under_a_heading(command):
    page = help_of(command, 100)
    heads = re.findall(r"^╭─ ([A-Z][a-z ]+?) ─", page, re.MULTILINE)
    assert heads[0] == "Arguments" and set(heads[1:]) <= set(HEADINGS)
    order = [list(HEADINGS).index(head) for head in heads[1:]]
    assert order == sorted(order) and heads[-1] == "Running"


def test_the_audit_of_a_model_has_the_headings_in_their_order():
    heads = re.findall(r"^╭─ ([A-Z][a-z ]+?) ─", help_of("audit model", 100), re.MULTILINE)
    assert heads[1:] == [head for head in HEADINGS if head != "Claim"]


@pytest.mark.parametrize("command", sorted(TYPED))
def test_three_examples_stand_on_top_and_are_taken(command):
    page = help_of(command, 100)
    assert len(TYPED[command]) == 3
    for example in TYPED[command]:
        assert example in page.split("╭")[0]
        words = shlex.split(example.replace("\\\n", " "))
        assert words[:1] == ["lethe"]
        app.parse_args(words[1:], exit_on_error=False, print_error=False)


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("command", sorted(TYPED))
def test_no_word_is_broken_and_no_line_too_long(command, width):
    """Whatever stands in the narrow page stands as a word in a page where nothing is wrapped."""
    narrow = help_of(command, width).split("╭", 1)[1]
    assert max(map(len, narrow.splitlines())) <= width
    wide = set(re.findall(r"[\w@.:/<=>%-]+", help_of(command, 1000)))
    broken = [word for word in re.findall(r"[\w@.:/<=>%-]+", narrow) if word not in wide]
    assert broken == []


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("audit model digits --modles 3", "--modles. Did you mean --models?"),
        ("audit modl digits", 'Did you mean "model"?'),
        ("audit model digits --rule tqr@0.1<=1", "Did you mean 'tpr'?"),
        ("audti model", 'Did you mean "audit"?'),
        ("audit model digits --models few", "--models"),
        ("audit model digits --models", "--models requires an argument"),
        ("audit model digits more", "'more' stands where nothing more is taken"),
        ("audit model digits --attack lira", "Did you mean 'lira-online' or 'lira-offline'"),
        ("audit model digits --mitigations dp", "Did you mean 'dp-sgd'?"),
    ],
)
def test_all_refusals_look_alike(typed, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert run(typed.split()) == 2
    told = capsys.readouterr().err
    assert printed.getvalue() == "" and not any(tmp_path.iterdir())
    assert told.count("\n") == 1 and "?." not in told
    assert told.startswith("lethe: ") and said in told
