"""What only people know: the fields of the document that come from `context.toml`.

A field that nobody filled in is printed as "not provided", never left out.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lethe.report.catalogue import catalogue, say
from lethe.report.numbers import facts, plain

# The commented form `context.toml`, made from the fields that the report prints.


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


NOT_PROVIDED = say("fields.absent")

# Group -> keys of context.toml, in the order of the form; labels and hints are in the catalogue.
CONTEXT_FIELDS: Mapping[str, Sequence[str]] = {
    "report": (
        "report_id",
        "report_date",
        "report_version",
        "tool_version",
        "author",
        "reviewer",
        "signature",
    ),
    "system": (
        "system_name",
        "system_version",
        "file_hash",
        "model_type",
        "architecture",
        "parameters",
        "training_records",
        "training_people",
    ),
    "purpose": ("purpose", "users", "out_of_scope", "release", "access", "rate_limits"),
    "training": (
        "data_source",
        "data_period",
        "people_categories",
        "special_categories",
        "sampling",
        "duplicates",
        "records_per_person",
        "cleaning",
    ),
    "roles": ("dpia", "dpo_advice", "controller", "processor"),
    "threat": (
        "goals",
        "knowledge",
        "access_of_attacker",
        "query_budget",
        "compute_budget",
        "reasonably_likely",
    ),
    "decision": ("decision_rule", "residual_risk", "accepted_by", "valid_until"),
    "audit": ("audit_personal_data", "audit_access", "retention", "redaction"),
}

_RUN_FACTS = ("created", "finished", "wall_seconds", "command", "machine", "versions")


@dataclass(frozen=True)
class Group:
    """One block of context fields: rows of label and text, which is empty where nobody gave one."""

    key: str
    rows: list[tuple[str, str]]

    @property
    def title(self) -> str:
        """Its heading."""
        return say(f"group.{self.key}")


def groups(document: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[Group]:
    """All context fields in order, then whatever else the context holds.

    Args:
        document: the findings.
        manifest: facts of the run; may be empty.
    """
    given = _known(document, manifest)
    for name, item in _flat(document["context"]):
        if text := plain(item):  # an empty line of the form takes nothing away
            given[name] = text
    blocks = []
    for group, keys in CONTEXT_FIELDS.items():
        blocks.append(Group(group, [(say(f"field.{key}"), given.pop(key, "")) for key in keys]))
    rest = [(name.replace("_", " "), text) for name, text in given.items() if text]
    return [*blocks, Group("further", rest)] if rest else blocks


def given(context: Mapping[str, Any], field: str) -> str:
    """A field, such as the residual risk, in the words of people; empty if they gave none."""
    return {name: plain(item) for name, item in _flat(context)}.get(field, "")


def run_facts(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Time, machine and command of the run: these come from the manifest alone."""
    runs = [run for run in manifest.get("runs") or () if isinstance(run, Mapping)]
    last = {**manifest, **(runs[-1] if runs else {})}
    if "wall_seconds" not in last:
        with contextlib.suppress(TypeError, ValueError):  # a time is missing
            ends: Sequence[Any] = (last.get("started"), last.get("finished"))
            started, finished = map(datetime.fromisoformat, ends)
            last["wall_seconds"] = (finished - started).total_seconds()
    if isinstance(last.get("command"), (list, tuple)):
        last["command"] = " ".join(map(str, last["command"]))
    rest = {name: item for name, item in manifest.items() if name not in (*_RUN_FACTS, "runs")}
    known = [(say(f"run.{key}"), plain(last.get(key))) for key in _RUN_FACTS]
    return [*known, *facts(rest)]


def _known(document: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, str]:
    """What the audit itself knows; a person's word goes before it."""
    versions = document["reproduction"].get("versions")
    tool = versions.get("lethe-privacy") if isinstance(versions, Mapping) else None
    records = document["data"].get("pool", document["data"].get("records"))
    runs = manifest.get("runs") or [manifest]
    known = {
        "report_date": runs[-1].get("finished", manifest.get("created")),
        "tool_version": None if tool is None else say("page.version", version=tool),
        "parameters": document["subject"].get("parameters"),
        "training_records": records,
        "training_people": document["data"].get("pool_people", document["data"].get("people")),
        "data_source": document["data"].get("source"),
        "system_name": document["subject"]["name"],
        "goals": document["threat_model"]["goal"],
        "knowledge": document["threat_model"]["knowledge"],
        "access_of_attacker": document["threat_model"]["access"],
        "compute_budget": document["threat_model"]["budget"],
        "decision_rule": "; ".join(
            say(
                f"known.fixed.{'before' if rule.get('fixed', True) else 'after'}", rule=rule["rule"]
            )
            for rule in document["rules"]
        ),
    }
    # The personal data that the audit used and keeps.
    count, kept = len(document["records"]["exposed"]), document["records"]["kept"]
    known["redaction"] = say("known.listed" if kept else "known.none_listed", n=count)
    if not document.get("queries"):
        known["audit_personal_data"] = say("known.personal_data")
        known["retention"] = say("known.retention")
    return {key: plain(item) for key, item in known.items()}


def _flat(context: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Keys of a nested context, each by its last name, in one spelling."""
    rows: list[tuple[str, Any]] = []
    for name, item in context.items():
        if isinstance(item, Mapping):
            rows += _flat(item)
        else:
            rows.append((re.sub(r"\W+", "_", str(name).strip().lower()).strip("_"), item))
    return rows


def source(reproduction: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[str]:
    """Date, version and run of an audit; parts that are not known are left out."""
    runs = manifest.get("runs") or [manifest]
    date = str(runs[-1].get("finished") or manifest.get("created") or "")[:10]
    versions = reproduction.get("versions") or {}
    version = manifest.get("versions", {}).get("lethe-privacy") or versions.get("lethe-privacy")
    run = run_id(manifest)
    parts = date, version and say("page.version", version=version), run and say("page.run", run=run)
    return [part for part in parts if part]


def run_id(manifest: Mapping[str, Any]) -> str:
    """The id of a run, or else of the audit; empty where neither is known."""
    last = (manifest.get("runs") or [{}])[-1]
    return str(last.get("id") or manifest.get("audit") or "")[:8]
