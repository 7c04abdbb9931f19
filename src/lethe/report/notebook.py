"""The report in a notebook cell."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from lethe.evidence.findings import Findings
from lethe.report.catalogue import say
from lethe.report.page import read, render


class Shown:
    """A report that a notebook displays in a frame of its own, and a terminal as a line.

    Attributes:
        page: the HTML page.
        words: one line.
    """

    def __init__(self, page: str, words: str, height: int) -> None:
        self.page = page
        self.words = words
        self._height = height

    def _repr_html_(self) -> str:
        # In a frame without the notebook's origin, page and notebook cannot reach each other.
        return (
            f'<iframe sandbox="allow-scripts" style="width:100%;height:{self._height}px;border:0" '
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
