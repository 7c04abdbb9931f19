"""Controls: strangers, copied inputs, nearest users, and what plain float32 would have said."""

import numpy as np
import pytest

from lethe.errors import InputError, NotMeasurable
from lethe.reidentification.clean import conditioning, open_set, shared_inputs
from lethe.reidentification.gallery import split_rows
from lethe.reidentification.geometry import nearest


def people(users, rows=8, noise=0.3, seed=0):
    rng = np.random.default_rng([seed, 3])
    owner = np.repeat(np.arange(users), rows)
    vectors = rng.standard_normal((users, 16))[owner]
    return vectors + noise * rng.standard_normal(vectors.shape), owner


def test_strangers_are_named_as_often_as_was_asked():
    vectors, owner = people(300)
    result = open_set(vectors, split_rows(owner), false_match=0.05, seed=1)
    assert result.strangers == 150
    assert result.false_match.low <= 0.05 <= result.false_match.high
    assert result.identified.value > 0.9 > 0.1 > result.misnamed.value


def test_the_threshold_costs_identification():
    vectors, owner = people(200, noise=1.0)
    strict, loose = (open_set(vectors, split_rows(owner), false_match=rate) for rate in (0.01, 0.3))
    assert strict.threshold < loose.threshold
    assert strict.identified.value < loose.identified.value


def test_vectors_without_people_identify_nobody():
    rng = np.random.default_rng(0)
    vectors, owner = rng.standard_normal((1200, 8)), np.repeat(np.arange(150), 8)
    result = open_set(vectors, split_rows(owner), false_match=0.1)
    # 75 known people: chance among the named is 1/75 of a tenth.
    assert result.identified.value < 0.02
    assert result.false_match.low <= 0.1 <= result.false_match.high


def test_open_sets_that_are_too_small():
    vectors, owner = people(5)
    with pytest.raises(NotMeasurable, match="each group needs 2"):
        open_set(vectors, split_rows(owner), strangers=0.4)
    vectors, owner = people(30)
    with pytest.raises(NotMeasurable, match="at least 1000 probes"):
        open_set(vectors, split_rows(owner), false_match=0.001)
    with pytest.raises(InputError, match="strangers=1"):
        open_set(vectors, split_rows(owner), strangers=1)


def test_copied_inputs_are_found():
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(20), 5)
    features = rng.standard_normal((100, 4))
    features[:, 1] = np.arange(20)[owner]
    features[:, 2] = 7  # the same for all: tells nobody apart
    result = shared_inputs(features, owner)
    assert result.columns == (1,) and result.people == 0
    assert "1 input columns are constant" in str(result)
    assert shared_inputs(features[:, 1:3], owner).people == 1
    assert "no input column" in str(shared_inputs(features[:, :1], owner))
    with pytest.raises(InputError, match="nobody has two rows"):
        shared_inputs(features[:3], np.arange(3))


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_nearest_against_the_whole_table(metric):
    rng = np.random.default_rng(4)
    vectors, gallery = rng.standard_normal((70, 5)), rng.standard_normal((4200, 5))
    found = nearest(vectors, gallery, metric)
    if metric == "cosine":
        x, g = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (vectors, gallery))
        table = 1 - x @ g.T
    else:
        table = np.sqrt(((vectors[:, None] - gallery[None]) ** 2).sum(axis=2))
    assert (found.user == table.argmin(axis=1)).all()
    np.testing.assert_allclose(found.distance, table.min(axis=1), rtol=1e-9)


def test_nearest_other_leaves_oneself_out():
    gallery = np.array([[0.0], [1.0], [1.5]])
    found = nearest(gallery, gallery, "l2", own=np.arange(3))
    assert found.user.tolist() == [1, 2, 1]
    np.testing.assert_allclose(found.distance, [1, 0.5, 0.5])


def test_tiny_cosine_distances_keep_their_digits():
    """1 - cos loses them: two directions 1e-7 apart have cosine distance 5e-15."""
    gallery = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert nearest(np.array([[1.0, 1e-7]]), gallery).distance[0] == pytest.approx(5e-15, rel=1e-3)


def test_conditioning_sees_what_float32_would_do():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 500, 400)
    common = rng.standard_normal(32)
    report = {}
    for spread in (1.0, 1e-4):
        gallery = common + spread * rng.standard_normal((500, 32))
        probes = gallery[true] + 2 * spread * rng.standard_normal((400, 32))
        report[spread] = conditioning(probes, gallery, true, sample=200)
    assert not report[1.0].ill and report[1.0].changed <= 0.01
    assert report[1e-4].ill and report[1e-4].changed > 0.5
    assert report[1e-4].exact_mrr == pytest.approx(report[1.0].exact_mrr, abs=0.15)
    assert report[1e-4].nearest < 1e-6 < report[1.0].nearest
    assert "plain float32 changes" in str(report[1e-4])
