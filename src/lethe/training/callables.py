"""Training by the user's own code."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.training.recipe import CallableRecipe, Treatment
from lethe.training.seeding import seeded
from lethe.training.users_code import users_code


def train_callable(
    recipe: CallableRecipe,
    records: int,
    rows: NDArray[np.int64],
    treatment: Treatment,
    seed: int,
) -> NDArray[np.floating]:
    """Call the user's training code and return its outputs for all records.

    Args:
        recipe: holds the code, and the code the data.
        records: N, all records.
        rows: the records it trains on.
        treatment: the mitigation.
        seed: of this model.

    Returns:
        (N, C) logits or probabilities, or (N, 1) predictions, as the recipe declares.

    Raises:
        InputError: the recipe refuses the treatment, its code fails, or the outputs have another
            shape or are no numbers.
    """
    reason = recipe.refuses(treatment)
    if reason:
        raise InputError(f"this treatment cannot be applied: {reason}.")
    chosen = treatment.weights
    if chosen is not None and treatment.remove:
        rows = rows[chosen[rows] > 0]
    weights = np.ones(len(rows), np.float32) if chosen is None else chosen[rows]
    with users_code("the training code of the recipe"), seeded(seed):
        predict = recipe.train(rows, weights, seed)
        if not callable(predict):
            raise InputError(
                f"Train returned {type(predict).__name__}, expected a function Predict(rows) that "
                f"returns the {recipe.outputs} of these rows."
            )
        outputs = np.asarray(predict(np.arange(records, dtype=np.int64)))
    if recipe.task == "regression" and outputs.shape == (records,):
        outputs = outputs[:, None]
    columns = "1" if recipe.task == "regression" else "classes"
    if outputs.ndim != 2 or len(outputs) != records or (columns == "1" and outputs.shape[1] != 1):
        raise InputError(
            f"Predict returned shape {outputs.shape} for {records} rows, "
            f"expected ({records}, {columns})."
        )
    if outputs.dtype.kind not in "fiu":
        raise InputError(f"Predict returned {outputs.dtype} values, expected {recipe.outputs}.")
    return outputs
