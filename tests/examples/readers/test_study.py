"""The reader-engagement example: networks of the published size, training that learns, exports."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from readers.ebnerd import prepare_news
from readers.store import News
from readers.synthetic import write_synthetic_news

FOLDER = Path(__file__).parents[2] / "examples" / "reader_engagement"
NAMES = ("networks", "training", "study")


@pytest.fixture(scope="module")
def code() -> Iterator[SimpleNamespace]:
    """The scripts, which import each other by their plain names."""
    import importlib

    sys.path.insert(0, str(FOLDER))
    before = {name: sys.modules.pop(name, None) for name in NAMES}
    try:
        modules: dict[str, ModuleType] = {name: importlib.import_module(name) for name in NAMES}
        yield SimpleNamespace(**modules)
    finally:
        sys.path.remove(str(FOLDER))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


@pytest.fixture(scope="module")
def news(tmp_path_factory: pytest.TempPathFactory) -> News:
    """Features of 250 made-up readers."""
    place = tmp_path_factory.mktemp("engagement")
    return prepare_news(write_synthetic_news(place / "raw", 250, 60), place / "features", blind=25)


def test_the_networks_have_the_published_number_of_parameters(code):
    networks = [code.networks.make(name, code.networks.Shape()) for name in ("mlp", "lstm")]
    assert code.networks.parameters(networks) == [209_665, 1_025_089]


def test_held_out_people_are_whole(code):
    users = np.repeat(np.arange(50), 4)
    out = code.training.held_out(users, 0.1, 0)
    assert out.sum() == 20 and len(set(users[out]) & set(users[~out])) == 0
    assert np.array_equal(out, code.training.held_out(users, 0.1, 0))


def test_the_study_learns_and_exports(code, news: News, tmp_path: Path):
    """AUC above chance by far more than its sampling error (about 0.012 for 2,500 rows)."""
    found = code.study.study(news, tmp_path, ["mlp"], epochs=3)
    assert found["mlp"]["validation"] > 0.6 and set(found["mlp"]) == {
        "train",
        "validation",
        "blind",
    }
    head = np.load(tmp_path / "mlp-head.npz")
    assert head["w"].shape == (64,) and head["b"].shape == ()
    windows = np.load(tmp_path / "mlp-windows.npz")
    later = news.window("validation")
    first, second = (news.window(name).rows_of() for name in ("train", "validation"))
    assert windows["period"].tolist() == ["train"] * len(first) + ["validation"] * len(second)
    at = windows["period"] == "validation"
    batch = later.batch(second)
    assert np.array_equal(windows["user_ids"][at], batch.user_ids)
    assert np.array_equal(windows["labels"][at], batch.label)
    assert np.array_equal(windows["features"][at], batch.raw())
    alone = np.load(tmp_path / "mlp-validation.npz")
    assert "period" not in alone.files
    assert np.allclose(alone["representations"], windows["representations"][at], atol=1e-5)
    logits = alone["representations"] @ head["w"] + head["b"]
    order = np.argsort(logits)
    rank = np.empty(len(order))
    rank[order] = np.arange(1, len(order) + 1)
    yes = alone["labels"] == 1
    auc = (rank[yes].sum() - yes.sum() * (yes.sum() + 1) / 2) / (yes.sum() * (~yes).sum())
    assert auc == pytest.approx(found["mlp"]["validation"], abs=1e-3)
    blind = np.load(tmp_path / "mlp-blind.npz")
    assert not set(blind["user_ids"].tolist()) & set(alone["user_ids"].tolist())
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_the_exports_can_be_attacked_across_windows(code, news: News, tmp_path: Path):
    """The path from features to a figure; raw inputs name most people within a window."""
    from lethe.reidentification.attack import measure
    from lethe.reidentification.clean import shared_inputs
    from lethe.reidentification.gallery import gallery_means, split_periods, split_rows
    from lethe.reidentification.ranks import ranks

    def attack(vectors, split, metric="cosine"):
        probes, owner = vectors[split.probe_rows], split.probe_user
        return measure(ranks(probes, gallery_means(vectors, split), owner, metric), owner)

    network = code.networks.make("mlp", code.networks.Shape())
    window = news.window("validation")
    parts = {name: (news.window(name), news.window(name).rows_of()) for name in ("train",)}
    parts["validation"] = (window, window.rows_of())
    code.training.export(network, parts, tmp_path / "reps.npz", size=500)
    found = np.load(tmp_path / "reps.npz")
    ids, period = found["user_ids"], found["period"]
    at = period == "validation"
    copied = found["features"][at][:, :27]
    assert shared_inputs(copied, ids[at]).people == 1.0  # the copied history, as the notes say
    within = attack(copied, split_rows(ids[at]), metric="l2")
    assert within.top[1].value is not None and within.top[1].value > 0.99
    across = attack(found["representations"], split_periods(ids, period, "train", "validation"))
    assert across.users > 100 and across.lift[1].value is not None
