"""Recipes for autocoders: a small head on a frozen sentence encoder, or the whole encoder."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.text import from_folder
from lethe.errors import check_at_least, require
from lethe.training.adapters.huggingface import huggingface_recipe
from lethe.training.models import mlp
from lethe.training.recipe import CallableRecipe, TorchRecipe
from lethe.training.users_code import build_module

EPOCHS, BATCH, RATE = 3, 16, 5e-5


def head_recipe(records: int, width: int, classes: int) -> TorchRecipe:
    """Multinomial logistic regression on the vectors of a frozen encoder, trained with Adam.

    On injury narratives (6,144 texts, 2,458 a model, 384 numbers each) it reached the weighted
    and macro F1 of networks with a hidden layer, at a third of their time.

    Args:
        records: number of records; half of them train a model.
        width: numbers a text, each about 1 in size.
    """
    require("torch", "train")
    steps = max(1, records // 2 // 64)
    return TorchRecipe(
        functools.partial(mlp, width, (), classes),
        epochs=min(60, max(15, 1500 // steps)),
        batch_size=64,
        learning_rate=3e-3,
        optimizer="adam",
    )


@dataclass(frozen=True)
class FreshClassifier:
    """Makes the encoder of a folder with a new classification head on top."""

    folder: Path  # config.json and model.safetensors
    classes: int  # number of codes

    def __call__(self) -> Any:
        """A model that maps token numbers to ``logits`` (n, classes)."""
        kind = "AutoModelForSequenceClassification"
        model = from_folder(kind, self.folder, num_labels=self.classes)
        model.register_forward_pre_hook(_trim, with_kwargs=True)
        return model


def _trim(module: Any, args: Any, inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Leave out columns that are padding in every row of the batch."""
    mask = inputs.get("attention_mask")
    if mask is None:
        return args, inputs
    longest = max(1, int(mask.sum(dim=1).max()))
    return args, {
        name: value[:, :longest] if name in ("input_ids", "attention_mask") else value
        for name, value in inputs.items()
    }


def fine_tune_recipe(
    folder: Path,
    tokens: Mapping[str, NDArray[np.int64]],
    labels: NDArray[np.int64],
    classes: int,
    content: str,
    epochs: int = EPOCHS,
) -> CallableRecipe:
    """The whole encoder with a new head, trained by AdamW at 5e-5 falling to 0, 16 texts a step.

    Args:
        tokens: ``input_ids`` and ``attention_mask`` (N, length), padded at the right.
        content: hash of the folder's files, so that other weights are other models.
    """
    check_at_least("epochs", epochs, 1)
    require("torch", "text")
    require("accelerate", "text")
    arguments = {
        "num_train_epochs": epochs,
        "per_device_train_batch_size": BATCH,
        "per_device_eval_batch_size": 64,
        "learning_rate": RATE,
        "weight_decay": 0.0,
    }
    make = FreshClassifier(folder, classes)
    return huggingface_recipe(
        make, tokens, labels, arguments=arguments, weighted=True, version=content
    )


def fine_tune_seconds(recipe: CallableRecipe, holdout: float) -> float:
    """About how long one model takes on one core, from three measured steps.

    Args:
        holdout: share of the records that no model trains on, in [0, 1).
    """
    torch = require("torch", "text")
    torch.set_num_threads(1)
    train: Any = recipe.train
    records = len(train.labels)
    model = build_module(train.make_model, 0)
    model.train(True)
    picked = np.random.default_rng(0).integers(0, records, (4, BATCH))
    forward, step = [], []
    for rows in picked:
        batch = {name: torch.from_numpy(array[rows]) for name, array in train.encodings.items()}
        start = time.perf_counter()
        loss = model(**batch).logits.logsumexp(dim=1).mean()
        between = time.perf_counter()
        loss.backward()
        forward.append(between - start)
        step.append(time.perf_counter() - start)
    # The first step also wakes the library up.
    pace, look = (float(np.median(times[1:])) for times in (step, forward))
    trained = math.ceil(records * (1 - holdout) / 2 / BATCH)
    return float(train.arguments["num_train_epochs"]) * trained * pace + records / BATCH * look
