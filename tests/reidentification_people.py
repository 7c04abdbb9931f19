"""A small population whose vectors tell who they are, and a task that they serve."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from lethe.reidentification.audit import audit_released
from lethe.reidentification.family import ATTACKERS
from lethe.reidentification.released import Released
from lethe.reidentification.settings import EmbeddingSettings

QUICK = {
    "sigmas": (0.5, 1.0, 2.0),
    "surface": (1.0, 2.0),
    "averaged": (1, 4),
    "draws": 4,
    "plays": 400,
    "refine": 2,
    "radius_points": 120,
    "radius_sigmas": (0.5, 1.0),
    "common": (10,),
}


FEW = ("cosine", "l2", "nearest row", "all vectors", "nearest row, all vectors")
SINGLE = tuple(attacker.name for attacker in ATTACKERS if attacker.vectors == 1)


@contextmanager
def few_attackers(names: tuple[str, ...] = FEW) -> Iterator[None]:
    """Only some attackers run, by default those who learn nothing: for tests of all else."""
    few = tuple(attacker for attacker in ATTACKERS if attacker.name in names)
    with pytest.MonkeyPatch.context() as patch:
        for room in ("family", "section", "sweep"):
            patch.setattr(f"lethe.reidentification.{room}.ATTACKERS", few)
        yield


def quick(**changed: Any) -> EmbeddingSettings:
    """Settings of an audit that takes a second."""
    return EmbeddingSettings(**{**QUICK, **changed})


def audit_embeddings(
    representations: Any,
    user_ids: Any,
    labels: Any = None,
    head: Any = None,
    *,
    features: Any = None,
    period: Any = None,
    name: str = "representations",
    settings: EmbeddingSettings | None = None,
) -> Any:
    """The findings of one model."""
    model = Released(name, representations, user_ids, labels, head, period, features)
    return audit_released([model], settings)


def population(
    users: int = 40, dimensions: int = 6, spread: float = 0.6, seed: int = 0, task: float = 1.0
) -> dict[str, Any]:
    """Rows about each person's own centre; `task` scales the coordinate that the head reads."""
    rng = np.random.default_rng([seed, 71])
    rows = rng.integers(4, 12, users)
    owner = np.repeat(np.arange(users), rows)
    vectors = spread * rng.standard_normal((users, dimensions))[owner]
    vectors += 0.4 * rng.standard_normal((len(owner), dimensions))
    vectors[:, 0] = task * rng.standard_normal(len(owner))
    logits = vectors[:, 0]
    labels = (logits + 0.5 * task * rng.standard_normal(len(owner)) > 0).astype(int)
    weight = np.zeros(dimensions)
    weight[0] = 1.0
    return {
        "representations": vectors,
        "user_ids": np.char.add("reader-", (900_000 + owner).astype(str)),
        "labels": labels,
        "head": (weight, 0.0),
    }
