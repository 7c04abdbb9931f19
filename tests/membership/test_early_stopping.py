"""Early stopping costs no training, finds a better stop than a third, and counts the choice."""

import functools
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from model_audits import TRAINED, audited, valid
from simulated import audit, paired, shadows

from lethe.cli.plan import head_words
from lethe.data.dataset import Dataset
from lethe.membership.audit import audit_model
from lethe.membership.by_hand import chunks_of
from lethe.membership.candidates import best_stop, compare_stops, measure
from lethe.membership.measure import run_attacks
from lethe.membership.planning import plan
from lethe.membership.settings import AuditSettings
from lethe.mitigations.mitigation import BASELINE, EarlyStopping
from lethe.training.batches import stop_epochs
from lethe.training.folder import SettledRun
from lethe.training.recipe import TorchRecipe

EPOCHS = 60
pytestmark = pytest.mark.usefixtures("unplanted", "measured_here", "trained_here")


def noisy(records=400, columns=30, seed=0):
    """Two classes that four columns tell, a fifth of the labels wrong, and noise to memorise."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(records, columns)).astype(np.float32)
    truth = features[:, :4].sum(axis=1) > 0
    labels = np.where(rng.random(records) < 0.2, ~truth, truth).astype(np.int64)
    ids = np.arange(records).astype(str)
    names = tuple(f"x{at}" for at in range(columns))
    return Dataset("noisy", features, labels, ("no", "yes"), ids, names, "made up")


def network():
    import torch

    return torch.nn.Sequential(torch.nn.Linear(30, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))


RECIPE = TorchRecipe(network, epochs=EPOCHS, batch_size=32, learning_rate=0.01)
SETTINGS = AuditSettings(
    models=16,
    mitigations=("early-stopping",),
    attack=("lira-online", "rmia-offline"),
    holdout=0.3,
    margin=0.04,
)
QUICK = replace(SETTINGS, attack=("lira-online",), margin=0.01)
DATA = noisy()


def in_folder(path, do=audit_model, **more):
    return audited(path, DATA, RECIPE, SETTINGS, do, **more)


def by_name(findings):
    return {one["name"]: one for one in valid(findings)["candidates"]}


@pytest.fixture(scope="module", autouse=True)
def whatever_remains():
    """The stop is recommended here however much it leaves."""
    with patch("lethe.evidence.frontier.floor", lambda chance: 1.0):
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """An audit of 16 models, with how many it trained."""
    path = tmp_path_factory.mktemp("early") / "run"
    findings = in_folder(path)
    return path, findings, sum(TRAINED)


def test_no_further_model_is_trained(run):
    path, findings, trained = run
    assert trained == 16
    assert [place.name.split("-")[0] for place in (path / "shadows").iterdir()] == ["baseline"]
    found = by_name(findings)
    assert list(found) == ["baseline", "early-stopping"]
    early = found["early-stopping"]
    assert [stop["epochs"] for stop in early["stops"]] == list(stop_epochs(EPOCHS))
    assert early["settings"]["epochs"] in early["settings"]["stops"]
    assert early["mitigation"] == (
        f"training that ends after {early['settings']['epochs']} of 60 epochs, the best of 7 stops"
    )
    assert early["guarantee"]["kind"] == "empirical-only"


def test_the_choice_is_counted_in_every_limit(run):
    path, findings, _ = run
    early = by_name(findings)["early-stopping"]
    counted = findings.frontier["recommended"]
    assert counted["candidate"] == "early-stopping" and counted["among"] == 7
    for attack in early["attacks"].values():
        for metric in (attack["auc"], *attack["tpr"].values()):
            assert "refused" in metric or "Bonferroni over 14 results" in metric["method"]
    for stop in early["stops"]:
        for metric in (stop["risk"], stop["utility_loss"]):
            assert "Bonferroni over 7" in metric["method"] and metric["confidence"] == 0.95
    for metric in (early["utility_loss"], early["risk_change"]):
        assert "Bonferroni over 7 stops" in metric["method"] and metric["confidence"] == 0.95
    # No candidate but the stops.
    assert counted["risk"]["low"] == pytest.approx(early["risk"]["low"], rel=1e-6)


def test_limits_of_a_chosen_release_are_those_of_a_smaller_error_each():
    asked = audit(8, 150), ("lira-online", "loss-threshold"), (0.1,)
    chosen, plain = run_attacks(*asked, among=5), run_attacks(*asked)
    strict = run_attacks(*asked, confidence=0.99)
    for name, result in chosen.items():
        for fpr in (None, 0.1):
            one, wanted = result.metric(fpr), strict[name].metric(fpr)
            assert (one.low, one.high) == pytest.approx((wanted.low, wanted.high), abs=1e-12)
            assert one.low < plain[name].metric(fpr).low and one.confidence == 0.95


def at_stops(loss, t, seed=0, models=16, records=300, held=200):
    """Signals of models at each stop: `t` how far members stand out, `loss` of accuracy."""
    rng = np.random.default_rng(seed)
    members = paired(models, records, seed)
    noise = rng.normal(size=members.shape)
    draws = rng.random((models, held))

    def cut(stop):
        made = shadows(members, noise + 2**0.5 * t[stop] * members)
        right = draws < 0.9 - loss[stop]
        return replace(
            made,
            population=np.zeros((models, held), np.float32),
            population_correct=right,
            population_labels=np.zeros(held, np.int64),
            task="classification",
        )

    return cut


@pytest.mark.parametrize(
    ("loss", "t", "best"),
    [
        # Within the margin of 0.01 the safest is taken, although a later one costs less.
        ({1: 0.2, 2: 0.0, 3: 0.0, 9: 0.0}, {1: 0.0, 2: 0.7, 3: 1.5, 9: 2.0}, 2),
        # None is within it: the cheapest of those that halve the risk.
        ({1: 0.2, 2: 0.1, 3: 0.05, 9: 0.0}, {1: 0.0, 2: 0.1, 3: 1.9, 9: 2.0}, 2),
        # None does either: the cheapest; of equal ones the later.
        ({1: 0.2, 2: 0.1, 3: 0.1, 9: 0.0}, {1: 1.9, 2: 1.9, 3: 1.9, 9: 2.0}, 3),
    ],
)
def test_the_best_stop_is_what_the_audit_would_recommend(loss, t, best):
    cut = at_stops(loss, t, records=150)
    first = measure(cut(9), BASELINE, None, QUICK)
    found, stops = compare_stops((1, 2, 3), cut, first, QUICK)
    assert found == best and [stop.epochs for stop in stops] == [1, 2, 3]
    shown = best_stop(EarlyStopping((1, 2, 3), 9), cut, first, QUICK)
    assert shown.mitigation.settings["epochs"] == best and shown.among == 3
    alone = measure(cut(best), BASELINE, first, QUICK)
    assert shown.risk.value == alone.risk.value
    assert shown.risk.low < alone.risk.low and shown.risk.high > alone.risk.high


def test_stops_are_compared_by_lira_where_the_audit_has_no_attack_by_a_formula():
    cut = at_stops({1: 0.0, 2: 0.0}, {1: 0.5, 2: 1.0}, records=120)
    first = measure(cut(2), BASELINE, None, QUICK)
    first = replace(first, results={"learned-ratio": first.results["lira-online"]})
    best, (stop,) = compare_stops((1,), cut, first, QUICK)
    assert best == 1 and stop.attack == "lira-online"


def test_by_hand_early_stopping_is_the_plain_models(run):
    path, _, _ = run
    settled = SettledRun(path)
    both = [
        chunks_of(settled, DATA, RECIPE, SETTINGS, name) for name in ("baseline", "early-stopping")
    ]
    names = [[(job.folder, job.chunk, job.spec_hash, job.stops) for job in jobs] for jobs in both]
    assert names[0] == names[1] and all(job.finished() is not None for job in both[1])


def test_a_plan_counts_what_stops_take(run):
    path, _, _ = run
    found = in_folder(path, do=functools.partial(plan, pilot=16))
    assert found.candidates == 2 and sum(TRAINED) == 0
    assert found.cost.stop_bytes == 7 * 5 * len(DATA.labels)
    size = sum(shard.stat().st_size for shard in path.glob("shadows/baseline-*/*.safetensors"))
    (row,) = (row for row in found.rows if row.models == 16)
    assert row.disk == pytest.approx(size, abs=200)
    # A further candidate keeps no stops: 6 bytes a cell, and the header of a chunk.
    further = found.cost.disk(16, 1) - row.disk
    assert further == pytest.approx(16 * (6 * len(DATA.labels) + 12), rel=0.05)
    timed = replace(found.cost, seconds=1.0, worker_bytes=10**8)
    assert " of it are early stops" in head_words(replace(found, cost=timed))[1]
