"""Training by the user's own code."""

import random
from typing import Any

import numpy as np
import pytest
import torch

from lethe.errors import InputError
from lethe.training.outputs import train_callable
from lethe.training.recipe import CallableRecipe, Treatment
from lethe.training.users_code import seeded

RNG = np.random.default_rng(0)
LABELS = np.arange(60) % 3
FEATURES = (RNG.normal(size=(60, 4)) + LABELS[:, None]).astype(np.float32)
ROWS = np.flatnonzero(RNG.random(60) < 0.6)
WEIGHTS = RNG.random(60).astype(np.float32)


def test_a_callable_gets_its_rows_weights_and_seed() -> None:
    got: list[Any] = []

    def train(rows: Any, weights: Any, seed: int) -> Any:
        got[:] = rows, weights, seed
        return lambda wanted: np.stack([wanted, -wanted], axis=1).astype(float)

    out = train_callable(CallableRecipe(train), 60, ROWS, Treatment(), 11)
    assert out[:, 0].tolist() == list(range(60))
    assert (got[0] == ROWS).all() and got[0].dtype == np.int64
    assert (got[1] == 1).all() and got[1].dtype == np.float32 and got[2] == 11
    train_callable(CallableRecipe(train), 60, ROWS, Treatment(weights=WEIGHTS), 11)
    assert (got[1] == WEIGHTS[ROWS]).all()
    drop = (np.arange(60) >= 20).astype(np.float32)
    train_callable(CallableRecipe(train), 60, ROWS, Treatment(weights=drop, remove=True), 11)
    assert got[0].tolist() == ROWS[ROWS >= 20].tolist() and len(got[1]) == len(got[0])


def nothing(rows: Any, weights: Any, seed: int) -> Any:
    return lambda rows: np.zeros((len(rows), 2))


@pytest.mark.parametrize(
    ("recipe", "treatment", "why"),
    [
        (CallableRecipe(nothing), Treatment(weights=WEIGHTS), None),
        (CallableRecipe(nothing), Treatment(noise=0.1), "gradient noise needs a torch recipe"),
        (CallableRecipe(nothing), Treatment(epochs=1), "early stopping needs a torch recipe"),
        (
            CallableRecipe(nothing, weights_refused="my loss has none"),
            Treatment(weights=WEIGHTS),
            "my loss has none",
        ),
        (
            CallableRecipe(nothing, weights_refused="my loss has none"),
            Treatment(weights=WEIGHTS, remove=True),
            None,
        ),
    ],
)
def test_what_a_callable_refuses(
    recipe: CallableRecipe, treatment: Treatment, why: str | None
) -> None:
    reason = recipe.refuses(treatment)
    if why is None:
        assert reason is None
        assert train_callable(recipe, 60, ROWS, treatment, 0).shape == (60, 2)
        return
    assert reason is not None and reason.startswith(why)
    with pytest.raises(InputError, match=f"this treatment cannot be applied: {why}"):
        train_callable(recipe, 60, ROWS, treatment, 0)


@pytest.mark.parametrize("shape", [(60,), (60, 1)])
def test_predictions_of_a_regression_are_one_column(shape: tuple[int, ...]) -> None:
    recipe = CallableRecipe(
        lambda rows, weights, seed: lambda rows: rows.astype(float).reshape(-1, *shape[1:]),
        outputs="prediction",
    )
    assert recipe.task == "regression"
    out = train_callable(recipe, 60, ROWS, Treatment(), 0)
    assert out.shape == (60, 1) and out[:, 0].tolist() == list(range(60))


def answering(answer: Any) -> Any:
    return lambda rows, weights, seed: lambda rows: answer


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        *(
            (CallableRecipe(answering(np.zeros(shape))), r"for 60 rows, expected \(60, classes\)")
            for shape in ((60,), (59, 3), (60, 3, 1))
        ),
        (
            CallableRecipe(nothing, outputs="prediction"),
            r"\(60, 2\) for 60 rows, expected \(60, 1\)",
        ),
        (CallableRecipe(answering([["a", "b"]] * 60)), "returned <U1 values"),
        (
            CallableRecipe(lambda rows, weights, seed: np.zeros((60, 2))),
            "Train returned ndarray, expected a func",
        ),
    ],
)
def test_answers_that_are_refused(recipe: CallableRecipe, why: str) -> None:
    with pytest.raises(InputError, match=why):
        train_callable(recipe, 60, ROWS, Treatment(), 0)


def test_what_is_no_training_code_is_refused() -> None:
    with pytest.raises(InputError, match="train is a int, expected a function"):
        CallableRecipe(3)
    with pytest.raises(InputError, match="outputs='logit' must be one of"):
        CallableRecipe(nothing, outputs="logit")


def test_code_that_draws_from_global_generators_follows_the_seed() -> None:
    def train(rows: Any, weights: Any, seed: int) -> Any:
        draws = [random.random(), np.random.rand(), float(torch.rand(()))]
        return lambda rows: np.tile(draws, (len(rows), 1))

    def draws(seed: int) -> list[float]:
        out = train_callable(CallableRecipe(train), 60, ROWS, Treatment(), seed)
        return [float(value) for value in out[0]]

    assert draws(2**62 + 5) == draws(2**62 + 5)
    assert all(one != other for one, other in zip(draws(5), draws(6), strict=True))


def test_the_callers_generators_are_left_alone() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    def seed_all() -> None:
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)

    seed_all()
    wanted = draw()
    seed_all()
    with pytest.raises(ZeroDivisionError), seeded(3):
        draw()
        1 / 0  # noqa: B018 - raised on purpose
    assert draw() == wanted
