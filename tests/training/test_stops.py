"""Asked on its way, a model answers as if its training had been cut there, and is not disturbed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_loop import train_plainly
from torch import nn

from lethe.errors import InputError
from lethe.training.batches import Stops, stop_epochs
from lethe.training.chunks import Spec, chunk_jobs, shard_path, train_chunk
from lethe.training.design import membership, model_seed
from lethe.training.loop import default_layout, train_models
from lethe.training.recipe import Layout, TorchRecipe, Treatment, Work
from lethe.training.shadows import Shadows

RECORDS, POOL, WIDTH, CLASSES, MODELS = 47, 37, 5, 3, 6
RNG = np.random.default_rng(4)
FEATURES = RNG.normal(size=(RECORDS, WIDTH)).astype(np.float32)
LABELS = RNG.integers(0, CLASSES, RECORDS)
TARGETS = RNG.normal(size=RECORDS)
MASK = np.arange(RECORDS) < POOL
MEMBERS = np.zeros((MODELS, RECORDS), bool)
MEMBERS[:, :POOL] = membership(MODELS, POOL, 0)
SEEDS = [model_seed(0, at) for at in range(MODELS)]
IDS = np.arange(RECORDS)
EPOCHS = (1, 2, 5)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, CLASSES))


def dropping() -> nn.Module:
    parts = nn.Linear(WIDTH, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.ReLU()
    return nn.Sequential(*parts, nn.Linear(16, CLASSES))


ADAM = TorchRecipe(net, epochs=8, batch_size=4, learning_rate=0.02)
SGD = replace(ADAM, optimizer="sgd", momentum=0.9, learning_rate=0.05)
RECIPES = {
    "cosine after a rise": replace(SGD, schedule="cosine", warmup=0.2),
    "one cycle": replace(ADAM, schedule="one-cycle"),
    "dropout": replace(ADAM, make_module=dropping),
    "patience": replace(SGD, patience=1, learning_rate=0.5, validation=0.3),
    "patience that is never tried": replace(ADAM, patience=8, validation=0.3),
}


def trained(
    recipe: TorchRecipe, layout: Layout, treatment: Treatment, stops: Stops | None = None
) -> np.ndarray:
    work = Work(recipe, FEATURES, LABELS, MEMBERS, MASK, treatment, SEEDS, layout)
    return np.stack(list(train_models(work, stops)))


@given(st.integers(1, 3000))
def test_stops_are_few_whole_epochs_before_the_last(epochs: int) -> None:
    stops = stop_epochs(epochs)
    assert list(stops) == sorted(set(stops)) and len(stops) <= 7
    assert all(0 < stop < epochs for stop in stops)
    assert len(stops) == min(epochs - 1, 7) if epochs <= 8 or epochs >= 30 else len(stops) >= 5
    if epochs >= 8:  # one is early enough where a third memorises everything
        assert stops[0] <= max(1, epochs / 30) and stops[-1] >= 0.7 * epochs


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("chain", name) for name in RECIPES),
        *(("alone", name) for name in ("dropout", "patience")),
    ],
)
def test_an_answer_on_the_way_is_that_of_a_training_cut_there_to_the_bit(
    kind: str, name: str
) -> None:
    recipe = RECIPES[name]
    layout = Layout(kind, 1 if kind == "alone" else 4)  # six models: a stack of 4 and one of 2
    answers = np.full((len(EPOCHS), MODELS, RECORDS, CLASSES), np.nan, np.float32)

    def take(model: int, place: int, outputs: np.ndarray) -> None:
        assert np.isnan(answers[place, model]).all()  # each answer is taken once
        answers[place, model] = outputs

    full = trained(recipe, layout, Treatment(), Stops(EPOCHS, take))
    assert np.array_equal(full, trained(recipe, layout, Treatment()))
    for epochs, on_the_way in zip(EPOCHS, answers, strict=True):
        assert np.array_equal(on_the_way, trained(recipe, layout, Treatment(epochs=epochs)))


@pytest.mark.parametrize("name", ["cosine after a rise", "one cycle", "patience"])
def test_a_cut_keeps_the_learning_rate_of_the_full_training(name: str) -> None:
    """By torch's own schedulers over all epochs, left after five."""
    recipe = RECIPES[name]
    cut = Treatment(epochs=5)
    ours = trained(recipe, default_layout(recipe), cut)
    for row, seed, own in zip(MEMBERS[:3], SEEDS, ours, strict=False):
        wanted = train_plainly(recipe, FEATURES, LABELS, row, MASK, cut, seed)
        assert np.abs(own - wanted).max() < 1e-4
    if recipe.schedule != "constant":
        shorter = trained(replace(recipe, epochs=5), default_layout(recipe), Treatment())
        assert np.abs(ours - shorter).max() > 1e-3


def test_what_cannot_be_cut_is_refused() -> None:
    layout = default_layout(ADAM)
    with pytest.raises(InputError, match="of 8 epochs cannot be cut after 9"):
        trained(ADAM, layout, Treatment(epochs=9))
    with pytest.raises(InputError, match="without averaging"):
        trained(ADAM, layout, Treatment(average=0.5), Stops((1,), lambda *answer: None))


def spec(task: str = "classification", treatment: Treatment | None = None, **more: bool) -> Spec:
    recipe = ADAM
    labels: np.ndarray = LABELS
    if task == "regression":
        make: Callable[[], nn.Module] = lambda: nn.Linear(WIDTH, 1)  # noqa: E731
        recipe, labels = replace(ADAM, make_module=make, loss="squared-error"), TARGETS
    classes = 0 if task == "regression" else CLASSES
    cut = treatment or Treatment()
    return Spec(FEATURES, labels, classes, MASK, recipe, cut, 0, **more)


def shadows_of(folder: Path, one: Spec, stops: tuple[int, ...], stop: int | None) -> Shadows:
    jobs = chunk_jobs(one, folder, MODELS, 4, stops=stops)
    for job in jobs:
        train_chunk(job)
    return Shadows.from_shards(jobs, IDS, stop)


@pytest.mark.parametrize("task", ["regression", "classification with classes"])
def test_stops_lie_in_the_shard_of_the_full_training(tmp_path: Path, task: str) -> None:
    kept = {"predictions": True} if "with" in task else {}
    task = task.split()[0]
    plain = spec(task, **kept)
    tables = (
        *("signals", "members", "correct", "population", "population_correct"),
        "population_predicted",
    )
    for stop in (None, *EPOCHS):
        ours = shadows_of(tmp_path / "on the way", plain, EPOCHS, stop)
        cut = spec(task, Treatment(epochs=stop), **kept)
        wanted = shadows_of(tmp_path / f"cut {stop}", cut, (), None)
        for name in tables:
            one, other = getattr(ours, name), getattr(wanted, name)
            assert (one is None) == (other is None), name
            assert one is None or np.array_equal(one, other), name
        assert (ours.correct is None) == (task == "regression")
        assert (ours.population_predicted is None) == (not kept)
    assert sum(1 for _ in (tmp_path / "on the way").iterdir()) == 2


def test_a_shard_is_good_for_whoever_asks_no_more_than_it_holds(tmp_path: Path) -> None:
    plain = spec()
    (without,) = chunk_jobs(plain, tmp_path, 4, 4)
    (asked,) = chunk_jobs(plain, tmp_path, 4, 4, stops=EPOCHS)
    (others,) = chunk_jobs(plain, tmp_path, 4, 4, stops=(1, 3))
    assert without.spec_hash == asked.spec_hash
    assert train_chunk(without) == 4 and asked.finished() is None
    before = without.finished()
    assert train_chunk(asked) == 4 and others.finished() is None
    path = shard_path(tmp_path, 0)
    written = path.read_bytes()
    assert train_chunk(without) == train_chunk(asked) == 0 and path.read_bytes() == written
    after = without.finished()
    assert before is not None and after is not None
    for name in ("signals", "members", "correct", "utility", "seeds"):
        assert np.array_equal(getattr(before, name), getattr(after, name))
    # Cut short, or with a bit turned over among the stops, it is trained again to the same bytes.
    for broken in (written[:-9], written[:-3] + bytes([written[-3] ^ 1]) + written[-2:]):
        path.write_bytes(broken)
        assert asked.finished() is None and train_chunk(asked) == 4
        assert path.read_bytes() == written


def test_a_model_that_fails_on_its_way_is_named_with_the_epoch(tmp_path: Path) -> None:
    wild = replace(ADAM, optimizer="sgd", learning_rate=1e30)
    (job,) = chunk_jobs(replace(spec(), recipe=wild), tmp_path, 4, 4, stops=(1, 2))
    with pytest.raises(InputError, match=r"shadow model \d after epoch [12]: .*NaN"):
        train_chunk(job)
    assert not list(tmp_path.iterdir())
