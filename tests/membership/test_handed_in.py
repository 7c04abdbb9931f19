"""What was handed in: another order of membership, split copies, members drawn otherwise."""

import dataclasses

import numpy as np
import pytest
from simulated import DESIGNS, coins, paired, shadows, signals
from sklearn.linear_model import LogisticRegression

import lethe
from lethe.membership import inputs
from lethe.membership.audit import audit_scores
from lethe.membership.inputs import drawn_alike, misplaced, own_rows
from lethe.membership.records import near_pairs
from lethe.membership.settings import AuditSettings
from lethe.training.chunks import Spec, chunk_jobs, train_chunk
from lethe.training.recipe import CallableRecipe, Treatment
from lethe.training.shadows import Shadows

pytestmark = pytest.mark.usefixtures("no_page")

QUIET = {"save": False, "quiet": True}
LOOSE = AuditSettings(attack=("loss-threshold",), rule=("auc<=0.9",))


def each_row(members, rng):
    return np.stack([np.roll(row, rng.integers(1, len(row))) for row in members])


ORDERS = {
    "records by one": lambda m, rng: np.roll(m, 1, axis=1),
    "models by one": lambda m, rng: np.roll(m, 1, axis=0),
    "models by two": lambda m, rng: np.roll(m, 2, axis=0),
    "both": lambda m, rng: np.roll(m, (2, 5), axis=(0, 1)),
    "records backwards": lambda m, rng: m[:, ::-1],
    "models shuffled": lambda m, rng: m[rng.permutation(len(m))],
    "models each by its own": each_row,
    "two models exchanged": lambda m, rng: m[np.r_[2, 1, 0, 3 : len(m)]],
}


@pytest.mark.parametrize("order", ORDERS)
def test_membership_in_another_order_stops(order):
    for seed in range(2):
        members = (paired if seed else coins)(16, 500, seed)
        leaky = shadows(members, signals(members, seed, 1.5))
        moved = dataclasses.replace(
            leaky, members=ORDERS[order](members, np.random.default_rng(seed))
        )
        assert misplaced(moved, seed) and not misplaced(leaky, seed)


@pytest.mark.parametrize("kind", ["all", "one", "last digits", "another membership", "a target"])
def test_a_model_that_is_handed_in_twice_stops(kind):
    """Eight copies of one pair counted as eight pairs: intervals were a third as wide."""
    members = paired(8, 300)
    phi = signals(members, 0, 0.3).astype(np.float32)
    rows = np.arange(8) % 2 if kind == "all" else np.r_[0:6, 0, 1]
    told = members if kind == "another membership" else members[rows]
    phi = phi[rows]
    if kind == "last digits":
        phi[6:] = np.nextafter(phi[6:], np.float32(9))
    whole, targets = shadows(told, phi), None
    if kind == "a target":
        whole, targets = whole.select(slice(0, 6)), whole.select(slice(6, 7))
    found = audit_scores("x", whole, LOOSE, targets=targets)
    assert found.rules[0]["outcome"] == "not-enough-evidence"
    (check,) = [one for one in found.checks if one["name"] == "input: repeated-models"]
    assert check["status"] == "fail" and "--accept" not in check["detail"]


@pytest.mark.parametrize("votes", [False, True])
def test_models_that_differ_or_have_few_answers_are_not_taken_for_one(votes):
    """Labels alone, all right but for one record, may agree."""
    members = paired(8, 300)
    phi = signals(members, 0, 0.3, 30.0, sd_in=0.01, sd_out=0.01)
    made = shadows(members, np.where(np.arange(300) > 0, 1.0, -1.0) + 0 * phi if votes else phi)
    found = audit_scores("x", made, LOOSE)
    assert not [one for one in found.checks if one["name"] == "input: repeated-models"]
    assert votes or found.rules[0]["outcome"] == "pass"


def test_a_waiver_lets_membership_in_another_order_pass():
    members = paired(16, 500)
    moved = shadows(np.roll(members, 1, axis=1), signals(members, 0, 1.5))
    asked = AuditSettings(attack=("lira-online",), rule=("auc<=0.9",))
    document = audit_scores("x", moved, asked).to_json()
    assert document["verdict"]["outcome"] == "not-enough-evidence"
    accepted = dataclasses.replace(asked, accept=("membership-order",))
    assert "accepted" in {
        one.get("effect") for one in audit_scores("x", moved, accepted).to_json()["checks"]
    }


def test_records_in_another_order_are_seen_of_many_models():
    members = paired(64, 600)
    leaky = shadows(members, signals(members, 0, 1.5))
    moved = members[:, np.random.default_rng(0).permutation(600)]
    assert "records" in misplaced(dataclasses.replace(leaky, members=moved))


def folds(models, records, seed):
    """Each model leaves out one block of the records, in their order."""
    return np.arange(models)[:, None] != np.arange(records) * models // records


@pytest.mark.parametrize("design", [*DESIGNS, "folds"])
@pytest.mark.parametrize("gap", [0.0, 2.0])
def test_membership_where_it_belongs_is_not_stopped(design, gap):
    """Also where neighbours in the table are alike, as sorted records are."""
    for seed in range(4):
        models, records = ((4, 100), (8, 300), (16, 600), (65, 200))[seed]
        members = DESIGNS.get(design, folds)(models, records, seed)
        rng = np.random.default_rng(seed)
        waves = np.cumsum(rng.normal(size=members.shape), axis=1) * (seed % 2)
        groups = np.arange(records) // 2 if seed == 2 else None
        if groups is not None:
            members = members[:, groups]
        made = shadows(members, signals(members, seed, gap) + waves, groups=groups)
        assert misplaced(made, seed) == ""


def split(kind, X, rng):
    return {
        "random": rng.random(len(X)) < 0.5,
        "near the middle": np.abs(X[:, 1]) < 0.7,
        "by two columns": X[:, 1] * X[:, 2] > 0,
    }[kind]


@pytest.mark.parametrize("kind", ["random", "near the middle", "by two columns"])
def test_members_that_features_tell_stop_the_verdict_of_a_fitted_model(kind):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 5))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    members = split(kind, X, rng)
    fitted = LogisticRegression().fit(X[members], y[members])
    found = lethe.audit(fitted, X, y, members=members, rule="auc<=0.5", **QUIET)
    checks = [one for one in found.checks if "members-drawn-alike" in one["name"]]
    if kind == "random":
        assert not checks
        return
    (check,) = checks
    assert check["status"] == "fail" and "--accept members-drawn-alike" in check["detail"]
    assert found.verdict["outcome"] == "not-enough-evidence"


def test_labels_tell_members_of_given_models():
    """Each model was trained on one class only: what it knows is the class."""
    labels = np.arange(400) % 2
    rng = np.random.default_rng(0)
    chosen = rng.random(16) < 0.5
    members = (labels == chosen[:, None]) & (rng.random((16, 400)) < 0.8)
    made = shadows(members, signals(members, 0), labels=labels.astype(str))
    assert drawn_alike(made).effect == "stops"
    assert drawn_alike(dataclasses.replace(made, members=paired(16, 400))) is None


def test_a_random_split_is_called_one_that_was_not_once_in_a_hundred():
    stopped = 0
    for seed in range(16):
        rng = np.random.default_rng([seed, 3])
        one = shadows(coins(1, 200, seed), rng.normal(size=(1, 200)))
        stopped += drawn_alike(one, rng.normal(size=(200, 3)), seed) is not None
    assert stopped <= 2  # P(3 or more of 16 at 0.01) < 0.001


@pytest.mark.parametrize("axis", [0, 1])
def test_sorted_scores_stop(axis):
    """They keep no membership, and passed."""
    members = paired(8, 200, 1)
    made = shadows(members, np.sort(signals(members, 1, 2.0), axis=axis))
    asked = AuditSettings(attack=("lira-offline", "loss-threshold"), rule=("auc<=0.6",))
    assert audit_scores("x", made, asked).verdict["outcome"] == "not-enough-evidence"


@pytest.mark.parametrize("jitter", [0.0, 1e-6])
@pytest.mark.parametrize("models", [4, 16])
def test_copies_that_are_members_where_others_are_not_earn_no_pass(models, jitter):
    """Each record stands twice, in training as one or as the other: the model knows it always."""
    members = paired(models, 300, 2)
    phi = signals(members, 2, 1.5)
    twice = np.hstack([phi, phi + jitter * np.random.default_rng(0).normal(size=phi.shape)])
    made = shadows(np.hstack([members, ~members]), twice)
    asked = AuditSettings(attack=("lira-offline", "loss-threshold"), rule=("auc<=0.99",))
    document = audit_scores("x", made, asked).to_json()
    assert document["verdict"]["outcome"] == "not-enough-evidence"
    (check,) = [one for one in document["checks"] if one["name"] == "input: copies"]
    assert check["status"] == "fail" and "--group" in check["detail"]


def test_near_copies_of_the_data_are_measured_both_ways():
    """Scores are no copies of each other here; the features are."""
    members, rng = np.hstack([paired(16, 200, 2)] * 2), np.random.default_rng(0)
    members[:, 200:] ^= True
    features = rng.normal(size=(200, 4))
    features = np.vstack([features, features + 1e-4])
    made = shadows(members, signals(members, 2, 1.5))
    asked = AuditSettings(attack=("lira-offline",), rule=("auc<=0.99",))
    outcomes = [
        audit_scores("x", models, asked, features=features).to_json()["verdict"]["outcome"]
        for models in (made, dataclasses.replace(made, groups=np.arange(400)))
    ]
    assert outcomes == ["not-enough-evidence", "pass"]
    assert np.unique(near_pairs(features)).size == 200
    assert np.unique(near_pairs(rng.normal(size=(600, 3)))).size > 590


ROWS = {
    "its own": lambda rows, seed: rows,
    "all of them": lambda rows, seed: np.arange(300),
    "some by its seed": lambda rows, seed: np.random.default_rng(seed).permutation(300)[:150],
    "shuffled": lambda rows, seed: np.random.default_rng(7).permutation(300)[rows],
    "the next ones": lambda rows, seed: (rows + 1) % 300,
}


def effects(spec, folder):
    """What the check of a training function's rows does to an audit of eight models."""
    jobs = chunk_jobs(spec, folder, 8, 4)
    for job in jobs:
        train_chunk(job)
    plain = Shadows.from_shards(jobs, np.arange(300).astype(str))
    return [check.effect for check in own_rows(plain, spec, folder)]


def shares_of(features, labels, used):
    """What a model answers that knows no feature: how often each class stood in its rows."""
    share = np.bincount(labels[used], minlength=2) / len(used)
    return lambda asked: np.tile(np.log(share), (len(asked), 1))


def means_of(features, labels, used):
    """Nearest class means: the audit of the documentation's own example was stopped."""
    means = np.stack([features[used][labels[used] == c].mean(axis=0) for c in (0, 1)])
    return lambda asked: -((features[asked][:, None] - means) ** 2).sum(axis=2) / 2


def number_of(features, labels, used):
    """A regression that knows no feature."""
    return lambda asked: np.full(len(asked), labels[used].mean())


@pytest.mark.parametrize("model", [shares_of, means_of, number_of])
@pytest.mark.parametrize("read", ROWS)
def test_a_function_that_trains_on_other_rows_stops(model, read, tmp_path):
    """Its models are told by no attack, and each such audit passed `auc <= 0.6`."""
    rng = np.random.default_rng(0)
    number = model is number_of
    labels = rng.normal(size=300) if number else rng.integers(0, 2, 300)
    features = (labels[:, None] + rng.normal(size=(300, 3))).astype(np.float32)

    def train(rows, weights, seed):
        return model(features, labels, ROWS[read](rows, seed))

    recipe = CallableRecipe(train, "prediction" if number else "logits")
    pool, classes = rng.random(300) < 0.8, 0 if number else 2
    spec = Spec(features, labels, classes, pool, recipe, Treatment(), 0)
    assert effects(spec, tmp_path) == ([] if read == "its own" else ["stops"])


def test_functions_that_read_other_rows_hardly_ever_go_through(monkeypatch, tmp_path):
    """Of four models each 70th did: five deviations, estimated from four, are not rare."""
    rng, labels = np.random.default_rng(0), np.arange(60) % 2
    recipe = CallableRecipe(lambda rows, weights, seed: None, "logits")
    spec = Spec(np.eye(60), labels, 2, np.ones(60, bool), recipe, Treatment(), 0)
    monkeypatch.setattr(inputs, "_trained_on", lambda *_: rng.normal(size=(2, 60)))
    plain = [shadows(paired(4, 60), rng.normal(size=(4, 60))) for _ in range(1000)]
    assert sum(not list(own_rows(one, spec, tmp_path)) for one in plain) <= 2
    moved = lambda part, *_: 3 * part + rng.normal(size=(2, 60))  # noqa: E731
    monkeypatch.setattr(inputs, "_trained_on", moved)
    through = sum(not list(own_rows(one, spec, tmp_path)) for one in plain[:100])
    assert through >= 95, through


def test_a_function_that_fails_without_a_class_is_asked_about(tmp_path):
    """The audit itself is not lost where the control cannot be trained."""
    labels = np.arange(40) % 2

    def train(rows, weights, seed):
        if abs(labels[rows].mean() - 0.5) > 0.2:
            raise ValueError("too few of a class")
        return lambda asked: np.full((len(asked), 2), 0.5)

    recipe = CallableRecipe(train, "probabilities")
    spec = Spec(np.eye(40), labels, 2, np.ones(40, bool), recipe, Treatment(), 0)
    plain = shadows(paired(8, 40), signals(paired(8, 40)))
    (check,) = own_rows(plain, spec, tmp_path)
    assert check.effect == "asks" and "too few of a class" in check.text
