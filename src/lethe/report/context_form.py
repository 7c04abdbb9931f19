"""The commented form `context.toml`, made from the fields that the report prints."""

from __future__ import annotations

from lethe.report.context_fields import CONTEXT_FIELDS

# What to write, where the label alone does not say it.
_HELP = {
    "report_id": "your own number, such as AUDIT-2026-014",
    "report_date": "left empty: the day on which the run finished",
    "reviewer": "a person who did not run the audit",
    "signature": "name and place; the printed page leaves room for the pen",
    "file_hash": "sha256sum of exactly the file that leaves the house",
    "parameters": "a whole number, without separators: the ratio is computed from it",
    "training_records": "left empty: as in the audit",
    "training_people": "people, not records",
    "ratio": "left empty: computed",
    "out_of_scope": "what it must not be used for",
    "release": "weights, an interface with labels or scores, a file, a query service",
    "access": "who can get at it",
    "rate_limits": "queries a day and person, if any",
    "special_categories": "health, origin, belief, ... (GDPR Art. 9), or none",
    "records_per_person": "one, or how many at most",
    "dpia": "reference of the impact assessment (GDPR Art. 35)",
    "dpo_advice": "what the data-protection officer advised, and when",
    "reasonably_likely": "why an attacker would, or would not, go to these lengths here",
    "decision_rule": "the rule, who fixed it, on which day before the run",
    "residual_risk": "what is left, in words a person in the data would understand",
    "accepted_by": "who takes responsibility",
    "valid_until": "a date, and what ends it sooner: retraining, another release, a new attack",
    "audit_access": "who saw the audit's own files",
    "retention": "when shadow models, scores and records.parquet are deleted",
    "redaction": "what was left out of this report, and why",
}


def form() -> str:
    """TOML with every field empty, its label, and what to write.

    >>> form().splitlines()[1]
    '# A field that stays empty is printed as "not provided".'
    """
    lines = [
        "# What only people can say about this release; the text goes between the quotation marks.",
        '# A field that stays empty is printed as "not provided".',
    ]
    for title, fields in CONTEXT_FIELDS.items():
        lines += ["", f"# --- {title} ---"]
        for key, label in fields.items():
            told = f" ({_HELP[key]})" if key in _HELP else ""
            lines += [f"# {label}{told}", f'{key} = ""']
    return "\n".join(lines) + "\n"
