"""One findings document in, one self-contained HTML page out.

The page loads nothing from anywhere, works with scripts switched off, and is the same bytes
for the same input; whatever has a time, host or path comes from the manifest.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError
from lethe.evidence.findings import Findings
from lethe.evidence.rules import joint_outcome
from lethe.files import write_whole
from lethe.report.catalogue import say
from lethe.report.numbers import interval_methods
from lethe.report.sections import Chart, Column, Section, charts, table

if TYPE_CHECKING:
    from jinja2 import Environment

    from lethe.report.first_screen import First

CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)
Runs = Sequence[tuple[Findings, Mapping[str, Any] | None]]


@dataclass(frozen=True)
class Release:
    """What any renderer prints of one release."""

    first: First
    sections: Sequence[Section]
    methods: Sequence[str] = ()  # of the intervals, in the order in which the page numbers them

    @property
    def title(self) -> str:
        """What a part is called: the kind of release, and its name."""
        return f"{self.first.kind[:1].upper()}{self.first.kind[1:]}: {self.first.name}"

    @property
    def charts(self) -> list[Chart]:
        """Every chart of the page, that of the first screen first."""
        first = [] if self.first.chart is None else [self.first.chart]
        return [*first, *charts(self.sections)]


def read(findings: Findings, manifest: Mapping[str, Any] | None = None) -> Release:
    """The first screen and the sections of one document."""
    from lethe.report.common import room_of, sections_of
    from lethe.report.first_screen import first_screen
    from lethe.report.frontier_chart import frontier_chart

    room, manifest = room_of(findings.to_json()), manifest or {}
    screen = first_screen(room, manifest, frontier_chart(room))
    return Release(screen, sections_of(room, manifest), interval_methods(room.plain))


def together(releases: Sequence[Release]) -> First:
    """The first screen of a page on several releases: the worst of them speaks."""
    from lethe.report.first_screen import Card
    from lethe.report.severity import LEVELS, outcome

    def rank(at: int) -> tuple[int, float]:
        # A failure without a severity, such as a claim that is wrong, gives way to the two worst.
        first = releases[at].first
        failed = "moderate" if first.outcome.code == "fail" else ""
        level = first.level or failed
        return (LEVELS.index(level) if level else -1, first.size)

    worst = max(range(len(releases)), key=rank)  # of equal ones the first
    titles = [release.title for release in releases]
    codes = [one.first.outcome.code for one in releases]
    known = [code for code in codes if code != "no-limit"]
    joint = outcome(joint_outcome(known) if known else "not-tested", len(known))
    first, n = releases[worst].first, len(releases)
    lead = []
    for code in ("fail", "not-enough-evidence"):
        named = [title for title, other in zip(titles, codes, strict=True) if other == code]
        lead += [say(f"several.{code}", names=", ".join(named))] if named else []
    if left := len(codes) - len(known):
        # A pass of some is no pass of the system.
        joint = outcome("not-tested", 0) if joint.code == "pass" else joint
        lead.append(say("several.unlimited", some=left, n=n))
    lead.append(say("several.lead", n=n, name=titles[worst]))
    columns: list[Column] = [
        (say("several.severity"), lambda one: say(f"level.{one.level}") if one.level else "–"),
        (say("several.worst"), "headline"),
        (say("several.outcome"), lambda one: one.outcome.words),
    ]
    rows = [(release.title, release.first) for release in releases]
    released = Card(say("card.released"), say("several.released", n=n), titles)
    others = (
        replace(card, title=say("several.card", title=card.title, name=first.name))
        for card in first.cards[1:]
    )
    return replace(
        first,
        kind=say("several.kind", n=n),
        outcome=joint,
        rules=" ".join(lead),
        detail=(),
        cards=[released, *others],
        chart=None,
        options=table(say("several.table"), say("several.release"), rows, columns),
        notes=(),
        signed=say("sign.for", name=say("sign.several")),
    )


def render(findings: Findings, manifest: Mapping[str, Any] | None = None) -> str:
    """The report as one HTML page.

    Args:
        findings: what was measured; the page adds no judgement of its own.
        manifest: facts of the run (created, machine, versions, runs); printed as "not provided"
            where absent.

    Returns:
        HTML that needs no other file and makes no request.
    """
    return render_several([(findings, manifest)])


def render_several(runs: Runs, title: str | None = None) -> str:
    """The report on all releases of one system as one HTML page.

    Args:
        runs: findings and manifest of each, as in `render`, in the order of the page.
        title: of the system; the name of the first release without one.

    Returns:
        As `render`; of several runs the worst one speaks first.

    Raises:
        InputError: no run.
    """
    if not runs:
        raise InputError("a report needs at least one run.")
    return _page([read(findings, manifest) for findings, manifest in runs], title)


def _page(releases: Sequence[Release], title: str | None = None) -> str:
    name, source = title or releases[0].first.name, releases[0].first.source
    if len(releases) == 1:
        first, skip = releases[0].first, "attacks"
        body = templates().get_template("release.html.j2").render(**vars(releases[0]))
    else:
        first, skip = together(releases), "r1"
        article, parts = templates().get_template("article.html.j2"), []
        for at, release in enumerate(releases, start=1):
            html = apart(article.render(**vars(release), title=release.title), f"r{at}-")
            parts.append({"id": f"r{at}", "title": release.title, "html": html})
        body = templates().get_template("several.html.j2").render(first=first, parts=parts)
    title = say("page.title", name=name, outcome=say(f"outcome.{first.outcome.code}"))
    top = say("page.kind", kind=first.kind, name=name)
    return whole_page(title, top, body, skip, source)


def page_of_sections(title: str, top: str, lead: str, sections: Sequence[Section]) -> str:
    """A page of sections alone, such as the one over many runs.

    Args:
        title: of the page.
        top: what stands above the title.
        lead: the sentence below it.
        sections: in order.
    """
    template = templates().get_template("sections.html.j2")
    body = template.render(title=title, lead=lead, sections=sections)
    return whole_page(title, top, body, sections[0].id, ())


def whole_page(title: str, top: str, body: str, skip: str, source: Sequence[str]) -> str:
    """The page around a body; `skip` is where the first link leads."""
    values = {"title": title, "top": top, "body": body, "skip": skip, "source": source}
    template = templates().get_template("page.html.j2")
    page = _told_apart(template.render(content_policy=CONTENT_POLICY, **values))
    # Templates leave empty lines where a block prints nothing.
    return "\n".join(line for line in page.splitlines() if line.strip()) + "\n"


def _told_apart(page: str) -> str:
    """The page with a number behind the names of regions that have one name."""
    seen: Counter[str] = Counter()

    def name(match: re.Match[str]) -> str:
        seen[match[2]] += 1
        again = f" ({seen[match[2]]})" if seen[match[2]] > 1 else ""
        return f"{match[1]}{match[2]}{again}"

    return re.sub(r'( role="region" aria-label=")([^"]*)', name, page)


# Text from data is escaped, so that a bare quotation mark is always ours.
_IDS = re.compile(r'( (?:id|for|aria-labelledby|aria-describedby|aria-controls)=")([^"]+)(")')
_LINKS = re.compile(r'((?: href="|url\()#)([^")]+)')


def apart(html: str, prefix: str) -> str:
    """The same piece of a page with a prefix before each id and each link to one.

    Args:
        html: a piece that our templates made.
        prefix: such as ``r1-``.

    >>> apart('<p id="a"><a href="#a">up</a>', "r1-")
    '<p id="r1-a"><a href="#r1-a">up</a>'
    """
    prefixed = _IDS.sub(
        lambda m: m[1] + " ".join(prefix + word for word in m[2].split()) + m[3], html
    )
    return _LINKS.sub(lambda m: f"{m[1]}{prefix}{m[2]}", prefixed)


def write(findings: Findings, path: Path, manifest: Mapping[str, Any] | None = None) -> None:
    """Write the report to `path`, whole or not at all.

    Args:
        findings: as in `render`.
        path: where the page goes, such as ``report.html`` in the folder of the run.
        manifest: as in `render`.

    Raises:
        RunFailed: the file cannot be written.
    """
    write_whole(path, render(findings, manifest).encode())


def files(
    findings: Findings, manifest: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, bytes]]:
    """The page, and every chart of it as an SVG file with colours, labels and legend of its own.

    Returns:
        names such as ``report.html`` and ``figures/frontier.svg``, and their bytes.
    """
    from lethe.report.static_svg import on_paper

    release = read(findings, manifest)
    yield "report.html", _page([release]).encode()
    for chart in release.charts:
        yield f"figures/{chart.name}.svg", on_paper(chart.svg).encode()


def _whole(text: str) -> str:
    """A text whose numbers no line breaks: neither before a percent sign nor in ``1e-06``."""
    return re.sub(r"(?<=\de)-(?=\d)", "\u2011", re.sub(r"(?<=\d) (?=%)", "\u00a0", text))


@functools.cache
def templates() -> Environment:
    """The templates of every page, with `say`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("lethe.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["say"] = say
    made.filters["whole"] = _whole
    return made
