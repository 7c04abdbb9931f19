"""A Hugging Face model as a recipe, trained by its own `Trainer`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.text import quiet
from lethe.errors import InputError, require
from lethe.training.adapters import checked_labels, plain_settings
from lethe.training.recipe import CallableRecipe, Predict
from lethe.training.users_code import build_module

EXTRA = "huggingface"
OURS = {
    "output_dir": "a folder that is thrown away",
    "seed": "the model's own",
    "data_seed": "the model's own",
    "report_to": "nobody",
    "remove_unused_columns": "off",
}


def huggingface_recipe(
    make_model: Callable[[], Any],
    encodings: Mapping[str, NDArray[Any]],
    labels: NDArray[Any],
    *,
    arguments: Mapping[str, Any] | None = None,
    weighted: bool = False,
    version: str = "",
) -> CallableRecipe:
    """A recipe that trains a Hugging Face model with `transformers.Trainer`.

    Nothing is downloaded by the adapter: tokenise beforehand, and build the model from a
    configuration or load it from a folder.

    Args:
        make_model: builds a fresh model whose output has ``logits`` (N, C), or (N, 1) for a
            regression; global generators are seeded before each call.
        encodings: arrays of N rows in the order of the data set, such as ``input_ids`` and
            ``attention_mask``, padded to one length.
        labels: (N,) class codes, or float targets for a regression.
        arguments: of `transformers.TrainingArguments`, such as ``num_train_epochs``.
        weighted: the loss is the cross-entropy (squared error for float targets) of each
            record times its weight, divided by the batch size. Otherwise it is the model's
            own, and mitigations by weight are refused.
        version: see `CallableRecipe`.

    Raises InputError: arrays of other shapes, or an argument that the adapter sets itself.
    """
    for name in arguments or {}:
        if name in OURS:
            raise InputError(
                f"arguments has {name!r}, which the adapter sets itself ({OURS[name]}). "
                "Leave it out."
            )
    if not encodings or "labels" in encodings:
        raise InputError(
            "encodings must hold the model's inputs, such as input_ids; labels go into labels."
        )
    if weighted and (arguments or {}).get("label_smoothing_factor"):
        raise InputError("weighted=True takes no label_smoothing_factor; leave one of them out.")
    truth = checked_labels(labels, encodings)
    kind = "prediction" if truth.dtype.kind == "f" else "logits"
    refused = (
        ""
        if weighted
        else "the Hugging Face model computes its own loss, without weights; say weighted=True if "
        "that loss is plain cross-entropy or squared error"
    )
    train = HuggingFaceTrain(make_model, dict(encodings), truth, dict(arguments or {}), weighted)
    return CallableRecipe(train, kind, version, refused)


@dataclass(frozen=True, eq=False)
class HuggingFaceTrain:
    """`Train` of a Hugging Face model; made by `huggingface_recipe`, which says what is what."""

    make_model: Callable[[], Any]
    encodings: Mapping[str, NDArray[Any]]
    labels: NDArray[Any]
    arguments: Mapping[str, Any]
    weighted: bool

    def describe(self) -> Mapping[str, Any]:
        """Plain values for findings, without code."""
        return {
            "kind": "huggingface",
            "encodings": ", ".join(sorted(self.encodings)),
            "weighted": self.weighted,
            **plain_settings(self.arguments),
        }

    def __call__(self, rows: NDArray[np.int64], weights: NDArray[np.float32], seed: int) -> Predict:
        """Train one model on `rows`."""
        torch = require("torch", "train")
        transformers = require("transformers", EXTRA)
        require("accelerate", EXTRA)
        torch.set_num_threads(1)
        model = build_module(self.make_model, seed)
        if not hasattr(model, "config"):
            raise InputError(
                f"make_model returned {type(model).__name__}, expected a Hugging Face model. A "
                "plain torch module goes into a TorchRecipe, which is faster."
            )
        # The Trainer seeds NumPy too, which takes 32 bits.
        small = seed % 2**32
        with quiet(transformers), tempfile.TemporaryDirectory() as folder:
            chosen = {"save_strategy": "no", "logging_strategy": "no", "use_cpu": True}
            chosen |= {"disable_tqdm": True, "dataloader_pin_memory": False} | dict(self.arguments)
            try:
                arguments = transformers.TrainingArguments(
                    output_dir=folder,
                    seed=small,
                    data_seed=small,
                    report_to="none",
                    remove_unused_columns=False,
                    **chosen,
                )
            except TypeError as error:
                raise InputError(f"arguments of the Trainer: {error}.") from None
            kind = _weighted_trainer(transformers, torch) if self.weighted else transformers.Trainer
            trainer = kind(
                model=model,
                args=arguments,
                train_dataset=Records(self, rows, weights),
                callbacks=[],
            )
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()

        def predict(wanted: NDArray[np.int64]) -> NDArray[np.floating]:
            model.cpu().train(False)
            size = arguments.per_device_eval_batch_size
            found = []
            with torch.no_grad():
                for start in range(0, len(wanted), size):
                    part = wanted[start : start + size]
                    batch = {
                        name: torch.from_numpy(array[part])
                        for name, array in self.encodings.items()
                    }
                    found.append(model(**batch).logits)
            return np.asarray(torch.cat(found).float().numpy())

        return predict


class Records:
    """The training rows as the data set that the `Trainer` reads."""

    def __init__(
        self, train: HuggingFaceTrain, rows: NDArray[np.int64], weights: NDArray[np.float32]
    ) -> None:
        self.train, self.rows, self.weights = train, rows, weights

    def __len__(self) -> int:
        """Number of training rows."""
        return len(self.rows)

    def __getitem__(self, at: int) -> dict[str, Any]:
        """One training row, as the data collator takes it."""
        row = self.rows[at]
        item = {name: array[row] for name, array in self.train.encodings.items()}
        item["labels"] = self.train.labels[row].item()
        if self.train.weighted:
            item["weight"] = float(self.weights[at])
        return item


def _weighted_trainer(transformers: Any, torch: Any) -> type:
    """A `Trainer` whose loss is each record's own times its weight, over the batch size."""
    plain = transformers.Trainer

    def begin(self: Any, **given: Any) -> None:
        plain.__init__(self, **given)
        # The loss is a mean over each batch: accumulated gradients must be averaged.
        self.model_accepts_loss_kwargs = False

    def compute_loss(
        self: Any, model: Any, inputs: Any, return_outputs: bool = False, **rest: Any
    ) -> Any:
        labels, weight = inputs.pop("labels"), inputs.pop("weight")
        outputs = model(**inputs)
        if labels.is_floating_point():
            each = (outputs.logits[:, 0] - labels) ** 2
        else:
            each = torch.nn.functional.cross_entropy(outputs.logits, labels, reduction="none")
        loss = (each * weight).mean()
        return (loss, outputs) if return_outputs else loss

    # Made at run time, since its base is known only when transformers is loaded.
    return type("Weighted", (plain,), {"__init__": begin, "compute_loss": compute_loss})
