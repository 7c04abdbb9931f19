"""Training chunks: nothing twice, bit-identical however they are run, gathered rightly."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from small_nets import net, unstackable

from lethe.errors import InputError, RunFailed
from lethe.training.chunks import ChunkJob, Spec, chunk_jobs, chunk_width, shard_path, train_chunk
from lethe.training.design import membership, model_seed
from lethe.training.engines.processes import run_in_processes
from lethe.training.recipe import CallableRecipe, SklearnRecipe, TorchRecipe, Treatment
from lethe.training.shadows import Shadows

pytestmark = pytest.mark.processes

RNG = np.random.default_rng(0)
LABELS = np.arange(40) % 2
FEATURES = (RNG.normal(size=(40, 3)) + LABELS[:, None]).astype(np.float32)
POOL = np.arange(40) % 5 > 0
IDS = np.array([f"r{at}" for at in range(40)])


TORCH = TorchRecipe(net, epochs=2, batch_size=8, optimizer="sgd", learning_rate=0.1)
RECIPES = {"stacked": TORCH, "one by one": replace(TORCH, make_module=unstackable)}


def spec(**changes: Any) -> Spec:
    return Spec(
        **{
            "features": FEATURES,
            "labels": LABELS,
            "classes": 2,
            "pool": POOL,
            "recipe": TORCH,
            "treatment": Treatment(),
            "seed": 0,
            **changes,
        }
    )


def train(jobs: list[ChunkJob]) -> int:
    return sum(train_chunk(job) for job in jobs)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize(
    ("models", "width"), [(4, 2), (6, 2), (8, 4), (16, 8), (64, 16), (256, 16)]
)
def test_chunk_width_is_even_and_leaves_work_for_two(models: int, width: int) -> None:
    assert chunk_width(models, TORCH) == width
    assert chunk_width(models, SklearnRecipe(LogisticRegression())) == 2


def test_the_last_chunk_may_be_narrower(tmp_path: Path) -> None:
    jobs = chunk_jobs(spec(), tmp_path, 10, 4)
    assert [(job.chunk, job.first, job.models) for job in jobs] == [(0, 0, 4), (1, 4, 4), (2, 8, 2)]


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_order_and_another_process_do_not_change_a_byte(tmp_path: Path, recipe: Any) -> None:
    folders = [tmp_path / name for name in ("forward", "backward", "apart")]
    jobs = [chunk_jobs(spec(recipe=recipe), folder, 6, 2) for folder in folders]
    train(jobs[0])
    train(jobs[1][::-1])
    assert list(run_in_processes(jobs[2], train_chunk, 1)) == [2, 2, 2]
    one, two, three = map(contents, folders)
    assert len(one) == 3 and one == two == three


def test_more_models_keep_what_is_there_and_fill_the_last_chunk(tmp_path: Path) -> None:
    train(chunk_jobs(spec(), tmp_path, 6, 4))
    before = contents(tmp_path)
    old = Shadows.from_shards(chunk_jobs(spec(), tmp_path, 6, 4), IDS)
    grown = chunk_jobs(spec(), tmp_path, 12, 4)
    assert train(grown) == 8  # the partial chunk and the new one
    assert contents(tmp_path)["00000.safetensors"] == before["00000.safetensors"]
    new = Shadows.from_shards(grown, IDS)
    assert (new.members[:6] == old.members).all()
    assert np.abs(new.signals[:6] - old.signals).max() < 1e-4


def test_what_a_shard_holds(tmp_path: Path) -> None:
    jobs = chunk_jobs(spec(), tmp_path, 6, 2)
    train(jobs)
    shard = jobs[1].finished()
    assert shard is not None and shard.first == 2
    assert (shard.members[:, POOL] == membership(6, 32, 0)[2:4]).all()
    assert (shard.members[:, ~POOL] == 0).all()
    assert shard.seeds.tolist() == [model_seed(0, 2), model_seed(0, 3)]
    assert shard.utility == pytest.approx(shard.correct[:, ~POOL].mean(axis=1))
    assert (shard.correct == (shard.signals > 0)).all()  # two classes: right means phi > 0


def test_gathering_splits_pool_and_holdout(tmp_path: Path) -> None:
    groups = np.arange(40) // 2
    jobs = chunk_jobs(spec(groups=groups), tmp_path, 6, 4)
    train(jobs)
    shadows = Shadows.from_shards(jobs, IDS)
    shards = [job.finished() for job in jobs]
    signals = np.concatenate([shard.signals for shard in shards if shard])
    assert (shadows.models, shadows.records) == (6, 32)
    assert (shadows.signals == signals[:, POOL]).all()
    assert (shadows.population == signals[:, ~POOL]).all()
    assert (shadows.members == membership(6, 32, 0, groups[POOL])).all()
    assert shadows.population_groups is not None
    assert (shadows.population_groups == groups[~POOL]).all()
    assert shadows.ids.tolist() == IDS[POOL].tolist()
    assert (shadows.labels == LABELS[POOL]).all()
    assert (shadows.population_labels == LABELS[~POOL]).all()
    assert shadows.groups is not None and (shadows.groups == groups[POOL]).all()
    assert (shadows.correct == (shadows.signals > 0)).all()
    assert (shadows.population_correct == (shadows.population > 0)).all()


def test_a_missing_shard_stops_with_the_way_out(tmp_path: Path) -> None:
    jobs = chunk_jobs(spec(), tmp_path, 6, 2)
    train(jobs[:1] + jobs[2:])
    with pytest.raises(RunFailed, match="00001.safetensors is missing or damaged; run the same"):
        Shadows.from_shards(jobs, IDS)


def shadows(order: list[int] | None = None, models: int = 10) -> Shadows:
    members = membership(models, 20, 0)[order or slice(None)]
    signals = RNG.normal(size=members.shape).astype(np.float32)
    return Shadows(
        signals,
        members,
        np.arange(20).astype(str),
        correct=signals > 0,
        population=signals[:, :5],
        population_correct=signals[:, :5] > 0,
    )


@pytest.mark.parametrize("order", [None, [3, 0, 7, 2, 5, 1, 9, 6, 8, 4]])
def test_halves_are_whole_pairs(order: list[int] | None) -> None:
    whole = shadows(order)
    one, two = whole.halves()
    assert one.models + two.models == 10 and min(one.models, two.models) == 4
    for half in (one, two):
        assert (half.partner >= 0).all()
        assert (half.members.sum(axis=0) == half.models // 2).all()
        assert half.correct is not None and (half.correct == (half.signals > 0)).all()
        assert (half.population == half.signals[:, :5]).all()
    rows = {row.tobytes() for half in (one, two) for row in half.signals}
    assert rows == {row.tobytes() for row in whole.signals}


def test_one_pair_has_no_halves() -> None:
    with pytest.raises(InputError, match="at least 2 pairs"):
        shadows().first(2).halves()


def test_the_first_models_and_pairs() -> None:
    whole = shadows()
    assert whole.first(4).models == 4
    assert (whole.first(4).signals == whole.signals[:4]).all()
    assert whole.pairs.tolist() == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]
    assert whole.first(3).pairs.tolist() == [0, 0, 2]


class Odd:
    """Gives NaN for record 7 once its model's seed is the one of model 3."""

    def __init__(self, seed: int) -> None:
        self.bad = seed

    def __call__(self, rows: Any, weights: Any, seed: int) -> Any:
        def predict(rows: Any) -> Any:
            out = np.zeros((len(rows), 2))
            if seed == self.bad:
                out[7] = np.nan
            return out

        return predict


def test_nan_names_model_and_record_and_writes_nothing(tmp_path: Path) -> None:
    jobs = chunk_jobs(spec(recipe=CallableRecipe(Odd(model_seed(0, 3) % 2**32))), tmp_path, 6, 2)
    with pytest.raises(InputError, match="shadow model 3: logits hold NaN.*record 7"):
        train(jobs)
    assert [path.name for path in tmp_path.iterdir()] == [shard_path(tmp_path, 0).name]


def test_a_torch_model_that_diverges_is_refused(tmp_path: Path) -> None:
    wild = replace(TORCH, learning_rate=1e30, epochs=20)
    with pytest.raises(InputError, match="shadow model 0: logits .*lower the learning rate"):
        train(chunk_jobs(spec(recipe=wild), tmp_path, 4, 2))
    assert list(tmp_path.iterdir()) == []


def test_without_holdout_utility_is_zero_and_the_population_empty(tmp_path: Path) -> None:
    jobs = chunk_jobs(spec(pool=np.ones(40, bool)), tmp_path, 4, 4)
    train(jobs)
    shard = jobs[0].finished()
    assert shard is not None and shard.utility.tolist() == [0.0] * 4
    assert Shadows.from_shards(jobs, IDS).population.shape == (4, 0)


def test_read_only_features_are_accepted(tmp_path: Path) -> None:
    """In worker processes joblib hands large arrays over as read-only memory maps."""
    features = FEATURES.copy()
    features.setflags(write=False)
    assert train(chunk_jobs(spec(features=features), tmp_path, 4, 4)) == 4
    assert torch.get_num_threads() == 1


def test_predicted_classes_are_kept_only_when_asked(tmp_path: Path) -> None:
    plain, asked = spec(), spec(predictions=True)
    assert "predictions" not in plain.describe() and plain.hash() != asked.hash()
    found = {}
    for name, one in (("plain", plain), ("asked", asked)):
        jobs = chunk_jobs(one, tmp_path / name, 6, 4)
        train(jobs)
        found[name] = Shadows.from_shards(jobs, IDS)
    kept = found["asked"].population_predicted
    assert found["plain"].population_predicted is None and kept is not None
    assert kept.shape == (6, 8) and kept.dtype == np.int32
    assert ((kept == LABELS[~POOL]) == found["asked"].population_correct).all()
    assert (found["asked"].signals == found["plain"].signals).all()
    some = found["asked"].select([4, 1]).population_predicted
    assert some is not None and (some == kept[[4, 1]]).all()
