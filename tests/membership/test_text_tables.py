"""F1 with intervals: a hand-worked case, two oracles, and the cover of the interval."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from lethe.evidence.plain import plain
from lethe.membership.text_tables import AVERAGES, f1_and_pulls, f1_tables, quarters
from lethe.training.shadows import Shadows

ALL = np.ones(3, bool)


def plain_f1(*asked):
    return plain(f1_tables(*asked))


def shadows(
    labels: np.ndarray, held: np.ndarray, predicted: np.ndarray | None, groups: Any = None
) -> Shadows:
    """Models in complementary pairs that named `predicted` on the held-out records."""
    models = 4 if predicted is None else len(predicted)
    rng = np.random.default_rng(1)
    half = rng.random((models // 2, len(labels))) < 0.5
    members = np.stack([half, ~half], axis=1).reshape(models, -1)
    return Shadows(
        np.zeros(members.shape, np.float32),
        members,
        np.arange(len(labels)),
        labels,
        population=np.zeros((models, len(held)), np.float32),
        population_labels=held,
        population_groups=groups,
        population_predicted=predicted,
    )


def test_a_small_case_by_hand() -> None:
    labels = np.array([0, 0, 0, 1, 2])
    said = np.array([0, 0, 1, 1, 0])
    # Class 0: 2 TP of 3 records, named 3 times: 4/6. Class 1: 1 TP of 1, named twice: 2/3.
    sets = np.array([[True, True, True], [False, True, True]])
    value, pull = f1_and_pulls(labels, said, np.arange(5), sets)
    assert value[0].tolist() == pytest.approx([(2 + 2 / 3 + 0) / 5, 1 / 3])
    assert value[1].tolist() == pytest.approx([(2 / 3 + 2 / 3 + 0) / 3, 1 / 3])
    assert pull.shape == (2, 2, 5) and np.abs(pull.sum(axis=2)).max() < 1e-12


def oracle(labels: np.ndarray, said: np.ndarray, chosen: np.ndarray, average: str) -> float:
    there = [c for c in np.flatnonzero(chosen) if (labels == c).any()]
    return float(f1_score(labels, said, labels=there, average=average, zero_division=0))


codes = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 9)), min_size=3, max_size=20
)


@given(rows=codes, alone=st.booleans(), mask=st.integers(1, 31))
@settings(max_examples=15)
def test_values_and_pulls_agree_with_leaving_each_person_out(
    rows: list[tuple[int, int, int]], alone: bool, mask: int
) -> None:
    labels, said, who = np.array(rows).T
    persons = np.arange(len(rows)) if alone else np.unique(who, return_inverse=True)[1]
    chosen = np.array([mask >> c & 1 for c in range(5)], bool)
    if not chosen[labels].any():
        return
    value, pull = f1_and_pulls(labels, said, persons, chosen[None])
    for at, average in enumerate(AVERAGES):
        whole = oracle(labels, said, chosen, average)
        assert value[at, 0] == pytest.approx(whole, abs=1e-12)
        rest = []
        for person in range(persons.max() + 1):
            keep = persons != person
            left = chosen[labels[keep]].any()
            rest.append(oracle(labels[keep], said[keep], chosen, average) if left else whole)
        naive = (len(rest) - 1) * (whole - np.array(rest))
        np.testing.assert_allclose(pull[at, 0], naive - naive.mean(), atol=1e-9)


def test_quarters_keep_classes_of_one_size_together() -> None:
    size = np.array([1, 1, 1, 1, 2, 3, 50, 0])
    found = quarters(size, size > 0)
    assert [name for name, _ in found] == ["smallest quarter", "third quarter", "largest quarter"]
    assert [size[chosen].tolist() for _, chosen in found] == [[1] * 4, [2], [3, 50]]
    together = np.sum([chosen for _, chosen in found], axis=0)
    assert together.tolist() == (size > 0).astype(int).tolist()


def drawn(rng: np.random.Generator, models: int, records: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels of 12 classes from common to rare, and answers that share mistakes of a record."""
    share = np.geomspace(1, 0.02, 12)
    labels = rng.choice(12, records, p=share / share.sum())
    hard = rng.random(records)
    own = 0.35 + 0.05 * rng.standard_normal((models // 2, 1)).repeat(2, axis=0)
    right = 0.6 * hard + 0.4 * rng.random((models, records)) > own
    wrong = rng.choice(12, (models, records), p=share / share.sum())
    return labels, np.where(right, labels, wrong)


def test_the_interval_covers_the_mean_over_new_models_and_records() -> None:
    """60 data sets at 95 %: 3 standard errors below are 0.866; above is cautious, not wrong."""
    rng = np.random.default_rng(7)
    found = []
    for _ in range(60):
        labels, said = drawn(rng, 8, 150)
        table = plain_f1(shadows(labels, labels, said), None, 0.95)
        assert table is not None
        found.append(table)
    for average in AVERAGES:
        values = np.array(
            [[one[average][key] for key in ("value", "low", "high")] for one in found]
        )
        truth, spread = values[:, 0].mean(), values[:, 0].std()
        assert np.mean((values[:, 1] <= truth) & (truth <= values[:, 2])) >= 0.866
        assert np.mean(values[:, 2] - values[:, 1]) < 2.5 * 2 * 1.96 * spread


def test_tables_of_a_baseline_and_of_a_mitigation() -> None:
    rng = np.random.default_rng(0)
    labels, said = drawn(rng, 8, 400)
    inside = np.concatenate([labels, [12]])  # a class of one record, which is never held out
    before = shadows(inside, labels, said)
    worse = np.where(rng.random(said.shape) < 0.3, 0, said)
    base = plain_f1(before, None, 0.95)
    after = plain_f1(shadows(inside, labels, worse), before, 0.95)
    assert base is not None and after is not None
    assert base["classes"] == len(np.unique(labels)) and base["classes_not_measured"] == 1
    assert base["held_out"] == 400 == sum(row["held_out"] for row in base["quarters"])
    assert base["quarters"][0]["largest"] <= base["quarters"][-1]["smallest"]
    assert "weighted_lost" not in base and "blind" not in after
    for average in ("weighted", "macro"):
        lost = after[f"{average}_lost"]
        assert lost["value"] == pytest.approx(base[average]["value"] - after[average]["value"])
        assert lost["low"] > 0
        unpaired = after[average]["high"] - after[average]["low"]
        assert lost["high"] - lost["low"] < unpaired
    major, prior = base["blind"]
    most = int(np.argmax(np.bincount(inside)))
    share = np.bincount(labels) / 400
    assert major["weighted"]["value"] == pytest.approx(
        share[most] * 2 * share[most] / (1 + share[most])
    )
    assert major["macro"]["value"] == pytest.approx(
        2 * share[most] / (1 + share[most]) / base["classes"]
    )
    assert prior["weighted"]["value"] == pytest.approx((share**2).sum(), abs=0.01)


def test_four_copies_of_each_person_tell_nothing_more() -> None:
    rng = np.random.default_rng(2)
    labels, said = drawn(rng, 8, 100)
    twice, copies = np.repeat(labels, 4), np.repeat(said, 4, axis=1)
    alone = plain_f1(shadows(twice, twice, copies), None, 0.95)
    people = plain_f1(shadows(twice, twice, copies, np.arange(400) // 4), None, 0.95)
    single = plain_f1(shadows(labels, labels, said), None, 0.95)
    assert alone is not None and people is not None and single is not None
    for average in ("weighted", "macro"):
        narrow, wide = (one[average]["high"] - one[average]["low"] for one in (alone, people))
        assert wide > narrow
        for end in ("value", "low", "high"):
            assert people[average][end] == pytest.approx(single[average][end], abs=1e-12)


def test_what_cannot_be_measured_is_refused_or_left_out() -> None:
    labels = np.array([0] * 8 + [1] * 4 + [2])
    said = np.tile(labels, (4, 1))
    table = plain_f1(shadows(np.repeat(labels, 2), labels, said), None, 0.95)
    assert table is not None and table["macro"]["value"] == 1.0
    # All of 13 right: (0.025)^(1/13) is the lower limit; none of 13: F1 at that recall at most.
    share = 0.025 ** (1 / 13)
    assert table["macro"]["low"] == pytest.approx(share) and table["macro"]["high"] == 1.0
    never = plain_f1(shadows(np.repeat(labels, 2), labels, (said + 1) % 3), None, 0.95)
    assert never is not None and never["weighted"]["value"] == never["weighted"]["low"] == 0.0
    assert never["weighted"]["high"] == pytest.approx(2 * (1 - share) / (2 - share))
    assert table["quarters"][0]["held_out"] == 1
    assert "at least 2 are needed" in table["quarters"][0]["macro"]["refused"]
    assert f1_tables(shadows(labels, labels, None), None, 0.95) is None
    nobody = shadows(labels, labels[:0], np.zeros((4, 0), np.int32))
    assert f1_tables(nobody, None, 0.95) is None
