"""The command `lethe`: arguments in, audit out, exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line and exit with its code."""
    try:
        code = run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:  # while loading, before there is anything to stop
        code = 130
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run a command line; returns 0, 1, 2, 3, 4 or 130 (see `lethe --help`)."""
    from cyclopts.exceptions import CycloptsError

    from lethe.cli.app import app
    from lethe.cli.interrupt import watched
    from lethe.errors import LetheError

    debug = os.environ.get("LETHE_DEBUG") == "1"
    try:
        with watched():
            code = app(
                list(arguments), exit_on_error=False, print_error=True, result_action="return_value"
            )
        return int(code or 0)
    except CycloptsError:
        return 2
    except LetheError as error:
        if debug:
            raise
        print(f"lethe: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        from lethe.training.engines import stop_processes

        stop_processes()
        print(
            "lethe: stopped. Finished models are kept; the same command goes on from there.",
            file=sys.stderr,
        )
        return 130
