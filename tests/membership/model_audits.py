"""Audits of small models, trained and measured in this process, and their valid documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lethe.data.dataset import Dataset
from lethe.evidence.findings import Findings, schema
from lethe.membership import audit
from lethe.membership.audit import audit_model, baseline_spec
from lethe.membership.settings import AuditSettings
from lethe.training.folder import RunFolder
from lethe.training.recipe import Layout

QUICK = ("lira-online", "loss-threshold")
"""Where something else than the attacks is tested: they take most of the time."""

TRAINED: list[int] = []
"""Models that were trained since the last audit began, chunk by chunk."""


def audited(
    path: Path,
    data: Dataset,
    recipe: Any,
    settings: AuditSettings,
    do: Callable[..., Any] = audit_model,
    **options: Any,
) -> Any:
    """Findings of an audit in its folder, or what else `do` makes of it."""
    TRAINED.clear()
    with RunFolder(path, baseline_spec(data, recipe, settings).hash()) as folder:
        folder.settle("layout", Layout("chain").to_json())  # not tried out in another process
        return do(data, recipe, settings, folder, workers=1, **options)


def valid(findings: Findings) -> dict[str, Any]:
    """The document, after the schema and JSON itself have been satisfied."""
    document = json.loads(findings.to_bytes(), parse_constant=lambda name: pytest.fail(name))
    jsonschema.Draft202012Validator(schema()).validate(document)
    return dict(document)


def counted_here() -> Iterator[list[int]]:
    """Chunks are trained here, not in other processes, and counted."""

    def here(jobs: Any, work: Callable[[Any], int], *_: Any, **__: Any) -> Iterator[int]:
        for job in jobs:
            TRAINED.append(work(job))
            yield TRAINED[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "train_in_processes", here)
        yield TRAINED
