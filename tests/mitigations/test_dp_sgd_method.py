"""DP-SGD in the place of the loop: sampling, sums, noise, scaling by held-out records."""

import math
import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn import functional

from lethe.errors import InputError
from lethe.mitigations.dp_sgd.method import (
    MOST_DEVIATIONS,
    DpSgd,
    PoissonSampler,
    expected_records,
    scaled_by_held_out,
)
from lethe.training.augment import Augment
from lethe.training.batches import factor, noise_seed
from lethe.training.design import membership, model_seed
from lethe.training.loop import train_models
from lethe.training.recipe import (
    CallableRecipe,
    Layout,
    SklearnRecipe,
    TorchRecipe,
    Treatment,
    Work,
)
from lethe.training.users_code import build_module

RECORDS, POOL, WIDTH, CLASSES, MODELS = 30, 25, 6, 3, 4
RNG = np.random.default_rng(3)
FEATURES = RNG.normal(size=(RECORDS, WIDTH)).astype(np.float32)
LABELS = RNG.integers(0, CLASSES, RECORDS)
TARGETS = RNG.normal(5, 3, RECORDS)
MEMBERS = np.zeros((MODELS, RECORDS), bool)
MEMBERS[:, :POOL] = membership(MODELS, POOL, 0)
MASK = np.arange(RECORDS) < POOL
SEEDS = [model_seed(0, at) for at in range(MODELS)]
WEIGHTS = RNG.random(RECORDS).astype(np.float32)
CHAIN, ALONE = Layout("chain", 4), Layout("alone", 1)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, CLASSES))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)),
        nn.Conv2d(1, 4, (2, 2), padding=1),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8, CLASSES),
    )


def predictor() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 4), nn.Tanh(), nn.Linear(4, 1))


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.Dropout(0.4), nn.ReLU(), nn.Linear(16, CLASSES))


class Residual(nn.Module):
    """Not a plain chain of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 8), nn.Linear(8, 8)
        self.last = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).relu()
        return self.last(h + self.second(h).tanh())


SGD = TorchRecipe(net, epochs=1, batch_size=8, learning_rate=0.2, optimizer="sgd")
PRIVATE = DpSgd(noise_multiplier=0.7, clip=0.5, sampling_rate=0.3, steps=12)


def trained(
    method: DpSgd,
    recipe: TorchRecipe = SGD,
    layout: Layout = CHAIN,
    models: slice = slice(None),
    labels: NDArray[np.int64] | NDArray[np.float64] = LABELS,
    pool: NDArray[np.bool_] = MASK,
    weights: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    treatment = Treatment(weights=weights, method=method)
    given = FEATURES, labels, MEMBERS[models], pool, treatment, SEEDS[models], layout
    return np.stack(list(train_models(Work(recipe, *given))))


def by_hand(
    method: DpSgd,
    recipe: TorchRecipe,
    model: int,
    weights: NDArray[np.float32] | None = None,
    labels: NDArray[np.int64] | NDArray[np.float64] = LABELS,
) -> NDArray[np.float32]:
    """One model by torch's optimisers, an example at a time."""
    module = build_module(recipe.make_module, SEEDS[model])
    values = list(module.parameters())
    size = sum(value.numel() for value in values)
    rate = method.learning_rate or recipe.learning_rate
    optimizer: torch.optim.Optimizer
    if (method.optimizer or recipe.optimizer) == "sgd":
        momentum = recipe.momentum if method.momentum is None else method.momentum
        optimizer = torch.optim.SGD(
            values, lr=rate, momentum=momentum, weight_decay=recipe.weight_decay
        )
    else:
        optimizer = torch.optim.Adam(values, lr=rate, weight_decay=recipe.weight_decay)
    sampler = PoissonSampler(np.flatnonzero(MEMBERS[model]), SEEDS[model], method.sampling_rate)
    stream = torch.Generator().manual_seed(noise_seed(SEEDS[model]))
    targets, centre, scale = torch.from_numpy(np.array(labels)), 0.0, 1.0
    if recipe.loss == "squared-error":
        centre, scale = float(labels[~MASK].mean()), float(labels[~MASK].std())
        targets = ((targets - centre) / scale).float()
    x = torch.from_numpy(scaled_by_held_out(FEATURES, MASK))
    for step in range(method.steps):
        total = torch.zeros(size)
        for row in sampler.draw():
            out = module(x[row : row + 1])
            if recipe.loss == "squared-error":
                loss = (out[0, 0] - targets[row]) ** 2
            else:
                loss = functional.cross_entropy(
                    out, targets[row : row + 1], label_smoothing=recipe.label_smoothing
                )
            made = torch.cat([g.flatten() for g in torch.autograd.grad(loss, values)])
            weight = 1.0 if weights is None else float(weights[row])
            total += weight * made * min(1.0, method.clip / float(made.norm()))
        if method.noise_multiplier:
            drawn = torch.empty(size).normal_(generator=stream)
            total += method.noise_multiplier * method.clip * drawn
        total /= method.sampling_rate * -(-POOL // 2)
        for value, part in zip(values, total.split([v.numel() for v in values]), strict=True):
            value.grad = part.view_as(value)
        for group in optimizer.param_groups:
            group["lr"] = rate * factor(recipe.schedule, step, method.steps, recipe.warmup)
        optimizer.step()
    module.train(False)
    with torch.no_grad():
        found: NDArray[np.float32] = (module(x) * scale + centre).numpy()
    return found


CASES: dict[str, tuple[DpSgd, TorchRecipe, Layout, bool]] = {
    "plain": (PRIVATE, SGD, CHAIN, False),
    "weights": (PRIVATE, SGD, CHAIN, True),
    "parts": (replace(PRIVATE, microbatch=2), SGD, CHAIN, True),
    "parts of one by one": (replace(PRIVATE, microbatch=2), SGD, ALONE, True),
    "mostly nobody": (replace(PRIVATE, sampling_rate=0.03), SGD, CHAIN, False),
    "everybody": (replace(PRIVATE, sampling_rate=1.0, steps=4), SGD, CHAIN, False),
    "adam": (replace(PRIVATE, optimizer="adam", learning_rate=0.02), SGD, CHAIN, False),
    "momentum": (replace(PRIVATE, momentum=0.8), SGD, CHAIN, False),
    "smooth, decaying": (
        PRIVATE,
        replace(SGD, label_smoothing=0.1, weight_decay=0.05, schedule="cosine", warmup=0.2),
        CHAIN,
        False,
    ),
    "images": (PRIVATE, replace(SGD, make_module=images), ALONE, False),
    "residual": (PRIVATE, replace(SGD, make_module=Residual), ALONE, True),
}


@pytest.mark.parametrize(("method", "recipe", "layout", "weighted"), CASES.values(), ids=CASES)
def test_models_are_those_of_a_loop_over_examples(
    method: DpSgd, recipe: TorchRecipe, layout: Layout, weighted: bool
) -> None:
    weights = WEIGHTS if weighted else None
    found = trained(method, recipe, layout, weights=weights)
    for model in (0, MODELS - 1):
        wanted = by_hand(method, recipe, model, weights)
        assert np.abs(found[model] - wanted).max() < 1e-4


def test_a_regression_is_standardised_by_held_out_records_alone() -> None:
    recipe = replace(SGD, make_module=predictor, loss="squared-error", learning_rate=0.05)
    found = trained(PRIVATE, recipe, labels=TARGETS)
    wanted = by_hand(PRIVATE, recipe, 0, labels=TARGETS)
    assert np.abs(found[0] - wanted).max() < 1e-4
    other = TARGETS.copy()
    outside = np.flatnonzero(~MEMBERS[0] & MASK)
    other[outside[0]] = 1e6  # in the pool, but not in this model
    ours, theirs = (trained(PRIVATE, recipe, models=slice(1), labels=y) for y in (TARGETS, other))
    assert np.array_equal(ours, theirs)
    with pytest.raises(InputError, match="hold out two or more"):
        trained(PRIVATE, recipe, labels=TARGETS, pool=np.ones(RECORDS, bool))


@pytest.mark.parametrize("make", [net, dropping])
def test_a_model_is_the_same_whatever_is_stacked_with_it(make: Callable[[], nn.Module]) -> None:
    recipe = replace(SGD, make_module=make)
    if make is dropping:
        recipe = replace(recipe, augment=Augment((1, 2, 3), flip=True, crop=1))
    method = replace(PRIVATE, microbatch=4)
    together = trained(method, recipe)
    assert np.array_equal(together, trained(method, recipe))
    apart = [trained(method, recipe, models=slice(at, at + 1))[0] for at in range(MODELS)]
    assert np.abs(together - np.stack(apart)).max() < 1e-4
    narrow = trained(method, recipe, replace(CHAIN, width=3))
    assert np.abs(together - narrow).max() < 1e-4
    assert np.abs(together[0] - together[1]).max() > 1e-2


def line() -> nn.Module:
    return nn.Linear(WIDTH, CLASSES, bias=False)


def walk(method: DpSgd, layout: Layout, models: int) -> NDArray[np.float64]:
    """How far each parameter went, records weighing nothing: identity features show weights.

    Two held-out records of zeros leave the columns as they are.
    """
    eye = np.eye(WIDTH + 2, WIDTH, dtype=np.float32)
    recipe = TorchRecipe(line, learning_rate=1.0, optimizer="sgd")
    seeds = [model_seed(1, at) for at in range(models)]
    pool = np.arange(len(eye)) < WIDTH
    members = np.broadcast_to(pool, (models, len(eye)))
    treatment = Treatment(weights=np.zeros(len(eye), np.float32), method=method)
    labels = np.zeros(len(eye), np.int64)
    weights = np.stack(
        list(train_models(Work(recipe, eye, labels, members, pool, treatment, seeds, layout)))
    )
    with torch.no_grad():
        first = np.stack([build_module(line, seed).weight.T.numpy() for seed in seeds])
    return (weights[:, :WIDTH] - first).astype(np.float64)


@pytest.mark.parametrize(
    ("layout", "models", "steps"), [(Layout("chain", 50), 50, 50), (ALONE, 4, 25)]
)
def test_the_noise_on_the_sum_is_sigma_times_the_clip_norm_once_a_step(
    layout: Layout, models: int, steps: int
) -> None:
    sigma, clip, rate = 1.7, 0.3, 0.5
    gone = walk(DpSgd(sigma, clip, rate, steps), layout, models)
    on_the_sum = gone * rate * expected_records(np.ones(WIDTH, bool)) / math.sqrt(steps)
    n = gone.size  # 18 a model; sd of an sd is 1 / sqrt(2n)
    assert abs(on_the_sum.std() / (sigma * clip) - 1) < 4 / math.sqrt(2 * n)
    assert abs(on_the_sum.mean()) < 4 * sigma * clip / math.sqrt(n)


def test_each_record_has_a_coin_of_its_own() -> None:
    n, rate, draws = 50, 0.2, 4000
    sampler = PoissonSampler(np.arange(100, 100 + n), 5, rate)
    inside = np.zeros((draws, n))
    for draw in inside:
        batch = sampler.draw()
        assert len(np.unique(batch)) == len(batch)
        draw[batch - 100] = 1
    sizes = inside.sum(axis=1)
    variance = n * rate * (1 - rate)
    assert abs(sizes.mean() - n * rate) < 4 * math.sqrt(variance / draws)
    assert abs(sizes.var() / variance - 1) < 4 * math.sqrt(2 / draws)
    each = math.sqrt(rate * (1 - rate) / draws)
    assert np.abs(inside.mean(axis=0) - rate).max() < 5 * each
    together = np.corrcoef(inside.T)[np.triu_indices(n, 1)]
    assert np.abs(together).max() < 5 / math.sqrt(draws)
    again = PoissonSampler(np.arange(100, 100 + n), 5, rate).draw()
    assert np.array_equal(again - 100, np.flatnonzero(inside[0]))


def test_settings_are_checked() -> None:
    bad = {
        "noise_multiplier": -1.0,
        "clip": 0.0,
        "sampling_rate": 1.5,
        "steps": 0,
        "microbatch": 0,
        "learning_rate": 0.0,
        "optimizer": "lion",
        "momentum": 1.0,
    }
    for name, value in bad.items():
        with pytest.raises(InputError, match=name):
            replace(PRIVATE, **{name: value})


def test_every_setting_is_described_and_the_method_travels() -> None:
    assert pickle.loads(pickle.dumps(PRIVATE)) == PRIVATE
    other = DpSgd(0.6, 0.4, 0.2, 11, 0.1, "adam", 0.5, 64)
    mine, theirs = PRIVATE.describe(), other.describe()
    assert mine.pop("kind") == theirs.pop("kind") == "dp-sgd"
    assert all(mine[name] != theirs[name] for name in mine)
    assert len(mine) == 8


def batch_norm() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 4), nn.BatchNorm1d(4), nn.Linear(4, CLASSES))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"patience": 2}, "patience=None"),
        ({"clip_norm": 1.0}, "clip_norm"),
        ({"precision": "bfloat16"}, "float32"),
        ({"make_module": batch_norm}, r"1 \(BatchNorm1d\) .* GroupNorm"),
    ],
)
def test_recipes_that_would_void_the_claim_are_refused(
    change: dict[str, object], said: str
) -> None:
    assert PRIVATE.refuses(SGD) is None
    with pytest.raises(InputError, match=said):
        trained(PRIVATE, replace(SGD, **change))


def test_only_torch_recipes_can_be_clipped() -> None:
    for recipe in (SklearnRecipe(LogisticRegression()), CallableRecipe(lambda *a: lambda r: r)):
        assert "torch recipe" in str(PRIVATE.refuses(recipe))


def test_a_treatment_with_noise_of_its_own_is_refused() -> None:
    given = FEATURES, LABELS, MEMBERS, MASK, Treatment(noise=0.1, method=PRIVATE), SEEDS, CHAIN
    with pytest.raises(InputError, match="noise=0"):
        list(train_models(Work(SGD, *given)))


def test_gradients_that_are_not_finite_do_not_end_the_training() -> None:
    wild = replace(SGD, make_module=Residual, learning_rate=1e30)
    for recipe, layout in ((wild, ALONE), (replace(wild, make_module=net), CHAIN)):
        assert not np.isfinite(trained(replace(PRIVATE, steps=5), recipe, layout)).all()


def standardised(raw: np.ndarray) -> np.ndarray:
    return ((raw - raw.mean(axis=0)) / raw.std(axis=0)).astype(np.float32)


def raw_and_pool(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    raw = np.random.default_rng(seed).normal(3, 2, (60, 4))
    return raw, np.arange(60) < 40


def test_the_first_scaling_cancels() -> None:
    raw, pool = raw_and_pool()
    held = raw[~pool]
    expected = np.clip(
        (raw - held.mean(axis=0)) / held.std(axis=0), -MOST_DEVIATIONS, MOST_DEVIATIONS
    )
    found = scaled_by_held_out(standardised(raw), pool)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_private_record_changes_no_other_row() -> None:
    raw, pool = raw_and_pool()
    other = raw.copy()
    other[0] = 1000.0
    first = scaled_by_held_out(standardised(raw), pool)
    second = scaled_by_held_out(standardised(other), pool)
    np.testing.assert_allclose(first[1:], second[1:], atol=1e-3)
    assert np.all(second[0] == MOST_DEVIATIONS)


def test_a_private_record_does_not_decide_whether_a_column_is_scaled() -> None:
    """Two worlds that differ in one record: over all of one the column is standardised."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=(401, 1))
    first = (first - first.mean()) / first.std()
    second, pool = first.copy(), np.arange(401) < 201
    second[0] = 3.0
    scaled = [scaled_by_held_out(rows, pool)[1:] for rows in (first, second)]
    np.testing.assert_array_equal(*scaled)


def test_held_out_records_that_look_like_all_do_not_keep_the_scale_of_all() -> None:
    """Else a private record moves the sum of the others, by more than the clipping bound."""
    raw = np.tile(np.random.default_rng(0).normal(size=(10000, 1)), (2, 1))
    pool, scaled = np.arange(20000) < 10000, []
    for value in (0.0, 5.5):
        raw[0] = value
        scaled.append(scaled_by_held_out(standardised(raw), pool)[1:].astype(np.float64))
    first, second = (np.abs(rows[:9999]).sum() for rows in scaled)
    assert abs(first - second) < 0.01


def test_what_was_not_standardised_stays() -> None:
    raw, pool = raw_and_pool()
    codes = (raw > 3).astype(np.float32)
    both = np.hstack([standardised(raw), codes])
    np.testing.assert_array_equal(scaled_by_held_out(both, pool)[:, 4:], codes)
    images = np.random.default_rng(1).random((60, 1, 2, 2)).astype(np.float32)
    assert scaled_by_held_out(images, pool) is images


def test_a_column_that_only_private_records_vary_in_is_dropped() -> None:
    raw, pool = raw_and_pool()
    raw[~pool, 2] = 7.0
    assert not scaled_by_held_out(standardised(raw), pool)[:, 2].any()


def test_too_few_held_out_records() -> None:
    """Refused whatever the columns look like, since their look is the private records' own."""
    raw, _ = raw_and_pool()
    for rows in (raw, standardised(raw)):
        with pytest.raises(InputError, match="hold out two"):
            scaled_by_held_out(rows, np.arange(60) < 59)
