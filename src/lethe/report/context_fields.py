"""What only people know: the fields of the document that come from `context.toml`.

A field that nobody filled in is printed as "not provided", never left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lethe.report.numbers import facts, plain

NOT_PROVIDED = "not provided"

# Group title -> keys of context.toml and the label each is printed under.
CONTEXT_FIELDS: dict[str, dict[str, str]] = {
    "Report": {
        "report_id": "Report id",
        "report_date": "Date",
        "report_version": "Version of the report",
        "tool_version": "Version of the tool",
        "author": "Author",
        "reviewer": "Reviewer",
        "signature": "Signature",
    },
    "System and model": {
        "system_name": "System",
        "system_version": "Version",
        "file_hash": "Hash of the released file",
        "model_type": "Type",
        "architecture": "Architecture",
        "parameters": "Number of parameters",
        "training_records": "Training records",
        "training_people": "People in the training data",
        "ratio": "Parameters per training record",
    },
    "Purpose and release": {
        "purpose": "Purpose",
        "users": "Users",
        "out_of_scope": "Out-of-scope use",
        "release": "Form of release",
        "access": "Who has access",
        "rate_limits": "Rate limits",
    },
    "Training data": {
        "data_source": "Source",
        "data_period": "Period",
        "people_categories": "Categories of people",
        "special_categories": "Special categories",
        "sampling": "Sampling",
        "duplicates": "Duplicates",
        "records_per_person": "Records per person",
        "cleaning": "Cleaning",
    },
    "Data protection roles": {
        "dpia": "DPIA reference",
        "dpo_advice": "Advice of the data-protection officer",
        "controller": "Controller",
        "processor": "Processor",
    },
    "Threat model": {
        "goals": "Goals of an attacker",
        "knowledge": "Knowledge",
        "access_of_attacker": "Access of the attacker",
        "query_budget": "Budget of queries",
        "compute_budget": "Shadow models, draws and compute",
        "reasonably_likely": "Why these means are reasonably likely",
    },
    "Decision": {
        "decision_rule": "Decision rule and when it was fixed",
        "residual_risk": "Residual risk in plain words",
        "accepted_by": "Who accepts the residual risk",
        "valid_until": "Valid until",
    },
    "Data protection of this audit": {
        "audit_personal_data": "Personal data used",
        "audit_access": "Who saw it",
        "retention": "Retention and deletion of shadow models and per-record scores",
        "redaction": "Redaction applied",
    },
}

# Other spellings that people use for a key.
_ALIASES = {
    "id": "report_id",
    "date": "report_date",
    "version": "report_version",
    "name": "system_name",
    "system": "system_name",
    "model": "system_name",
    "model_hash": "file_hash",
    "parameter_count": "parameters",
    "people": "training_people",
    "intended_use": "purpose",
    "dpia_reference": "dpia",
    "dpo": "dpo_advice",
    "source": "data_source",
    "period": "data_period",
    "accepts_residual_risk": "accepted_by",
}


@dataclass(frozen=True)
class Group:
    """One block of context fields: rows of label, text, and whether someone filled it in."""

    title: str
    rows: list[tuple[str, str, bool]]


def groups(document: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[Group]:
    """All context fields in order, then whatever else the context holds.

    Args:
        document: the findings.
        manifest: facts of the run; may be empty.
    """
    given = _known(document, manifest)
    for name, item in _flat(document["context"]):
        if text := plain(item):  # an empty line of the form takes nothing away
            given[_ALIASES.get(name, name)] = text
    if not given.get("ratio"):
        given["ratio"] = _ratio(given)
    blocks = []
    for title, fields in CONTEXT_FIELDS.items():
        rows = []
        for key, label in fields.items():
            text = given.pop(key, "")
            rows.append((label, text or NOT_PROVIDED, bool(text)))
        blocks.append(Group(title, rows))
    rest = [(name.replace("_", " "), text, True) for name, text in given.items() if text]
    return [*blocks, Group("Further context", rest)] if rest else blocks


def given_risk(document: Mapping[str, Any]) -> str:
    """The residual risk in the words of people; empty if they gave none."""
    named = {_ALIASES.get(name, name): plain(item) for name, item in _flat(document["context"])}
    return named.get("residual_risk", "")


def run_facts(manifest: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Time, machine and command of the run: these come from the manifest alone."""
    labels = {
        "created": "Started",
        "finished": "Finished",
        "wall_seconds": "Wall time in seconds",
        "command": "Command",
        "machine": "Machine",
        "versions": "Versions",
    }
    runs = [run for run in manifest.get("runs") or () if isinstance(run, Mapping)]
    last = {**manifest, **(runs[-1] if runs else {})}
    if "wall_seconds" not in last:
        last["wall_seconds"] = _seconds(last.get("started"), last.get("finished"))
    rows = []
    for key, label in labels.items():
        item = last.get(key)
        if key == "command" and isinstance(item, (list, tuple)):
            item = " ".join(map(str, item))
        text = plain(item)
        rows.append((label, text or NOT_PROVIDED, bool(text)))
    rest = {name: item for name, item in manifest.items() if name not in (*labels, "runs")}
    return rows + [(label, text or NOT_PROVIDED, bool(text)) for label, text in facts(rest)]


def _finished(manifest: Mapping[str, Any]) -> Any:
    runs = manifest.get("runs") or [manifest]
    return runs[-1].get("finished", manifest.get("created"))


def _seconds(started: Any, finished: Any) -> float | None:
    """Between two times of ISO 8601; None where one is missing."""
    try:
        passed = datetime.fromisoformat(finished) - datetime.fromisoformat(started)
    except (TypeError, ValueError):
        return None
    return passed.total_seconds()


def _known(document: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, str]:
    """What the audit itself knows; a person's word goes before it."""
    versions = document["reproduction"].get("versions")
    tool = versions.get("lethe") if isinstance(versions, Mapping) else None
    records = document["data"].get("pool", document["data"].get("records"))
    known = {
        "report_date": _finished(manifest),
        "tool_version": None if tool is None else f"lethe {tool}",
        "parameters": document["subject"].get("parameters"),
        "training_records": records,
        "training_people": document["data"].get("pool_people", document["data"].get("people")),
        "data_source": document["data"].get("source"),
        "system_name": document["subject"]["name"],
        "goals": document["threat_model"]["goal"],
        "knowledge": document["threat_model"]["knowledge"],
        "access_of_attacker": document["threat_model"]["access"],
        "compute_budget": document["threat_model"]["budget"],
        "decision_rule": "; ".join(map(_when_fixed, document["rules"])),
        **_of_this_audit(document),
    }
    return {key: plain(item) for key, item in known.items()}


def _when_fixed(rule: Mapping[str, Any]) -> str:
    when = "before" if rule.get("fixed", True) else "after"
    return f"{rule['rule']}, fixed {when} the run began"


def _of_this_audit(document: Mapping[str, Any]) -> dict[str, str]:
    """What the tool itself knows about the personal data that the audit used and keeps."""
    count, kept = len(document["records"]["exposed"]), document["records"]["kept"]
    told = {
        "redaction": f"{count} most exposed listed, by rank instead of by name (at most 100)"
        if kept
        else "no record or person is listed",
    }
    if not document.get("queries"):
        told["audit_personal_data"] = "the records under “Data”, and scores by record made of them"
        told["retention"] = (
            "the tool deletes nothing by itself: scores by record stay in the run's folder until "
            "a person deletes it"
        )
    return told


def _flat(context: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Keys of a nested context, each by its last name, in one spelling."""
    rows: list[tuple[str, Any]] = []
    for name, item in context.items():
        if isinstance(item, Mapping):
            rows += _flat(item)
        else:
            rows.append((re.sub(r"\W+", "_", str(name).strip().lower()).strip("_"), item))
    return rows


def _ratio(given: Mapping[str, str]) -> str:
    """Parameters per training record, and per person where that is another number."""
    shares = [_share(given, key) for key in ("training_records", "training_people")]
    records, people = shares
    return f"{records}; {people} per person" if records and people not in ("", records) else records


def _share(given: Mapping[str, str], key: str) -> str:
    try:
        parameters, count = (
            float(given.get(name, "").replace(",", "")) for name in ("parameters", key)
        )
        return f"{parameters / count:.3g}"
    except (ValueError, ZeroDivisionError):
        return ""
