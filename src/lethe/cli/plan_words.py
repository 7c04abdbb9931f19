"""The words and cells of a plan on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lethe.evidence.estimate import Refusal

if TYPE_CHECKING:
    from lethe.membership.planning import Plan, Row
    from lethe.membership.widths import Answer, Foreseen


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
