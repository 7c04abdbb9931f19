"""The commented form `context.toml`, made from the fields that the report prints."""

from __future__ import annotations

from lethe.report.catalogue import catalogue, say
from lethe.report.context_fields import CONTEXT_FIELDS, NOT_PROVIDED


def form() -> str:
    """TOML with every field empty, its label, and what to write where that does not say it.

    >>> form().splitlines()[1]
    '# A field that stays empty is printed as "not provided".'
    """
    hints = catalogue()["hints"]
    lines = [f"# {say('form.head')}", f"# {say('form.empty', absent=NOT_PROVIDED)}"]
    for group, keys in CONTEXT_FIELDS.items():
        lines += ["", f"# --- {say(f'group.{group}')} ---"]
        for key in keys:
            hint = f" ({hints[key]})" if key in hints else ""
            lines += [f"# {say(f'field.{key}')}{hint}", f'{key} = ""']
    return "\n".join(lines) + "\n"
