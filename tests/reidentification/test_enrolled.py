"""Attackers that keep every enrolled row: what a mean hides, exact ranks, and the proofs above."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from reidentification_people import audit_embeddings, quick
from scipy.stats import binom, norm
from test_room_properties import COPIES, NOISE, limit, people

import lethe
from lethe.errors import InputError, NotMeasurable
from lethe.reidentification import gallery
from lethe.reidentification.attackers import Panel
from lethe.reidentification.enrolled import ENROLLED, GAUSSIAN, NEAREST, assigned, enrol
from lethe.reidentification.family import ATTACKERS, Attacker
from lethe.reidentification.gallery import sampled, split_rows
from lethe.reidentification.scored import Scorer
from lethe.reidentification.sight import ALL, folds, sight_of
from lethe.reidentification.smoothing import smooth

pytestmark = pytest.mark.usefixtures("no_page")

JOINED = [one for one in ATTACKERS if one.metric in ENROLLED]
SINGLE = [
    replace(one, name=f"{one.metric}, one vector", vectors=1)
    for one in JOINED
    if one.name in ("gaussian, all vectors", "density, all vectors")
]
ROWS = [*JOINED, *SINGLE]
FAST = {"plays": 0, "radius_points": 20, "refine": 0, "surface": (), "sigmas": ()}


def habits(people=120, rows=12, dimensions=16):
    """Each person goes one way or the opposite: the mean of everybody is the same."""
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(people), rows)
    way = rng.standard_normal((people, dimensions))
    way *= 3 / np.linalg.norm(way, axis=1, keepdims=True)
    sign = np.tile([1, -1], people * rows // 2)[:, None]
    return sign * way[owner] + 0.3 * rng.standard_normal((people * rows, dimensions)), owner


def variances(people=120, rows=12, dimensions=16):
    """One mean for all; each person is loud in coordinates of their own."""
    rng = np.random.default_rng(1)
    owner = np.repeat(np.arange(people), rows)
    loud = np.exp(rng.standard_normal((people, dimensions)))
    return loud[owner] * rng.standard_normal((people * rows, dimensions)), owner


def top_1(vectors, owner, attacker):
    split = split_rows(owner)
    sight, panel = sight_of(vectors, split), Panel((attacker,), folds(len(split.users)))
    seen = panel.seen(attacker, sight, sight)
    return float(panel.credit(attacker, seen, panel.fits(attacker, seen)).mean())


@pytest.mark.parametrize(
    ("people_of", "best", "least"),
    [(habits, "nearest row", 0.97), (variances, "gaussian, all vectors", 0.8)],
)
def test_what_the_mean_hides_is_the_headline(people_of, best, least):
    vectors, owner = people_of()
    asked = quick(**FAST, rule=("top-1<=0.05",))
    found = audit_embeddings(vectors.astype("float32"), owner, settings=asked)
    base = found.candidates[0]
    by = {row["attack"]: row["estimate"]["value"] for row in base["risk_from"]["results"]}
    assert by[best] / 120 > least and base["top_1"]["value"] > least
    assert max(by[name] for name in ("all vectors", "cosine", "l2") if name in by) / 120 < 0.2
    assert [row["outcome"] for row in found.rules] == ["fail"]
    words = found.representations["models"][0]["words"]
    assert base["risk_from"]["attack"] in words[0]
    closed = base["closed_world"]
    assert "closed world" in closed["knows"] and closed["top_1"]["value"] > least
    assert closed["attack"] in words[1] and "another threat model" in words[1]
    assert not any("closed" in row["knows"] for row in base["risk_from"]["results"])


@pytest.mark.parametrize("attacker", ROWS, ids=lambda one: one.name)
@pytest.mark.parametrize("decimals", [0, 12])
def test_credit_is_that_of_the_ranks_with_ties_and_without(attacker, decimals):
    rng = np.random.default_rng(3)
    owner = np.repeat(np.arange(60), 8)
    vectors = np.round(
        rng.standard_normal((60, 3))[owner] + rng.standard_normal((480, 3)), decimals
    )
    split = split_rows(owner)
    sight, panel = sight_of(vectors, split), Panel((attacker,), folds(60))
    seen = panel.seen(attacker, sight, sight)
    fits = panel.fits(attacker, seen)
    ranked = panel.rank(attacker, seen, fits).first
    np.testing.assert_allclose(panel.credit(attacker, seen, fits), ranked, atol=1e-12)
    if attacker.metric == NEAREST and attacker.vectors == 1:
        nearer = np.linalg.norm(enrolled_map(seen), axis=2)
        best = np.stack([nearer[:, seen.user == g].min(axis=1) for g in range(60)], axis=1)
        first = best <= best.min(axis=1, keepdims=True) + 1e-9
        naive = first[np.arange(len(seen.owner)), seen.owner] / first.sum(axis=1)
        np.testing.assert_allclose(ranked, naive, atol=1e-9)


def disguised(vectors, how):
    """The same people, where sums of squares lose what tells them apart."""
    rng, apart = np.random.default_rng(8), vectors.copy()
    if how == "far from 0":
        return 1e4 * vectors + 1e18
    if how == "one vector":
        apart[3] = 1e18
        return apart
    column = np.ones(len(vectors)) if how == "a constant" else rng.standard_normal(len(vectors))
    return np.column_stack([vectors, 1e18 * column])


@pytest.mark.parametrize("how", ["far from 0", "one vector", "a constant", "a loud coordinate"])
def test_numbers_of_any_size_hide_nobody(how):
    """A constant coordinate of 1e18 made every attacker on one vector guess."""
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(60), 8)
    vectors = rng.standard_normal((60, 8))[owner] + 0.5 * rng.standard_normal((480, 8))
    for attacker in ATTACKERS:
        exact = attacker.reads or attacker.metric in ("cosine", "histogram")
        if exact or (attacker.metric == "l2" and how == "a loud coordinate"):
            continue  # the distance is of that coordinate; values and ranks need no squares
        plain, hidden = (
            top_1(rows, owner, attacker) for rows in (vectors, disguised(vectors, how))
        )
        assert plain > 0.7 and hidden > plain - 0.15, attacker.name


def enrolled_map(seen):
    """(P, R, d) differences of probes and enrolled rows in the coordinates of the attacker."""
    held = enrol(NEAREST, seen).held
    order = np.argsort(np.argsort(seen.user, kind="stable"), kind="stable")
    return held.mapped(seen.probes)[:, None] - held.rows[order][None]


def test_a_single_repeat_among_many_vectors_names_its_owner():
    """One of ten new vectors equals an enrolled one; whoever joins all of them sees it."""
    rng = np.random.default_rng(4)
    owner = np.repeat(np.arange(80), 20)
    vectors = rng.standard_normal((1600, 12))
    split = split_rows(owner)
    first = np.unique(split.probe_user, return_index=True)[1]
    source = np.unique(split.gallery_user, return_index=True)[1]
    vectors[split.probe_rows[first]] = vectors[split.gallery_rows[source]]
    nearest = next(one for one in ATTACKERS if one.name == "nearest row, all vectors")
    mean = next(one for one in ATTACKERS if one.name == "all vectors")
    assert top_1(vectors, owner, nearest) == 1.0 and top_1(vectors, owner, mean) < 0.3


def test_the_gaussian_is_that_of_the_density_where_nothing_is_shrunk():
    """Many rows of each person: as many are named as by the true densities."""
    rng = np.random.default_rng(5)
    owner = np.repeat(np.arange(4), 4000)
    spread, mean = np.array([[1.0, 4], [4, 1], [2, 2], [1, 1]]), np.array([[0.0, 1], [1, 0]] * 2)
    vectors = mean[owner] + spread[owner] * rng.standard_normal((16000, 2))
    seen = sight_of(vectors, split_rows(owner))
    fit = enrol(GAUSSIAN, seen)
    scores = fit.table(fit.fit[0](seen.probes, None))
    true = norm.logpdf(seen.probes[:, None], mean, spread).sum(axis=2)
    best, reached = (float((of.argmax(axis=1) == seen.owner).mean()) for of in (true, scores))
    assert abs(best - reached) < 0.01 and best > 0.4


def test_assignment_is_that_of_the_highest_total_and_softmax_has_a_limit():
    assert assigned(np.array([[2.0, 1.9], [2.5, 1.0]])).tolist() == [0.0, 0.0]
    assert assigned(np.array([[2.0, 0.0], [2.5, 1.0]])).tolist() == [1.0, 1.0]


def test_equal_scores_name_nobody_by_their_order():
    """Constant vectors were assigned to 100 % of their people."""
    assert assigned(np.zeros((300, 300))).mean() < 0.05
    tied = np.repeat(np.random.default_rng(0).normal(size=(300, 1)), 300, axis=1)
    assert assigned(tied).mean() < 0.05
    with pytest.raises(NotMeasurable, match="people at most"):
        many = sight_of(np.zeros((10_004, 1)), split_rows(np.repeat(np.arange(5002), 2), 0, 2))
        enrol("softmax", many)


@settings(max_examples=6)
@given(**NOISE)
def test_the_proofs_hold_for_attackers_of_rows(seed, users, dimension, apart, sigma, draws, clean):
    """One released vector: nobody who keeps rows beats the limits on every attacker."""
    check_game(seed, users, dimension, apart, sigma, draws, clean)


@pytest.mark.slow
def test_two_hundred_games_of_all_vectors_together():
    """Of six rows a person three are known and three are released together, to the whole family."""
    rng, joined = np.random.default_rng(9), [one for one in ATTACKERS if one.vectors == ALL]
    played = dict.fromkeys((one.name for one in joined), 0)
    for seed in range(200):
        users, dimension = int(rng.integers(6, 14)), int(rng.integers(2, 6))
        sigma, clean = float(np.exp(rng.uniform(-2, 1))), bool(rng.integers(2))
        drawn = people(seed, users, dimension, float(rng.choice([0.1, 1.0, 4.0])), rows=6)
        bound = limit(drawn.together(), sigma, 1, seed)
        credit = {name: [] for name in played}
        for copy in range(10):
            noisy = smooth(drawn.rows, sigma, 1, seed + 1000 * copy)
            if clean:
                noisy[drawn.split.gallery_rows] = drawn.rows[drawn.split.gallery_rows]
            sight, panel = sight_of(noisy, drawn.split), Panel(tuple(joined), folds(users, copy))
            for attacker in joined:
                try:
                    seen = panel.seen(attacker, sight, sight)
                    found = panel.credit(attacker, seen, panel.fits(attacker, seen))
                except (InputError, NotMeasurable):
                    continue
                credit[attacker.name].append(found.mean())
        for name, shares in credit.items():
            if len(shares) == 10:
                played[name] += 1
                share = float(np.mean(shares))
                assert not exceeds(share, 10 * users, bound), name
    assert min(played.values()) >= 100, played


def exceeds(share, trials, bound):
    """Whether so many right names of independent trials are beyond a chance of `bound`.

    Exact at 3e-6, as 4.5 standard errors are where these say anything.
    """
    return binom.sf(math.floor(share * trials + 1e-9) - 1, trials, bound) < 3e-6


def check_game(seed, users, dimension, apart, sigma, draws, clean):
    drawn = people(seed, int(users), int(dimension), float(apart))
    released = drawn.released(sigma, draws, seed, clean)
    trials = len(released.split.probe_rows)
    bound = limit(drawn.game(), sigma, draws, seed)
    sight, panel = sight_of(released.rows, released.split), Panel((), folds(int(users)))
    assert trials == COPIES * len(drawn.split.probe_rows)
    for metric in ENROLLED:
        attacker = Attacker(metric, metric, metric)
        try:
            credit = panel.credit(attacker, sight, panel.fits(attacker, sight))
        except (InputError, NotMeasurable):
            continue
        share = float(credit.mean())
        assert not exceeds(share, trials, bound), metric


def test_verification_reads_the_scores_of_these_attackers():
    """Two opposite habits: a mean verifies nobody, the nearest row nearly everybody."""
    vectors, owner = habits()
    split = split_rows(owner)
    sight = sight_of(vectors, split)
    panel = Panel(ATTACKERS, folds(len(split.users)))
    found = Scorer(panel, replicates=20).scored(sight, sight)
    assert next(row for row in found.attacks if row.name == "l2").eer.value > 0.3
    worst = {quantity: one.measured for quantity, one in found.worst.items()}
    assert worst["eer"].high < 0.1 and worst["min-cllr"].high < 0.3
    assert worst["d-sys"].low > 0.8
    assert {one.attack for one in found.worst.values()} <= {one.name for one in ROWS}


def test_the_people_at_risk_are_those_whom_the_deciding_attacker_names():
    """Of people with two opposite habits a mean names nobody, and the list is not of the mean."""
    found = lethe.audit_vectors(
        *habits(people=60), keep_records=True, save=False, quiet=True, **FAST
    )
    candidate, rows = found.candidates[0], found.records["exposed"]
    assert {row["attack"] for row in rows} == {candidate["risk_from"]["attack"]}
    shares = [row["named"] for row in rows]
    assert np.mean(shares) == pytest.approx(candidate["top_1"]["value"], abs=1e-6)
    assert shares == sorted(shares, reverse=True) and np.mean(shares) > 0.9
    counts = found.representations["models"][0]["exposure"]["named"]["counts"]
    assert sum(counts) == 60 and counts[-1] > 50


def test_many_people_are_looked_for_in_part_and_the_page_says_so(monkeypatch):
    """The rate is that of the people drawn, by their number; on request all are looked for."""
    vectors, owner = habits(60, 8)
    monkeypatch.setattr(gallery, "MOST_PAIRS", 60 * 100)
    split = split_rows(owner)
    part = sampled(split, 0, 0)
    assert len(part.probe_rows) == 100 and part.probes == 240 and len(part.users) == 60
    assert set(np.bincount(part.probe_user)) == {0, 4}
    assert len(sampled(split, 0, 240).probe_rows) == 240
    found = audit_embeddings(vectors, owner, settings=quick(**FAST, draws=1))
    assert "by 25 users" in str(found.representations["models"][0]["attacks"][0]["top"])
    assert any("25 of 60 people were drawn at random" in words for words in found.limits)
