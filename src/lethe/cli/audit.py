"""`lethe audit`: measure a release; what each kind of audit takes is imported when it is called."""

from __future__ import annotations

from cyclopts import App

audit = App(name="audit", help="Measure what a release reveals about the people behind it.")
for _where, _name, _does in (
    ("audit_model:model", "model", "A trained model: who was in its training?"),
    ("audit_model:scores", "scores", "Scores that you computed, of models trained elsewhere."),
    ("audit_model:text", "text", "An autocoder: a model that gives codes to free text."),
    ("audit_embeddings:embeddings", "embeddings", "Vectors of people: whose is this one?"),
    ("audit_rows:table", "table", "Rows, one a person: who stands out?"),
    ("audit_rows:records", "records", "Facts about people: how few name a person?"),
    ("audit_rows:synthetic", "synthetic", "Synthetic rows: do they reveal their originals?"),
    ("audit_mechanism:mechanism", "mechanism", "Noise of your own: does it keep its epsilon?"),
):
    audit.command(f"lethe.cli.{_where}", name=_name, help=_does)
