"""Lethe: measure what a release tells about the people behind it, make it forget, prove how far.

The public names are loaded when they are first used, so that `import lethe` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lethe.errors import InputError, LetheError, MissingExtra, NotMeasurable, RunFailed
    from lethe.evidence.accounting import dp_sgd_epsilon
    from lethe.evidence.calibration import noise_for
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
    from lethe.loaders import Dataset, load
    from lethe.loaders.ratings import Ratings, load_ratings
    from lethe.membership.audit import audit_model, audit_scores, open_run
    from lethe.membership.one_run import load_canaries, plan_canaries
    from lethe.membership.planning import plan
    from lethe.membership.scoring import score_all, score_targets
    from lethe.membership.settings import AuditSettings
    from lethe.membership.vulnerability import vulnerability
    from lethe.mitigations.clipping.plan import plan_clipping
    from lethe.mitigations.private_settings import PrivateSettings
    from lethe.mitigations.private_training import train_only, train_privately
    from lethe.mitigations.swag import Swag
    from lethe.mitigations.swag_release.release import read_release, release_draw
    from lethe.mitigations.swag_release.settings import ReleaseSettings
    from lethe.queries.ask import ask
    from lethe.reidentification.audit import audit_embeddings, audit_released
    from lethe.reidentification.released import Released
    from lethe.reidentification.settings import EmbeddingSettings
    from lethe.report import render
    from lethe.training.adapters.huggingface import huggingface_recipe
    from lethe.training.adapters.lightning import lightning_recipe
    from lethe.training.models import default_recipe
    from lethe.training.recipe import CallableRecipe, SklearnRecipe, TorchRecipe, Treatment
    from lethe.training.shadows import Shadows

_HOME = {
    "AuditSettings": "lethe.membership.settings",
    "CallableRecipe": "lethe.training.recipe",
    "Candidate": "lethe.evidence.frontier",
    "Dataset": "lethe.loaders",
    "DpSgdRun": "lethe.evidence.dp_statement",
    "EmbeddingSettings": "lethe.reidentification.settings",
    "Estimate": "lethe.evidence.estimate",
    "Findings": "lethe.evidence.findings",
    "Frontier": "lethe.evidence.frontier",
    "Guarantee": "lethe.evidence.guarantee",
    "InputError": "lethe.errors",
    "LetheError": "lethe.errors",
    "MissingExtra": "lethe.errors",
    "NotMeasurable": "lethe.errors",
    "PrivateSettings": "lethe.mitigations.private_settings",
    "Ratings": "lethe.loaders.ratings",
    "RecordSettings": "lethe.linkage.settings",
    "Refusal": "lethe.evidence.estimate",
    "ReleaseSettings": "lethe.mitigations.swag_release.settings",
    "Released": "lethe.reidentification.released",
    "RunFailed": "lethe.errors",
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
    "audit_model": "lethe.membership.audit",
    "audit_released": "lethe.reidentification.audit",
    "audit_records": "lethe.linkage.audit",
    "audit_scores": "lethe.membership.audit",
    "audit_synthetic": "lethe.linkage.audit",
    "audit_table": "lethe.linkage.audit",
    "check_claim": "lethe.evidence.epsilon",
    "clopper_pearson": "lethe.evidence.intervals",
    "default_recipe": "lethe.training.models",
    "dp_sgd_epsilon": "lethe.evidence.accounting",
    "dp_statement": "lethe.evidence.dp_statement",
    "epsilon_bound": "lethe.evidence.epsilon",
    "gdp_bound": "lethe.evidence.epsilon",
    "huggingface_recipe": "lethe.training.adapters.huggingface",
    "lightning_recipe": "lethe.training.adapters.lightning",
    "load": "lethe.loaders",
    "load_canaries": "lethe.membership.one_run",
    "load_ratings": "lethe.loaders.ratings",
    "noise_for": "lethe.evidence.calibration",
    "open_run": "lethe.membership.audit",
    "plan": "lethe.membership.planning",
    "plan_canaries": "lethe.membership.one_run",
    "plan_clipping": "lethe.mitigations.clipping.plan",
    "read_release": "lethe.mitigations.swag_release.release",
    "release_draw": "lethe.mitigations.swag_release.release",
    "render": "lethe.report",
    "roc": "lethe.evidence.roc",
    "score_all": "lethe.membership.scoring",
    "score_targets": "lethe.membership.scoring",
    "tpr_at_fpr": "lethe.evidence.roc",
    "train_only": "lethe.mitigations.private_training",
    "train_privately": "lethe.mitigations.private_training",
    "vulnerability": "lethe.membership.vulnerability",
    "wilson": "lethe.evidence.intervals",
}

__all__ = [
    "AuditSettings",
    "CallableRecipe",
    "Candidate",
    "Dataset",
    "DpSgdRun",
    "EmbeddingSettings",
    "Estimate",
    "Findings",
    "Frontier",
    "Guarantee",
    "InputError",
    "LetheError",
    "MissingExtra",
    "NotMeasurable",
    "PrivateSettings",
    "Ratings",
    "RecordSettings",
    "Refusal",
    "ReleaseSettings",
    "Released",
    "RunFailed",
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
    "audit_model",
    "audit_released",
    "audit_records",
    "audit_scores",
    "audit_synthetic",
    "audit_table",
    "check_claim",
    "clopper_pearson",
    "default_recipe",
    "dp_sgd_epsilon",
    "dp_statement",
    "epsilon_bound",
    "gdp_bound",
    "huggingface_recipe",
    "lightning_recipe",
    "load",
    "load_canaries",
    "load_ratings",
    "noise_for",
    "open_run",
    "plan",
    "plan_canaries",
    "plan_clipping",
    "read_release",
    "release_draw",
    "render",
    "roc",
    "score_all",
    "score_targets",
    "tpr_at_fpr",
    "train_only",
    "train_privately",
    "vulnerability",
    "wilson",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lethe' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
