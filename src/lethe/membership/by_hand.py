"""The chunks of a run that has begun, for those who train them one by one with a scheduler."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lethe.data.dataset import Dataset
from lethe.errors import InputError, check_choice
from lethe.membership.audit import (
    Silent,
    Trainer,
    baseline_spec,
    read_exposure,
    settled_public_weights,
    targeted_weights,
)
from lethe.membership.candidates import build_candidates
from lethe.membership.onion import removal, to_remove
from lethe.membership.settings import AuditSettings
from lethe.mitigations.mitigation import BASELINE, Mitigation
from lethe.training.chunks import ChunkJob
from lethe.training.engines import settled_layout
from lethe.training.folder import SettledRun
from lethe.training.recipe import Recipe
from lethe.training.shadows import Shadows


def chunks_of(
    run: SettledRun,
    data: Dataset,
    recipe: Recipe,
    settings: AuditSettings,
    candidate: str = "baseline",
) -> list[ChunkJob]:
    """All chunks of one candidate, finished or not, exactly as the audit itself would train them.

    Args:
        run: the folder; its audit has settled widths and, for some mitigations, weights.
        data: the same records as the audit's.
        candidate: name of the baseline or of a mitigation.

    Raises InputError: something differs from the audit, no such candidate, or the candidate rests
        on a baseline that is not complete.
    """
    spec = baseline_spec(data, recipe, settings)
    run.check(spec.hash())
    public = functools.partial(settled_public_weights, run, spec, settings)
    offered, _ = build_candidates(settings, recipe, (), public)
    built = {mitigation.name: mitigation for mitigation in offered}
    rounds = [f"onion-{number}" for number in range(1, settings.onion + 1)]
    check_choice("candidate", candidate, [*built, *rounds])
    mitigation = built.get(candidate)
    weights = np.ones(len(spec.labels), np.float32)
    train = Trainer(spec, settings, run, Silent(), 1, data.ids)
    models = run.manifest.get("weights_from_models")
    if mitigation is None or mitigation.needs_weights:
        path = run.path / "exposure.safetensors"
        t = models and read_exposure(path, spec.hash(), int(models), int(spec.pool.sum()))
        if t is None:
            raise InputError(
                f"candidate {candidate!r} trains with weights that come from the baseline, which "
                f"is not complete in {run.path}. Train the baseline's chunks, run the audit's "
                "command again, then come back."
            )
        weights = targeted_weights(t, spec, settings)
    if mitigation is None:
        mitigation, weights = _round(train, rounds.index(candidate) + 1, int(models or 0))
    layout = settled_layout(run, spec, workers=1)
    jobs = train.jobs(mitigation, weights, settings.models, train.width())
    return [replace(job, layout=layout) for job in jobs]


def _round(train: Trainer, number: int, chosen_on: int) -> tuple[Mitigation, NDArray[np.float32]]:
    """What a round of the onion trains with, from the rounds before it, which must be complete."""

    def there(mitigation: Mitigation, weights: NDArray[np.float32]) -> Shadows:
        jobs = train.jobs(mitigation, weights, train.settings.models, train.width())
        return Shadows.from_shards(jobs, train.ids)

    everyone = np.ones(len(train.spec.labels), np.float32)
    before, gone = there(BASELINE, everyone), np.zeros(0, np.intp)
    for round_number in range(1, number + 1):
        gone = to_remove(before.first(chosen_on), gone=gone)
        mitigation, weights = removal(round_number, gone, train.spec.pool)
        if round_number < number:
            before = there(mitigation, weights)
    return mitigation, weights
