"""The report: one self-contained HTML page that renders a findings document, and nothing more."""

from __future__ import annotations

from lethe.report.context_fields import CONTEXT_FIELDS, NOT_PROVIDED
from lethe.report.page import render, write

__all__ = ["CONTEXT_FIELDS", "NOT_PROVIDED", "render", "write"]
