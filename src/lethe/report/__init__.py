"""The report: one self-contained HTML page that renders findings, and nothing more."""

from __future__ import annotations

from lethe.report.context_fields import CONTEXT_FIELDS, NOT_PROVIDED
from lethe.report.page import render, render_several, write

__all__ = ["CONTEXT_FIELDS", "NOT_PROVIDED", "render", "render_several", "write"]
