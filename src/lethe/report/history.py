"""Many runs on one page, and two runs side by side: trends, rules, and what changed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lethe.assess.compare import (
    MOVED,
    UNKNOWN,
    WITHIN,
    Change,
    Comparison,
    compare_runs,
    measures_of,
)
from lethe.assess.judged import judged_candidates, kind_of, metrics_of
from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.findings import Findings
from lethe.evidence.rules import PASS, Rule, joint_outcome
from lethe.report.catalogue import say
from lethe.report.context_fields import run_id
from lethe.report.numbers import Cell, percent
from lethe.report.output_check import readable
from lethe.report.page import page_of_sections
from lethe.report.sections import Bullets, Chart, Folded, Part, Row, Section, Table, Words
from lethe.report.severity import cell_of, in_percent, metric_of, outcome
from lethe.report.static_svg import COLOURS, DASHES, Slots, chart, ends_of, new_axes, shorten
from lethe.report.utility import Utility

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_CHARTS = 6
_LONGEST = 60  # characters of a setting


@dataclass(frozen=True)
class PastRun:
    """One finished run.

    Attributes:
        place: of its folder, below the folder that is viewed.
        findings: what it measured.
        manifest: facts of the run; empty where there is no manifest.
    """

    place: str
    findings: Findings
    manifest: Mapping[str, Any]

    @property
    def finished(self) -> str:
        """When it ended, in ISO 8601; empty where that is not known."""
        last = (self.manifest.get("runs") or [self.manifest])[-1]
        return str(last.get("finished") or self.manifest.get("created") or "")

    @property
    def data(self) -> str:
        """The fingerprint of its data; empty where there is none to compare."""
        return str(self.findings.data.get("fingerprint") or "")

    @property
    def subject(self) -> tuple[str, ...]:
        """Name of what was audited, and its columns or classes."""
        form = [self.findings.data.get(key) for key in ("classes", "columns")]
        return str(self.findings.subject["name"]), json.dumps(form)

    def outcomes(self, name: Callable[[str], str]) -> dict[str, str]:
        """What the rules came to on all that they judged together, by a name made of their text."""
        codes_by_name: dict[str, list[str]] = {}
        for rule in self.findings.rules:
            codes_by_name.setdefault(name(rule["rule"]), []).append(rule["outcome"])
        return {key: joint_outcome(codes) for key, codes in codes_by_name.items()}

    def numbers(self) -> dict[str, Measured | None]:
        """Every number of what the run judged; none where that is no candidate."""
        try:
            measures = measures_of(self.findings, judged_candidates(self.findings)[0])
        except InputError:
            return {}
        return {name: number.measured for name, number in measures.items()}


def history_page(runs: Sequence[PastRun], title: str) -> str:
    """One page over runs: those on one subject together, in the order of time.

    A subject has a name and a form: files of one name with other columns or classes are several.
    The same data are one subject whatever their name.

    Args:
        runs: in any order; one without a date comes first.
        title: of the page.

    Raises:
        InputError: no run.
    """
    if not runs:
        raise InputError("a page over runs needs at least one finished run.")
    subjects: dict[tuple[str, ...], list[PastRun]] = {}
    first: dict[tuple[str, str], tuple[str, ...]] = {}
    for run in sorted(runs, key=lambda run: (run.finished, run.place)):
        kind, subject = kind_of(run.findings), run.subject
        # The same data under another name are the same subject: a new name hides no earlier run.
        subject = first.setdefault((kind, run.data), subject) if run.data else subject
        subjects.setdefault((kind, *subject), []).append(run)
    titles = [say("history.subject", kind=kind, name=name) for kind, name, _ in subjects]
    sections = []
    for place, (subject_title, listed) in enumerate(zip(titles, subjects.values(), strict=True), 1):
        if titles.count(subject_title) > 1:
            subject_title = say("history.among", title=subject_title, folder=listed[0].place)
        sections.append(_subject(f"s{place}", subject_title, listed))
    lead = say("history.lead", runs=len(runs), subjects=len(subjects))
    return page_of_sections(say("history.title", name=title), title, lead, sections)


def comparison_page(before: Findings, after: Findings, places: tuple[Path, Path]) -> str:
    """What moved between two runs as a page.

    Args:
        before: findings of the first run.
        after: of the second, of the same kind of release.
        places: of the two; the page says no more of them than it needs.

    Raises:
        InputError: the two are about different kinds of release.
    """
    first, second = places if places[0].name == places[1].name else (x.name for x in places)
    title = say("history.changed", before=first, after=second)
    lines = comparison_lines(compare_runs(before, after))
    section = Section("changes", say("history.what"), "", [Bullets(lines)])
    return page_of_sections(title, say("history.diff"), say("history.method"), [section])


def _subject(id_: str, title: str, runs: Sequence[PastRun]) -> Section:
    """The runs on one subject: their list, trends, rules, and what changed between them."""
    parts: list[Part] = [*_repeats(runs), _listed(runs)]
    if (several := len({run.data for run in runs if run.data})) > 1:
        parts.insert(0, Words(say("history.data", n=several), "note"))
    numbers = [run.numbers() for run in runs]
    names = list(dict.fromkeys(name for known in numbers for name in known))
    limits = _limits(runs)
    first = [name for name in (*limits, "risk", "utility") if name in names]
    shown = list(dict.fromkeys([*first, *names]))
    shares = Utility(runs[-1].findings.frontier["utility"]).shares
    metrics = metrics_of(runs[-1].findings)
    if len(runs) > 1:
        for number, name in enumerate(shown[:_MOST_CHARTS], start=1):
            what = metrics.get(metric_of(name))
            label = say("history.chart", name=name, what=what) if what else name
            series, rule = [known.get(name) for known in numbers], limits.get(name)
            parts += _trend(f"{id_}-{number}", label, series, rule, in_percent(name, shares))
    heads = [say("history.number"), *map(str, range(1, len(runs) + 1))]
    rows: list[Row] = [
        (name, [cell_of(name, known.get(name), shares) for known in numbers]) for name in shown
    ]
    parts.append(Folded(say("history.numbers"), [Table(say("history.numbers"), heads, rows)]))
    for number, (old, new) in enumerate(zip(runs, runs[1:], strict=False), start=1):
        head = say("history.changed", before=number, after=number + 1)
        lines = comparison_lines(compare_runs(old.findings, new.findings))
        parts.append(Folded(head, [Bullets(lines)]))
    lead = say("history.runs", n=len(runs)) if len(runs) > 1 else say("history.run")
    return Section(id_, title, lead, parts, title)


def _listed(runs: Sequence[PastRun]) -> Table:
    rules = list(dict.fromkeys(rule["rule"] for run in runs for rule in run.findings.rules))
    rows: list[Row] = []
    for number, run in enumerate(runs, start=1):
        outcomes = run.outcomes(str)
        cells: list[Cell | str] = [
            run.finished[:10] or "–",
            run_id(run.manifest) or "–",
            run.place,
            f"{run.data[:8] or '–'}, {run.findings.data.get('records') or '–'}",
            outcome(run.findings.verdict["outcome"], len(outcomes)).words,
            *(outcome(outcomes[rule], 1).words if rule in outcomes else "–" for rule in rules),
        ]
        rows.append((str(number), cells))
    heads = [
        say(f"history.head.{key}") for key in ("run", "date", "id", "folder", "data", "outcome")
    ]
    return Table(say("history.list"), [*heads, *rules], rows)


def _repeats(runs: Sequence[PastRun]) -> Iterator[Words]:
    """Sentences on data audited more than once, and on rules that passed only on a later run."""
    same: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        if run.data:
            same.setdefault(run.data, []).append(place)
    for listed in same.values():
        if len(listed) < 2:
            continue
        numbers = ", ".join(str(place + 1) for place in listed)
        yield Words(say("history.repeated", n=len(listed), runs=numbers), "note")
        by_metric: dict[str, list[tuple[int, str]]] = {}
        for place in listed:
            codes = runs[place].outcomes(lambda rule: re.split("[<>]", rule)[0])
            for metric, code in codes.items():
                by_metric.setdefault(metric.strip(), []).append((place, code))
        for metric, outcomes in by_metric.items():
            first = next((place for place, (_, code) in enumerate(outcomes) if code == PASS), 0)
            if first:
                before = ", ".join(str(place + 1) for place, _ in outcomes[:first])
                last = outcomes[first][0] + 1
                yield Words(say("history.until", metric=metric, runs=before, run=last), "warning")


def _limits(runs: Sequence[PastRun]) -> dict[str, Rule]:
    """The rule of the last run that has one, by quantity."""
    limits: dict[str, Rule] = {}
    for run in runs:
        texts = [entry["rule"] for entry in run.findings.rules]
        rules = readable(texts, metrics_of(run.findings))
        limits |= {rule.quantity: rule for rule in rules if not rule.on_width}
    return limits


def _trend(
    id_: str, title: str, series: Sequence[Measured | None], rule: Rule | None, shares: bool
) -> list[Chart]:
    """One number over the runs, with its intervals and the limit; empty where none has a value."""
    known = [
        (number, measured)
        for number, measured in enumerate(series, start=1)
        if isinstance(measured, Estimate) and measured.value is not None
    ]

    def draw(slots: Slots) -> Figure | None:
        if not known:
            return None
        figure, axes = new_axes(x="history.head.run")
        blue, orange = COLOURS["before"], COLOURS["after"]
        if shares:
            axes.yaxis.set_major_formatter(lambda share, _: percent(round(share, 6)))
        for number, measured in known:
            axes.plot([number, number], ends_of(measured)[::2], color=blue, lw=1.4)
        values = [ends_of(measured)[1] for _, measured in known]
        numbers, label = [number for number, _ in known], say("history.value")
        axes.plot(numbers, values, "o-", lw=1, color=blue, label=label)
        if rule is not None:
            label = say("history.limit", limit=percent(rule.limit) if shares else f"{rule.limit:g}")
            axes.axhline(rule.limit, color=orange, dashes=DASHES["dashed"], label=label)
        runs = range(1, len(series) + 1)
        axes.set_xticks(runs, [str(number) for number in runs])
        axes.set_xlim(0.6, len(series) + 0.4)
        return figure

    label = say("history.trend", name=title, n=len(known))
    return chart(title, f"trend-{id_}", f"trend{id_}-", label, draw)


def comparison_lines(comparison: Comparison, every: bool = False) -> list[str]:
    """What moved between two runs in sentences, the count last.

    Args:
        comparison: of the two runs.
        every: also what stayed within its interval, and what neither run could measure.
    """
    lines = [say("diff.data", data=", ".join(comparison.data))] if comparison.data else []
    for name, (a, b) in comparison.settings.items():
        lines.append(say("diff.setting", name=name, before=_short(a), after=_short(b)))
    alone = {"diff.only_a": comparison.only_before, "diff.only_b": comparison.only_after}
    lines += [say(key, names=", ".join(names)) for key, names in alone.items() if names]
    counts = {
        verdict: [change for change in comparison.changes if change.verdict == verdict]
        for verdict in (MOVED, UNKNOWN, WITHIN)
    }
    for verdict, changes in counts.items():
        for change in changes:
            sides = (change.before, change.after)
            measured = any(isinstance(side, Estimate) and side.n for side in sides)
            if every or verdict == MOVED or (verdict == UNKNOWN and measured):
                lines.append(_line(change))
    for rule in comparison.rules:
        old, new = (side or say("diff.no_rule") for side in (rule.before, rule.after))
        of = {"rule": rule.rule, "name": rule.candidate}
        lines.append(say("diff.rule", before=old, after=new, **of))
    for proof in comparison.guarantees:
        known = {(True, False): "weaker", (False, True): "stronger", (True, True): "incomparable"}
        how = say(f"diff.{known.get((proof.weaker, proof.stronger), 'changed')}")
        lines.append(say("diff.proof", name=proof.candidate, moved=how))
    moved, unknown = len(counts[MOVED]), len(counts[UNKNOWN])
    compared, chance = moved + len(counts[WITHIN]), ""
    differences = [change.difference for change in counts[MOVED] if change.difference is not None]
    if differences:
        chance = say("diff.chance", n=f"{compared * (1 - differences[0].confidence):.1f}")
    summary = say("diff.summary", n=moved, of=compared, chance=chance, unknown=unknown)
    return [*lines, summary]


def _line(change: Change) -> str:
    sides = [
        say("diff.unmeasured") if side is None else str(cell_of(change.quantity, side))
        for side in (change.before, change.after)
    ]
    which = "" if change.worse is None else say("diff.worse" if change.worse else "diff.better")
    shown = str(cell_of(change.quantity, change.difference)).replace(" %", f" {say('unit.points')}")
    gap = "" if change.difference is None else say("diff.gap", gap=shown)
    words = {"verdict": f"{change.verdict}{which}", "before": sides[0], "after": sides[1]}
    return say("diff.line", quantity=change.quantity, name=change.candidate, **words) + gap


def _short(value: object) -> str:
    return shorten(say("diff.none") if value is None else str(value), _LONGEST)
