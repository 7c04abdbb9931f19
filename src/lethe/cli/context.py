"""`lethe context`: the form for what only people can say."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App

context = App(name="context", help="What only people know of a release: purpose, people, decision.")


@context.command
def init(run: Path | None = None, /, *, out: Path | None = None, force: bool = False) -> int:
    """Write a commented context.toml with every field that people must fill in.

    In a run folder the report reads it by itself: fill it in, then `lethe report RUN`.

    Parameters
    ----------
    run
        Run folder; the form is written into it.
    out
        Where to write it instead. [context.toml in RUN, else ./context.toml]
    force
        Overwrite a form that is there.
    """
    from lethe.errors import InputError
    from lethe.files import write_whole
    from lethe.report.context_form import form

    if run is not None and not run.is_dir():
        raise InputError(f"{run} is not a folder. Name the folder of a run, or use --out FILE.")
    path = out or (run or Path()) / "context.toml"
    if path.exists() and not force:
        raise InputError(f"{path} is there already; --force overwrites it.")
    write_whole(path, form().encode())
    print(f"Fill in {path}, then: lethe report {run or 'RUN'}")
    return 0
