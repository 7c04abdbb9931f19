"""The table of records: ranks that hold, flags with few false ones, reasons that are there."""

import math
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import audit, paired, shadows, signals

from lethe.errors import InputError
from lethe.evidence.plain import plain
from lethe.membership.document import exposed_records
from lethe.membership.exposure import expose, vulnerability
from lethe.membership.records import (
    discoveries,
    flags,
    holm_adjusted,
    holm_levels,
    joint_half_width,
    rank_intervals,
    reasons,
    record_table,
    surroundings,
    write_records,
)
from lethe.membership.scoring import score_all

ATTACKS = ("loss-threshold", "lira-online")


# --- many claims at once


def test_holm_and_discoveries_by_hand() -> None:
    p = np.array([0.001, 0.04, 0.012, 0.9])
    rejected, levels = holm_levels(p, 0.05)
    assert rejected.tolist() == [True, False, True, False]
    assert levels == pytest.approx([0.0125, 0.025, 0.05 / 3, 0.025])
    assert holm_adjusted(p) == pytest.approx([0.004, 0.08, 0.036, 0.9])
    assert discoveries(np.array([0.01, 0.03, 0.03, 0.5, np.nan])).tolist() == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert not discoveries(np.array([np.nan])).any()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.01, 0.3))
def test_holm_by_its_definition(listed, level) -> None:
    p = np.array(listed)
    rejected, levels = holm_levels(p, level)
    left, wanted = list(np.argsort(p, kind="stable")), np.zeros(len(p), bool)
    while left and p[left[0]] <= level / len(left):
        wanted[left.pop(0)] = True
    assert (rejected == wanted).all() and (rejected == (p <= levels)).all()
    assert (discoveries(p, level) | ~rejected).all()


# --- ranks


def test_ranks_by_the_count_of_all_pairs() -> None:
    made = audit(32, 60, 3, 2.0)
    found = vulnerability(made.signals, made.members)
    low, high = rank_intervals(found, 32)
    from scipy.stats import t as student

    half = student.ppf(1 - 0.05 / 120, 30) * found.se
    for row in range(60):
        surely_above = found.t - half > found.t[row] + half[row]
        surely_below = found.t + half < found.t[row] - half[row]
        assert low[row] == 1 + surely_above.sum() and high[row] == 60 - surely_below.sum()
    assert low.min() == 1 and high.max() == 60


def test_no_record_is_called_exposed_where_none_leaves_a_trace() -> None:
    """In at most 5 % of audits without any leak does a joint interval of a record exclude 0."""
    wrong = 0
    for seed in range(60):
        found = vulnerability(signals(paired(16, 200, seed), seed), paired(16, 200, seed))
        wrong += bool((np.abs(found.t) > joint_half_width(found, 16)).any())
    assert wrong <= 9  # 99.9 % limit of 3 in 60
    leaking = audit(64, 200, 1, 3.0)
    found = vulnerability(leaking.signals, leaking.members)
    assert (found.t > joint_half_width(found, 64)).mean() > 0.3


def test_a_record_without_t_can_have_any_rank() -> None:
    t = SimpleNamespace(t=np.array([np.nan, 5.0, 0.0]), se=np.array([np.nan, 0.1, 0.1]))
    low, high = rank_intervals(t, 64)
    assert low.tolist() == [1, 1, 1 + 1] and high.tolist() == [3, 2, 3]


# --- flags


@pytest.mark.parametrize("models", [32, 64])
def test_false_discoveries_are_held_and_true_ones_made(models) -> None:
    """A tenth of 400 records leaves a trace; LiRA per record from 64 models on."""
    false, share = 0.0, []
    for seed in range(12):
        exposed = np.arange(400) < 40
        members = paired(models, 400, seed)
        phi = signals(members, seed, np.where(exposed, 3.0, 0.0))
        scores = score_all(phi, members, ATTACKS)
        found = flags(scores, members, np.arange(models) // 2)
        hit = found["flagged"]
        false += (hit & ~exposed).sum() / max(hit.sum(), 1)
        share.append((hit & exposed).sum() / 40)
        both = np.char.count(found["flagged_by"], " ") == 1
        assert (both & exposed).sum() > 20
    assert false / 12 <= 0.05 + 3 * math.sqrt(0.05 / (12 * 40))
    assert np.mean(share) > 0.8


# --- neighbours and reasons


def test_neighbours_by_all_pairs() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(60, 3)).astype(np.float32) * [1, 10, 0.1]
    features[7] = features[3]
    features[9] = features[4]
    labels = rng.integers(0, 3, 60)
    labels[[3, 7]], labels[4], labels[9] = 0, 1, 2
    labels[11] = 5
    found = surroundings(features, labels)
    scaled = (features - features.mean(0)) / features.std(0)
    far = np.linalg.norm(scaled[:, None] - scaled[None], axis=2)
    np.fill_diagonal(far, np.inf)
    same = labels[:, None] == labels
    own = np.where(same, far, np.inf).min(axis=1)
    assert found.own == pytest.approx(np.where(np.isinf(own), np.nan, own), abs=1e-3, nan_ok=True)
    assert found.other == pytest.approx(np.where(same, np.inf, far).min(axis=1), abs=1e-3)
    assert np.flatnonzero(found.duplicates).tolist() == [3, 4, 7, 9]
    assert np.flatnonzero(found.contradicted).tolist() == [4, 9]
    assert np.isnan(found.own[11])


def test_twins_of_many_and_near_duplicates() -> None:
    features = np.zeros((40, 2), np.float32)
    features[10:, 0] = np.arange(30) * 10.0 + 5
    features[39, 0] = features[38, 0] + 0.2
    found = surroundings(features, None)
    assert (found.duplicates[:10] == 9).all() and (found.own[:10] == 0).all()
    assert np.flatnonzero(found.near_duplicate).tolist() == [38, 39]
    assert np.isnan(found.other).all() and not found.contradicted.any()


def test_wide_features_and_too_many_records(monkeypatch) -> None:
    rng = np.random.default_rng(2)
    flat = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 80))
    wide = surroundings(flat, None)
    far = np.linalg.norm(
        (lambda z: z[:, None] - z[None])((flat - flat.mean(0)) / flat.std(0)), axis=2
    )
    np.fill_diagonal(far, np.inf)
    assert wide.own == pytest.approx(far.min(axis=1), rel=1e-3)
    monkeypatch.setattr("lethe.membership.records._MOST_PRODUCTS", 60)
    rough = surroundings(flat, None).own
    assert rough == pytest.approx(wide.own, rel=0.5) and (rough != wide.own).all()
    every = surroundings(flat, np.arange(50) % 2).own
    monkeypatch.setattr("lethe.membership.records.MOST_REFERENCES", 20)
    some = surroundings(flat, np.arange(50) % 2).own
    assert (some >= every).all() and 20 < (some > every).sum() < 50
    with pytest.raises(InputError, match="at least 2"):
        surroundings(flat[:1], None)


def test_reasons_in_words() -> None:
    members = paired(8, 100, 1)
    labels = np.where(np.arange(100) < 2, "rare", np.where(np.arange(100) < 50, "a", "b"))
    made = shadows(members, signals(members, 1), labels=labels)
    correct = np.ones(members.shape, bool)
    correct[:, 5] = members[:, 5]
    object.__setattr__(made, "correct", correct)
    found = reasons(made)
    assert found["wrong_outside"][5] == 1 and found["wrong_outside"][6] == 0
    assert found["why"][5] == "100 % of models without it predict another class"
    assert found["why"][0] == "rare class, 2.00 % of records"
    assert found["why"][30] == "nothing found"
    features = np.random.default_rng(0).normal(size=(100, 2))
    features[10] = features[70] + 1e-4
    near = reasons(made, surroundings(features, labels))
    assert "another class" in near["why"][10] and "near duplicate" in near["why"][10]


# --- the file


def test_the_file_keeps_its_columns_and_gets_the_new_ones(tmp_path) -> None:
    made = audit(16, 80, 2, 2.0)
    phi = np.array(made.signals)
    phi[:, 4] = 1.0  # no spread, so no t: the record is not in the table
    made = shadows(made.members, phi, labels=np.arange(80) % 2)
    measured = SimpleNamespace(
        shadows=made, exposure=expose(made), results=dict.fromkeys((*ATTACKS, "elsewhere"))
    )

    class Folder:
        path = tmp_path

        def write(self, name, content):
            (tmp_path / name).write_bytes(content)
            return tmp_path / name

    old = plain(exposed_records(measured, None, pseudonyms=False))
    features = np.random.default_rng(3).normal(size=(80, 3))
    assert write_records(Folder(), measured, None, features) == "records.parquet"
    rows = pq.read_table(tmp_path / "records.parquet").to_pylist()
    for name in ("records.parquet", "explorer.html"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0
    assert len(rows) == len(old) == 79 and list(rows[0])[:2] == ["rank", "id"]
    columns = record_table(made, score_all(made.signals, made.members, ATTACKS))
    for row, before in zip(rows, old, strict=True):
        assert {name: row[name] for name in before} == before
        at = int(row["id"])
        assert row["flagged"] == columns["flagged"][at]
        assert int(row["rank_low"]) == columns["rank_low"][at]
        assert row["nearest_own"] and row["why"] and row["wrong_outside"] is None
    write_records(Folder(), measured, None)
    assert "nearest_own" not in pq.read_schema(tmp_path / "records.parquet").names
