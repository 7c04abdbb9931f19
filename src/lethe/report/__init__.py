"""The report: one self-contained HTML page that renders findings, and nothing more."""

from __future__ import annotations

from lethe.report.context_fields import CONTEXT_FIELDS, NOT_PROVIDED
from lethe.report.markdown import markdown
from lethe.report.notebook import show
from lethe.report.page import render, render_several, write
from lethe.report.pdf import to_pdf

__all__ = [
    "CONTEXT_FIELDS",
    "NOT_PROVIDED",
    "markdown",
    "render",
    "render_several",
    "show",
    "to_pdf",
    "write",
]
