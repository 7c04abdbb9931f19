"""`lethe plan`: estimate the time of an audit and the width of its intervals before it runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lethe.api.models import audit
from lethe.cli import TYPED
from lethe.cli.audit_model import model
from lethe.cli.audits import NOT_ASKED
from lethe.cli.options import RunOptions, command_line, merged, options_for
from lethe.cli.tables import print_tables
from lethe.data.tables import load
from lethe.errors import InputError
from lethe.evidence.estimate import Refusal
from lethe.evidence.findings import Findings
from lethe.membership.settings import AuditSettings
from lethe.runs.settings import settings_of

if TYPE_CHECKING:
    from lethe.membership.planning import EstimatePlan, Plan, Row
    from lethe.membership.widths import Foreseen, ModelsNeeded


# The words and cells of a plan on a terminal.


def head_words(plan: Plan) -> list[str]:
    """Say what was tried and how to read the table."""
    cost = plan.cost
    who = "" if plan.people == plan.records else f" of {plan.people:,} persons"
    lines = [f"{plan.name}: a pilot of {plan.pilot} models on {plan.records:,} records{who}."]
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
        f"all {plan.candidates} candidates. tpr@FPR: width of its interval, in percentage points."
    )
    return lines


def cells(row: Row) -> list[str]:
    """Format the row of one number of models: its costs and the widths of its intervals."""
    memory = "-" if row.memory is None else size(row.memory)
    times = duration(row.seconds), duration(row.all_seconds)
    return [str(row.models), *times, size(row.disk), memory, *map(width_cell, row.widths.values())]


def width_cell(width: Foreseen) -> str:
    """An expected width with its limits, in percent points."""
    if isinstance(width, Refusal):
        return "refused"
    return f"{100 * width.width:.1f} [{100 * width.low:.1f}, {100 * width.high:.1f}]"


def refusals(plan: Plan) -> list[str]:
    """Why cells are refused, each reason once."""
    widths = [width for row in plan.rows for width in row.widths.values()]
    reasons = dict.fromkeys(width.reason for width in widths if isinstance(width, Refusal))
    return [f"refused: {reason}" for reason in reasons]


def answer_words(answer: ModelsNeeded) -> str:
    """Say how many models a precision takes."""
    if answer.models is None:
        return f"{answer.asked}: no number of models gives this; {answer.why}."
    if answer.sure is None:
        return f"{answer.asked}: about {answer.models} models; up to 4096 do not make it sure."
    return f"{answer.asked}: about {answer.models} models; with {answer.sure} in 9 audits of 10."


def advice(plan: Plan, command: str) -> str:
    """Recommend a number of models: why, what it takes, and the command.

    Args:
        command: of the audit, as it would be typed.
    """
    models, why = plan.recommended()
    row = next((row for row in plan.rows if row.models == models), None)
    takes = (
        "" if row is None else f" About {duration(row.all_seconds)}, every chosen attack included."
    )
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
    """

    pilot: int | None = None
    precision: tuple[str, ...] = ()


NOT_OF_PLANS = (
    *("until", "release", "accept", "keep_records", "margin"),
    *("memory", "engine", "engine_option", "context", "as_json", "asked"),
)
Options = options_for(
    *(model, load, PilotOptions, audit, RunOptions),
    leave=(*NOT_ASKED, *NOT_OF_PLANS),
    others={"precision": "Stopping and rules"},
)


def plan(
    target: str,
    /,
    *,
    flags: Options = None,  # type: ignore[valid-type]  # made at import
) -> int:
    """Train a few of an audit's models and say what the whole would take and tell.

    With `findings.json` of `lethe audit fitted` nothing is trained: its estimate is the pilot, and
    its rules, or those of --rule, are planned at both ends and in the middle of the estimate.

    The pilot's models stay in the run folder: `lethe audit model` with the same options goes on
    from them, so no work is lost. Against the number of shadow models K the table gives wall
    time, memory, disk, and how wide the interval of the TPR at 1 % and 0.1 % FPR will be.

    Args:
        target: As in `lethe audit model`: built-in data or a file; or findings of a fitted model.
    """
    import json

    from lethe.cli.subject import load_subject
    from lethe.membership import planning
    from lethe.membership.audit import baseline_spec
    from lethe.membership.candidates import build_candidates
    from lethe.runs.run import Progress, run_folder
    from lethe.training.folder import RunFolder

    typed = asdict(flags or Options())
    config, quiet = typed.pop("config"), bool(typed.pop("quiet"))
    _, options = merged(typed, config)
    options["command"] = "audit model"
    chosen = settings_of(AuditSettings, options)
    asked = options["precision"] or ()
    if target.endswith(".json") or (Path(target) / "findings.json").is_file():
        findings = Findings.load(target)
        estimate = planning.plan_of_estimate(findings, chosen, asked)
        _print_estimate(estimate, chosen.rule or [entry["rule"] for entry in findings.rules])
        return 0
    planning.check_asked(options["pilot"], asked)
    if typed["rule"]:
        raise InputError(
            f"rule={typed['rule'][0]!r} is for findings of `lethe audit fitted`; use --precision."
        )
    records, recipe = load_subject(target, options, chosen)
    build_candidates(chosen, recipe)
    name = baseline_spec(records, recipe, chosen).hash()
    folder = run_folder(options["out"], records.name, name)
    with RunFolder(folder, name, command_line()) as run, Progress(quiet) as progress:
        how = options["workers"], options["pilot"] or planning.PILOT, asked
        result = planning.plan(records, recipe, chosen, run, progress, *how)
        run.write("plan.json", json.dumps(result.to_json(), indent=1).encode() + b"\n")
    _print(result, folder, _audit_of(target))
    return 0


def _print_estimate(plan: EstimatePlan, rules: Iterable[str]) -> None:
    low, middle, high = rates = [f"{rate:.1%}" for rate in plan.rates]
    rows = [
        [str(models), *(f"{interval.low:.1%} to {interval.high:.1%}" for interval in intervals)]
        for models, intervals in plan.rows
    ]
    sizes = [answer.sure or answer.models for answer in plan.answers]
    known = [models for models in sizes if models]
    few, many = min(known, default=64), max(known, default=64)
    measured = [rule.replace("estimated(tpr@0.01)", "tpr@0.01") for rule in rules]
    options = "".join(f" --rule {shlex.quote(rule)}" for rule in measured)
    heading = (
        f"{plan.name}: estimated tpr@0.01 {middle} ({low} to {high}). K is the number of shadow "
        "models; the column of each rate shows the interval to expect."
    )
    recommended = (
        f"Recommended: {f'between {few} and ' * (few < many)}{many} models. lethe audit model "
        f"TABLE --label COLUMN --recipe FILE:NAME --models {many}{options}"
    )
    answers = map(answer_words, plan.answers)
    print_tables([heading], (["K", *rates], rows), after=[*answers, recommended])


def _audit_of(target: str) -> str:
    """Return the audit command with the same options, without those that only a plan takes."""
    words, kept = iter(TYPED.get()), []
    for word in words:
        name, is_, _ = word.partition("=")
        if name in ("--pilot", "--precision", "--models"):
            if not is_:
                next(words, None)
        elif word not in ("plan", "--quiet"):
            kept.append(word)
    return shlex.join(["lethe", "audit", "model", *(kept or [target])])


def _print(plan: Plan, folder: Path, command: str) -> None:
    headings = ("K", "plain", "all", "disk", "memory", "tpr@.01", "tpr@.001")
    after = [
        *(*refusals(plan), *map(answer_words, plan.answers), *plan.notes),
        f"The pilot's {plan.pilot} models are in {folder}; the audit goes on from them.",
        advice(plan, command),
    ]
    print_tables(head_words(plan), (headings, map(cells, plan.rows)), after=after)
