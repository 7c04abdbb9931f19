"""LiRA with several queries: LiRA itself for one, their mean for several, and in an audit."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from model_audits import audited
from simulated import DESIGNS, paired, shadows, signals

from lethe.data.dataset import subset
from lethe.data.shipped import digits
from lethe.errors import InputError
from lethe.membership.attacks.lira import PER_RECORD_FROM
from lethe.membership.audit import audit_model, baseline_spec
from lethe.membership.scoring import score, score_all
from lethe.membership.settings import AuditSettings
from lethe.training.augment import Augment
from lethe.training.recipe import Layout, TorchRecipe
from lethe.training.shadows import Shadows

pytestmark = pytest.mark.usefixtures("unplanted", "measured_here")


def multi_query_scores(phi, members, variance="auto", seed=0):
    """Scores of signals (K, N, A), the first query being the record itself."""
    own, copies = phi[:, :, 0], phi[:, :, 1:]
    made = replace(shadows(members, own), signals=own, queries=copies)
    return score(made, ("lira-queries",), variance, seed)["lira-queries"]


def queries(members, count=3, seed=0, gap=0.0, shared=0.0, record_sd=1.0):
    """(K, N, A): noise of which a share is common to the queries of a model and record."""
    rng = np.random.default_rng([seed, 2])
    common = math.sqrt(shared) * rng.normal(size=members.shape)
    own = math.sqrt(1 - shared) * rng.normal(size=(*members.shape, count))
    base = record_sd * rng.normal(size=members.shape[1]) + gap * members + common
    return (base[:, :, None] + own).astype(np.float32)


@pytest.mark.parametrize("rule", ["auto", "pooled", "per-record"])
@pytest.mark.parametrize("design", DESIGNS)
def test_one_query_is_lira_exactly(design, rule):
    members = DESIGNS[design](40 + (design == "nearly balanced"), 60, 3)
    phi = signals(members, 4, gap=1.0, record_sd=3).astype(np.float32)
    one = multi_query_scores(phi[:, :, None], members, rule, seed=5)
    lira = score_all(phi, members, ("lira-online",), rule, seed=5)["lira-online"]
    assert np.array_equal(one, lira, equal_nan=True) and np.isfinite(lira).any()


@pytest.mark.parametrize("models", [PER_RECORD_FROM - 2, PER_RECORD_FROM])
def test_several_are_their_mean_under_the_variance_rule_of_lira(models):
    members = paired(models, 40, 1)
    phi = queries(members, 4, 1, gap=1.0)
    each = [score_all(phi[:, :, a], members, ("lira-online",))["lira-online"] for a in range(4)]
    wanted = np.mean(each, axis=0)
    np.testing.assert_allclose(multi_query_scores(phi, members), wanted, rtol=1e-12, atol=1e-12)


def test_refusals():
    members = paired(4, 10, 1)
    phi = queries(members, 2).astype(np.float64)
    with pytest.raises(InputError, match="variance='per-record' needs at least 2 reference mo"):
        multi_query_scores(phi, members, variance="per-record")
    with pytest.raises(InputError, match="no record has a reference model on both sides"):
        multi_query_scores(phi[:2], members[:2])
    flat = phi.copy()
    flat[:, :, 1] = 3.0
    with pytest.raises(InputError, match="signals of query 1 are all 3.0; constant signals"):
        multi_query_scores(flat, members)
    flat[1, 2, 1] = -np.inf
    with pytest.raises(InputError, match="signal of model 1, record 2 is -inf"):
        multi_query_scores(flat, members)
    with pytest.raises(InputError, match="changed copies of each record"):
        audited_settings = AuditSettings(models=4, attack=("lira-queries",), mitigations=("none",))
        audit_model(small(), PLAIN, audited_settings, None)  # type: ignore[arg-type]  # not reached


# --- in an audit


def network():
    import torch

    return torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10))


def small():
    return subset(digits(), 120, 0)


PLAIN = TorchRecipe(network, epochs=6, batch_size=16, learning_rate=0.02)
FLIPPED = replace(PLAIN, augment=Augment((1, 8, 8), flip=True, crop=1))


def run(path, recipe, **more):
    settings = AuditSettings(
        **{"models": 4, "mitigations": ("none",), "augmented_queries": 3, **more}
    )
    return audited(path, small(), recipe, settings), path


@pytest.mark.slow
def test_a_recipe_with_augmentation_is_asked_about_changed_copies(tmp_path):
    options = ("early-stopping", "label-only", "dp-sgd")
    asked = {"mitigations": options, "epsilon": (20.0,), "delta": 1e-5}
    asked["attack"] = ("lira-online", "lira-queries")
    findings, path = run(tmp_path / "a", FLIPPED, **asked)
    for candidate in json.loads(findings.to_bytes())["candidates"]:
        assert candidate["attacks"]["lira-queries"]["auc"]["n"] > 0, candidate["name"]
    shard = sorted((path / "shadows").rglob("*.safetensors"))[0]
    before = shard.read_bytes()
    shard.unlink()
    again, _ = run(tmp_path / "a", FLIPPED, **asked)
    assert again.to_bytes() == findings.to_bytes() and shard.read_bytes() == before
    without, _ = run(tmp_path / "b", FLIPPED, augmented_queries=0, attack=("lira-online",))
    own = findings.candidates[0]["attacks"]["lira-online"]["auc"]["value"]
    assert without.candidates[0]["attacks"]["lira-online"]["auc"]["value"] == own


def test_the_copies_are_those_of_training_and_the_same_for_every_model(tmp_path):
    from lethe.training.chunks import chunk_jobs, train_chunk

    settings = AuditSettings(models=4, augmented_queries=3)
    spec = baseline_spec(small(), FLIPPED, settings)
    jobs = [replace(job, layout=Layout("chain")) for job in chunk_jobs(spec, tmp_path, 4, 2)]
    for job in jobs:
        train_chunk(job)
    made = Shadows.from_shards(jobs, small().ids)
    assert made.queries is not None and made.queries.shape == (4, int(spec.pool.sum()), 3)
    assert made.every_query.shape[2] == 4
    # A copy is nearly the record: its signal is near that of the record, and seldom the same.
    near = np.corrcoef(made.signals.ravel(), made.queries[:, :, 0].ravel())[0, 1]
    assert 0.2 < near < 0.9999
    assert (made.of_records(np.arange(5)).queries == made.queries[:, :5]).all()
    assert (made.select([1, 0]).queries == made.queries[[1, 0]]).all()
    assert baseline_spec(small(), PLAIN, settings).queries == 0
