"""Rules in a TOML file: `[rules]`, a table with names and reasons, or `gate`, a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError

if TYPE_CHECKING:
    from lethe.assess.judged import Criterion


def criteria_in(table: Mapping[str, Any], where: str) -> list[Criterion]:
    """The rules among options, those of `[rules]` before those of `gate`."""
    from lethe.assess.judged import Criterion, read_criteria

    named = table.get("rules") or {}
    listed = table.get("gate") or ()
    listed = (listed,) if isinstance(listed, str) else listed
    if not isinstance(named, Mapping) or not all(isinstance(text, str) for text in listed):
        raise InputError(
            f'{where}: [rules] must be a table of rules, and gate a list such as ["auc <= 0.6"].'
        )
    found = read_criteria(named, f"{where}, [rules]")
    known = {one.text for one in found}
    return [*found, *(Criterion(text) for text in listed if text not in known)]
