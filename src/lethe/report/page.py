"""One findings document in, one self-contained HTML page out.

The page loads nothing from anywhere, works with scripts switched off, and is the same bytes
for the same input; whatever has a time, host or path comes from the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError
from lethe.evidence.findings import Findings
from lethe.files import write_whole

if TYPE_CHECKING:
    from jinja2 import Environment

CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)


def render(findings: Findings, manifest: Mapping[str, Any] | None = None) -> str:
    """The report as one HTML page.

    Args:
        findings: what was measured; the page adds no judgement of its own.
        manifest: facts of the run (created, finished, machine, versions, command,
            wall_seconds); printed as "not provided" where absent.

    Returns:
        HTML that needs no other file and makes no request.
    """
    return render_several([(findings, manifest)])


def render_several(
    runs: Sequence[tuple[Findings, Mapping[str, Any] | None]], title: str | None = None
) -> str:
    """The report on all releases of one system as one HTML page.

    Args:
        runs: findings and manifest of each, as in `render`, in the order of the page.
        title: of the system; the name of the first release without one.

    Returns:
        As `render`; with several runs there is one verdict on all of them first.

    Raises:
        InputError: no run.
    """
    from lethe.report.several import apart, glance, joint, title_of
    from lethe.report.words import RELEASES

    if not runs:
        raise InputError("a report needs at least one run.")
    documents = [findings.to_json() for findings, _ in runs]
    several = len(documents) > 1
    environment = _environment()
    parts = []
    for at, (document, (_, manifest)) in enumerate(zip(documents, runs, strict=True), start=1):
        part = _part(environment, document, manifest or {}, several)
        if several:
            part = {
                name: apart(piece, f"r{at}-", f"{at}, {title_of(document)}")
                for name, piece in part.items()
            }
        parts.append(
            {
                "id": f"r{at}",
                "title": title_of(document),
                "summary": document["subject"]["summary"],
                **part,
            }
        )
    subject = documents[0]["subject"]
    page = environment.get_template("page.html.j2").render(
        several=several,
        parts=parts,
        glance=glance(documents) if several else [],
        outcome=joint(documents),
        title=title or subject["name"],
        summary="" if several else subject["summary"],
        release=f"{len(runs)} releases"
        if several
        else RELEASES.get(subject["release"], subject["release"]),
        content_policy=CONTENT_POLICY,
    )
    # Templates leave empty lines where a block prints nothing.
    return "\n".join(line for line in page.splitlines() if line.strip()) + "\n"


def _part(
    environment: Environment,
    document: Mapping[str, Any],
    manifest: Mapping[str, Any],
    several: bool,
) -> dict[str, str]:
    """The sections of one run, and the links to them."""
    from lethe.report.view import build

    shown = {**build(document, manifest), **_figures(document), "several": several}
    return {
        name: environment.get_template(f"{template}.html.j2").render(**shown)
        for name, template in (("body", "part"), ("links", "links"))
    }


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


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("lethe.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _figures(document: Mapping[str, Any]) -> dict[str, Any]:
    """All SVG of the page. It is escaped where it is drawn, hence safe to print as it is."""
    from lethe.report import figures, frontier_chart
    from lethe.report.view import before_and_after, panels
    from lethe.report.words import risk_fpr

    baseline, chosen = before_and_after(document)
    shown = panels(document)
    fpr = next(filter(None, map(risk_fpr, document["candidates"])), None)
    if document.get("representations"):
        fpr = 1.0  # risk is a lift: chance is 1
    by_class = baseline if baseline is not None else chosen
    return {
        "frontier_wide": frontier_chart.draw(document, fpr, 960, 480),
        "frontier_narrow": frontier_chart.draw(document, fpr, 360, 430),
        "roc_panels": figures.roc_panels(baseline, shown),
        "t_panels": figures.t_panels(baseline, shown),
        "panels_left_out": max(len(document["candidates"]) - 1 - len(shown), 0),
        "class_plot": ""
        if by_class is None
        else figures.class_plot(by_class, None if chosen is by_class else chosen),
        "classes_left_out": 0 if by_class is None else figures.classes_left_out(by_class),
    }
