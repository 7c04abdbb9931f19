"""The command `lethe`: arguments in, audit out, exit code."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts.exceptions import CycloptsError

BUG = 70
TYPED: ContextVar[Sequence[str]] = ContextVar("TYPED", default=())
"""The words of the command that runs, for the manifest of its run."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line and exit with its code."""
    asked = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = run(asked)
    except KeyboardInterrupt:  # while loading, before there is anything to stop
        code = 130
    except Exception as error:  # Python would exit with 1, as if a rule had failed
        words = f"{type(error).__name__}: {error} (a bug; --debug shows where)"
        _tell(words, error, asked)
        code = BUG
    if arguments is None and "torch" in sys.modules:
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> None:
    """End as Python would, but for taking down every module: with torch that takes a second."""
    threading._shutdown()  # type: ignore[attr-defined]  # what Python calls first; it has no stub
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # nobody reads any more
            stream.flush()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run a command line; returns 0, 1, 2, 3, 4 or 130 (see `lethe --help`)."""
    words = [word for word in arguments if word != "--debug"]
    if not words or words[0] in ("--help", "-h", "--version"):
        from lethe.cli.commands import front_page, installed_version

        print(front_page() if words[:1] != ["--version"] else f"{installed_version()}\n", end="")
        return 0
    from cyclopts.exceptions import CycloptsError

    from lethe.cli.app import app
    from lethe.errors import SYNONYMS, LetheError
    from lethe.runs.run import watched

    outer = TYPED.set(list(arguments))
    for index, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option.startswith("--") and option[2:] in SYNONYMS:
            words[index] = f"--{SYNONYMS[option[2:]]}{equals}{value}"
    try:
        with watched():
            code = app(words, exit_on_error=False, print_error=False, result_action="return_value")
        return int(code or 0)
    except CycloptsError as error:
        _tell(_told(error), error, arguments)
        return 2
    except LetheError as error:
        _tell(str(error), error, arguments)
        return error.exit_code
    except KeyboardInterrupt:
        from lethe.training.engines.processes import stop_processes

        stop_processes()
        print(
            "lethe: stopped. What is finished is kept; the same command goes on from there.",
            file=sys.stderr,
        )
        return 130
    except BrokenPipeError:
        # Who reads our output has had enough, as in `lethe budget export b.db | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    finally:
        TYPED.reset(outer)


def _told(error: CycloptsError) -> str:
    """Word a parser error like every other refusal: what is wrong, why, and the way out."""
    from cyclopts.exceptions import UnusedCliTokensError

    words = " ".join(str(error).split()).replace("?.", "?")
    if isinstance(error, UnusedCliTokensError):
        words = (
            f"{' '.join(map(repr, error.unused_tokens or ()))} stands where nothing more is taken"
        )
    command = " ".join(["lethe", *(error.command_chain or ())])
    stop = "" if words[-1] in ".?" else "."
    return f"{words}{stop} `{command} --help` lists what there is."


def _tell(words: str, error: Exception, arguments: Sequence[str]) -> None:
    """One line on an error, after its traceback where --debug or LETHE_DEBUG=1 asks for it."""
    if "--debug" in arguments or os.environ.get("LETHE_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    print(f"lethe: {words}", file=sys.stderr)
