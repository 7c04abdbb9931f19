"""Leaks planted into vectors: a pass needs every kind to be seen, and no blinded audit passes."""

from dataclasses import replace

import numpy as np
import pytest
from reidentification_people import audit_embeddings, quick

from lethe.errors import InputError
from lethe.evidence.plain import read
from lethe.evidence.rules import FAIL, PASS
from lethe.evidence.sight import Plant, smallest_seen
from lethe.reidentification.audit import VectorsSubject, _useful, measure
from lethe.reidentification.gallery import split_rows
from lethe.reidentification.planted import MEAN, MODES, REPEATS, VARIANCES, twins
from lethe.reidentification.released import LinearHead, Released
from lethe.reidentification.sight import sight_of
from lethe.reidentification.task import Task
from lethe.report.first_screen import first_screen
from lethe.report.of_vectors import Vectors

KINDS = [MEAN, MODES, VARIANCES, REPEATS]
FAST = {"plays": 0, "radius_points": 5, "refine": 0, "surface": (), "sigmas": (1.0,), "draws": 2}


def audited(vectors, owner, rule="top-1<=0.1", **changed):
    asked = quick(**{**FAST, "rule": (rule,), **changed})
    return audit_embeddings(vectors, owner, settings=asked)


def outcome(vectors, owner, rule="top-1<=0.1", **changed):
    """The outcome on the vectors as they are, or ``refused`` where the audit ends with a reason."""
    try:
        return audited(vectors, owner, rule, **{"sigmas": (), **changed}).rules[0]["outcome"]
    except InputError:
        return "refused"


def safe(seed, people=200, rows=8, dimensions=16):
    """Vectors that do not depend on the person, of several shapes."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(people), rows)
    vectors = rng.standard_normal((people * rows, dimensions))
    shapes = (
        lambda v: v,
        lambda v: np.maximum(v @ rng.standard_normal((dimensions, dimensions)), 0) + 1e-6,
        lambda v: np.round(v, 1) + 0.05,
        lambda v: np.exp(v).astype("float32"),
    )
    return shapes[seed % len(shapes)](vectors), owner


def leaky(seed, people=200, rows=8, dimensions=16):
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(people), rows)
    vectors = rng.standard_normal((people, dimensions))[owner]
    return vectors + 0.5 * rng.standard_normal((len(owner), dimensions)), owner


def test_twins_hold_values_that_the_release_emits():
    """In each coordinate, in every kind: rounding and ties stay; others' rows do not change."""
    vectors, owner = safe(2)
    sight = sight_of(vectors, split_rows(owner))
    made = list(twins(sight))
    assert [twin.kind for twin in made] == KINDS
    for twin in made:
        people = np.unique(twin.sight.owner)
        others = ~np.isin(sight.user, people)
        np.testing.assert_array_equal(twin.sight.rows[others], sight.rows[others])
        for table in (twin.sight.rows, twin.sight.probes):
            for column in range(vectors.shape[1]):
                assert np.isin(table[:, column], vectors[:, column]).all()
        assert 0.9 < twin.known <= 1
        means = [twin.sight.rows[twin.sight.user == g].mean(axis=0) for g in people]
        np.testing.assert_allclose(twin.sight.gallery[people], means)


def test_a_safe_release_passes_and_says_what_could_have_been_seen():
    asked = quick(**FAST, rule=("top-1<=0.1",))
    measured = measure(Released("one", *safe(0)), asked, lambda text: None)
    for release in ("noise-1", "baseline"):
        found = VectorsSubject([measured], replace(asked, release=release)).findings()
        assert found.rules[0]["outcome"] == PASS
    for candidate in found.candidates:
        plants = [read(Plant, one) for one in candidate["plants"]]
        assert {one.kind for one in plants} == set(KINDS)
        assert smallest_seen(plants, "top-1", 1 / 200) is not None
    room = Vectors(found.to_json())
    screen = room.worst(room.base)
    assert screen.level == "not-above-chance" and "would have been seen" in screen.detail
    assert "Which of the two is not known" in screen.detail  # exact vectors could tell everybody
    assert next(row for row in found.checks if row["name"] == "power")["status"] == "pass"


def test_without_a_plant_that_is_seen_nothing_is_said_of_chance():
    """Constant vectors: no pass, and "says nothing" in place of "not shown above chance"."""
    owner = np.repeat(np.arange(60), 8)
    found = audited(np.ones((480, 8)), owner, metric="l2")
    assert found.rules[0]["outcome"] not in (PASS, FAIL) and found.candidates[0]["plants"] == []
    screen = first_screen(Vectors(found.to_json()), {}, None)
    assert screen.level == "" and "says nothing" in screen.headline


def test_vectors_that_do_not_serve_their_labels_pass_nothing():
    """Shuffled rows are like vectors that tell nothing; the head that they come with shows it."""
    vectors, owner = leaky(0)
    weight = np.ones(16)
    labels = (vectors @ weight > 0).astype(int)
    rng = np.random.default_rng(1)
    asked = quick(**{**FAST, "sigmas": ()}, rule=("top-1<=0.1",))
    shuffled = vectors[rng.permutation(len(vectors))]
    found = audit_embeddings(shuffled, owner, labels, (weight, 0.0), settings=asked)
    assert found.rules[0]["outcome"] not in (PASS, FAIL)
    assert "vectors and labels belong together" in found.rules[0]["reason"]


def test_no_labels_of_other_rows_belong_to_the_vectors():
    """By its 95 % interval the head beat chance with one shuffle of forty."""
    rng, owner = np.random.default_rng(0), np.repeat(np.arange(60), 2)
    vectors, head = rng.normal(size=(120, 4)), LinearHead(np.ones(4), 0.0)
    right = (head.logits(vectors) > 0).astype(int)
    task = Task(head, np.arange(120), vectors, right, owner, quick())
    assert _useful(None, task, task.at(0.0)).status == "pass"
    for _ in range(200):
        other = replace(task, labels=rng.permutation(right))
        assert _useful(None, other, other.at(0.0)).status == "fail"


def blinded(kind, vectors, owner, rng):
    split = split_rows(owner)
    made = vectors.copy()
    if kind == "constant":
        made[:] = vectors[0]
    elif kind == "zeros":
        made[:] = 0
    elif kind == "constant for each person":
        made[:] = vectors[np.unique(owner, return_index=True)[1]][owner]
    elif kind == "two values":
        made[:] = np.where(vectors > 0, 1.0, -1.0)
    elif kind == "one coordinate of two values":
        made[:, 1:], made[:, 0] = 0, np.where(vectors[:, 0] > 0, 1.0, -1.0)
    elif kind == "gallery is probe":
        made[split.probe_rows] = made[split.gallery_rows][: len(split.probe_rows)]
    elif kind == "probes turned round":
        made[split.probe_rows] *= -1
    elif kind == "duplicated rows":
        made[1::2] = made[::2]
    elif kind == "ties at one value":
        made[rng.random(made.shape) < 0.999] = made[0, 0]
    return made


BLIND = (
    *("constant", "zeros", "constant for each person", "two values", "gallery is probe"),
    *("one coordinate of two values", "duplicated rows", "ties at one value"),
    "probes turned round",
)


def test_an_informative_release_fails():
    assert outcome(*leaky(3, people=80)) == FAIL


@pytest.mark.parametrize("kind", BLIND)
def test_a_blinded_release_never_passes_what_the_informative_one_fails(kind):
    vectors, owner = leaky(3, people=80)
    made = blinded(kind, vectors, owner, np.random.default_rng(4))
    metric = "cosine" if kind in ("two values", "duplicated rows", "probes turned round") else "l2"
    assert outcome(made, owner, metric=metric) != PASS


@pytest.mark.slow
def test_safe_audits_pass_and_blinded_ones_do_not():
    """Forty of each: at least nine of ten safe ones pass, and no blinded one."""
    passed = [
        outcome(*safe(seed), release=("baseline", "noise-1")[seed % 2], seed=seed, sigmas=(1.0,))
        == PASS
        for seed in range(40)
    ]
    assert np.mean(passed) >= 0.9
    for seed in range(40):
        vectors, owner = leaky(seed, people=80)
        made = blinded(BLIND[seed % len(BLIND)], vectors, owner, np.random.default_rng(seed))
        metric = ("cosine", "l2")[seed // len(BLIND) % 2]
        assert outcome(made, owner, metric=metric, seed=seed) != PASS
