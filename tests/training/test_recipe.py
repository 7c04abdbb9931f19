"""Settings of torch recipes and of treatments."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from torch import nn

from lethe.errors import InputError
from lethe.training.augment import Augment
from lethe.training.recipe import TorchRecipe, Treatment


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"epochs": 0}, "epochs=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"learning_rate": float("nan")}, "nan"),
        ({"optimizer": "agd"}, "optimizer='agd' must be one of"),
        ({"momentum": 1.0}, "momentum=1.0"),
        ({"weight_decay": -1}, "weight_decay=-1"),
        ({"nesterov": True}, "nesterov=True needs"),
        ({"nesterov": True, "optimizer": "sgd"}, "nesterov=True needs"),
        ({"loss": "hinge"}, "loss='hinge' must be one of"),
        ({"schedule": "cosin"}, "did you mean|cosine"),
        ({"warmup": 1.0}, "warmup=1.0"),
        ({"warmup": 0.1, "schedule": "one-cycle"}, "has a rise of its own"),
        ({"label_smoothing": 1.0}, "label_smoothing=1.0"),
        ({"label_smoothing": 0.1, "loss": "squared-error"}, "cross-entropy"),
        ({"clip_norm": 0.0}, "clip_norm=0.0"),
        ({"patience": 0}, "patience=0"),
        ({"validation": 0.0}, "validation=0.0"),
        ({"precision": "float16"}, "precision='float16' must be one of"),
    ],
)
def test_torch_recipes_refuse_settings_out_of_range(settings: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        TorchRecipe(nn.ReLU, **settings)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"noise": -0.1}, "noise=-0.1"),
        ({"noise": float("nan")}, "noise=nan"),
        ({"epochs": 0}, "epochs=0"),
        ({"weight_decay": -0.1}, "weight_decay=-0.1"),
        ({"label_smoothing": 1.0}, "label_smoothing=1.0"),
        ({"mixup": 0.0}, "mixup=0.0"),
        ({"average": 0.0}, "average=0.0"),
        ({"average": 1.1}, "average=1.1"),
        ({"weights": np.array([1.5])}, r"lie in \[0, 1\]"),
        ({"weights": np.array([np.nan])}, r"lie in \[0, 1\]"),
    ],
)
def test_treatments_refuse_settings_out_of_range(settings: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        Treatment(**settings)


OTHER: dict[str, Any] = {
    "epochs": 31,
    "batch_size": 65,
    "learning_rate": 2e-3,
    "optimizer": "sgd",
    "momentum": 0.5,
    "weight_decay": 0.1,
    "loss": "squared-error",
    "schedule": "cosine",
    "warmup": 0.1,
    "label_smoothing": 0.1,
    "clip_norm": 1.0,
    "augment": Augment((1, 2, 2), flip=True),
    "patience": 3,
    "precision": "bfloat16",
}


def test_every_setting_is_part_of_the_description() -> None:
    """What is described is hashed: no setting may change a result without being seen."""
    plain = TorchRecipe(nn.ReLU)
    left = {"make_module", "nesterov", "validation"}
    assert set(OTHER) | left == {field.name for field in fields(TorchRecipe)}
    seen = [TorchRecipe(nn.ReLU, **{name: value}).describe() for name, value in OTHER.items()]
    seen.append(TorchRecipe(nn.ReLU, optimizer="sgd", momentum=0.5, nesterov=True).describe())
    seen.append(TorchRecipe(nn.ReLU, patience=3, validation=0.3).describe())
    assert all(one != two for at, one in enumerate(seen) for two in [plain.describe(), *seen[:at]])
    # Without early stopping nothing is held back, however much it would be.
    assert TorchRecipe(nn.ReLU, validation=0.3).describe() == plain.describe()
