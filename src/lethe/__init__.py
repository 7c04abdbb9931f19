"""Lethe: measure what a release reveals about the people behind it, protect them, prove how far.

The public names are loaded when they are first used, so that `import lethe` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from lethe.api.language import audit_language_model
    from lethe.api.mechanisms import audit_mechanism
    from lethe.api.models import audit, audit_scores, audit_text
    from lethe.api.rows import audit_records, audit_synthetic, audit_table
    from lethe.api.vectors import audit_vectors
    from lethe.assess.compare import compare_runs
    from lethe.data.dataset import Dataset
    from lethe.data.schema import Schema
    from lethe.data.source import infer_schema
    from lethe.data.tables import load
    from lethe.errors import InputError, LetheError, MissingExtra, NotMeasurable, RunFailed
    from lethe.evidence.estimate import Estimate, Refusal
    from lethe.evidence.findings import Findings
    from lethe.evidence.guarantee import Guarantee
    from lethe.membership.planning import plan
    from lethe.mitigations.private_training import train_privately
    from lethe.queries.ask import ask
    from lethe.queries.ledger.ledger import open_ledger
    from lethe.queries.registration import register
    from lethe.training.adapters.huggingface import huggingface_recipe
    from lethe.training.adapters.lightning import lightning_recipe
    from lethe.training.models import default_recipe
    from lethe.training.recipe import CallableRecipe, SklearnRecipe, TorchRecipe

_NAMES = {
    "lethe.api.language": "audit_language_model",
    "lethe.api.mechanisms": "audit_mechanism",
    "lethe.api.models": "audit audit_scores audit_text",
    "lethe.api.rows": "audit_records audit_synthetic audit_table",
    "lethe.api.vectors": "audit_vectors",
    "lethe.assess.compare": "compare_runs",
    "lethe.data.dataset": "Dataset",
    "lethe.data.schema": "Schema",
    "lethe.data.source": "infer_schema",
    "lethe.data.tables": "load",
    "lethe.errors": "InputError LetheError MissingExtra NotMeasurable RunFailed",
    "lethe.evidence.estimate": "Estimate Refusal",
    "lethe.evidence.findings": "Findings",
    "lethe.evidence.guarantee": "Guarantee",
    "lethe.membership.planning": "plan",
    "lethe.mitigations.private_training": "train_privately",
    "lethe.queries.ask": "ask",
    "lethe.queries.ledger.ledger": "open_ledger",
    "lethe.queries.registration": "register",
    "lethe.training.adapters.huggingface": "huggingface_recipe",
    "lethe.training.adapters.lightning": "lightning_recipe",
    "lethe.training.models": "default_recipe",
    "lethe.training.recipe": "CallableRecipe SklearnRecipe TorchRecipe",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "CallableRecipe",
    "Dataset",
    "Estimate",
    "Findings",
    "Guarantee",
    "InputError",
    "LetheError",
    "MissingExtra",
    "NotMeasurable",
    "Refusal",
    "RunFailed",
    "Schema",
    "SklearnRecipe",
    "TorchRecipe",
    "ask",
    "audit",
    "audit_language_model",
    "audit_mechanism",
    "audit_records",
    "audit_scores",
    "audit_synthetic",
    "audit_table",
    "audit_text",
    "audit_vectors",
    "compare_runs",
    "default_recipe",
    "huggingface_recipe",
    "infer_schema",
    "lightning_recipe",
    "load",
    "open_ledger",
    "plan",
    "register",
    "train_privately",
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
