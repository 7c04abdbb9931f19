"""`lethe plan`: what an audit will cost and how much it will say, before it is run."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lethe.api.models import audit
from lethe.cli import TYPED
from lethe.cli.audit_model import model
from lethe.cli.audits import NOT_ASKED
from lethe.cli.options import command_line, merged, options_for
from lethe.data.tables import load
from lethe.evidence.estimate import Refusal
from lethe.evidence.findings import Findings
from lethe.membership.settings import AuditSettings
from lethe.runs.settings import settings_of

if TYPE_CHECKING:
    from lethe.membership.planning import EstimatePlan, Plan, Row, RulePlan
    from lethe.membership.widths import Answer, Foreseen


# The words and cells of a plan on a terminal.


def head_words(found: Plan) -> list[str]:
    """What was tried, and how to read the table."""
    cost = found.cost
    who = "" if found.people == found.records else f" of {found.people:,} persons"
    lines = [f"{found.name}: a pilot of {found.pilot} models on {found.records:,} records{who}."]
    if cost.seconds is not None and cost.worker_bytes is not None:
        lines.append(
            f"{duration(cost.seconds)} a model in each of {cost.workers} workers, which take up to "
            f"{size(cost.worker_bytes)} each; {size(cost.model_bytes)} on disk a model."
            + (
                f" {size(cost.stop_bytes)} of it are early stops, which need no training of "
                "their own and which only the plain model keeps."
                if cost.stop_bytes
                else ""
            )
        )
    lines.append(
        f"K: shadow models a candidate. plain, all: wall time for the plain model alone and for "
        f"all {found.candidates} candidates. tpr@FPR: width of its interval, in percentage points. "
        "r(t): correlation of the records' exposure between two such audits. top 1%: share of "
        "the most exposed that both would name."
    )
    return lines


def cost_cells(row: Row) -> list[str]:
    """What one number of models takes."""
    return [
        str(row.models),
        duration(row.seconds),
        duration(row.all_seconds),
        size(row.disk),
        "-" if row.memory is None else size(row.memory),
    ]


def worth_cells(row: Row) -> list[str]:
    """What one number of models tells."""
    ranking = row.ranking
    return [
        str(row.models),
        *(width_cell(width) for width in row.widths.values()),
        "-" if ranking is None else f"{ranking.reliability:.2f}",
        "-" if ranking is None else f"{ranking.overlap:.0%}",
    ]


def width_cell(width: Foreseen) -> str:
    """An expected width with its limits, in percent points."""
    if isinstance(width, Refusal):
        return "refused"
    return f"{100 * width.width:.1f} [{100 * width.low:.1f}, {100 * width.high:.1f}]"


def refusals(found: Plan) -> list[str]:
    """Why cells are refused, each reason once."""
    reasons = {
        width.reason: None
        for widths in (*(row.widths for row in found.rows), *(w for _, w in found.by_records))
        for width in widths.values()
        if isinstance(width, Refusal)
    }
    return [f"refused: {reason}" for reason in reasons]


def answer_words(found: Answer) -> str:
    """How many models a precision takes."""
    if found.models is None:
        return f"{found.asked}: no number of models gives this; {found.why}."
    if found.sure is None:
        return f"{found.asked}: about {found.models} models; up to 4096 do not make it sure."
    return f"{found.asked}: about {found.models} models; with {found.sure} in 9 audits of 10."


def rule_words(found: RulePlan) -> str:
    """How many models settle a rule, and what it comes to at each end of the interval."""
    if not found.ends:
        return f"{found.rule}: not planned; {found.why}."
    known = sorted({end.models for end in found.ends if end.models is not None})
    head = " and ".join(map(str, dict.fromkeys((*known[:1], *known[-1:]))))
    sure = "in 4 audits of 5" if all(end.models for end in found.ends) else "in part"
    settled = f"{'between ' * (len(known) > 1)}{head} shadow models settle it {sure}"
    parts = [
        f"at {end.rate:.1%} no number does, {end.why}"
        if end.models is None
        else f"at {end.rate:.1%} it would {end.outcome} ({end.models} suffice)"
        for end in found.ends
    ]
    return f"{found.rule}: {settled if known else 'not settled'}: {'; '.join(parts)}."


def advice(found: Plan, usual: int, command: str) -> str:
    """What to do: a number of models, why, what it takes, and what to type.

    Args:
        usual: the number of models where nobody says one.
        command: of the audit, as it would be typed.
    """
    models, why = found.recommended()
    row = next((one for one in found.rows if one.models == models), None)
    takes = (
        "" if row is None else f" About {duration(row.all_seconds)}, every chosen attack included."
    )
    if models == usual:
        return f"Recommended: {models} models, the default: {why}.{takes} {command}"
    return f"Recommended: {models} models: {why}.{takes} {command} --models {models}"


def duration(seconds: float | None) -> str:
    """Seconds in the unit that suits them.

    >>> [duration(x) for x in (None, 0.0123, 4.0, 90, 8000, 2e5)]
    ['-', '12 ms', '4.0 s', '1.5 min', '2.2 h', '2.3 d']
    """
    if seconds is None:
        return "-"
    for limit, unit, words in (
        (1, 1e-3, "{:.0f} ms"),
        (60, 1, "{:.1f} s"),
        (3600, 60, "{:.1f} min"),
    ):
        if seconds < limit:
            return words.format(seconds / unit)
    return f"{seconds / 3600:.1f} h" if seconds < 86_400 else f"{seconds / 86_400:.1f} d"


def size(count: float) -> str:
    """Bytes in the unit that suits them.

    >>> [size(x) for x in (900, 12_345, 4.2e8, 3e10)]
    ['900 B', '12 kB', '420 MB', '30 GB']
    """
    units = ["B", "kB", "MB", "GB", "TB"]
    while count >= 1000 and len(units) > 1:
        count /= 1000
        units.pop(0)
    unit = units[0]
    return f"{count:.3g} {unit}" if count < 10 else f"{count:.0f} {unit}"


@dataclass(frozen=True)
class PilotOptions:
    """A plan.

    Attributes:
        pilot: models to train now, at least 8. A plan from few models is unsure of itself, and says
            how much. [16]
        precision: how narrow the interval shall be; answered with the number of models it takes.
            Such as "tpr@0.001 within 20%" (plus or minus 20 % of the value), "tpr@0.01 within
            0.005" or "width(tpr@0.01)<=0.01" (limits at most 0.01 apart); may be repeated. Metrics:
            tpr@FPR, tau@FPR, auc.
        out: run folder. [lethe-runs/TARGET-HASH, as the audit's]
        config: TOML file with these options as keys; the command line wins.
        quiet: no progress, only the result.
    """

    pilot: int | None = None
    precision: tuple[str, ...] = ()
    out: Path | None = None
    config: Path | None = None
    quiet: bool = False


NOT_OF_PLANS = (
    *("until", "release", "accept", "keep_records", "margin"),
    *("memory", "engine", "engine_option"),
)
Options = options_for(
    *(model, load, PilotOptions, audit),
    leave=(*NOT_ASKED, *NOT_OF_PLANS),
    others={"precision": "Stopping and rules"},
)


def plan(
    target: str,
    /,
    *,
    given: Options = None,  # type: ignore[valid-type]  # made at import
) -> int:
    """Train a few of an audit's models and say what the whole would take and tell.

    With `findings.json` of `lethe audit fitted` nothing is trained: its estimate is the pilot. A
    `--rule` on tpr is planned at both ends of the rate's interval.

    The pilot's models stay in the run folder: `lethe audit model` with the same options goes on
    from them, so no work is lost. Against the number of shadow models K the tables give wall
    time, memory, disk, how wide the interval of the TPR at 1 % and 0.1 % FPR will be, and how
    well K models rank the records by exposure.

    Args:
        target: As in `lethe audit model`: built-in data or a file; or findings of a fitted model.
    """
    import json

    from lethe.cli.subject import load_subject
    from lethe.membership import planning
    from lethe.membership.audit import baseline_spec
    from lethe.membership.candidates import build_candidates
    from lethe.runs.progress import Progress
    from lethe.runs.run import run_folder
    from lethe.training.folder import RunFolder

    typed = asdict(given or Options())
    config, quiet = typed.pop("config"), bool(typed.pop("quiet"))
    _, options = merged(typed, config)
    options["command"] = "audit model"
    chosen = settings_of(AuditSettings, options)
    asked = options["precision"] or ()
    if target.endswith(".json") or (Path(target) / "findings.json").is_file():
        _print_estimate(planning.plan_of_estimate(Findings.load(target), chosen, asked))
        return 0
    planning.check_asked(options["pilot"], asked)
    records, recipe = load_subject(target, options, chosen)
    build_candidates(chosen, recipe)
    name = baseline_spec(records, recipe, chosen).hash()
    folder = run_folder(options["out"], records.name, name)
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


def _print_estimate(found: EstimatePlan) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    rate = found.rate
    ends = [end for end in (rate.low, rate.value, rate.high) if end is not None]
    said = f"{found.name}: estimated tpr@0.01 {rate.value:.1%} ({rate.low:.1%} to {rate.high:.1%}),"
    console.print(Text(f"{said} of {found.people:,} people or records that can be members."))
    console.print(Text("K: shadow models. Columns: the interval to be expected at each rate."))
    table = Table("K", *(f"at {end:.1%}" for end in ends), box=SIMPLE_HEAD, pad_edge=False)
    for models, row in found.rows:
        table.add_row(str(models), *(f"{one.low:.1%} to {one.high:.1%}" for one in row))
    console.print(table)
    for line in (*map(rule_words, found.rules), *map(answer_words, found.answers)):
        console.print(Text(line))
    console.print(
        Text("The estimate is of 64 models; attacks with fewer find less, and so does their audit.")
    )
    models = max((rule.models or 0 for rule in found.rules), default=0)
    models = max([models, *(one.models or 0 for one in found.answers)]) or AuditSettings().models
    rules = "".join(f" --rule {shlex.quote(rule.rule)}" for rule in found.rules if rule.ends)
    command = f"lethe audit model TABLE --label COLUMN --recipe FILE:NAME --models {models}{rules}"
    console.print(Text(f"Recommended: {models} models. {command}"))


def _audit_of(target: str) -> str:
    """The command of the audit with the same options, but for those of a plan alone."""
    words, kept = iter(TYPED.get()), []
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
    asked = (*map(answer_words, found.answers), *map(rule_words, found.rules))
    for line in (*refusals(found), *asked, *found.notes):
        console.print(Text(line))
    console.print(
        Text(f"The pilot's {found.pilot} models are in {folder}; the audit goes on from them.")
    )
    console.print(Text(advice(found, AuditSettings().models, command)))
