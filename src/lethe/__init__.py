"""Lethe: measure what a release tells about the people behind it, make it forget, prove how far.

The public names are loaded when they are first used, so that `import lethe` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from lethe.assess.compare import compare_runs
    from lethe.data.columns import read_columns
    from lethe.data.dataset import Dataset
    from lethe.data.records import Ratings, load_ratings
    from lethe.data.schema import Schema
    from lethe.data.source import infer_schema
    from lethe.data.tables import load
    from lethe.errors import InputError, LetheError, MissingExtra, NotMeasurable, RunFailed
    from lethe.evidence.accounting import dp_sgd_epsilon, noise_for
    from lethe.evidence.dp_statement import DpSgdRun, dp_statement
    from lethe.evidence.epsilon import check_claim, epsilon_bound, gdp_bound
    from lethe.evidence.estimate import Estimate, Refusal
    from lethe.evidence.findings import Findings
    from lethe.evidence.frontier import Candidate, Frontier
    from lethe.evidence.guarantee import Guarantee
    from lethe.evidence.intervals import clopper_pearson, wilson
    from lethe.evidence.roc import auc, roc, tpr_at_fpr
    from lethe.linkage.audit import audit_records, audit_synthetic, audit_table
    from lethe.linkage.settings import RecordSettings, SyntheticSettings, TableSettings
    from lethe.membership.audit import audit_model, audit_scores, open_run
    from lethe.membership.exposure import vulnerability
    from lethe.membership.one_run import load_canaries, plan_canaries
    from lethe.membership.planning import plan
    from lethe.membership.scoring import score_all, score_targets
    from lethe.membership.settings import AuditSettings
    from lethe.mitigations.clipping.plan import plan_clipping
    from lethe.mitigations.private_training import PrivateSettings, train_only, train_privately
    from lethe.mitigations.swag import Swag
    from lethe.mitigations.swag_release.records import ReleaseSettings
    from lethe.mitigations.swag_release.release import read_release, release_draw
    from lethe.queries.ask import Reply, ask
    from lethe.queries.charge import budget_of
    from lethe.queries.ledger.ledger import open_ledger
    from lethe.queries.mechanism_audit.audit import audit_mechanism
    from lethe.queries.mechanism_audit.neighbours import Pair, standard_pairs
    from lethe.queries.mechanism_audit.settings import Claim, MechanismSettings
    from lethe.queries.registration import Registered, register
    from lethe.reidentification.audit import audit_embeddings, audit_released
    from lethe.reidentification.released import Released
    from lethe.reidentification.settings import EmbeddingSettings
    from lethe.report import markdown, render, render_several, show
    from lethe.training.adapters.huggingface import huggingface_recipe
    from lethe.training.adapters.lightning import lightning_recipe
    from lethe.training.models import default_recipe
    from lethe.training.recipe import CallableRecipe, SklearnRecipe, TorchRecipe, Treatment
    from lethe.training.shadows import Shadows

_HOME = {
    "AuditSettings": "lethe.membership.settings",
    "CallableRecipe": "lethe.training.recipe",
    "Candidate": "lethe.evidence.frontier",
    "Claim": "lethe.queries.mechanism_audit.settings",
    "Dataset": "lethe.data.dataset",
    "DpSgdRun": "lethe.evidence.dp_statement",
    "EmbeddingSettings": "lethe.reidentification.settings",
    "Estimate": "lethe.evidence.estimate",
    "Findings": "lethe.evidence.findings",
    "Frontier": "lethe.evidence.frontier",
    "Guarantee": "lethe.evidence.guarantee",
    "InputError": "lethe.errors",
    "LetheError": "lethe.errors",
    "MechanismSettings": "lethe.queries.mechanism_audit.settings",
    "MissingExtra": "lethe.errors",
    "NotMeasurable": "lethe.errors",
    "Pair": "lethe.queries.mechanism_audit.neighbours",
    "PrivateSettings": "lethe.mitigations.private_training",
    "Ratings": "lethe.data.records",
    "RecordSettings": "lethe.linkage.settings",
    "Refusal": "lethe.evidence.estimate",
    "Registered": "lethe.queries.registration",
    "ReleaseSettings": "lethe.mitigations.swag_release.records",
    "Released": "lethe.reidentification.released",
    "Reply": "lethe.queries.ask",
    "RunFailed": "lethe.errors",
    "Schema": "lethe.data.schema",
    "Shadows": "lethe.training.shadows",
    "SklearnRecipe": "lethe.training.recipe",
    "Swag": "lethe.mitigations.swag",
    "SyntheticSettings": "lethe.linkage.settings",
    "TableSettings": "lethe.linkage.settings",
    "TorchRecipe": "lethe.training.recipe",
    "Treatment": "lethe.training.recipe",
    "ask": "lethe.queries.ask",
    "auc": "lethe.evidence.roc",
    "audit_embeddings": "lethe.reidentification.audit",
    "audit_mechanism": "lethe.queries.mechanism_audit.audit",
    "audit_model": "lethe.membership.audit",
    "audit_records": "lethe.linkage.audit",
    "audit_released": "lethe.reidentification.audit",
    "audit_scores": "lethe.membership.audit",
    "audit_synthetic": "lethe.linkage.audit",
    "audit_table": "lethe.linkage.audit",
    "budget_of": "lethe.queries.charge",
    "check_claim": "lethe.evidence.epsilon",
    "clopper_pearson": "lethe.evidence.intervals",
    "compare_runs": "lethe.assess.compare",
    "default_recipe": "lethe.training.models",
    "dp_sgd_epsilon": "lethe.evidence.accounting",
    "dp_statement": "lethe.evidence.dp_statement",
    "epsilon_bound": "lethe.evidence.epsilon",
    "gdp_bound": "lethe.evidence.epsilon",
    "huggingface_recipe": "lethe.training.adapters.huggingface",
    "lightning_recipe": "lethe.training.adapters.lightning",
    "infer_schema": "lethe.data.source",
    "load": "lethe.data.tables",
    "load_canaries": "lethe.membership.one_run",
    "load_ratings": "lethe.data.records",
    "markdown": "lethe.report",
    "noise_for": "lethe.evidence.accounting",
    "open_ledger": "lethe.queries.ledger.ledger",
    "open_run": "lethe.membership.audit",
    "plan": "lethe.membership.planning",
    "plan_canaries": "lethe.membership.one_run",
    "plan_clipping": "lethe.mitigations.clipping.plan",
    "read_columns": "lethe.data.columns",
    "read_release": "lethe.mitigations.swag_release.release",
    "release_draw": "lethe.mitigations.swag_release.release",
    "register": "lethe.queries.registration",
    "render": "lethe.report",
    "render_several": "lethe.report",
    "roc": "lethe.evidence.roc",
    "score_all": "lethe.membership.scoring",
    "score_targets": "lethe.membership.scoring",
    "show": "lethe.report",
    "standard_pairs": "lethe.queries.mechanism_audit.neighbours",
    "tpr_at_fpr": "lethe.evidence.roc",
    "train_only": "lethe.mitigations.private_training",
    "train_privately": "lethe.mitigations.private_training",
    "vulnerability": "lethe.membership.exposure",
    "wilson": "lethe.evidence.intervals",
}

__all__ = [
    "AuditSettings",
    "CallableRecipe",
    "Candidate",
    "Claim",
    "Dataset",
    "DpSgdRun",
    "EmbeddingSettings",
    "Estimate",
    "Findings",
    "Frontier",
    "Guarantee",
    "InputError",
    "LetheError",
    "MechanismSettings",
    "MissingExtra",
    "NotMeasurable",
    "Pair",
    "PrivateSettings",
    "Ratings",
    "RecordSettings",
    "Refusal",
    "Registered",
    "ReleaseSettings",
    "Released",
    "Reply",
    "RunFailed",
    "Schema",
    "Shadows",
    "SklearnRecipe",
    "Swag",
    "SyntheticSettings",
    "TableSettings",
    "TorchRecipe",
    "Treatment",
    "ask",
    "auc",
    "audit_embeddings",
    "audit_mechanism",
    "audit_model",
    "audit_records",
    "audit_released",
    "audit_scores",
    "audit_synthetic",
    "audit_table",
    "budget_of",
    "check_claim",
    "clopper_pearson",
    "compare_runs",
    "default_recipe",
    "dp_sgd_epsilon",
    "dp_statement",
    "epsilon_bound",
    "gdp_bound",
    "huggingface_recipe",
    "lightning_recipe",
    "infer_schema",
    "load",
    "load_canaries",
    "load_ratings",
    "markdown",
    "noise_for",
    "open_ledger",
    "open_run",
    "plan",
    "plan_canaries",
    "plan_clipping",
    "read_columns",
    "read_release",
    "release_draw",
    "register",
    "render",
    "render_several",
    "roc",
    "score_all",
    "score_targets",
    "show",
    "standard_pairs",
    "tpr_at_fpr",
    "train_only",
    "train_privately",
    "vulnerability",
    "wilson",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("lethe-privacy")
    if name not in _HOME:
        raise AttributeError(f"module 'lethe' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
