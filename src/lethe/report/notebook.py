"""What `Findings` can do in Python: show itself, draw a chart, write its documents."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError, check_choice
from lethe.evidence.findings import Findings
from lethe.files import write_whole
from lethe.report.catalogue import say
from lethe.report.first_screen import First, first_screen
from lethe.report.frame import to_frame as to_frame
from lethe.report.page import files, read, render, write
from lethe.report.terminal import wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 100
_SHADES = {"high": "#9c1c1c", "moderate": "#7a5200", "low": "#1d6433"}


@dataclass(frozen=True, repr=False)
class Shown:
    """A report that a notebook displays in a frame of its own, and a terminal as a line."""

    page: str  # HTML
    words: str  # one line
    height: int  # of the frame, in pixels

    def _repr_html_(self) -> str:
        # In a frame without the notebook's origin, page and notebook cannot reach each other.
        return (
            f'<iframe sandbox="allow-scripts" style="width:100%;height:{self.height}px;border:0" '
            f'title="{say("page.frame")}" srcdoc="{escape(self.page)}"></iframe>'
        )

    def __repr__(self) -> str:
        return self.words


def show(
    findings: Findings, manifest: Mapping[str, Any] | None = None, *, height: int = 900
) -> Shown:
    """Display findings: the last line of a notebook cell.

    Args:
        findings: what was measured.
        manifest: facts of the run, as in `lethe.report.render`.
        height: of the frame, in pixels.
    """
    first = read(findings, manifest).first
    words = f"{first.name}: {say(f'outcome.{first.outcome.code}')}. {first.headline}"
    return Shown(render(findings, manifest), words, height)


def summary(findings: Findings) -> str:
    """The first screen in lines of 100 columns, nothing of it cut off."""
    first = _first(findings)
    texts = [f"{first.kind.capitalize()}: {first.name}", first.lead + first.headline, first.verdict]
    texts += [f"{one.title}: {one.large}{one.line}" for one in first.cards[1:]]
    lines = [line for text in texts for line in wrapped(text, _COLUMNS, "  ")]
    return "\n".join([*lines, say("python.go_on")])


def card(findings: Findings) -> str:
    """The same as a piece of HTML that loads nothing and runs nothing."""
    first = _first(findings)
    rows = "".join(
        f'<tr><th style="text-align:left;vertical-align:top;padding:2px 12px 2px 0">'
        f'{escape(one.title)}</th><td style="text-align:left;padding:2px 0">'
        f"<b>{escape(one.large)}</b>{escape(one.line)}</td></tr>"
        for one in first.cards
    )
    shade = _SHADES.get(first.level, "inherit")
    return (
        '<div style="background:#fff;color:#16202a;border:1px solid #9aa4ad;border-radius:6px;'
        "padding:10px 14px;max-width:52em;"
        'font-family:sans-serif;line-height:1.45">'
        f"<div>{escape(first.kind.capitalize())}: {escape(first.name)}</div>"
        f'<div style="font-size:1.15em"><b><span style="color:{shade}">{escape(first.lead)}</span>'
        f"{escape(first.headline)}</b></div><div>{escape(first.verdict)}</div>"
        f'<table style="border-collapse:collapse;margin:8px 0">{rows}</table>'
        f"<code>{escape(say('python.go_on'))}</code></div>"
    )


def _first(findings: Findings) -> First:
    from lethe.report.common import room_of

    return first_screen(room_of(findings.to_json()), {}, None)


def figure(findings: Findings, name: str) -> Figure:
    """A chart of the page by its name, as a matplotlib figure."""
    listed = {chart.name: chart for chart in read(findings).charts}
    if not listed:
        raise InputError("this report has no chart; its numbers are in to_frame().")
    # Charts of one encoder of several are numbered; of the only one the number may be left out.
    numbered = [known for known in listed if known == f"1-{name}"]
    if numbered and not any(known.startswith("2-") for known in listed):
        name = numbered[0]
    return listed[check_choice("name", name, listed)].draw()


def write_report(findings: Findings, path: Path) -> Path:
    """Write the page, its short form or the page as printed, as the ending of `path` says."""
    from lethe.report.markdown import markdown
    from lethe.report.pdf import to_pdf

    ending = check_choice("path.suffix", path.suffix.lower(), [".html", ".md", ".pdf"])
    if ending == ".html":
        write(findings, path)
    elif ending == ".md":
        write_whole(path, markdown([(findings, None)]).encode())
    else:
        with tempfile.TemporaryDirectory() as folder:
            write(findings, Path(folder) / "report.html")
            to_pdf(Path(folder) / "report.html", path)
    return path


def save(findings: Findings, folder: Path) -> Path:
    """Write findings.json, the page and every figure into a folder that is no run's."""
    if (folder / "manifest.json").exists():
        raise InputError(
            f"{folder} is the folder of a run and holds the findings of that run. "
            "Give another folder."
        )
    write_whole(folder / "findings.json", findings.to_bytes())
    for name, drawn in files(findings):
        write_whole(folder / name, drawn)
    return folder
