"""A Lightning module as a recipe: the user's own training step, Lightning's own loop."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_known_keys, require
from lethe.training.adapters import checked_labels, plain_settings
from lethe.training.recipe import CallableRecipe, Predict
from lethe.training.users_code import build_module, is_from

NAMES = ("lightning.pytorch", "pytorch_lightning")
OURS = (
    "max_epochs",
    "logger",
    "enable_checkpointing",
    "enable_progress_bar",
    "enable_model_summary",
    "default_root_dir",
    "limit_val_batches",
)
PREDICT_ROWS = 4096


def lightning_recipe(
    make_module: Callable[[], Any],
    features: NDArray[np.floating],
    labels: NDArray[Any],
    *,
    epochs: int = 10,
    batch_size: int = 64,
    outputs: str | None = None,
    weighted: bool = False,
    trainer_options: Mapping[str, Any] | None = None,
    version: str = "",
) -> CallableRecipe:
    """A recipe that trains a Lightning module with a Lightning `Trainer`.

    The module's own `training_step` and `configure_optimizers` are used as they are. A batch is
    ``(x, y)``, float32 features and int64 class codes (float32 targets for a regression); its
    `forward` gives the outputs. Logger, checkpoints, progress bar and validation are off.

    Args:
        make_module: builds a fresh module; global generators are seeded before each call.
        features: (N, ...) inputs of all records, in the order of the data set.
        labels: (N,) class codes, or float targets.
        epochs: passes over the training rows.
        batch_size: rows a step.
        outputs: what `forward` returns: ``logits``, ``probabilities`` or ``prediction``; by
            default ``prediction`` for float targets, else ``logits``.
        weighted: batches are ``(x, y, weight)`` and the module multiplies each record's loss by
            its weight. Otherwise mitigations by weight are refused.
        trainer_options: further arguments of the `Trainer`, such as ``gradient_clip_val``.
        version: see `CallableRecipe`.

    Raises InputError: data of another shape, or an option that the adapter sets itself.
    """
    options = dict(trainer_options or {})
    check_at_least("epochs", epochs, 1)
    check_at_least("batch_size", batch_size, 1)
    for name in OURS:
        if name in options:
            raise InputError(
                f"trainer_options has {name!r}, which the adapter sets itself"
                + ("; use epochs=." if name == "max_epochs" else ". Leave it out.")
            )
    truth = checked_labels(labels, {"features": features})
    train = LightningTrain(
        make_module,
        np.ascontiguousarray(features, np.float32),
        truth,
        epochs,
        batch_size,
        weighted,
        options,
    )
    refused = (
        ""
        if weighted
        else "the Lightning module gets no weights; let its training_step take (x, y, weight) and "
        "say weighted=True"
    )
    kind = outputs or ("prediction" if truth.dtype.kind == "f" else "logits")
    return CallableRecipe(train, kind, version, refused)


@dataclass(frozen=True, eq=False)
class LightningTrain:
    """`Train` of a Lightning module; made by `lightning_recipe`, which says what each field is."""

    make_module: Callable[[], Any]
    features: NDArray[np.float32]
    labels: NDArray[Any]
    epochs: int
    batch_size: int
    weighted: bool
    trainer_options: Mapping[str, Any]

    def describe(self) -> Mapping[str, Any]:
        """Plain values for findings, without code."""
        return {
            "kind": "lightning",
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "weighted": self.weighted,
            **plain_settings(self.trainer_options),
        }

    def __call__(self, rows: NDArray[np.int64], weights: NDArray[np.float32], seed: int) -> Predict:
        """Train one module on `rows`."""
        torch = require("torch", "train")
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        module = build_module(self.make_module, seed)
        library = library_of(module)
        at = torch.from_numpy(rows)
        columns = [torch.from_numpy(self.features)[at], torch.from_numpy(self.labels)[at]]
        if self.weighted:
            columns.append(torch.from_numpy(weights))
        batches = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(*columns),
            self.batch_size,
            shuffle=True,
            generator=torch.Generator().manual_seed(seed % 2**63),
        )
        options = {"accelerator": "cpu", "devices": 1, "deterministic": True}
        options |= self.trainer_options
        check_known_keys(
            "trainer_options",
            self.trainer_options,
            inspect.signature(library.Trainer.__init__).parameters,
        )
        with _quiet(), tempfile.TemporaryDirectory() as folder:
            trainer = library.Trainer(
                max_epochs=self.epochs,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                default_root_dir=folder,
                limit_val_batches=0,
                **options,
            )
            trainer.fit(module, batches)
        module.cpu().train(False)

        def predict(wanted: NDArray[np.int64]) -> NDArray[np.floating]:
            inputs = torch.from_numpy(self.features[wanted])
            with torch.no_grad():
                parts = [module(part) for part in inputs.split(PREDICT_ROWS)]
            return np.asarray(torch.cat(parts).float().numpy())

        return predict


def library_of(module: Any) -> ModuleType:
    """The Lightning package that a module's class comes from: it is sold under two names.

    Raises InputError: it is no Lightning module.
    """
    for name in NAMES:
        if is_from(module, name.partition(".")[0]):
            return importlib.import_module(name)
    raise InputError(
        f"make_module returned {type(module).__name__}, expected a LightningModule. A plain torch "
        "module goes into a TorchRecipe, which is faster."
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what Lightning says about devices, workers and the like for every model."""
    names = ("lightning", "lightning.fabric", "lightning.pytorch", "pytorch_lightning")
    loggers = {logging.getLogger(name): logging.getLogger(name).level for name in names}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"(lightning|pytorch_lightning)\b")
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in loggers.items():
                logger.setLevel(level)
