"""Hold-outs of another time, site or group: drift is measured, and is no part of the risk."""

from dataclasses import replace

import numpy as np
import pytest
from model_audits import audited, valid
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score

from lethe.data.condition import External
from lethe.data.dataset import Dataset
from lethe.errors import InputError
from lethe.membership.audit import baseline_spec
from lethe.membership.settings import AuditSettings
from lethe.membership.utility import drift, utility
from lethe.training.design import membership
from lethe.training.recipe import SklearnRecipe
from lethe.training.shadows import Shadows

pytestmark = pytest.mark.usefixtures("unplanted")

LINEAR = SklearnRecipe(LogisticRegression(max_iter=300, C=30.0))


def drifted(records: int = 260, far: int = 60, seed: int = 0, groups: bool = False) -> Dataset:
    """The last `far` records follow another rule; a model of the others is often wrong on them."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(records, 8)).astype(np.float32)
    rows = np.arange(records) >= records - far
    score = np.where(rows, features[:, 1] - features[:, 0], features[:, 0] + features[:, 1])
    labels = (score + rng.logistic(size=records) / 4 > 0).astype(np.int64)
    ids = np.array([f"r{at}" for at in range(records)])
    people = np.array([f"p{at % (records // 2)}" for at in range(records)]) if groups else None
    names = tuple(f"x{at}" for at in range(8))
    made = Dataset("drift", features, labels, ("no", "yes"), ids, names, "made", groups=people)
    return replace(made, external=External("year >= 2016", rows))


def run(path, data, recipe, **settings):
    chosen = AuditSettings(**{"models": 16, "mitigations": ("removal",), **settings})
    return audited(path, data, recipe, chosen)


def test_no_attack_sees_the_external_records(tmp_path) -> None:
    """Whatever these records are, every number on the risk is that of an audit without them."""
    data = drifted()
    inside = ~data.external.rows
    alone = replace(
        data,
        features=data.features[inside],
        labels=data.labels[inside],
        ids=data.ids[inside],
        external=None,
    )
    attacks = ("lira-online", "rmia-offline", "rmia-online", "base-online", "quantile")
    asked = {"attack": attacks, "mitigations": ("none",), "holdout": 0.3, "models": 8}
    one = run(tmp_path / "with", data, LINEAR, **asked)
    two = run(tmp_path / "without", alone, LINEAR, **asked)
    same = ("attacks", "risk", "vulnerability", "train_utility", "strongest_attack")
    for key in same:
        assert one.candidates[0][key] == two.candidates[0][key]
    assert one.candidates[0]["drift"]["random"] == two.candidates[0]["utility"]
    assert one.data["holdout"] == two.data["holdout"] and one.data["pool"] == two.data["pool"]


def test_utility_is_judged_on_them_and_the_loss_told(tmp_path) -> None:
    findings = run(tmp_path, drifted(), LINEAR, attack=("lira-online",))
    document = valid(findings)
    assert document["data"]["external"] == {"by": "year >= 2016", "records": 60}
    for candidate in document["candidates"]:
        near, loss = candidate["drift"]["random"], candidate["drift"]["loss"]
        assert candidate["utility"]["n"] == 16 * 60 and near["n"] == 16 * 40
        assert loss["value"] == pytest.approx(near["value"] - candidate["utility"]["value"])
        assert loss["low"] > 0.1
    assert sum(row["records"] for row in document["candidates"][0]["per_class"]) == 160
    page = findings.report(tmp_path / "page.html").read_text()
    assert "60 records with year &gt;= 2016" in page and "no part of any risk" in page
    assert {"drift.loss", "drift.random"} <= set(findings.to_frame()["metric"])


def test_r2_is_that_of_each_kind_of_records(tmp_path) -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(240, 5)).astype(np.float32)
    rows = np.arange(240) % 4 == 3
    targets = features[:, 0] + 0.3 * rng.normal(size=240) + np.where(rows, 5 * features[:, 1], 0)
    data = Dataset(
        "line",
        features,
        targets,
        (),
        np.array([f"r{at}" for at in range(240)]),
        tuple("abcde"),
        "made",
        external=External("site = west", rows),
    )
    found = run(
        tmp_path, data, SklearnRecipe(Ridge()), mitigations=("none",), attack=("loss-threshold",)
    )
    spec = baseline_spec(data, SklearnRecipe(Ridge()), AuditSettings(models=16))
    assert not (spec.pool & rows).any() and (spec.unseen | rows | spec.pool).all()
    truth = {"near": [], "far": []}
    inside = np.flatnonzero(spec.pool)
    for row in membership(16, len(inside), 0):
        model = Ridge().fit(features[inside[row]], targets[inside[row]])
        for key, side in (("near", spec.unseen), ("far", rows)):
            truth[key].append(r2_score(targets[side], model.predict(features[side])))
    told = found.candidates[0]
    assert told["drift"]["random"]["value"] == pytest.approx(np.mean(truth["near"]), abs=2e-3)
    assert told["utility"]["value"] == pytest.approx(np.mean(truth["far"]), abs=2e-3)


def simulated(rng: np.random.Generator, near: int, far: int, people: bool) -> Shadows:
    """Models that are right with their own skill, records with their own ease."""
    skill, models = rng.normal(0, 0.3, size=(16, 1)), 16
    ease = rng.normal(0.8, 1.0, size=near + far)
    ease[near:] -= 0.7
    groups = None
    if people:
        groups = np.concatenate([np.arange(near) // 4, np.arange(far) // 4])
        ease += rng.normal(0, 1.0, size=max(near, far) // 4 + 1)[groups]
    right = rng.random((models, near + far)) < 1 / (1 + np.exp(-(skill + ease)))
    members = np.zeros((models, 4), bool)
    members[::2] = True
    plain = Shadows(np.zeros((models, 4), np.float32), members, np.arange(4).astype(str))

    def side(cut: slice) -> dict:
        return {
            "population": right[:, cut].astype(np.float32),
            "population_correct": right[:, cut],
            "population_labels": np.zeros(right[:, cut].shape[1], np.int64),
            "population_groups": None if groups is None else groups[cut],
        }

    made = replace(plain, task="classification", **side(slice(0, near)))
    return replace(made, external=replace(made, **side(slice(near, None))))


@pytest.mark.parametrize("people", [False, True])
def test_limits_of_the_drift_hold(people: bool) -> None:
    rng = np.random.default_rng(5)
    found = [drift(simulated(rng, 80, 60, people), 0.95) for _ in range(300)]
    truth = np.mean([drift_.loss.value for drift_ in found])
    held = [one.loss.low <= truth <= one.loss.high for one in found]
    assert np.mean(held) >= 0.92  # 300 draws of 95 %: below 0.92 in one of 90


def test_a_model_alike_everywhere_does_not_drift() -> None:
    made = simulated(np.random.default_rng(0), 50, 50, False)
    assert drift(replace(made, external=None), 0.95) is None
    again = replace(made, external=replace(made, external=None))
    found = drift(again, 0.95)
    assert (
        found is not None
        and found.loss.value == pytest.approx(0)
        and found.near == utility(again, 0.95)
    )


def test_persons_may_stand_on_both_sides(tmp_path) -> None:
    found = run(
        tmp_path, drifted(groups=True), LINEAR, attack=("lira-online",), mitigations=("none",)
    )
    assert found.candidates[0]["drift"]["loss"]["low"] > 0


def test_hold_outs_that_carry_nothing_are_refused() -> None:
    data = drifted()
    for rows, match in (
        (np.ones(260, bool), "at least 2"),
        (data.labels == 0, "one label to train on"),
        (np.arange(260), "must be .260,. and bool"),
    ):
        with pytest.raises(InputError, match=match):
            replace(data, external=External("mine", rows))
