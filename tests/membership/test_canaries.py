"""Canaries: what they are made of, their coins, their files, and real trainings found out."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from scipy.stats import chi2
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.one_run import Guesses
from lethe.membership.one_run import Canaries, load_canaries, plan_canaries


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    return data.data.astype(np.float32), data.target.astype(np.int64)


def table(rows=200, columns=4, classes=3, seed=0):
    rng = np.random.default_rng([seed, 9])
    return rng.normal(size=(rows, columns)).astype(np.float32), rng.integers(0, classes, rows)


# What they are made of.


def test_random_label_canaries_are_records_with_a_wrong_label(digits):
    features, labels = digits
    plan = plan_canaries(features, labels, 300, seed=3)
    rows = {record.tobytes(): label for record, label in zip(features, labels, strict=True)}
    assert all(
        rows[own.tobytes()] != wrong for own, wrong in zip(plan.features, plan.labels, strict=True)
    )
    assert len({own.tobytes() for own in plan.features}) == 300
    assert plan.features.dtype == np.float32 and plan.labels.dtype == np.int64


def test_wrong_labels_are_even_over_the_other_classes():
    labels = np.repeat([2, 5, 7, 11], 1000)
    plan = plan_canaries(np.arange(8000.0).reshape(4000, 2), labels, 4000, seed=1)
    own = labels[(plan.features[:, 0] / 2).astype(int)]
    for label in (2, 5, 7, 11):
        found = np.unique(plan.labels[own == label], return_counts=True)
        assert label not in found[0] and len(found[0]) == 3
        assert ((found[1] - 1000 / 3) ** 2 / (1000 / 3)).sum() < chi2.ppf(0.9999, 2)


def test_unlike_rows_of_a_table_keep_the_columns_and_lose_what_ties_them():
    rng = np.random.default_rng(0)
    column = rng.normal(size=2000)
    features = np.stack([column, column, np.round(column)], axis=1)
    plan = plan_canaries(features, rng.integers(0, 3, 2000), 1500, "out-of-distribution", seed=2)
    for own, drawn in zip(features.T, plan.features.T, strict=True):
        assert np.isin(drawn, own).all()
    assert abs(np.corrcoef(plan.features[:, 0], plan.features[:, 1])[0, 1]) < 4 / math.sqrt(1500)
    assert set(plan.labels) == {0, 1, 2}


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_unlike_images_are_even_noise_in_the_range_of_the_data(kind):
    rng = np.random.default_rng(0)
    images = rng.integers(10, 31, (50, 3, 6, 6)).astype(kind)
    plan = plan_canaries(images, rng.integers(0, 2, 50), 100, "out-of-distribution", seed=2)
    assert plan.features.shape == (100, 3, 6, 6) and plan.features.dtype == kind
    assert images.min() <= plan.features.min() and plan.features.max() <= images.max()
    spread = 20 / math.sqrt(12)
    assert plan.features.mean() == pytest.approx(20, abs=4 * spread / math.sqrt(10800))
    if kind is np.uint8:
        assert len(np.unique(plan.features)) == 21


def test_canaries_of_ones_own_are_taken_as_they_are():
    features, labels = table()
    own = np.full((25, 4), 9.0), np.arange(25) % 3
    plan = plan_canaries(features, labels, 25, "given", given=own)
    assert (plan.features == 9).all() and (plan.labels == own[1]).all()
    assert plan.features.dtype == np.float32
    # Regression, too.
    assert plan_canaries(features, labels * 0.5, 25, "given", given=own).labels.dtype == np.float64


# Coins and insertion.


def test_coins_are_fair_and_independent_and_not_balanced():
    features, labels = table()
    tosses = np.array([plan_canaries(features, labels, 50, seed=s).inserted for s in range(600)])
    ones = tosses.sum(axis=1)
    assert tosses.mean() == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(tosses.size))
    # Of a balanced draw this variance is 0.
    assert ones.var() == pytest.approx(12.5, rel=4 * math.sqrt(2 / 600))
    assert (np.abs(np.corrcoef(tosses[:, :10].T) - np.eye(10)) < 4.5 / math.sqrt(600)).all()


@given(st.integers(0, 2**32), st.sampled_from(["random-label", "out-of-distribution"]))
@settings(max_examples=20)
def test_inserting_adds_the_chosen_canaries_and_nothing_else(seed, kind):
    features, labels = table()
    plan = plan_canaries(features, labels, 40, kind, seed=seed)
    mixed, with_labels = plan.insert(features, labels)
    rows = sorted((*map(float, x), int(y)) for x, y in zip(mixed, with_labels, strict=True))
    chosen = zip(plan.features[plan.inserted], plan.labels[plan.inserted], strict=True)
    wanted = [*zip(features, labels, strict=True), *chosen]
    assert rows == sorted((*map(float, x), int(y)) for x, y in wanted)
    assert mixed.dtype == features.dtype and with_labels.dtype == labels.dtype
    assert not (mixed[: len(features)] == features).all()
    again = plan_canaries(features, labels, 40, kind, seed=seed).insert(features, labels)
    assert (again[0] == mixed).all() and (again[1] == with_labels).all()


# Real trainings.


def test_a_forest_that_learns_by_heart_contradicts_a_claim_and_one_that_never_saw_them_does_not(
    digits,
):
    features, labels = digits
    plan = plan_canaries(features, labels, 200, seed=5)
    train = plan.insert(features, labels)
    seen = RandomForestClassifier(40, random_state=0).fit(*train)
    blind = RandomForestClassifier(40, random_state=0).fit(features, labels)
    result = plan.audit(
        plan.signals(seen.predict_proba(plan.features), "probabilities"), claimed=(1.0, 1e-5)
    )
    assert result.verdict == "contradicts" and result.bounds[result.form].low > 1.5
    assert result.words.startswith("This audit contradicts the claimed (1, 1e-05)-DP")
    assert set(result.bounds) == {"binomial", "tradeoff", "gdp"} and result.form == "binomial"
    never = plan.signals(blind.predict_proba(plan.features), "probabilities")
    other = plan.audit(never, claimed=(1.0, 1e-5))
    assert other.verdict == "not-enough-evidence" and other.bounds[other.form].low < 1
    assert "not show that the training met the canaries" in other.words
    # What the training was seen to be given, batch by batch; the canaries of others do not count.
    half = len(train[1]) // 2
    whole = plan.seen_in([(train[0][:half], train[1][:half]), (train[0][half:], train[1][half:])])
    planted = int(plan.inserted.sum())
    assert whole == {
        "plan": plan.digest,
        "planted": planted,
        "received": planted,
        "left_out_seen": 0,
    }
    chance = np.random.default_rng(0).normal(size=200)
    assert plan.audit(chance, claimed=(1.0, 1e-5), seen=whole).verdict == "consistent"
    # Most canaries have probability 0 under that forest: such scores could hardly show anything.
    assert plan.audit(never, claimed=(1.0, 1e-5), seen=whole).verdict == "not-enough-evidence"
    lost = plan.seen_in([digits])
    assert lost["received"] == 0
    assert plan.audit(chance, claimed=(1.0, 1e-5), seen=lost).verdict == "not-enough-evidence"
    both = plan.seen_in([train, (plan.features, plan.labels)])
    assert both["left_out_seen"] == 200 - planted
    with pytest.raises(InputError, match="another plan"):
        plan.audit(never, claimed=(1.0, 1e-5), seen={**whole, "plan": "x"})


def blinded(rng, kind: str, scores, coins):
    """The same scores with what they know of the coins destroyed."""
    return {
        "constant": np.zeros(len(scores)),
        "shuffled": rng.permutation(scores),
        "wrong sign": -scores,
        "two values": (scores > np.quantile(scores, 0.97)) * 1.0,
        "never met": rng.normal(size=len(scores)),
        "tied at both ends": np.clip(scores, *np.quantile(scores, [0.4, 0.6])),
    }[kind]


@pytest.mark.parametrize(
    "kind", ["constant", "shuffled", "wrong sign", "two values", "never met", "tied at both ends"]
)
def test_blinded_scores_are_consistent_with_no_claim_that_the_informative_ones_refute(kind):
    """Each of 15 trainings refutes epsilon 1.5; what hides that is never called consistent."""
    features, labels = table()
    for seed in range(15):
        plan = plan_canaries(features, labels, 200, seed=seed)
        rng = np.random.default_rng([78, seed])
        scores = 5 * plan.inserted + rng.normal(size=200)
        assert plan.audit(scores, claimed=(1.5, 1e-5)).verdict == "contradicts"
        hidden = blinded(rng, kind, scores, plan.inserted)
        assert plan.audit(hidden, claimed=(1.5, 1e-5)).verdict != "consistent"


def test_safe_trainings_that_were_watched_are_consistent_nine_times_in_ten():
    """Coins answered with epsilon 0.5, claimed 1.5: half of what is allowed, seen throughout."""
    features, labels = table()
    found = []
    for seed in range(30):
        plan = plan_canaries(features, labels, 200, seed=seed)
        rng = np.random.default_rng([79, seed])
        truth = rng.random(200) < math.exp(0.5) / (1 + math.exp(0.5))
        scores = np.where(truth, plan.inserted, ~plan.inserted) + 0.1 * rng.random(200)
        seen = plan.seen_in([plan.insert(features, labels)])
        found.append(plan.audit(scores, claimed=(1.5, 1e-5), seen=seen).verdict)
    assert found.count("consistent") >= 27


def test_a_training_declared_gaussian_is_judged_by_its_own_form():
    features, labels = table()
    plan = plan_canaries(features, labels, 200, seed=2)
    scores = 1.2 * plan.inserted + np.random.default_rng(0).normal(size=200)
    plain = plan.audit(scores, claimed=(2.4, 1e-5))
    declared = plan.audit(scores, claimed=(2.4, 1e-5), gdp=True)
    assert plain.verdict == "consistent" and declared.verdict == "contradicts"
    assert declared.form == "gdp" and declared.bounds.keys() == plain.bounds.keys()
    assert "if the mechanism is Gaussian DP" in declared.words
    with pytest.raises(InputError, match="delta > 0"):
        plan.audit(scores, claimed=(3.0, 0.0), gdp=True)


# Files.


def test_a_plan_and_its_scores_travel(tmp_path, digits):
    plan = plan_canaries(*digits, 60, seed=8)
    plan.save(tmp_path / "plan.safetensors")
    back = load_canaries(tmp_path / "plan.safetensors")
    assert back.digest == plan.digest and back.seed == 8 and back.kind == "random-label"
    for name in ("features", "labels", "inserted"):
        own, read = getattr(plan, name), getattr(back, name)
        assert (own == read).all() and own.dtype == read.dtype
    plan.save(tmp_path / "again.safetensors")
    assert (tmp_path / "plan.safetensors").read_bytes() == (
        tmp_path / "again.safetensors"
    ).read_bytes()
    scores = np.random.default_rng(0).normal(size=60)
    plan.save_scores(tmp_path / "scores.safetensors", scores)
    assert (back.load_scores(tmp_path / "scores.safetensors") == scores).all()
    other = plan_canaries(*digits, 60, seed=9)
    with pytest.raises(InputError, match="scores of other canaries"):
        other.load_scores(tmp_path / "scores.safetensors")


def test_altered_and_foreign_files_are_refused(tmp_path, digits):
    plan = plan_canaries(*digits, 60, seed=8)
    path = tmp_path / "plan.safetensors"
    plan.save(path)
    raw = path.read_bytes()
    flipped = bytearray(raw)
    flipped[-300] ^= 1
    for content, message in [
        (bytes(flipped), "altered"),
        (raw[:-10], "not readable"),
        (b"", "not readable"),
    ]:
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            load_canaries(path)
    path.write_bytes(raw)
    arrays = load_file(path)
    save_file(arrays, tmp_path / "bare.safetensors")
    with pytest.raises(InputError, match="holds no canaries"):
        load_canaries(tmp_path / "bare.safetensors")
    with pytest.raises(InputError, match="holds no canary scores"):
        plan.load_scores(path)
    with pytest.raises(InputError, match="not readable"):
        load_canaries(tmp_path / "absent.safetensors")


def test_any_change_of_a_plan_changes_its_digest(digits):
    plan = plan_canaries(*digits, 60, seed=8)
    parts = {
        "features": plan.features + 1,
        "labels": (plan.labels + 1) % 10,
        "inserted": plan.inserted[::-1],
        "kind": "out-of-distribution",
        "seed": 9,
    }
    own = {name: getattr(plan, name) for name in parts}
    digests = {Canaries(**{**own, name: value}).digest for name, value in parts.items()}
    assert len(digests | {plan.digest}) == 6


# Bad input.


def test_bad_input_is_refused():
    features, labels = table()
    for ask, message in [
        (lambda: plan_canaries(features, labels, 19), "count=19"),
        (lambda: plan_canaries(features, labels, 201), "201 random-label"),
        (lambda: plan_canaries(features, labels, 50, "random-lable"), "Did you mean"),
        (lambda: plan_canaries(features, labels, 50, seed=-1), "seed"),
        (lambda: plan_canaries(features, labels * 0.5, 50), "integer class codes"),
        (lambda: plan_canaries(features, labels * 0, 50), "all the same"),
        (lambda: plan_canaries(features[:50], labels, 50), "shape"),
        (lambda: plan_canaries(features * np.nan, labels, 50), "NaN"),
        (lambda: plan_canaries(features.astype(str), labels, 50), "numbers"),
        (lambda: plan_canaries(features, labels, 50, "given"), "given="),
        (lambda: plan_canaries(features, labels, 50, given=(features, labels)), "given="),
        (lambda: plan_canaries(features, labels, 50, "given", given=(features, labels)), "need"),
    ]:
        with pytest.raises(InputError, match=message):
            ask()
    plan = plan_canaries(features, labels, 50)
    for ask, message in [
        (lambda: plan.insert(features[:, :3], labels), "a record"),
        (lambda: plan.insert(features.astype(np.float64), labels), "float64"),
        (lambda: plan.insert(features, labels.astype(np.int32)), "int32"),
        (lambda: plan.audit(np.zeros(49)), "49 scores"),
        (lambda: plan.audit(np.full(50, np.nan)), "NaN"),
        (lambda: plan.audit(np.arange(50.0), claimed=(0.0, 0.0)), "claimed epsilon"),
        (lambda: plan.audit(np.arange(50.0), claimed=(1.0, 1.0)), "delta"),
        (lambda: plan.audit(np.arange(50.0), form="gdp"), "form"),
        (lambda: plan.signals(np.zeros((50, 3)), "loss"), "form"),
        (lambda: plan.save_scores("x", np.zeros(3)), "3 scores"),
        (lambda: Canaries(features, labels, np.ones(200, bool), "given", 0), "all of the 200"),
        (lambda: Canaries(features, labels, np.ones(9, bool), "given", 0), "9 coins"),
    ]:
        with pytest.raises(InputError, match=message):
            ask()
    with pytest.raises(NotMeasurable, match="guesses"):
        plan.audit(np.arange(50.0), guesses=Guesses((0.05,)))
