"""Findings of earlier versions of the schema, brought to the present one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lethe.errors import InputError

SCHEMA = "lethe-findings/2"
Json = dict[str, Any]
_MISSING = {"refused": "the version of lethe that made this audit did not measure it."}


def migrated(document: Mapping[str, Any]) -> Json:
    """The document in the present schema; one that is in it already stays as it is.

    Args:
        document: of this version or an earlier one; it is not changed.

    Raises:
        InputError: the version is unknown.
    """
    read = dict(document)
    while (version := read.get("schema")) != SCHEMA:
        step = STEPS.get(str(version))
        if step is None:
            known = ", ".join(repr(one) for one in (*STEPS, SCHEMA))
            raise InputError(
                f"findings have schema {version!r}, this version of lethe reads {known}. "
                "Read them with the version that wrote them."
            )
        read = step(read)
    return read


def _from_1(document: Json) -> Json:
    """Version 2 says of each rule whether it was fixed before the run; in 1 there was no other.

    An audit of records measured less; what it lacks is refused with the reason.
    """
    rules = [{"fixed": True, **rule} for rule in document.get("rules", [])]
    brought = {**document, "schema": "lethe-findings/2", "rules": rules}
    table = document.get("table") or {}
    if table.get("kind") == "records":
        brought["table"] = _records_from_1(table)
        # A person had one record then.
        brought["candidates"] = [
            {"records": one["people"], "exposed": _MISSING, "exposed_where_right": None, **one}
            for one in document["candidates"]
        ]
    return brought


def _records_from_1(table: Json) -> Json:
    adversaries = [
        {"calibrated": _MISSING, "attacker": "scoreboard-rh", **one} for one in table["adversaries"]
    ]
    auxiliary = table["auxiliary"]
    if auxiliary is not None:
        auxiliary = {"attackers": [], "together": None, **auxiliary}
    told = {"false_matches": None, "worst": {}, **table}
    return {**told, "adversaries": adversaries, "auxiliary": auxiliary}


STEPS: Mapping[str, Callable[[Json], Json]] = {"lethe-findings/1": _from_1}
