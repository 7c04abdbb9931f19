"""`lethe plan`: what an audit will cost and how much it will say, before it is run."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from lethe.cli import ASKED
from lethe.cli.groups import HEADINGS
from lethe.cli.options import audit_settings, command_line, given_in, merged
from lethe.cli.subject_options import DATA, PLAN, DataOptions, PlanOptions

if TYPE_CHECKING:
    from lethe.membership.planning import Plan


RULES, RUNNING = HEADINGS["Stopping and rules"], HEADINGS["Running"]


def plan(
    target: str,
    /,
    *,
    data: DataOptions = DATA,
    settings: PlanOptions = PLAN,
    pilot: Annotated[int | None, Parameter(group=RULES)] = None,
    precision: Annotated[list[str] | None, Parameter(negative=(), group=RULES)] = None,
    out: Annotated[Path | None, Parameter(group=RUNNING)] = None,
    config: Annotated[Path | None, Parameter(group=RUNNING)] = None,
    quiet: Annotated[bool, Parameter(negative=(), group=RUNNING)] = False,
) -> int:
    """Train a few of an audit's models and say what the whole would take and tell.

    The pilot's models stay in the run folder: `lethe audit model` with the same options goes on
    from them, so no work is lost. Against the number of shadow models K the tables give wall
    time, memory, disk, how wide the interval of the TPR at 1 % and 0.1 % FPR will be, and how
    well K models rank the records by exposure.

    Parameters
    ----------
    target
        As in `lethe audit model`: built-in data or a file.
    pilot
        Models to train now, at least 8. A plan from few models is unsure of itself, and says
        how much. [16]
    precision
        How narrow the interval shall be; answered with the number of models it takes. Such as
        "tpr@0.001 within 20%" (plus or minus 20 % of the value), "tpr@0.01 within 0.005" or
        "width(tpr@0.01)<=0.01" (limits at most 0.01 apart); may be repeated. Metrics: tpr@FPR,
        tau@FPR, auc.
    out
        Run folder. [lethe-runs/TARGET-HASH, as the audit's]
    config
        TOML file with these options as keys; the command line wins.
    quiet
        No progress, only the result.
    """
    import json

    from lethe.cli.progress import Progress
    from lethe.cli.subject import find_subject
    from lethe.membership import planning
    from lethe.training.folder import RunFolder

    own = {"pilot": pilot, "precision": precision, "out": out}
    options = merged(config, {**given_in(data, settings), **own})
    chosen = audit_settings(options)
    asked = options["precision"] or ()
    planning.check_asked(options["pilot"], asked)
    records, recipe, name, folder = find_subject(target, options, chosen)
    with RunFolder(folder, name, command_line()) as run, Progress(quiet) as progress:
        found = planning.plan(
            records,
            recipe,
            chosen,
            run,
            progress,
            options["workers"],
            options["pilot"] or planning.PILOT,
            asked,
        )
        run.write("plan.json", json.dumps(found.to_json(), indent=1).encode() + b"\n")
    _print(found, chosen.models, folder, _audit_of(target))
    return 0


def _audit_of(target: str) -> str:
    """The command of the audit with the same options, but for those of a plan alone."""
    words, kept = iter(ASKED.get()), []
    for word in words:
        name, is_, _ = word.partition("=")
        if name in ("--pilot", "--precision", "--models"):
            if not is_:
                next(words, None)
        elif word not in ("plan", "--quiet"):
            kept.append(word)
    return shlex.join(["lethe", "audit", "model", *(kept or [target])])


def _print(found: Plan, models: int, folder: Path, command: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from lethe.cli.plan_words import (
        advice,
        answer_words,
        cost_cells,
        head_words,
        refusals,
        width_cell,
        worth_cells,
    )
    from lethe.membership.settings import AuditSettings

    console = Console(soft_wrap=True, highlight=False)
    for line in head_words(found):
        console.print(Text(line))
    who = "records" if found.people == found.records else "persons"
    by_records = [
        [f"{round(times * found.people):,}", *map(width_cell, widths.values())]
        for times, widths in found.by_records
    ]
    for headings, rows in (
        (("K", "plain", "all", "disk", "memory"), map(cost_cells, found.rows)),
        (("K", "tpr@.01", "tpr@.001", "r(t)", "top 1%"), map(worth_cells, found.rows)),
        ((f"{who}, K={models}", "tpr@.01", "tpr@.001"), by_records),
    ):
        table = Table(*headings, box=SIMPLE_HEAD, pad_edge=False)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    for line in (*refusals(found), *map(answer_words, found.answers), *found.notes):
        console.print(Text(line))
    console.print(
        Text(f"The pilot's {found.pilot} models are in {folder}; the audit goes on from them.")
    )
    console.print(Text(advice(found, AuditSettings().models, command)))
